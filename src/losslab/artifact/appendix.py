"""Artifact appendix for review committees, made from a campaign's results."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from losslab import __version__
from losslab.artifact.results import RESULTS, Run
from losslab.campaign.verdicts import read_claims
from losslab.repository import ROOT

TEMPLATE = ROOT / "report" / "artifact" / "appendix.md"


def text(
    root: Path, files: Iterable[Path], runs: list[Run], campaign: str, archive_note: str
) -> str:
    """Return the appendix in Markdown. `files`: result files, relative to `root`."""
    wall_s = sum(run.wall_s for run in runs)
    claims = read_claims(root / RESULTS / "claims.csv")
    verdicts = Counter(row["verdict"] for row in claims)
    return TEMPLATE.read_text().format(
        version=__version__,
        campaign=campaign,
        runs=len(runs),
        cells=len({Path(run.path).parent for run in runs}),
        machine=_origin(root, "machine"),
        kernel=_origin(root, "kernel"),
        size_mb=sum((root / path).stat().st_size for path in files) / 1e6,
        wall_min=wall_s / 60,
        sample_min=20 * wall_s / max(len(runs), 1) / 60,
        archive_note=archive_note,
        claims=len(claims),
        verdicts=", ".join(f"{n} {verdict}" for verdict, n in verdicts.most_common()),
        claim_rows="\n".join(map(_claim, claims)),
    )


def _claim(row: dict[str, str]) -> str:
    """Return a claim's row of the table."""
    interval = f" [{float(row['low']):.4g}, {float(row['high']):.4g}]" if row["low"] else ""
    measured = f"{float(row['measured']):.4g}{interval} {row['unit']}" if row["measured"] else ""
    claim = f"{row['study']}/{row['claim']}: {row['sentence']}"
    command = f"`losslab claims {row['study']}`"
    cells = (claim, row["published"], measured.strip(), row["n"], row["verdict"], command)
    return f"| {' | '.join(_escaped(cell) for cell in cells)} |"


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
