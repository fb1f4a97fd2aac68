"""Error rates of the verdicts, simulated: `python -m bench.verdict_errors RESULTS`.

    python -m bench.verdict_errors results            print the tables
    python -m bench.verdict_errors results --write    also write report/verdict_errors.csv, and the
                                                      tables of docs/explanation/statistics.md

`bench/verdict_errors.R` simulates runs with the scatter of the cells in RESULTS and judges them as
claims are judged. With 4,000 draws it takes some minutes. The seed is fixed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.readme import replaced
from losslab.reading import read_rows
from losslab.study.intervals import EARLY_ERROR

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "report" / "verdict_errors.csv"
PAGE = ROOT / "docs" / "explanation" / "statistics.md"
MARK = "<!-- {}: written by `python -m bench.verdict_errors` -->\n"
DRAWS = 4000
# Rates of errors, of which a table shows the larger one of the distributions, and rates of right
# verdicts, of which it shows the smaller one.
ERRORS = ("wrongly_not_reproduced", "wrongly_reproduced")
RIGHTS = ("rightly_reproduced", "rightly_not_reproduced")
RATES = (*ERRORS, *RIGHTS)
# The comparison with a number of one published run, whose verdicts have other names.
ONE_RUN = "prediction of one run"

Row = dict[str, str]


def simulate(results: Path, file: Path, draws: int) -> None:
    """Run the simulation in R, which writes its table to a file, or prints why it failed."""
    script = str(ROOT / "bench" / "verdict_errors.R")
    words = [str(results.resolve()), str(file.resolve()), str(draws), str(EARLY_ERROR)]
    subprocess.run(["Rscript", "--vanilla", script, *words], cwd=ROOT, check=True)


def tables(rows: Sequence[Row]) -> dict[str, str]:
    """Return the parts of the page as Markdown, by their mark."""
    worst = list(_worst(row for row in rows if row["part"] == "verdicts"))
    head = ["comparison", "runs", "scatter, %", *(rate.replace("_", " ") for rate in RATES)]
    one_run = [
        name.replace("not reproduced", "outside").replace("reproduced", "inside or near")
        for name in head[1:]
    ]

    def part(name: str, heads: Sequence[str], columns: Sequence[str], rates: Sequence[str]) -> str:
        lines = (
            [_percent(r[each]) if each == "spread" else r[each] for each in columns]
            + _short(r, *rates)
            for r in rows
            if r["part"] == name
        )
        return _table(heads, lines)

    return {
        "simulation": _simulation(rows),
        "verdicts": _table(head, (line for line in worst if line[0] != ONE_RUN)),
        "one run": _table(one_run, (line[1:] for line in worst if line[0] == ONE_RUN)),
        "family": part(
            "family",
            ["distribution", "runs", "scatter, %", "judged one by one", "Holm's method"],
            ("distribution", "n", "spread"), ("alone", "holm"),
        ),
        "stopping": part(
            "stopping", ["rule", "scatter, %", "ordinary interval", "shared error", "runs"],
            ("kind", "spread"), ("ordinary", "shared", "runs"),
        ),
        "scatter": part(
            "scatter", ["distribution", "runs", *head[3:]], ("distribution", "n"), RATES
        ),
    }  # fmt: skip


def _simulation(rows: Sequence[Row]) -> str:
    """Return the sentence about draws, seed and scatter."""
    scatter = sorted({float(row["spread"]) for row in rows if row["part"] == "verdicts"})
    *most, last = [f"{100 * spread:.2g}" for spread in scatter]
    text = (
        f"Each rate is of {rows[0]['draws']} draws, with seed {rows[0]['seed']}. The scatter is "
        f"that of {rows[0]['cells']} recorded cells whose runs vary. The standard deviation of "
        f"their runs, in % of the mean, is {', '.join(most)} and {last} at the quantiles of 25, "
        "50, 75 and 90 %."
    )
    return textwrap.fill(text, 119) + "\n"


def _worst(rows: Iterable[Row]) -> Iterable[list[str]]:
    """Return a line for each comparison, number of runs and scatter, of the worse distribution."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["kind"], row["n"], row["spread"]), []).append(row)
    for (kind, n, spread), group in groups.items():
        worst = {name: max((r[name] for r in group), key=float) for name in ERRORS}
        worst |= {name: min((r[name] for r in group), key=float) for name in RIGHTS}
        yield [kind, n, _percent(spread), *_short(worst, *RATES)]


def _percent(share: str) -> str:
    return f"{100 * float(share):.2g}"


def _short(row: Row, *columns: str) -> list[str]:
    return [f"{float(row[column]):.1f}" for column in columns]


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def page(text: str, rows: Sequence[Row]) -> str:
    """Return the documentation page with the tables of a simulation."""
    for part, table in tables(rows).items():
        text = replaced(text, MARK.format(part), table)
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print the tables, and write them if requested."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.verdict_errors", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("results", type=Path, help="results folder of a campaign")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--write", action="store_true", help="into the report and the docs")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        file = FILE if options.write else Path(folder) / FILE.name
        try:
            simulate(options.results, file, options.draws)
        except subprocess.CalledProcessError:
            print("verdict_errors: error: the simulation failed, see above", file=sys.stderr)
            return 1
        rows = read_rows(file)
    if options.write:
        PAGE.write_text(page(PAGE.read_text(), rows))
    print("\n".join(tables(rows).values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
