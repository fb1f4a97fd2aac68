"""RO-Crate description of an artifact, with the package `rocrate`.

It has the profile Workflow Run Crate: the measurement is an action with agent, times, object (the
campaign's configuration), instruments (workflow and kernels) and results.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

from losslab import __version__
from losslab.errors import LosslabError
from losslab.reading import read_yaml
from losslab.repository import ROOT
from losslab_artifact.appendix import TEMPLATES, Run
from losslab_artifact.verify import RESULTS

LICENSE = "https://spdx.org/licenses/MIT"
# Descriptions of files and folders for readers.
CONTENTS = TEMPLATES / "contents.yaml"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}


def describe(folder: Path, campaign: str, runs: Sequence[Run], day: str, agent: str) -> None:
    """Write `ro-crate-metadata.json` to a folder; LosslabError without the package `rocrate`.

    `agent`: name of the person who measured.
    """
    try:
        from rocrate.rocrate import ROCrate
    except ImportError as error:
        raise LosslabError(
            "the Python package rocrate must be installed to describe an artifact, found none",
            hint="install it: scripts/group.sh artifact",
        ) from error
    citation = read_yaml(ROOT / "CITATION.cff")
    # The profile's validator knows this version.
    crate = ROCrate(version="1.1")
    crate.name = f"losslab {__version__}, campaign {campaign}"
    crate.description = " ".join(citation["abstract"].split())
    crate.datePublished = day
    crate.license = crate.add(_entity(crate, LICENSE, "CreativeWork", name="MIT License",
                                      description="The licence of code and results"))  # fmt: skip
    crate.creator = [
        crate.add(_entity(crate, f"#author-{number}", "Organization", name=author["name"]))
        for number, author in enumerate(citation["authors"])
    ]
    crate.root_dataset["conformsTo"] = [
        crate.add(_entity(crate, address, "CreativeWork", name=name, version=version))
        for address, (name, version) in PROFILES.items()
    ]
    workflow = crate.add_workflow(folder / "Snakefile", "Snakefile", main=True, lang="snakemake")
    workflow["programmingLanguage"]["version"] = metadata.version("snakemake")
    workflow["name"] = "losslab"
    workflow["version"] = __version__
    contents = read_yaml(CONTENTS)
    contents["files"][campaign] = ["The campaign's configuration", "application/yaml"]
    for name, (title, kind) in contents["files"].items():
        if (folder / name).is_file():
            size = (folder / name).stat().st_size
            properties = {"name": title, "encodingFormat": kind, "contentSize": str(size)}
            crate.add_file(folder / name, name, properties=properties)
    for name, title in contents["folders"].items():
        if (folder / name).is_dir():
            crate.add_dataset(folder / name, f"{name}/", properties={"name": title})
    _add_measuring(crate, runs, campaign, agent)
    crate.metadata.write(folder)


def _add_measuring(crate: Any, runs: Sequence[Run], campaign: str, agent: str) -> None:
    """Add the measurement as an action; `agent`: name of the person."""
    ends = [datetime.fromisoformat(r.started_utc) + timedelta(seconds=r.wall_s) for r in runs]
    kernels = {json.dumps(run.instrument["kernel"], sort_keys=True) for run in runs}
    tools = []
    for kernel in map(json.loads, sorted(kernels)):
        identifier = f"#kernel-{kernel.get('hash', 'own')}".replace(" ", "-")
        linux = _entity(
            crate, identifier, "SoftwareApplication", name=f"Linux {kernel['version']}",
            version=kernel["version"], url="https://www.kernel.org",
        )  # fmt: skip
        tools.append(crate.add(linux))
    action = _entity(
        crate, "#measure", "CreateAction",
        name=f"Measured {len(runs)} replicates of the campaign {campaign}",
    )  # fmt: skip
    action["agent"] = crate.add(_entity(crate, "#agent", "Person", name=agent))
    action["startTime"] = min(run.started_utc for run in runs)
    action["endTime"] = max(ends).isoformat(timespec="seconds")
    action["actionStatus"] = "http://schema.org/CompletedActionStatus"
    inputs = (campaign, "config/studies/", "config/published/")
    action["object"] = [each for each in crate.data_entities if each.id in inputs]
    action["instrument"] = [crate.mainEntity, *tools]
    action["result"] = [each for each in crate.data_entities if each.id.startswith(str(RESULTS))]
    crate.add(action)
    crate.root_dataset["mentions"] = action


def _entity(crate: Any, identifier: str, kind: str, **properties: str) -> Any:
    from rocrate.model.contextentity import ContextEntity

    return ContextEntity(crate, identifier, properties={"@type": kind, **properties})
