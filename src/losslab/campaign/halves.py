"""Halves of runs: whether the start of the runs decides a cell's mean goodput.

The measured window of each run has two halves. If the second half differs from the first over all
runs of a cell, the mean depends on how long the runs are, and more runs only make a wrong interval
narrower. Runs that are shorter than the rule of `study/runlength.py` asks for have a warning, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from losslab.campaign.results import MeasuredCell, Replicate
from losslab.campaign.tables import other_windows
from losslab.emulation.app import apps
from losslab.study import runlength
from losslab.study.condition import Condition
from losslab.study.intervals import MIN_RUNS, Ratio, ratio_interval

# Halves that differ by less do not matter: the mean then is at most half as far from the second.
UNIMPORTANT_RATIO = 1.05
ONE_RUN_RATIO = 1.5


def of_run(run: Replicate) -> tuple[float, float] | None:
    """Return the goodput in Mbit/s of both halves of a valid run; None if it has none over time."""
    condition = Condition.from_json(run.manifest["cell"])
    if not run.manifest["valid"] or not apps()[condition.app].per_second:
        return None
    windows = other_windows(run.samples("intervals.csv"), condition.warmup_s, condition.duration_s)
    both = windows.get("early_goodput_mbit"), windows.get("late_goodput_mbit")
    return None if both[0] is None or both[1] is None else (both[0], both[1])


def ratio(runs: Iterable[Replicate]) -> tuple[Ratio, int]:
    """Return the second half's goodput over the first's, with its interval over the runs.

    Also return the number of runs with both halves.
    """
    halves = [each for each in map(of_run, runs) if each is not None]
    if not halves:
        return Ratio(None), 0
    first, second = zip(*halves, strict=True)
    return ratio_interval(second, first, paired=True), len(halves)


def warnings(runs: Iterable[Replicate], condition: Condition) -> Iterator[str]:
    """Yield the warnings about the length of a condition's runs.

    None if the rule has no model of the condition: halves of a path that changes differ by intent.
    """
    if not runlength.applies(condition):
        return
    found, count = ratio(runs)
    if text := _different(found, count):
        length = runlength.needed(condition)
        longer = max(length.duration_s, 2 * condition.duration_s)
        yield (
            f"the start decides this number: {text}; measure longer runs, such as --duration-s "
            f"{longer:g} --warmup-s {runlength.WARMUP_SHARE * longer:g}"
        )
    elif short := runlength.too_short(condition):
        yield short


def _different(found: Ratio, count: int) -> str:
    """Say by how much the halves differ; "" if they do not, or not significantly."""
    value, ends = found.value, found.interval
    if value is None or value <= 0:
        return ""
    factor = max(value, 1 / value)
    than = "more" if value > 1 else "less"
    if ends is not None and min(ends) > 0:
        if not (ends[0] > 1 or ends[1] < 1) or factor < UNIMPORTANT_RATIO:
            return ""
        low, high = sorted(max(end, 1 / end) for end in ends)
        return (
            f"the second half of the runs has {than} goodput by a factor of {factor:.3g} "
            f"(95 % CI {low:.3g} to {high:.3g}, n = {count})"
        )
    if count < MIN_RUNS and factor >= ONE_RUN_RATIO:
        runs = "this run" if count == 1 else f"{count} runs"
        return (
            f"the second half of {runs} has {than} goodput by a factor of {factor:.3g}, without an "
            f"interval, which needs {MIN_RUNS} runs"
        )
    return ""


def of_runs(
    runs: Iterable[Replicate], name: Callable[[Condition], str] = lambda _: ""
) -> list[str]:
    """Return the warnings about the lengths of runs, with the names of their conditions."""
    by_condition: dict[Condition, list[Replicate]] = {}
    for run in runs:
        by_condition.setdefault(Condition.from_json(run.manifest["cell"]), []).append(run)
    names: dict[str, list[str]] = {}
    for condition, its_runs in by_condition.items():
        for line in warnings(its_runs, condition):
            names.setdefault(line, []).append(name(condition))
    return [f"{'; '.join(named)}: {line}" if any(named) else line for line, named in names.items()]


def of_cells(
    cells: Iterable[MeasuredCell], name: Callable[[Condition], str] = lambda _: ""
) -> list[str]:
    """Return the warnings of `of_runs` about the runs of measured cells."""
    return of_runs((run for cell in cells for run in cell.replicates), name)
