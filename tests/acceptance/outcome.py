"""Results of the acceptance suite: a file of rows, and the documentation page made from it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("measured.tsv")
RUNS = Path(__file__).with_name("runs.tsv")
PAGE = ROOT / "docs" / "reference" / "acceptance.md"
RELEASES = {"bookworm": "Debian 12", "trixie": "Debian 13"}
HEAD = """\
# Acceptance tests on other machines

`python -m tests.acceptance` tests losslab in new Debian root folders, on a one-machine cluster and
on emulated machines. `python -m tests.acceptance --list` lists the cases and their requirements.
`--write` records a run and writes this page.

The table shows the last recorded run of each case; other cases have no recorded run. The case
`container` has not been run to its end yet. Ubuntu 24.04 was not tested, because no archive of it
was available.

| case | day | result |
|---|---|---|
{runs}

## What a first run takes

Time and disk space of the README's commands on a fresh Debian with only git, make and Python 3.
`make report` measured four cells instead of the quick campaign. The rows with a dash below it show
its parts and the files that it left. Wall time includes downloads. CPU time depends less on other
load.

"""


@dataclass(frozen=True)
class Case:
    """Results of the acceptance suite."""

    suite: str
    user: str  # `root` or `user`, an ordinary one
    instrument: str  # `built` or `fetched`

    def __str__(self) -> str:
        who = "root" if self.user == "root" else "an ordinary user"
        return f"{RELEASES[self.suite]}, as {who}, kernel and image {self.instrument}"


@dataclass(frozen=True)
class Row:
    """A command or a part of one, with its duration or its disk space."""

    what: str
    wall_s: float | None = None
    core_s: float | None = None
    size_mb: int | None = None
    note: str = ""
    failed: bool = False


COLUMNS = (*(f.name for f in fields(Case)), "day", "cpus", "busy_percent",
           *(f.name for f in fields(Row) if f.name != "failed"))  # fmt: skip


def mb(size_bytes: int) -> int:
    """Convert bytes to MB, rounded to an integer."""
    return round(size_bytes / 1e6)


def table(rows: Sequence[Row]) -> str:
    """Format rows for a terminal."""
    return "\n".join(
        f"{'' if row.wall_s is None else f'{row.wall_s:.0f} s':>8} "
        f"{'' if row.core_s is None else f'{row.core_s:.0f} core-s':>12} "
        f"{'' if row.size_mb is None else f'{row.size_mb} MB':>9}  "
        f"{'FAILED ' if row.failed else ''}{row.what}{f'  ({row.note})' if row.note else ''}"
        for row in rows
    )


def read(path: Path | None = None) -> list[dict[str, str]]:
    """Read a recorded file; by default that of first runs."""
    path = path or FILE
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def record(name: str, found: str) -> None:
    """Replace the last record of a case, and write the page."""
    runs = {row["case"]: row for row in read(RUNS)}
    runs[name] = {"case": name, "day": today(), "found": found}
    _write_rows(RUNS, ("case", "day", "found"), [*runs.values()])
    PAGE.write_text(page(read()))


def today() -> str:
    """Return the date, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d")


def _write_rows(path: Path, columns: Sequence[str], rows: Iterable[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write(case: Case, here: dict[str, Any], rows: Iterable[Row]) -> None:
    """Replace the recorded rows of a case, and write the page."""
    key = tuple(str(value) for value in astuple(case))
    kept = [row for row in read() if (row["suite"], row["user"], row["instrument"]) != key]
    busy_percent = round(100 * here["busy_with_others"])
    for row in rows:
        *cells, _ = astuple(row)
        values = [*key, today(), here["processors"], busy_percent, *cells]
        texts = ["" if value is None else str(value) for value in values]
        kept.append(dict(zip(COLUMNS, texts, strict=True)))
    # The sort is stable: rows of a case keep their order.
    kept.sort(key=lambda row: (row["suite"], row["user"], row["instrument"]))
    _write_rows(FILE, COLUMNS, kept)
    PAGE.write_text(page(kept))


def page(recorded: Sequence[dict[str, str]]) -> str:
    """Return the documentation page, with a table for each case."""
    cases: dict[Case, list[dict[str, str]]] = {}
    for row in recorded:
        case = Case(row["suite"], row["user"], row["instrument"])
        cases.setdefault(case, []).append(row)
    runs = [f"| `{row['case']}` | {row['day']} | {row['found']} |" for row in read(RUNS)]
    texts = [HEAD.format(runs="\n".join(runs))]
    for case, rows in cases.items():
        first = rows[0]
        lines = [
            f"### {case}\n",
            f"{first['day']}, {first['cpus']} CPUs, "
            f"{first['busy_percent']} % used by other programs at the start.\n",
            "| command or part | wall time (s) | CPU time (s) | disk (MB) | note |",
            "|---|---|---|---|---|",
            *(_line(row) for row in rows),
        ]
        texts.append("\n".join(lines) + "\n")
    return "\n".join(texts)


def _line(row: dict[str, str]) -> str:
    wall_s, core_s = (f"{float(row[k]):.0f}" if row[k] else "" for k in ("wall_s", "core_s"))
    what = row["what"] if row["what"].startswith(("–", "as root")) else f"`{row['what']}`"
    # Escape pipes, which end a cell of the table.
    what, note = (text.replace("|", "\\|") for text in (what, row["note"]))
    return f"| {what} | {wall_s} | {core_s} | {row['size_mb']} | {note} |"
