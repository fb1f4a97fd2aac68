"""The appendix that committees ask for, made from what a campaign left."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from losslab import __version__
from losslab.artifact.results import RESULTS, Run
from losslab.campaign.verdicts import read_claims


def text(
    root: Path, files: Iterable[Path], runs: list[Run], campaign: str, archive_note: str
) -> str:
    """Write it in Markdown. `files`: the files of the results, relative to it."""
    size = sum((root / path).stat().st_size for path in files)
    wall_s = sum(run.wall_s for run in runs)
    sample_time = f"some {20 * wall_s / max(len(runs), 1) / 60:.1f} min for 20 replicates"
    claims = read_claims(root / RESULTS / "claims.csv")
    verdicts = Counter(row["verdict"] for row in claims)
    counts = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.most_common())
    parts = [
        "# Artifact appendix\n",
        f"losslab {__version__}, campaign `{campaign}`: {len(runs)} valid replicates of "
        f"{len({Path(run.path).parent for run in runs})} cells.\n",
        "## What is needed\n",
        _table(
            ("what", "this campaign"),
            [
                ("hardware", f"x86-64; measured on {_origin(root, 'machine')}"),
                ("memory", "2 GB for each processor that measures"),
                ("disk", f"{size / 1e6:.0f} MB of results, 0.6 GB kernel and image"),
                ("time", f"{wall_s / 60:.0f} min of one processor for all replicates, "
                 "then some minutes of R"),
                ("software", "Debian 12 or 13; the rest is installed or in the archive"),
                ("rights", "an ordinary user's; root only to install missing Debian packages"),
                ("kernel", _origin(root, "kernel")),
                ("raw data", archive_note),
            ],
        ),
        "## Badges\n",
        _table(
            ("badge", "how to see it", "time"),
            [
                ("available", "the archive, its licence (`LICENSE`), `ro-crate-metadata.json`", ""),
                ("functional", "`make setup` (takes the instrument that is in the archive), then "
                 "`make demo`", "two minutes"),
                ("reproduced, by sample", "`make verify-artifact`", sample_time),
                ("reproduced, all", f"`make report CONFIG={campaign}`; then `losslab diff results "
                 "OTHER/results` (`--common` without raw files)",
                 f"{wall_s / 60:.0f} min by the number of processors"),
            ],
        ),
        "## Claims\n",
        f"{len(claims)} claims: {counts}. "
        f"Each is judged by `make claims CONFIG={campaign}`, which measures "
        "what it needs; `losslab claims STUDY` prints it with its interval, limit and reason. The "
        "figures and tables of a study are `results/figures/STUDY_*` and "
        "`results/tables/STUDY_*`.\n",
        _table(
            ("claim", "published", "measured", "n", "verdict", "command"),
            [
                (
                    f"{row['study']}/{row['claim']}: {row['sentence']}",
                    row["published"],
                    _measured(row),
                    row["n"],
                    row["verdict"],
                    f"`losslab claims {row['study']}`",
                )
                for row in claims
            ],
        ),
    ]  # fmt: skip
    return "\n".join(parts)


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |\n" for row in lines
    )


def _measured(row: dict[str, str]) -> str:
    if not row["measured"]:
        return ""
    interval = f" [{float(row['low']):.4g}, {float(row['high']):.4g}]" if row["low"] else ""
    return f"{float(row['measured']):.4g}{interval} {row['unit']}".strip()


def _origin(root: Path, part: str) -> str:
    """Take from the campaign's own table what it was measured with."""
    path = root / RESULTS / "tables" / "origin.csv"
    if not path.is_file():
        return "not recorded"
    with path.open(newline="") as file:
        return "; ".join(row["what"] for row in csv.DictReader(file) if row["part"] == part)
