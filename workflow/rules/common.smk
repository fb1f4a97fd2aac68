"""The configuration's campaign, which every rule asks for its names and numbers."""

import shlex
import sys
from pathlib import Path

from losslab.instrument import records
from losslab.workflow import instruments
from losslab.workflow.campaign import Campaign, collecting, stopping_rule

campaign = Campaign(config, workflow.configfiles)
analysis = campaign.analysis

# `losslab` and `python` of the environment that runs Snakemake, also when it is not activated.
shell.prefix(f"PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")


wildcard_constraints:
    # Only those there are: other tables and figures are other rules'.
    study="|".join(campaign.studies),
    cell="[a-z0-9._-]+",
    figure="[a-z0-9_]+",
    variant="[a-z0-9-]+",
    kernel="[a-z0-9._+-]+",
    backend="[a-z]+",
    where="[a-z]+",
    # Nothing where a cell is on the default kernel.
    on="([+][a-z0-9._+-]+)?",
    # Nothing where its hosts have the default image.
    image="(~[a-z0-9-]+)?",
