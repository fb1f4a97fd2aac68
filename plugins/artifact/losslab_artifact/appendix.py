"""Artifact appendix for review committees, made from a campaign's results.

Its headings are those of the templates of ACM (cTuning's artifact appendix) and of USENIX
(sysartifacts). Claims are numbered C1, C2, ... and experiments E1, E2, ...; E1 verifies the
archive, and each other experiment measures one study again.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from losslab import __version__
from losslab.campaign.plan import RecordedCampaign
from losslab.campaign.verdicts import read_claims
from losslab.reading import read_yaml
from losslab.repository import ROOT, debian_packages
from losslab.study import design
from losslab_artifact.remake import RELATIVE
from losslab_artifact.verify import COMMIT, EXPERIMENTS, RESULTS, SAMPLE

TEMPLATES = Path(__file__).parent / "templates"
TEMPLATE, EXPERIMENT = TEMPLATES / "appendix.md", TEMPLATES / "experiment.md"
# Parts of scripts/packages.txt that `make verify-artifact` installs.
PARTS = ("python", "analysis", "tests")


@dataclass(frozen=True)
class Run:
    """Valid replicate of a campaign."""

    path: str  # its folder, from the root
    algorithm: str
    instrument: dict[str, Any]
    started_utc: str  # as 2026-01-31T12:00:00+00:00
    wall_s: float
    virtual: bool = True  # in virtual time: the same seed gives the same bytes


@dataclass(frozen=True)
class Packing:
    """Facts about an archive that only packing knows."""

    campaign: str  # path of the configuration file in the repository
    day: str  # as 2026-01-31
    result_bytes: int
    with_instrument: bool
    verification_s: float  # CPU time of the verification, while packing


def write(root: Path, runs: Sequence[Run], campaign: RecordedCampaign, packing: Packing) -> None:
    """Write the appendix, and the configuration file of each experiment, to an archive's folder."""
    (root / EXPERIMENTS).mkdir()
    for study, blocks in design.blocks_to_run(dict(campaign.config), root).items():
        config = {**campaign.config, "studies": {study: blocks}, "others": False}
        (root / EXPERIMENTS / f"{study}.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    (root / "APPENDIX.md").write_text(text(root, runs, [s.name for s in campaign.studies], packing))


def text(root: Path, runs: Sequence[Run], studies: Sequence[str], packing: Packing) -> str:
    """Return the appendix in Markdown; `root`: the archive's folder."""
    claims = read_claims(root / RESULTS / "claims.csv")
    numbers = {study: number for number, study in enumerate(studies, start=2)}
    wall_s = sum(run.wall_s for run in runs)
    sample = min(SAMPLE, len(runs))
    verify_s = packing.verification_s + sample * wall_s / max(len(runs), 1)
    return TEMPLATE.read_text().format(
        version=__version__,
        abstract=" ".join(read_yaml(ROOT / "CITATION.cff")["abstract"].split()),
        campaign=packing.campaign,
        commit=(root / COMMIT).read_text().strip(),
        day=packing.day,
        runs=len(runs),
        cells=len({Path(run.path).parent for run in runs}),
        claims=len(claims),
        verdicts=", ".join(
            f"{n} {verdict}" for verdict, n in Counter(r["verdict"] for r in claims).most_common()
        ),
        algorithms=", ".join(sorted({run.algorithm for run in runs if run.algorithm})),
        experiments=f"E1 to E{len(studies) + 1}",
        machine=_origin(root, "machine"),
        kernel=_origin(root, "kernel"),
        snakemake=metadata.version("snakemake"),
        instrument="in the archive" if packing.with_instrument else "built by `make setup`",
        contents="results, kernel and image" if packing.with_instrument else "results",
        debian_packages=sum(len(debian_packages(part)) for part in PARTS),
        parts=", ".join(PARTS),
        size_mb=packing.result_bytes / 1e6,
        wall_min=wall_s / 60,
        sample=sample,
        verify_min=verify_s / 60,
        digits=-round(math.log10(RELATIVE)),
        claim_rows="\n".join(
            _claim(f"C{n}", row, numbers) for n, row in enumerate(claims, start=1)
        ),
        experiment_texts="\n".join(
            _experiment(study, number, runs, [row["study"] for row in claims])
            for study, number in numbers.items()
        ),
    )


def _claim(name: str, row: dict[str, str], experiments: dict[str, int]) -> str:
    """Return a claim's row of the table."""
    interval = f" [{float(row['low']):.4g}, {float(row['high']):.4g}]" if row["low"] else ""
    measured = f"{float(row['measured']):.4g}{interval} {row['unit']}" if row["measured"] else ""
    statement = f"{row['study']}/{row['claim']}: {row['sentence']}"
    cells = (
        name, statement, row["published"], row["tolerance"], measured.strip(), row["n"],
        row["verdict"], f"E{experiments[row['study']]}",
    )  # fmt: skip
    return f"| {' | '.join(_escaped(cell) for cell in cells)} |"


def _experiment(study: str, number: int, runs: Sequence[Run], claimed: Sequence[str]) -> str:
    """Return the section of the experiment that measures one study again.

    `claimed`: the study of each claim, in the claims' order.
    """
    own = [run for run in runs if Path(run.path).parts[2] == study]
    proves = [f"C{n}" for n, each in enumerate(claimed, start=1) if each == study]
    virtual = all(run.virtual for run in own)
    return EXPERIMENT.read_text().format(
        number=number,
        study=study,
        machine_min=sum(run.wall_s for run in own) / 60,
        replicates=len(own),
        cells=len({Path(run.path).parent for run in own}),
        claims=f"Proves {', '.join(proves)}." if proves else "It has no claims.",
        expected="`same bytes` for every cell, and the verdicts and numbers of the table above. "
        "Tolerance: none, because time is virtual."
        if virtual
        else "`no significant difference` for every cell, and the verdicts of the table above. "
        "Tolerance: the 95 % confidence intervals, because time is real.",
    )


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def _origin(root: Path, part: str) -> str:
    """Return a part of the campaign's provenance from its table."""
    path = root / RESULTS / "tables" / "origin.csv"
    if not path.is_file():
        return "not recorded"
    with path.open(newline="") as file:
        found = [row["what"] for row in csv.DictReader(file) if row["part"] == part]
    return _escaped("; ".join(found))
