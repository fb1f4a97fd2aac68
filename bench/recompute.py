"""Recompute recorded numbers without R and without the project's analysis.

    python -m bench.recompute [FOLDER]

The script reads the runs in FOLDER/*.jsonl.xz (default: recorded/full), and prints each difference
from what the project wrote:

- the number of runs and the mean of each cell (`record.tsv`),
- the scoreboard of the loss study, which is the mean goodput of its two paths,
- the verdicts on single published runs whose claim is the value of one cell (`claims.csv`),
- the README's numbers of cells and runs, its first sentence and its scoreboard.

It ends with status 1 if it finds a difference. It imports nothing of losslab, on purpose.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import yaml
from scipy import stats

ROOT = Path(__file__).resolve().parents[1]
# A cell: its block, its condition, and its valid runs' summaries.
Cell = dict[str, Any]
# Share of the 5 % error that is spent on intervals of cells that end early (docs/explanation).
EARLY_SHARE = 0.2
SINGLE_RUN = ("inside", "near", "outside", "undecidable", "inconclusive")


def read_cells(folder: Path) -> dict[tuple[str, str], Cell]:
    """Return the recorded cells by study and name."""
    cells = {}
    for path in sorted(folder.glob("*.jsonl.xz")):
        with lzma.open(path, "rt") as lines:
            for line in lines:
                content = json.loads(line)["content"]
                runs = [run["summary"] for run in content["replicates"] if run["valid"]]
                cells[content["study"], content["cell"]] = content | {"runs": runs}
    return cells


def prediction(values: Sequence[float], error: float = 0.05) -> tuple[float, float]:
    """Return the prediction interval of one more run, of 95 % by default.

    Student's t on logarithms (Hahn and Meeker, Statistical Intervals, 4.7); on the values
    themselves if one of them is not positive.
    """
    logs = all(value > 0 for value in values)
    data = [math.log(value) for value in values] if logs else list(values)
    n = len(data)
    half = float(stats.t.ppf(1 - error / 2, n - 1)) * stdev(data) * math.sqrt(1 + 1 / n)
    ends = fmean(data) - half, fmean(data) + half
    return (math.exp(ends[0]), math.exp(ends[1])) if logs else ends


def judge_run(published: float, within: float, values: Sequence[float], error: float = 0.05) -> str:
    """Judge a published single run: docs/explanation/statistics.md has the conditions."""
    if len(values) < 5:
        return "inconclusive"
    low, high = prediction(values, error)
    in_limit = published - within <= low and high <= published + within
    if not low <= published <= high:
        return "near" if in_limit else "outside"
    if in_limit or high - low <= 2 * within:
        return "inside"
    n = len(values)
    reach = float(stats.t.ppf(0.975, n - 1)) * math.sqrt(1 + 1 / n)
    least = (high - low) * float(stats.norm.ppf(0.975)) / reach
    return "undecidable" if least > 2 * within else "inconclusive"


def means(folder: Path, cells: Mapping[tuple[str, str], Cell]) -> Iterator[str]:
    """Yield the cells of record.tsv whose runs or mean differ."""
    for row in _rows(folder / "record.tsv", "\t"):
        name = row["study"], row["cell"]
        if name not in cells:
            yield f"{'/'.join(name)} is in record.tsv, but has no recorded runs"
            continue
        runs = cells[name]["runs"]
        values = [run[row["metric"]] for run in runs if run.get(row["metric"]) is not None]
        if int(row["valid"]) != len(runs):
            yield f"{'/'.join(name)} has {len(runs)} valid runs, recorded are {row['valid']}"
        if values and row["mean"] not in ("", "NA"):
            yield from _compare("/".join(name), fmean(values), float(row["mean"]), 1e-4)


def loss_scoreboard(folder: Path, cells: Mapping[tuple[str, str], Cell]) -> Iterator[str]:
    """Yield the counts of the loss study's scoreboard that differ.

    Of the 42 means, those of CUBIC at 1 % loss were fitted. Where the source's hosts limit the
    goodput, its numbers state one fact: their ratios count once, as the geometric mean.
    """
    ratios, of_hosts = [], []
    for row in _rows(ROOT / "studies/loss/published.csv"):
        algorithm, loss = row["algorithm"], float(row["loss_percent"])
        runs = _loss_runs(cells, algorithm, loss, row["path"])
        ratio = fmean(run["goodput_mbit"] for run in runs) / float(row["mean"])
        if loss == 0 or (algorithm == "bbr" and loss <= 5):
            of_hosts.append(ratio)
        elif not (algorithm == "cubic" and loss == 1):
            ratios.append(ratio)
    ratios.append(math.exp(fmean(math.log(ratio) for ratio in of_hosts)))
    distances = [max(ratio, 1 / ratio) for ratio in ratios]
    counts = {
        "counted": len(distances), "median": median(distances),
        "within_5": sum(each <= 1.05 for each in distances),
        "within_25": sum(each <= 1.25 for each in distances),
        "within_2": sum(each <= 2 for each in distances),
    }  # fmt: skip
    recorded = next(r for r in _rows(folder / "scoreboard.csv") if r["source"] == "loss")
    for name, count in counts.items():
        yield from _compare(f"scoreboard of loss, {name}", count, float(recorded[name]), 1e-6)


def single_runs(folder: Path, cells: Mapping[tuple[str, str], Cell]) -> Iterator[str]:
    """Yield the verdicts on published single runs that differ."""
    recorded = {(r["study"], r["claim"]): r["verdict"] for r in _rows(folder / "claims.csv")}
    for (study, name), verdict in recorded.items():
        claim = _claims(study).get(name, {})
        one_run = claim.get("published_runs") == 1 and claim.get("within") is not None
        if not one_run or claim["kind"] != "value" or claim.get("statistic", "mean") != "mean":
            continue
        if verdict not in SINGLE_RUN:
            continue
        cell = only_cell(study, claim, cells)
        metric = claim.get("metric", "goodput_mbit")
        if cell is None or any(run.get(metric) is None for run in cell["runs"]):
            continue
        values = [run[metric] for run in cell["runs"]]
        found = judge_run(claim["published"], claim["within"], values, error_of(study, cell))
        if found != verdict:
            yield f"{study}/{name} is {found} at {claim['published']}, recorded is {verdict}"


def only_cell(
    study: str, claim: Mapping[str, Any], cells: Mapping[tuple[str, str], Cell]
) -> Cell | None:
    """Return the only cell that a claim selects, None if it selects several or none."""
    selected = [
        cell
        for (name, _), cell in cells.items()
        if name == study
        and all(
            (cell["block"] if key == "block" else cell["condition"].get(key)) == value
            for key, value in claim["where"].items()
        )
    ]
    return selected[0] if len(selected) == 1 else None


def error_of(study: str, cell: Cell) -> float:
    """Return the error of a cell's interval, which is divided among the looks at its runs.

    A cell may end after each run from the campaign's minimum on. The looks before the last share a
    fifth of the error.
    """
    config = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    entries = config["studies"][study][cell["block"]]
    # A block may have other numbers of runs for some of its cells.
    block = next(
        entry
        for entry in (entries if isinstance(entries, list) else [entries])
        if all(
            cell["condition"][axis] in (values if isinstance(values, list) else [values])
            for axis, values in entry.get("only", {}).items()
        )
    )
    most = block.get("max_replicates", block["replicates"])
    least = block["replicates"] if "max_replicates" in block else config["stop_early"]["replicates"]
    if most <= least:
        return 0.05
    ended_early = len(cell["replicates"]) < most
    return 0.05 * (EARLY_SHARE / (most - least) if ended_early else 1 - EARLY_SHARE)


def readme(folder: Path, cells: Mapping[tuple[str, str], Cell]) -> Iterator[str]:
    """Yield the README's numbers that differ."""
    text = " ".join((ROOT / "README.md").read_text().split())
    runs = sum(len(cell["replicates"]) for cell in cells.values())
    expected = [f"{len(cells):,} cells and {runs:,} runs"]
    kept = {}
    for algorithm in ("cubic", "bbr"):
        clean, *lossy = (
            [r["goodput_mbit"] for r in _loss_runs(cells, algorithm, loss, "symmetric", "main")]
            for loss in (0, 1, 10)
        )
        kept[algorithm] = [100 * (1 - fmean(values) / fmean(clean)) for values in lossy]
        kept[f"{algorithm} median"] = [100 * (1 - median(lossy[1]) / fmean(clean))]
    expected += [
        f"costs CUBIC {kept['cubic'][0]:.0f} % of its goodput and BBR {kept['bbr'][0]:.0f} %",
        f"10 % loss costs CUBIC {kept['cubic'][1]:.{1 if kept['cubic'][1] > 99 else 0}f} %",
        f"It costs BBR {kept['bbr median'][0]:.0f} % in the median run",
    ]
    for row in _rows(folder / "scoreboard.csv"):
        if row["source"] == row["study"]:
            counts = [row[key] for key in ("counted", "within_5", "within_25", "within_2")]
            expected.append(f"| `{row['study']}` | {' | '.join(counts)} |")
    for words in expected:
        if words not in text:
            yield f"README.md must have {words!r}"


def differences(folder: Path) -> dict[str, list[str]]:
    """Return the differences of a recorded campaign by subject."""
    cells = read_cells(folder)
    subjects = {
        "means": means, "scoreboard": loss_scoreboard, "single runs": single_runs, "README": readme
    }  # fmt: skip
    return {name: list(subject(folder, cells)) for name, subject in subjects.items()}


def _loss_runs(
    cells: Mapping[tuple[str, str], Cell], algorithm: str, loss: float, path: str, block: str = ""
) -> list[dict[str, float]]:
    # The block of long runs is preferred, as it has more and longer ones.
    condition = {"app": "iperf3", "algorithm": algorithm, "loss_percent": loss, "path": path}
    for name in [block] if block else ["long", "main"]:
        for (study, _), cell in cells.items():
            if (study, cell["block"]) == ("loss", name) and all(
                cell["condition"][key] == value for key, value in condition.items()
            ):
                return list(cell["runs"])
    raise SystemExit(f"recompute: no recorded cell of the loss study has {condition}")


def _claims(study: str) -> dict[str, Any]:
    text = (ROOT / "studies" / study / "claims.yaml").read_text()
    return {claim["id"]: claim for claim in yaml.safe_load(text)["claims"]}


def _rows(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines, delimiter=delimiter))


def _compare(name: str, found: float, recorded: float, tolerance: float) -> Iterator[str]:
    if not math.isclose(found, recorded, rel_tol=tolerance, abs_tol=1e-9):
        yield f"{name} is {found:.6g}, recorded is {recorded:.6g}"


def main() -> None:
    """Print the differences."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "recorded" / "full")
    found = differences(parser.parse_args().folder)
    for subject, problems in found.items():
        print(f"{subject}: {len(problems)} differences", *problems, sep="\n  ")
    raise SystemExit(any(found.values()))


if __name__ == "__main__":
    main()
