"""Recorded verdicts of `recorded/conform.tsv`, and the tables and runs of pages made of them.

`python tests/unit/tools/conform/recorded_tables.py RECORD...` replaces in the file what records
that `losslab conform --json` printed have. Without records, it only writes the pages.
"""

import csv
import json
import re
import sys
from pathlib import Path

from losslab.repository import ROOT
from losslab.tools.conform import conform

FILE = ROOT / "recorded" / "conform.tsv"
PAGES = [ROOT / "docs" / "how-to" / "conform.md", ROOT / "docs" / "explanation" / "bbr-draft.md"]
COLUMNS = (
    "suite", "algorithm", "kernel", "change", "cell", "case", "title", "verdict", "agreeing", "n",
    "why", "command",
)  # fmt: skip
MARK = re.compile(r"^<!-- conform: (.+?) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
SHORT = {"PASS": "pass", "FAIL": "**fail**", "INCONCLUSIVE": "inconclusive", "": ""}
SHORT["NOT OBSERVABLE"] = "not observable"
LABELS = {"bbr3": "BBRv3", "bbr": "BBR", "repaired": "repaired"}
CELLS = ("", "rtt-40ms", "rtt-1ms", "rate-100mbit")
SHOWN = 120  # characters of the numbers of a case that passes


def rows_of(path):
    """Yield the rows of a record: each case, with the first run that has its verdict."""
    record = json.loads(path.read_text())
    for case in record["cases"]:
        its = conform.deciding(case)
        yield {
            **{name: record.get(name, "") for name in COLUMNS[:5]}, **its,
            "change": " ".join(record["change"]), "case": case["case"], "title": case["title"],
            "agreeing": sum(each["verdict"] == case["verdict"] for each in case["seeds"]),
            "n": len(case["seeds"]),
            # That of a changed kernel names a folder of the machine.
            "command": "" if record["change"] else its["command"],
        }  # fmt: skip


def recorded():
    """Return the rows of the file."""
    with FILE.open(newline="") as file:
        return [*csv.DictReader(file, delimiter="\t")]


def found(name, case, cell="", kernel="default"):
    """Return the row of an algorithm, or of the repaired one, and a case; None without any."""
    algorithm = "bbr3" if name == "repaired" else name
    wanted = (algorithm, name == "repaired", case, cell, kernel)
    for row in recorded():
        if wanted == (row["algorithm"], row["change"] != "", *(row[k] for k in
                      ("case", "cell", "kernel"))):  # fmt: skip
            return row
    return None


def verdict(row):
    """Return a verdict, with the number of runs that have it if not all do."""
    if row is None:
        return ""
    count = f" ({row['agreeing']} of {row['n']})" if row["agreeing"] != row["n"] else ""
    return SHORT[row["verdict"]] + count


def numbers(row):
    """Return the numbers that decide; of a case that passes, as many as fit."""
    parts = re.sub(r" \(ours: [^)]*\)", "", row["why"]).split("; ")
    if row["verdict"] != "PASS":
        return "; ".join(parts)
    kept = parts[:1]
    for part in parts[1:]:
        if len("; ".join([*kept, part])) <= SHOWN:
            kept.append(part)
    return "; ".join(kept)


def cases():
    """Return case and title of each case of BBRv3's record."""
    return [
        (row["case"], row["title"])
        for row in recorded()
        if (row["algorithm"], row["change"], row["cell"]) == ("bbr3", "", "")
    ]


def verdicts_table():
    """Return the table of cases at the suite's own cell."""
    lines = ["| case | BBRv3 | what decides for BBRv3 | BBR | repaired |", "|---|---|---|---|---|"]
    for case, title in cases():
        own, *others = (found(name, case) for name in ("bbr3", "bbr", "repaired"))
        cells = [f"{case} {title}", verdict(own), numbers(own), *map(verdict, others)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def cells_table():
    """Return the table of cases at all cells."""
    columns = [(name, cell, "default") for name in ("bbr3", "bbr") for cell in CELLS]
    columns.append(("bbr", "", "7.2"))
    heads = [
        f"{LABELS[name]} {cell.replace('-', ' ') or ('20 Mbit/s, 100 ms')}"
        + (f", Linux {kernel}" if kernel != "default" else "")
        for name, cell, kernel in columns
    ]
    lines = [f"| case | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for case, _ in cases():
        its = [verdict(found(name, case, cell, kernel)) for name, cell, kernel in columns]
        lines.append(f"| {case} | {' | '.join(its)} |")
    return "\n".join(lines)


def run(name, case, cell=""):
    """Return what `losslab conform` prints for a case, as a block."""
    row = found(name, case, cell)
    more = f" --cell {cell}" if cell else ""
    change = f" --change {row['change']}" if row["change"] else ""
    seeds = f" --seeds {row['n']}" if row["n"] != "1" else ""
    share = f" ({row['agreeing']} of {row['n']} seeds)" if seeds else ""
    text = f"{row['verdict']} {case} {row['title']}{share}: {row['why']}"
    text += f"\n  {row['command']}" if row["command"] else ""
    command = f"losslab conform bbr-draft {row['algorithm']} --case {case}{more}{change}{seeds}"
    return f"```sh\n{command}\n```\n\n```text\n{text}\n```"


MADE = {"verdicts": verdicts_table, "cells": cells_table, "run": run}


def written(page):
    """Return a page with its tables and runs."""

    def made(match):
        word, *more = match[1].split()
        return f"<!-- conform: {match[1]} -->\n\n{MADE[word](*more)}\n\n<!-- end -->"

    return MARK.sub(made, page)


def main(records):
    """Write the file and the pages."""
    if records:
        new = [row for path in records for row in rows_of(Path(path))]
        suites = {tuple(row[name] for name in COLUMNS[:5]) for row in new}
        kept = [r for r in recorded() if tuple(r[name] for name in COLUMNS[:5]) not in suites]
        with FILE.open("w", newline="") as file:
            out = csv.DictWriter(
                file, COLUMNS, delimiter="\t", extrasaction="ignore", lineterminator="\n"
            )
            out.writeheader()
            out.writerows(kept + new)
    for page in PAGES:
        page.write_text(written(page.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
