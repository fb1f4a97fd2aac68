"""What became of a campaign's claims: print them, check them, and record their verdicts.

A campaign that has a name may have its verdicts recorded, in `report/verdicts/NAME.tsv`: a row per
claim, with the verdict and why it is this one if it ever was another. Then a claim that changes
its verdict, or differs without a supported reason, stops the report until somebody says why.
"""

from __future__ import annotations

import argparse
import csv
import json
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from losslab.errors import LosslabError
from losslab.reading import UsageError, number, read_rows, shown

CLAIMS = Path("results", "claims.csv")
RECORD_COLUMNS = ("study", "claim", "verdict", "why")
FIRST = "first recorded"
# What is read of the judged claims here (analysis/R/claims.R writes them), and what are numbers.
NUMBERS = ("measured", "low", "high")
COLUMNS = (
    "study", "claim", "verdict", "sentence", "tolerance", "limit_is", "limit_because", "published",
    "reason", "unsupported", "absent", "unit", "n", *NUMBERS,
)  # fmt: skip
# As a table is read: what needs a look first.
ORDER = ("differs", "undecided", "not comparable", "not measured", "reproduced")

Row = dict[str, str]
Name = tuple[str, str]


@dataclass(frozen=True)
class Recorded:
    """A claim's verdict as it was recorded, and why it is this one."""

    verdict: str
    why: str


def read_table(path: Path, columns: Sequence[str] = ()) -> list[Row]:
    """Read a table of the workflow's; NA is an empty field."""
    return [
        {key: "" if value == "NA" else value for key, value in row.items()}
        for row in read_rows(path, columns=columns)
    ]


def read_claims(path: Path) -> list[Row]:
    """Read a campaign's judged claims. Raises LosslabError if there is no such table."""
    if not path.exists():
        raise LosslabError(
            f"{path} must be there, found none",
            hint="`make report` measures and judges; `make claims` judges what is measured",
        )
    rows = read_table(path, COLUMNS)
    for line, row in enumerate(rows, start=2):
        if row["verdict"] not in ORDER:
            raise UsageError(
                f"verdict must be one of {', '.join(ORDER)}, found {shown(row['verdict'])} in "
                f"{path}, line {line}"
            )
        for name in NUMBERS:
            # R writes a ratio to 0 as Inf.
            if row[name] not in ("", "Inf", "-Inf"):
                number(row[name], f"{name} of {path}, line {line},")
    return rows


def read_recorded(path: Path) -> dict[Name, Recorded]:
    """Read recorded verdicts; none where there is no such file.

    Raises LosslabError if a row is not whole, or stands there twice.
    """
    if not path.is_file():
        return {}
    found: dict[Name, Recorded] = {}
    for line, row in enumerate(read_rows(path, "\t", RECORD_COLUMNS), start=2):
        name = (row["study"], row["claim"])
        whole = all(row[column] for column in RECORD_COLUMNS)
        if not whole or row["verdict"] not in ORDER or name in found:
            raise UsageError(
                f"{path}, line {line} must be a claim of its own with its verdict and why, found "
                f"{shown(row)}"
            )
        found[name] = Recorded(row["verdict"], row["why"])
    return found


def problems(claims: Sequence[Row], recorded: dict[Name, Recorded]) -> list[str]:
    """Say which claims differ without a supported reason, or from what was recorded."""
    found = []
    for row in claims:
        name = f"{row['study']}, {row['claim']}"
        number = f"{_number(row)}, {row['tolerance']}"
        if row["unsupported"]:
            found.append(f"{name} differs ({number}): {row['unsupported']}")
        before = recorded.get((row["study"], row["claim"]))
        if before is None:
            found.append(f"{name} is {row['verdict']} ({number}), and was never recorded")
        elif before.verdict != row["verdict"]:
            found.append(f"{name} was {before.verdict} and is {row['verdict']} ({number})")
    known = {(row["study"], row["claim"]) for row in claims}
    studies = {row["study"] for row in claims}
    found += [
        f"{study}, {claim} was recorded, and there is no such claim"
        for study, claim in recorded
        if study in studies and (study, claim) not in known
    ]
    return found


def require_as_recorded(problems: Sequence[str], what: str, recorded: Path, hint: str) -> None:
    """Refuse results that became worse than they were recorded: verdicts, and a score's criteria.

    Raises LosslabError naming each of them.
    """
    if problems:
        raise LosslabError(
            f"{what} must be as {recorded} has them, found {len(problems)} that are not:\n"
            + "\n".join(f"- {problem}" for problem in problems),
            hint=hint,
        )


def check(claims: Path, recorded: Path) -> None:
    """Refuse claims that differ without reason, or are not as they were recorded."""
    hint = "give reasons in report/claims/STUDY.yaml; then "
    hint += f"`losslab claims --record {recorded} --why '...'`"
    found = problems(read_claims(claims), read_recorded(recorded))
    require_as_recorded(found, "claims", recorded, hint)


def record(claims: Path, recorded: Path, why: str | None) -> list[str]:
    """Write the verdicts as they are now; return what changed.

    Raises LosslabError if a verdict changed and nobody says why, or a claim differs without a
    reason.
    """
    before, rows = read_recorded(recorded), read_claims(claims)
    unsupported = [
        f"- {r['study']}, {r['claim']}: {r['unsupported']}" for r in rows if r["unsupported"]
    ]
    if unsupported:
        raise LosslabError(
            "a claim that differs must have a reason, found\n" + "\n".join(unsupported)
        )
    lines, changed = [], []
    for row in rows:
        name = (row["study"], row["claim"])
        old = before.get(name)
        if old is None:
            because = FIRST
            changed.append(f"{', '.join(name)}: {row['verdict']}")
        elif old.verdict == row["verdict"]:
            because = old.why
        else:
            changed.append(f"{', '.join(name)}: {old.verdict} -> {row['verdict']}")
            if why is None:
                raise LosslabError(
                    f"a verdict that changes must say why, found {changed[-1]}",
                    hint="--why 'what changed it'",
                )
            because = why
        lines.append((*name, row["verdict"], because))
    recorded.parent.mkdir(parents=True, exist_ok=True)
    with recorded.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(RECORD_COLUMNS)
        writer.writerows(lines)
    return changed


def table(claims: Sequence[Row]) -> str:
    """Print claims by verdict: number, interval, n, limit; what was said and why below each."""
    lines = []
    for verdict in ORDER:
        for row in (row for row in claims if row["verdict"] == verdict):
            whose = f" ({row['limit_is']}: {row['limit_because']})" if row["limit_is"] else ""
            published = f"; published {row['published']}" if row["published"] else ""
            lines.append(
                f"{verdict.upper():14}  {row['study']}/{row['claim']}: {_number(row)}; "
                f"{row['tolerance']}{whose}{published}"
            )
            for what in ("sentence", "reason", "unsupported", "absent"):
                if row[what]:
                    words = row[what] if what == "sentence" else f"{what}: {row[what]}"
                    lines += textwrap.wrap(words, 100, initial_indent=" " * 16,
                                           subsequent_indent=" " * 16)  # fmt: skip
    counts = Counter(row["verdict"] for row in claims)
    lines.append(", ".join(f"{counts[verdict]} {verdict}" for verdict in ORDER if counts[verdict]))
    return "\n".join(lines)


def _number(row: Row) -> str:
    """Say a claim's number in words: 4.57 [4.1, 5.0] times, n = 10."""
    if not row["measured"]:
        return "no number"
    interval = f" [{_short(row['low'])}, {_short(row['high'])}]" if row["low"] else ""
    unit = f" {row['unit']}" if row["unit"] else ""
    return f"{_short(row['measured'])}{interval}{unit}, n = {row['n']}"


def _short(number: str) -> str:
    return f"{float(number):.4g}"


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `claims`, which prints, checks or records verdicts."""

    def run(options: argparse.Namespace) -> int:
        if options.check is not None:
            check(options.claims, options.check)
        elif options.record is not None:
            changed = record(options.claims, options.record, options.why)
            print("\n".join(changed or ["nothing changed"]))
        else:
            rows = [r for r in read_claims(options.claims) if options.study in (None, r["study"])]
            print(json.dumps(rows, indent=1) if options.json else table(rows))
        return 0

    command = commands.add_parser("claims", help="print the claims and what became of them")
    command.add_argument("study", nargs="?", help="only this study's")
    command.add_argument("--claims", type=Path, default=CLAIMS, help="the table of judged claims")
    command.add_argument("--check", type=Path, metavar="TSV", help="compare with recorded verdicts")
    command.add_argument("--record", type=Path, metavar="TSV", help="record the verdicts")
    command.add_argument("--why", help="why verdicts changed, to record with them")
    command.add_argument("--json", action="store_true", help="for a machine")
    command.set_defaults(run=run)
