"""Verdicts on cases of a suite that span cells, by the confidence interval of each number.

A case passes if the whole interval is within the limit, and fails if it is beyond. The number is
that of the worst cell, or its ratio to the cell that differs in the axes of `against`.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from losslab.campaign.results import Row
from losslab.campaign.tables import Tables
from losslab.repository import ROOT
from losslab.study import intervals, metrics, studyfiles
from losslab.study.axes import NONE
from losslab.study.condition import AXES
from losslab.study.intervals import LEVEL, MIN_RUNS
from losslab.study.packetsizes import DEFAULT, PacketSizes
from losslab.study.studyfiles import as_list, matches

PASS, FAIL = "PASS", "FAIL"
INCONCLUSIVE, NOT_OBSERVABLE = "INCONCLUSIVE", "NOT OBSERVABLE"
SIDES = ("at_least", "at_most")
SHOWN = 3  # reasons, cells


def _sizes(run: Row) -> PacketSizes:
    # Older tables lack the axis.
    return PacketSizes(int(run.get("mtu_bytes") or DEFAULT.mtu_bytes))


def _sent(run: Row) -> float:
    # Packets that leave the bottleneck are offered to the random loss after it.
    return float(run["loss_offered_packets"] + run["bottleneck_drops"])


def _of_half(run: Row, name: str) -> float:
    return float(100 * run[name] / (run["total_goodput_mbit"] / 2))


def _time(run: Row, name: str) -> float:
    # An event that never happens has the run's length.
    return float(run["duration_s"] if run.get(name) is None else run[name])


# Metrics that follow from those of a run, and from its condition.
DERIVED: Mapping[str, Callable[[Row], float]] = {
    "utilisation_percent": lambda run: (
        100 * run["total_goodput_mbit"] / (run["rate_mbit"] * _sizes(run).payload_share)
    ),
    "queue_mean_bdp": lambda run: (
        run["queue_mean_packets"]
        / (run["rate_mbit"] * run["rtt_ms"] * 1e3 / 8 / _sizes(run).frame_bytes)
    ),
    "sent_packets": _sent,
    "sent_per_rtt_packets": lambda run: _sent(run) * run["rtt_ms"] / 1e3 / run["duration_s"],
    "drop_percent": lambda run: 100 * run["bottleneck_drops"] / _sent(run),
    "queue_delay_ms": lambda run: (
        run["queue_mean_packets"] * _sizes(run).frame_bytes * 8 / (run["rate_mbit"] * 1e3)
    ),
    "competitor_of_fair_percent": lambda run: _of_half(run, "competitor_goodput_mbit"),
    "own_of_fair_percent": lambda run: _of_half(run, "goodput_mbit"),
    "least_of_fair_percent": lambda run: _of_half(run, "flow_goodput_min_mbit"),
    # Packets that the policer drops reach neither the bottleneck nor the loss.
    "policer_drop_percent": lambda run: (
        100 * run["policer_drops"] / (_sent(run) + run["policer_drops"])
    ),
    "policed_percent": lambda run: (
        100 * run["goodput_mbit"] / (run["policer_mbit"] * _sizes(run).payload_share)
    ),
    "own_of_half_percent": lambda run: (
        100 * run["goodput_mbit"] / (run["rate_mbit"] * _sizes(run).payload_share / 2)
    ),
    "after_change_percent": lambda run: 100 * run["after_change_share"],
    "fair_after_s": lambda run: _time(run, "time_to_fairness_s"),
    "settled_s": lambda run: _time(run, "settle_s"),
    # Standard deviation of a run's seconds.
    "goodput_cv_percent": lambda run: (
        100 * statistics.stdev(run["seconds"]) / statistics.fmean(run["seconds"])
    ),
}


def value_of(run: Row, metric: str) -> float | None:
    """Return a metric of a row of the table of replicates, also a derived one; None if it has none.

    `seconds` in the row has the goodput of each second.
    """
    if metric not in DERIVED:
        return metrics.value(run, metric)
    try:
        return DERIVED[metric](run)
    except (KeyError, TypeError, ZeroDivisionError, statistics.StatisticsError):
        return None


class Estimate(NamedTuple):
    """A number with its confidence interval and the number of runs; None: there is none."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    worst: str = ""  # the cell that decides


class Sample(NamedTuple):
    """The values of a cell's valid runs, by replicate and seed, and its share of the error."""

    values: dict[tuple[int, int], float]
    share: float


@dataclass(frozen=True)
class Data:
    """The cells of a study or a command, and the rows of their valid runs by cell."""

    suite: Mapping[str, Any]
    cells: Sequence[Row]
    runs: Mapping[str, Sequence[Row]]

    @staticmethod
    def of(suite: Mapping[str, Any], tables: Tables) -> Data:
        """Return the data of a study's tables."""
        seconds: dict[tuple[str, int], list[float]] = defaultdict(list)
        for row in tables.intervals:
            seconds[row["cell"], row["replicate"]].append(row["goodput_mbit"])
        runs: dict[str, list[Row]] = defaultdict(list)
        for row in tables.replicates:
            if row["valid"] == "TRUE":
                goodputs = seconds.get((row["cell"], row["replicate"]), [])
                runs[row["cell"]].append(row | {"seconds": goodputs})
        return Data(suite, tables.cells, runs)

    def sample(self, cell: str, metric: str) -> Sample:
        """Return a metric's values in a cell."""
        rows = self.runs.get(cell, ())
        values = {
            (row["replicate"], row["seed"]): value
            for row in rows
            if (value := value_of(row, metric)) is not None
        }
        return Sample(values, min([1.0, *(row.get("error_share", 1.0) for row in rows)]))


def select(
    case: Mapping[str, Any],
    axes: Mapping[str, Any],
    cells: Iterable[Row],
    against: dict[str, Any] | None = None,
) -> list[Row]:
    """Return the cells of a case for an algorithm with its `axes`, or those compared with it.

    The latter have the axes of `against`.
    """
    where: dict[str, Any] = {"block": case["over"], **case.get("where", {}), **axes}
    if against:
        # Parameters are those of an algorithm.
        free = {"parameters"} if "algorithm" in against else set()
        where = {axis: where[axis] for axis in where if axis not in free} | {**against}
        where |= {axis: NONE for axis in free & axes.keys()}
    return [cell for cell in cells if cell.get("cell") and matches(cell, where)]


def pairs(
    case: Mapping[str, Any], check: Row, axes: Mapping[str, Any], cells: Sequence[Row]
) -> list[tuple[Row, Row | None]]:
    """Return each cell of a check with the one that it is compared with, if there is one."""
    against = check.get("against", {})
    free = {*against} | ({"parameters"} if "algorithm" in against else set())

    def key(cell: Row) -> tuple[Any, ...]:
        return (cell["block"], *(cell[axis] for axis in AXES if axis in cell and axis not in free))

    others = {key(cell): cell for cell in select(case, axes, cells, against)} if against else {}
    return [(cell, others.get(key(cell))) for cell in select(case, axes, cells)]


def estimate(case: Mapping[str, Any], check: Row, axes: Mapping[str, Any], data: Data) -> Estimate:
    """Return the number of the worst cell. Its far end is the worst of all ends.

    For the near end, each of k cells gets a k-th of the error (Bonferroni), because any of them
    may be the worst by chance.
    """
    metric, sign = check["metric"], 1 if "at_most" in check else -1
    compared = pairs(case, check, axes, data.cells)
    if "against" in check and any(other is None for _, other in compared):
        return Estimate()
    samples = [
        (data.sample(cell["cell"], metric), data.sample(other["cell"], metric) if other else None)
        for cell, other in compared
    ]
    usual = [_of_cell(*pair, metric, LEVEL) for pair in samples]
    near = [_of_cell(*pair, metric, 1 - (1 - LEVEL) / len(samples)) for pair in samples]

    def worst(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sign * max(sign * value for value in known) if len(known) == len(values) else None

    values = [cell.value for cell in usual]
    value = worst(values)
    if value is None:
        return Estimate()
    lows, highs = (near, usual) if sign > 0 else (usual, near)
    low, high = worst([cell.low for cell in lows]), worst([cell.high for cell in highs])
    n = min(cell.n for cell in usual)
    if value == 0 and low is None and n >= MIN_RUNS:
        # A ratio of zero has no interval, but zero in all runs is no chance.
        low = high = 0.0
    return Estimate(value, low, high, n, compared[values.index(value)][0]["cell"])


def _of_cell(sample: Sample, other: Sample | None, metric: str, level: float) -> Estimate:
    values = list(sample.values.values())
    if other is None:
        within = intervals.metric_interval(values, metric, intervals.level_of(sample.share, level))
        low, high = within or (None, None)
        return Estimate(statistics.fmean(values), low, high, len(values))
    others = list(other.values.values())
    shared = [run for run in sample.values if run in other.values]
    # Pairs would omit runs of a cell that did not end early.
    paired = bool(shared) and sample.share == other.share
    if paired:
        values, others = ([s.values[run] for run in shared] for s in (sample, other))
    level = intervals.level_of(max(sample.share, other.share), level)
    ratio = intervals.ratio_interval(values, others, paired, level)
    low, high = ratio.interval or (None, None)
    return Estimate(ratio.value, low, high, min(len(values), len(others)))


def verdict_of(number: Estimate, check: Row) -> str:
    """Return the verdict on a number."""
    if number.value is None:
        return NOT_OBSERVABLE
    if number.low is None or number.high is None:
        return INCONCLUSIVE
    least, most = check.get("at_least", float("-inf")), check.get("at_most", float("inf"))
    if least <= number.low and number.high <= most:
        return PASS
    return FAIL if number.high < least or number.low > most else INCONCLUSIVE


def judge(name: str, check: Row, axes: Mapping[str, Any], data: Data) -> Row:
    """Return the row of a check of a case for an algorithm with its `axes`."""
    case = data.suite["cases"][name]
    absent = _absent(case, check, axes, data)
    number = Estimate() if absent else estimate(case, check, axes, data)
    if not absent and number.value is None:
        absent = "one of its cells has no counterpart"
    elif not absent and None in (number.low, number.high):
        absent = (
            f"n = {number.n}, but a confidence interval needs {MIN_RUNS}"
            if number.n < MIN_RUNS
            else "this statistic, or a mean of zero, has no confidence interval"
        )
    [side] = [side for side in SIDES if side in check]
    return number._asdict() | {
        "algorithm": axes["algorithm"],
        "criterion": name,
        "section": case.get("section", ""),
        "title": case["title"],
        "scenario": ", ".join(as_list(case["over"])),
        "metric": check["metric"],
        "unit": check.get("unit", metrics.declared()[check["metric"]].unit),
        "limit": f"{side.replace('_', ' ')} {check[side]:g}",
        **{side: check.get(side) for side in SIDES},
        "limit_is": "ours" if "ours" in check else "source",
        "limit_because": check.get("ours", ""),
        "against": ", ".join(map(str, check.get("against", {}).values())),
        "verdict": verdict_of(number, check),
        "absent": absent,
        "cells": " ".join(cell["cell"] for cell in select(case, axes, data.cells)),
    }


def _absent(case: Mapping[str, Any], check: Row, axes: Mapping[str, Any], data: Data) -> str:
    """Return why a check has no number; "" if it has one."""
    metric, sets = check["metric"], [select(case, axes, data.cells)]
    if against := check.get("against"):
        sets.append(select(case, axes, data.cells, against))
    if lost := [cell for cell in sets[0] if not cell["n_valid"]]:
        reasons = [
            f"invalid: {cell['reasons']}"
            if cell["n_replicates"] and cell["reasons"]
            else ": ".join(filter(None, ["not measured", cell["reasons"]]))
            for cell in lost
        ]
        return _listed(list(dict.fromkeys(reasons)))
    if not sets[0] and (why := _not_quick(case, data)):
        return why
    for cells in sets:
        if not cells:
            return "this campaign has no such cell"
        names = sorted(c["cell"] for c in cells if not data.sample(c["cell"], metric).values)
        if names:
            return f"{'cells' if len(names) > 1 else 'cell'} {_listed(names)} without a {metric}"
    return ""


def _not_quick(case: Mapping[str, Any], data: Data) -> str:
    """Return why the quick form has none of a case's scenarios; "" if it may have one."""
    blocks = as_list(case["over"])
    reasons = [data.suite["scenarios"][block].get("not_quick") for block in blocks]
    if None in reasons:
        return ""
    if any(cell["block"] in blocks and cell.get("cell") for cell in data.cells):
        return "the scenario and the algorithm need different kernels"
    return "not in the quick form. " + ". ".join(reason.removesuffix(".") for reason in reasons)


def _listed(words: Sequence[str]) -> str:
    if len(words) > SHOWN:
        words = [*words[: SHOWN - 1], f"{len(words) - SHOWN + 1} more"]
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def judged(data: Data) -> list[Row]:
    """Return a row per measured algorithm and check, without algorithms that a scenario names."""
    scenarios = data.suite["scenarios"].values()
    points = (point for scenario in scenarios for point in as_list(scenario["points"]))
    named = {point["algorithm"] for point in points if "algorithm" in point}
    measured = dict.fromkeys(cell["algorithm"] for cell in data.cells if cell.get("cell"))
    return [
        judge(name, check, {"algorithm": algorithm}, data)
        for algorithm in measured
        if algorithm not in named
        for name, case in data.suite["cases"].items()
        if "over" in case
        for check in case["expect"]
    ]


def of_study(study: str, tables: Tables) -> list[Row]:
    """Return the table of criteria of a study; empty if it names no suite with cases."""
    if study not in studyfiles.study_names(ROOT):
        return []
    named = studyfiles.load_study(study, ROOT).get("suite")
    suite = studyfiles.load_suite(named, ROOT) if named else {}
    return judged(Data.of(suite, tables)) if "cases" in suite else []
