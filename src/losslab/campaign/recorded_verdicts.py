"""Recorded verdicts on a campaign's claims, and the causes that hold with two families of seeds.

A cause counts only if it holds with both recorded families (`FAMILIES`): chance shows causes, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from losslab.reading import UsageError, read_rows, shown
from losslab.repository import ROOT

RECORD_COLUMNS = ("study", "claim", "verdict", "cause", "why")
# Kinds of causes that runs show (analysis/R/reasons.R), and records of none.
CAUSES = ("none", "difference", "scatter")
# Records of the same campaign with two families of seeds.
FAMILIES = tuple(ROOT / "report" / "verdicts" / name for name in ("quick.tsv", "quick-fresh.tsv"))
# The order in tables: verdicts that need attention come first.
ORDER = ("not reproduced", "inconclusive", "not comparable", "not measured", "reproduced")

Name = tuple[str, str]


@dataclass(frozen=True)
class Recorded:
    """A claim's recorded verdict, its cause, and the reason for the verdict's last change."""

    verdict: str
    cause: str
    why: str


def read_recorded(path: Path) -> dict[Name, Recorded]:
    """Read recorded verdicts by claim; return none if the file does not exist.

    Raises UsageError if a row is incomplete or repeated.
    """
    if not path.is_file():
        return {}
    found: dict[Name, Recorded] = {}
    for line, row in enumerate(read_rows(path, "\t", RECORD_COLUMNS), start=2):
        name = (row["study"], row["claim"])
        complete = all(row[column] for column in RECORD_COLUMNS)
        correct = row["verdict"] in ORDER and row["cause"] in CAUSES
        if not complete or not correct or name in found:
            raise UsageError(
                f"{path}, line {line} must have a verdict, a cause ({', '.join(CAUSES)}) and why "
                f"for a claim without another line, found {shown(row)}"
            )
        found[name] = Recorded(row["verdict"], row["cause"], row["why"])
    return found


def lasting_causes(families: Sequence[Path] = FAMILIES) -> dict[Name, str]:
    """Return the claims whose verdict has a cause with each family of seeds.

    A claim that is reproduced with one of the families needs no cause there. The value is the kind
    of the cause.
    """
    records = [read_recorded(path) for path in families]
    found = {}
    for name in set.intersection(*map(set, records)):
        each = [record[name] for record in records]
        causes = {one.cause for one in each if one.verdict != "reproduced"}
        if causes and "none" not in causes:
            found[name] = min(causes)
    return found
