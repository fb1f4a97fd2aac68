r"""Write LaTeX macros of the paper's numbers, with the 95 % confidence interval.

For NAME, \NAME is the mean, \NAMEInterval the interval, and \NAMERuns the number of runs.
\ClaimNAME is the verdict of a claim.
"""

import csv
import sys
from pathlib import Path

# Macro: metric, decimal places, and the axes that identify the cell.
NUMBERS = {
    "CubicClean": ("goodput_mbit", 1, {"algorithm": "cubic", "loss_percent": "0"}),
    "CubicLossy": ("goodput_mbit", 1, {"algorithm": "cubic", "loss_percent": "1"}),
    "BbrLossy": ("goodput_mbit", 1, {"algorithm": "bbr", "loss_percent": "1"}),
}
CLAIMS = {"Fills": "mine-fills-the-link"}


def rows(path: str) -> list[dict[str, str]]:
    """Read a CSV file."""
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def only(matching: list[dict[str, str]], name: str) -> dict[str, str]:
    """Return the only row; end with a message if there is none or several."""
    if len(matching) != 1:
        sys.exit(f"{name} must name one cell or claim, found {len(matching)}: edit {sys.argv[0]}")
    return matching[0]


def macro(name: str, text: str) -> None:
    """Print a macro."""
    print(f"\\newcommand{{\\{name}}}{{{text}}}")


statistics, claims = map(rows, sys.argv[1:])
for name, (metric, places, cell) in NUMBERS.items():
    key = {"statistic_over": "replicates", "metric": metric, **cell}
    row = only([row for row in statistics if key.items() <= row.items()], name)
    mean, low, high = (
        f"{float(row[column]):.{places}f}" for column in ("mean", "mean_low", "mean_high")
    )
    macro(name, mean)
    macro(f"{name}Interval", f"{low} to {high}")
    macro(f"{name}Runs", row["n"])
for name, claim in CLAIMS.items():
    macro(f"Claim{name}", only([row for row in claims if row["claim"] == claim], name)["verdict"])
