"""The configured campaign, which provides inputs and parameters to all rules."""

import shlex
import sys
from pathlib import Path

from losslab import commands
from losslab.campaign import criteria, tables
from losslab.instrument import built
from losslab.repository import ROOT, find
from losslab.study import studyfiles
from losslab.workflow import COLLECTED, Campaign, report_code, without_traceback

if workflow.is_main_process:
    sys.excepthook = without_traceback
    built.remove_outdated()

campaign = Campaign(config, workflow.configfiles)

# Use `losslab` and `python` of the environment that runs Snakemake, even if it is not activated.
shell.prefix(f"PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")


wildcard_constraints:
    # Only the campaign's studies, because other rules also write tables and figures.
    study="|".join(campaign.studies),
    cell="[a-z0-9._-]+",
    figure="[a-z0-9_]+",
    suite="[a-z0-9-]+",
    algorithm="[a-z0-9_-]+",
    variant="[a-z0-9.-]+",
    kernel="[a-z0-9._+-]+",
    backend="[a-z]+",
    where="[a-z]+",
    # Empty for the default kernel.
    on="([+][a-z0-9._+-]+)?",
    # Empty for the default image.
    image="(~[a-z0-9.-]+)?",
