"""The history of the claims' limits, `report/claims/history.tsv`, which also freezes them.

The file has a row for each version of each limit, oldest first. The last row of a claim must have
its present limit, so nobody can move a limit without a row that says why, and whether results had
been seen.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from losslab.errors import LosslabError
from losslab.reading import UsageError, read_rows, read_yaml, shown
from losslab.repository import ROOT
from losslab.study import files
from losslab.study.schemas import check_schema

Row = dict[str, str]
Name = tuple[str, str]
COLUMNS = ("study", "claim", "date", "limit", "results_seen", "commit", "effect", "why")


def path_of(root: Path) -> Path:
    """Return the path of the history of all limits of the repository `root`."""
    return root / "report" / "claims" / "history.tsv"


def limit_text(claim: Mapping[str, Any]) -> str:
    """Write a claim's limit: "at most 1.2", "at least 3" or "within 0.9 of 4.6"."""
    if "within" in claim:
        return f"within {claim['within']:.10g} of {claim['published']:.10g}"
    key = "at_most" if "at_most" in claim else "at_least"
    return f"{key.replace('_', ' ')} {claim[key]:.10g}"


def present(root: Path, studies: Iterable[str]) -> dict[Name, str]:
    """Return the present limit of each claim of some studies, in the order of their files."""
    return {
        (study, claim["id"]): limit_text(claim)
        for study in studies
        for claim in read_yaml(files.claims(root, study))["claims"]
    }


def read_history(path: Path) -> list[Row]:
    """Read the versions of all limits.

    Raises UsageError if a row violates the schema, or a claim's dates are not in order.
    """
    rows = read_rows(path, "\t", COLUMNS)
    check_schema(rows, "limits", str(path))
    last: dict[Name, str] = {}
    for line, row in enumerate(rows, start=2):
        name = (row["study"], row["claim"])
        if row["date"] < last.get(name, ""):
            raise UsageError(
                f"{path}, line {line}: date must not be before {last[name]}, the date of the "
                f"claim's version above, found {row['date']}"
            )
        last[name] = row["date"]
    return rows


def problems(history: Sequence[Row], limits: Mapping[Name, str]) -> list[str]:
    """List the claims whose present limit is not the last one of the history."""
    last = {(row["study"], row["claim"]): row["limit"] for row in history}
    return [
        f"{study}, {claim} has the limit {limit}, but its last recorded limit is "
        f"{last.get((study, claim), 'none')}"
        for (study, claim), limit in limits.items()
        if last.get((study, claim)) != limit
    ]


def freeze(root: Path, why: str | None, results_seen: str) -> list[Row]:
    """Append and return a row for each claim whose limit changed; LosslabError without `why`."""
    path = path_of(root)
    history = read_history(path)
    last = {(row["study"], row["claim"]): row["limit"] for row in history}
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    rows = [
        dict(zip(COLUMNS, (*name, today, limit, results_seen, "", "", why or ""), strict=True))
        for name, limit in present(root, files.study_names(root)).items()
        if last.get(name) != limit
    ]
    if rows and not why:
        raise LosslabError(
            "a new limit must have a reason, found none for "
            + ", ".join(f"{row['study']}/{row['claim']}" for row in rows),
            hint="add --why 'REASON'",
        )
    check_schema(rows, "limits", "the new rows")
    with path.open("a", newline="") as file:
        csv.DictWriter(file, COLUMNS, delimiter="\t", lineterminator="\n").writerows(rows)
    return rows


def text(history: Sequence[Row]) -> str:
    """Format the versions of the limits of each claim, oldest first."""
    lines: list[str] = []
    before: Name | None = None
    for row in sorted(history, key=lambda row: (row["study"], row["claim"])):
        name = (row["study"], row["claim"])
        if name != before:
            lines.append(f"{'/'.join(name)}")
        before = name
        commit = f" {row['commit']}" if row["commit"] else ""
        effect = f"; verdict: {row['effect']}" if row["effect"] else ""
        lines.append(
            f"  {row['date']}{commit}  {row['limit']} (results seen: {row['results_seen']}{effect})"
        )
        lines.append(f"              {row['why']}")
    return "\n".join(lines)


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `losslab claims` on the history of limits."""
    command.add_argument("--history", action="store_true", help="print every version of the limits")
    command.add_argument("--freeze", action="store_true", help="record changed limits (--why)")
    command.add_argument(
        "--results-seen", choices=("no", "yes"), default="yes",
        help="whether results of the claims' cells had been seen; default yes",
    )  # fmt: skip


def show(options: argparse.Namespace, root: Path = ROOT) -> str:
    """Return the history of limits that options select, or record changed limits.

    Raises LosslabError if a limit has changed without a reason, or no claim has the given name.
    """
    if options.freeze:
        added = freeze(root, options.why, options.results_seen)
        return text(added) or "no limit changed"
    history = read_history(path_of(root))
    if options.study is not None:
        history = [
            row for row in history
            if options.study in (row["study"], row["claim"], f"{row['study']}/{row['claim']}")
        ]  # fmt: skip
        if not history:
            raise UsageError(
                f"STUDY must be a study or claim with a limit, found {shown(options.study)}",
                hint="`losslab claims --history` prints all",
            )
    return json.dumps(history, indent=1) if options.json else text(history)
