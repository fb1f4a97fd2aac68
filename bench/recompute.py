"""Recompute recorded numbers without R and without the project's analysis.

    python -m bench.recompute [FOLDER]

The script reads the runs in FOLDER/*.jsonl.xz (default: recorded/full), and prints each difference
from what the project wrote:

- the number of runs and the mean of each cell (`record.tsv`),
- the scoreboard of the loss study, which is the mean goodput of its two paths,
- the verdicts on single published runs whose claim is the value of one cell (`claims.csv`),
- the verdicts on means and on ratios of runs, orders among them, that are no number of a family,
- the pair of cells of each stated cause, which must differ in one axis (it prints the pairs),
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
from functools import cache
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
MIN_RUNS = 5
# Kinds of claims on means and on ratios that are recomputed, and metrics whose interval is another.
KINDS = ("value", "change_percent", "smallest_ratio", "largest_ratio")
UPPER_LIMITS = (
    "jain_index", "frames_delivered_percent", "frames_on_time_percent", "rwnd_limited_percent",
)  # fmt: skip
# Settings of runs, which are no axes of a cell.
SETTINGS = ("duration_s", "warmup_s", "kernel")
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


def mean_interval(values: Sequence[float], error: float = 0.05) -> tuple[float, float]:
    """Return the confidence interval of the mean: Cox's on logarithms with t (Olsson, 2005).

    Plain t if a value is not positive.
    """
    n = len(values)
    reach = float(stats.t.ppf(1 - error / 2, n - 1))
    if any(value <= 0 for value in values):
        half = reach * stdev(values) / math.sqrt(n)
        return fmean(values) - half, fmean(values) + half
    logs = [math.log(value) for value in values]
    spread = stdev(logs) ** 2
    half = reach * math.sqrt(spread / n + spread**2 / (2 * (n - 1)))
    centre = fmean(logs) + spread / 2
    return math.exp(centre - half), math.exp(centre + half)


def ratio_interval(
    over: Sequence[float], under: Sequence[float], paired: bool, error: float = 0.05
) -> tuple[float, float]:
    """Return the interval of a ratio of positive runs: t on logarithms, Welch's without pairs."""
    a, b = ([math.log(value) for value in values] for values in (over, under))
    if paired:
        logs = [x - y for x, y in zip(a, b, strict=True)]
        centre, spread, freedom = fmean(logs), stdev(logs) / math.sqrt(len(logs)), len(logs) - 1.0
    else:
        parts = [stdev(values) ** 2 / len(values) for values in (a, b)]
        weights = [part**2 / (len(v) - 1) for part, v in zip(parts, (a, b), strict=True)]
        centre, spread = fmean(a) - fmean(b), math.sqrt(sum(parts))
        freedom = sum(parts) ** 2 / sum(weights) if spread else 1.0
    half = float(stats.t.ppf(1 - error / 2, freedom)) * spread
    return math.exp(centre - half), math.exp(centre + half)


def judge_mean(low: float, high: float, claim: Mapping[str, Any]) -> str:
    """Judge an interval by a claim's limit."""
    if "within" in claim:
        edges = claim["published"] - claim["within"], claim["published"] + claim["within"]
    else:
        edges = claim.get("at_least", -math.inf), claim.get("at_most", math.inf)
    if low >= edges[0] and high <= edges[1]:
        return "reproduced"
    return "not reproduced" if high < edges[0] or low > edges[1] else "inconclusive"


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


def intervals(folder: Path, cells: Mapping[tuple[str, str], Cell]) -> Iterator[str]:
    """Yield the verdicts on means and on ratios of runs that differ.

    The means of one source to which nothing was fitted are a family, judged by Holm's method, and
    not here. Metrics with an upper limit have another interval.
    """
    for row in _rows(folder / "claims.csv"):
        study, verdict = row["study"], row["verdict"]
        claim = _claims(study).get(row["claim"], {})
        judged = verdict in ("reproduced", "not reproduced", "inconclusive")
        mean = claim.get("statistic", "mean") == "mean" and "published_runs" not in claim
        limited = claim.get("metric", "") in UPPER_LIMITS
        if not (judged and mean and claim.get("kind") in KINDS) or limited:
            continue
        if claim["evidence"] == "not fitted":
            continue
        ends = _interval_of(study, claim, cells)
        if ends and (found := judge_mean(*ends, claim)) != verdict:
            yield (
                f"{study}/{row['claim']} is {found} ({ends[0]:.4g} to {ends[1]:.4g}), recorded is "
                f"{verdict}"
            )


def _interval_of(
    study: str, claim: Mapping[str, Any], cells: Mapping[tuple[str, str], Cell]
) -> tuple[float, float] | None:
    """Return the interval of a claim's number; None if a cell lacks runs for it."""
    own = select(study, claim["where"], cells)
    metric = claim.get("metric", "goodput_mbit")
    if claim["kind"] == "value":
        if len(own) != 1 or not (values := _values(own[0], metric)):
            return None
        return mean_interval(values, error_of(study, own[0]))
    pairs = _pairs(study, claim, own, cells)
    if not pairs or not all(_values(cell, metric) for pair in pairs for cell in pair):
        return None
    # The extreme of k cells: each has a k-th of the error at the end that may be due to chance.
    usual, strict = (
        [_ratio_of(study, *pair, metric, parts) for pair in pairs] for parts in (1, len(pairs))
    )
    if claim["kind"] == "smallest_ratio":
        return min(low for low, _ in usual), min(high for _, high in strict)
    low, high = max(low for low, _ in strict), max(high for _, high in usual)
    percent = claim["kind"] == "change_percent"
    return (100 * (low - 1), 100 * (high - 1)) if percent else (low, high)


def _pairs(
    study: str,
    claim: Mapping[str, Any],
    own: Sequence[Cell],
    cells: Mapping[tuple[str, str], Cell],
) -> list[tuple[Cell, Cell]]:
    """Return a claim's cells with their counterparts; none if one lacks its counterpart."""
    changed = claim["against"]
    found = select(study, {**claim["where"], **changed}, cells)
    pairs = []
    for cell in own:
        others = [
            other
            for other in found
            if ("block" in changed or other["block"] == cell["block"])
            and not [axis for axis in _axes(cell, other) if axis not in changed]
        ]
        if len(others) != 1:
            return []
        pairs.append((cell, others[0]))
    return pairs


def _ratio_of(study: str, over: Cell, under: Cell, metric: str, parts: int) -> tuple[float, float]:
    """Return the interval of the ratio of two cells, of pairs with the same seed if there are."""
    a, b = (
        {
            (number, run["seed"]): run["summary"][metric]
            for number, run in enumerate(cell["replicates"])
            if run["valid"] and run["summary"].get(metric) is not None
        }
        for cell in (over, under)
    )
    errors = [error_of(study, cell) / parts for cell in (over, under)]
    shared = [key for key in a if key in b]
    if shared and errors[0] == errors[1]:
        return ratio_interval([a[k] for k in shared], [b[k] for k in shared], True, errors[0])
    return ratio_interval([*a.values()], [*b.values()], False, max(errors))


def _values(cell: Cell, metric: str) -> list[float]:
    values = [run[metric] for run in cell["runs"] if run.get(metric) is not None]
    return values if len(values) >= MIN_RUNS and min(values) > 0 else []


def causes(folder: Path, cells: Mapping[tuple[str, str], Cell]) -> Iterator[str]:
    """Print the pair of cells of each cause that a claim states; yield those that have none."""
    for study in sorted({name for name, _ in cells}):
        for name, claim in _claims(study).items():
            for sentence in claim.get("reason", []):
                if "cause" not in sentence:
                    continue
                own = select(study, claim["where"], cells)
                others = select(study, sentence["shown_by"]["where"], cells)
                if not own or not others:
                    continue  # this campaign did not measure them
                a, b = min(((a, b) for a in own for b in others), key=lambda ab: len(_axes(*ab)))
                axes = _axes(a, b)
                if len(axes) != 1:
                    yield f"{study}/{name}: its cause's cells differ in {', '.join(axes)}"
                print(f"{study}/{name}: {a['cell']} and {b['cell']} ({', '.join(axes)})")


def _axes(a: Cell, b: Cell) -> list[str]:
    """Return the axes in which two cells differ."""
    return [
        axis
        for axis, value in a["condition"].items()
        if axis not in SETTINGS and b["condition"].get(axis) != value
    ]


def select(
    study: str, where: Mapping[str, Any], cells: Mapping[tuple[str, str], Cell]
) -> list[Cell]:
    """Return the cells that have a selector's values."""
    return [
        cell
        for (name, _), cell in cells.items()
        if name == study
        and all(
            (cell["block"] if key == "block" else cell["condition"].get(key))
            in (value if isinstance(value, list) else [value])
            for key, value in where.items()
        )
    ]


def only_cell(
    study: str, claim: Mapping[str, Any], cells: Mapping[tuple[str, str], Cell]
) -> Cell | None:
    """Return the only cell that a claim selects, None if it selects several or none."""
    selected = select(study, claim["where"], cells)
    return selected[0] if len(selected) == 1 else None


def error_of(study: str, cell: Cell) -> float:
    """Return the error of a cell's interval, which is divided among the looks at its runs.

    A cell may end after each run from the campaign's minimum on. The looks before the last share a
    fifth of the error.
    """
    config = _config()
    runs = config["studies"].get(study) or _own_runs(study)
    entries = runs[cell["block"]]
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
        "means": means, "scoreboard": loss_scoreboard, "single runs": single_runs,
        "intervals": intervals, "causes": causes, "README": readme,
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


@cache
def _config() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    return content


@cache
def _own_runs(study: str) -> dict[str, Any]:
    """Return the settings of runs in a study's own file, or in that of its suite."""
    content = yaml.safe_load((ROOT / "studies" / study / "study.yaml").read_text())
    if "suite" in content:
        suite = ROOT / "suites" / content["suite"] / "suite.yaml"
        scenarios = yaml.safe_load(suite.read_text())["scenarios"]
        return {name: scenario["full"] for name, scenario in scenarios.items()}
    runs: dict[str, Any] = content["runs"]
    return runs


@cache
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
