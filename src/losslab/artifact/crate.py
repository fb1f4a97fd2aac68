"""The description of an artifact as an RO-Crate, by the package `rocrate`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from losslab import __version__
from losslab.artifact.results import COMMIT_TEXT, DIGESTS, RESULTS, Run
from losslab.errors import LosslabError
from losslab.instrument.cache import ROOT

LICENSE = "https://spdx.org/licenses/MIT"
# Files that a reader looks for, and what they are; those that are there are described.
FILES = {
    "README.md": ("What this is, and how to use it", "text/markdown"),
    "APPENDIX.md": ("Artifact appendix: claims with their commands, hardware, time, disk",
                    "text/markdown"),
    str(DIGESTS): ("SHA-256 and size of every file", "text/tab-separated-values"),
    "results/report/report.html": ("The report", "text/html"),
    "results/report/report.pdf": ("The report", "application/pdf"),
    "results/report/explorer.html": ("The run explorer", "text/html"),
    "results/claims.csv": ("Every claim with its number, interval, limit and verdict", "text/csv"),
    str(COMMIT_TEXT): ("The commit of the sources, as git has it", "text/plain"),
    "requirements.lock": ("Python packages, pinned by hash", "text/plain"),
    "containers/host/packages.lock": ("Packages of the emulated hosts, pinned by hash",
                                      "text/plain"),
    "containers/kernel/source.toml": ("The kernel's source, pinned by hash", "application/toml"),
}  # fmt: skip
FOLDERS = {
    "results/cells": "Replicates: manifest, time series and raw files of each run",
    "results/summary": "Statistics of every cell",
    "results/figures": "Figures as SVG, PDF and PNG",
    "results/tables": "Tables as CSV",
    "instruments": "Kernel and image that measured, packed by the hash of their recipe",
}


def describe(folder: Path, campaign: str, runs: Sequence[Run], day: str) -> None:
    """Write `ro-crate-metadata.json` of an artifact's folder.

    Raises LosslabError if the package `rocrate` is not installed.
    """
    try:
        from rocrate.model.person import Person
        from rocrate.rocrate import ROCrate
    except ImportError as error:
        raise LosslabError(
            "the Python package rocrate must be there to describe an artifact, found none",
            hint="scripts/group.sh artifact",
        ) from error
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    crate = ROCrate()
    crate.name = f"losslab {__version__}, campaign {campaign}"
    crate.description = " ".join(citation["abstract"].split())
    crate.datePublished = day
    crate.license = crate.add(_entity(crate, LICENSE, "CreativeWork", name="MIT License",
                                      description="The licence of code and results"))  # fmt: skip
    crate.creator = [
        crate.add(Person(crate, f"#author-{number}", properties={"name": author["name"]}))
        for number, author in enumerate(citation["authors"])
    ]
    workflow = crate.add_workflow(folder / "Snakefile", "Snakefile", main=True, lang="snakemake")
    workflow["programmingLanguage"]["version"] = metadata.version("snakemake")
    workflow["name"] = "losslab"
    workflow["version"] = __version__
    for name, (what, kind) in FILES.items():
        if (folder / name).is_file():
            size = (folder / name).stat().st_size
            properties = {"name": what, "encodingFormat": kind, "contentSize": str(size)}
            crate.add_file(folder / name, name, properties=properties)
    for name, what in FOLDERS.items():
        if (folder / name).is_dir():
            crate.add_dataset(folder / name, f"{name}/", properties={"name": what})
    _add_measuring(crate, runs, campaign)
    crate.metadata.write(folder)


def _add_measuring(crate: Any, runs: Sequence[Run], campaign: str) -> None:
    """Say what was done, with what."""
    instruments = {json.dumps(run.instrument["kernel"], sort_keys=True) for run in runs}
    tools = [
        crate.add(
            _entity(
                crate, f"#kernel-{json.loads(text).get('hash', 'own')}".replace(" ", "-"),
                "SoftwareApplication", name=f"Linux {json.loads(text)['version']}",
                version=json.loads(text)["version"], url="https://www.kernel.org",
            )
        )
        for text in sorted(instruments)
    ]  # fmt: skip
    action = _entity(
        crate, "#measure", "CreateAction",
        name=f"Measured {len(runs)} replicates of the campaign {campaign}",
    )  # fmt: skip
    action["instrument"] = [crate.mainEntity, *tools]
    action["result"] = [each for each in crate.data_entities if each.id.startswith(str(RESULTS))]
    crate.add(action)
    crate.root_dataset["mentions"] = action


def _entity(crate: Any, identifier: str, kind: str, **properties: str) -> Any:
    from rocrate.model.contextentity import ContextEntity

    return ContextEntity(crate, identifier, properties={"@type": kind, **properties})
