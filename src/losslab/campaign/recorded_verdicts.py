"""Recorded verdicts on the claims of campaigns, `report/verdicts.tsv`, which has a column for each.

A field is a verdict and the kind of cause that runs show, if any: "inconclusive (scatter)".
Git is the history of the table.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from losslab.reading import UsageError, read_rows, shown
from losslab.repository import ROOT

TABLE = ROOT / "report" / "verdicts.tsv"
KEYS = ("study", "claim")
# Kinds of causes that runs show (analysis/R/reasons.R).
CAUSES = ("none", "difference", "scatter")
# Campaigns that differ only in their family of seeds. The limits were chosen on the first.
FAMILIES = ("quick", "quick-fresh")
# The order in tables: verdicts that need attention come first.
ORDER = ("not reproduced", "inconclusive", "not comparable", "not measured", "reproduced")

Name = tuple[str, str]


class Recorded(NamedTuple):
    """A claim's recorded verdict, and the kind of its cause."""

    verdict: str
    cause: str = "none"

    def __str__(self) -> str:
        return self.verdict if self.cause == "none" else f"{self.verdict} ({self.cause})"


FIELDS = {str(each): each for each in (Recorded(v, c) for v in ORDER for c in CAUSES)}
Verdicts = Mapping[str, Mapping[Name, Recorded]]


def read_recorded(path: Path = TABLE) -> dict[str, dict[Name, Recorded]]:
    """Read the recorded verdicts of each campaign.

    Raises UsageError if a field is no verdict, or a claim is repeated.
    """
    rows = read_rows(path, "\t", KEYS)
    found: dict[str, dict[Name, Recorded]] = {
        name: {} for name in (rows[0] if rows else ()) if name not in KEYS
    }
    names: set[Name] = set()
    for line, row in enumerate(rows, start=2):
        name = (row["study"], row["claim"])
        fields = {campaign: row[campaign] for campaign in found if row[campaign]}
        if name in names or not all(name) or not FIELDS.keys() >= {*fields.values()}:
            raise UsageError(
                f"{path}, line {line} must have verdicts ({', '.join(ORDER)}) on a claim without "
                f"another line, found {shown(row)}"
            )
        names.add(name)
        for campaign, text in fields.items():
            found[campaign][name] = FIELDS[text]
    return found


def write_recorded(recorded: Verdicts, path: Path = TABLE) -> None:
    """Write the recorded verdicts of each campaign."""
    names = sorted({name for verdicts in recorded.values() for name in verdicts})
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow([*KEYS, *recorded])
        for name in names:
            writer.writerow([*name, *(verdicts.get(name, "") for verdicts in recorded.values())])


def explained(recorded: Verdicts) -> dict[Name, str]:
    """Return what explains each claim's verdict with both families of seeds.

    Chance shows causes, too, so a cause counts only if it holds with both. A claim that is
    reproduced with one of them needs no cause there. The value is "reproduced" if the claim is with
    both, or else the kind of the cause. Other claims are absent.
    """
    families = [recorded.get(name, {}) for name in FAMILIES]
    found = {}
    for name in families[0].keys() & families[1].keys():
        causes = {each[name].cause for each in families if each[name].verdict != "reproduced"}
        if "none" not in causes:
            found[name] = max(causes, default="reproduced")
    return found
