"""Recompute a campaign's numbers without R and without the project's analysis.

    python -m bench.recompute [FOLDER]

FOLDER is a record (default: recorded/full) or a folder of results with its report. The program
reads the runs, and prints each difference from what the project wrote:

- the statistics of each cell with their intervals (`record.tsv`, `summary/STUDY/statistics.csv`),
- the scoreboards of all sources (`scoreboard.csv`, `tables/scoreboard_*.csv`),
- the verdicts and causes of all claims, in results also their numbers (`claims.csv`),
- the pair of cells of each stated cause, which must differ in one axis (it prints the pairs),
- the README's numbers, if FOLDER is the recorded full campaign.

It ends with status 1 if it finds a difference. It imports nothing of losslab, on purpose.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.recompute import campaign as campaigns
from bench.recompute import scoreboard, tables, verdicts
from bench.recompute.campaign import ROOT, Comparison
from bench.recompute.published import numbers_of


def compare(folder: Path) -> dict[str, Comparison]:
    """Compare a campaign with what the project wrote, by subject."""
    campaign = campaigns.read(folder)
    judged = {study: verdicts.judge_study(campaign, study) for study in campaign.studies}
    numbers = [each for study in campaign.studies for each in numbers_of(study)]
    scores = scoreboard.scores_of(campaign, numbers)
    found = {
        "cells": tables.compare_cells(campaign),
        "scoreboards": scoreboard.compare(campaign, numbers, scores),
        "verdicts": verdicts.compare(campaign, judged),
        "causes": verdicts.compare_causes(campaign),
    }
    if not campaign.results:
        sources = scoreboard.by_source(numbers, scores)
        found["README"] = tables.compare_readme(campaign, judged, sources)
    return found


def main() -> None:
    """Print the differences."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.recompute", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, default=ROOT / "recorded" / "full",
        help="a record or a folder of results (default: recorded/full)",
    )  # fmt: skip
    found = compare(parser.parse_args().folder)
    for subject, comparison in found.items():
        problems = comparison.problems
        print(f"{subject}: {comparison.compared:,} compared, {len(problems)} differences")
        print("".join(f"  {problem}\n" for problem in problems), end="")
    raise SystemExit(any(comparison.problems for comparison in found.values()))


if __name__ == "__main__":
    main()
