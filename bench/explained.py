"""Explain the studies' reports with `losslab explain`, and record the answers for their chapters.

    nice python -m bench.explained --out explained

Each `studies/STUDY/explain-*.yaml` is a report. Finished runs are kept in the folder, so a repeated
command goes on. The row of a report that has not changed since it was recorded is kept, too, unless
`--again` is given.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from losslab.campaign.results import digest_of
from losslab.errors import LosslabError
from losslab.reading import read_rows, read_yaml
from losslab.repository import ROOT
from losslab.tools.explain import page, verdict
from losslab.tools.explain.case import read
from losslab.tools.explain.explain import Runs
from losslab.tools.explain.search import Search

FILE = ROOT / "report" / "explained.csv"
COLUMNS = ("report", "digest", "settings", "pairs", "runs", "verdict", "headline")
BUDGET_S = 25 * 60.0  # of a report, in core-seconds


def reports() -> list[Path]:
    """Return the studies' reports."""
    return sorted(ROOT.glob("studies/*/explain-*.yaml"))


def digest(report: Path) -> str:
    """Return the digest of a report's content, without its comments."""
    return digest_of(read_yaml(report))[:12]


def recorded() -> dict[str, dict[str, str]]:
    """Return the recorded rows by the name of the report."""
    return {row["report"]: row for row in read_rows(FILE, columns=COLUMNS)} if FILE.exists() else {}


def explained(report: Path, out: Path, cores: int) -> dict[str, object]:
    """Explain a report, leave the page in a folder, and return its row."""
    out.mkdir(parents=True, exist_ok=True)
    search = Search(read(report), Runs(out / "runs", cores), BUDGET_S)
    search.run()
    result = verdict.result(search)
    (out / "explain.html").write_bytes(page.html(result).encode())
    return {
        "report": report.relative_to(ROOT).as_posix(), "digest": digest(report),
        "settings": len(search.trials) - 1 - len(search.pairs), "pairs": len(search.pairs),
        "runs": result["runs"], "verdict": str(result["verdict"]), "headline": result["headline"],
    }  # fmt: skip


def main() -> int:
    """Explain what is not recorded, and write the rows of all."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m bench.explained", None, __doc__,
                                     formatter_class=form)  # fmt: skip
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="also what is recorded")
    parser.add_argument("--only", metavar="PART", default="", help="only reports with this name")
    options = parser.parse_args()
    rows: dict[str, dict[str, object]] = {name: {**row} for name, row in recorded().items()}
    for report in reports():
        name = report.relative_to(ROOT).as_posix()
        same = rows.get(name, {}).get("digest") == digest(report)
        if options.only not in name or (same and not options.again):
            continue
        rows[name] = explained(report, options.out / report.stem, options.cores)
        print(f"{name}: {rows[name]['headline']}", flush=True)
        with FILE.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[each] for each in sorted(rows))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LosslabError as error:
        sys.exit(f"bench.explained: error: {error}")
