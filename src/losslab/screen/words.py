"""A campaign's progress in words: a line per stage, and the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from losslab.screen.cells import Count
from losslab.screen.stages import MEASURE, Stage, Tally

NAME_WIDTH = 11
SHOWN = 3
KEPT = "what is finished is kept, and the same command goes on there"


def duration(seconds: float) -> str:
    """Write a length of time as people say it: `40 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 else f"{round(whole / 60)} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def done(name: str, stage: Stage, count: Count | None) -> str:
    """Say how much of a stage is done; of measuring, in cells and runs."""
    failed = f", {stage.failed} FAILED" if stage.failed else ""
    if name != MEASURE or count is None:
        return f"{stage.done} of {stage.total}{failed}"
    invalid = f", {count.invalid} invalid" if count.invalid else ""
    runs = f"{count.runs_done} of {count.runs} runs"
    return f"{count.cells_done} of {count.cells} cells, {runs}{invalid}{failed}"


def stage_line(
    name: str, stage: Stage, count: Count | None, now_s: float, waits: bool = False
) -> str:
    """Write a stage's line.

    Args:
        name: Of the stage.
        stage: Its jobs.
        count: The cells, which the stage that measures speaks of.
        now_s: The time.
        waits: It waits for another, so that its rate says nothing.
    """
    parts = [done(name, stage, count)]
    wall_s = stage.wall_s(now_s)
    in_runs = name == MEASURE and count is not None
    so_far = count.runs_done if in_runs and count else stage.done
    total = count.runs if in_runs and count else stage.total
    if stage.over:
        parts.append(f"in {duration(wall_s)}")
    elif so_far and wall_s > 0 and not waits:
        parts.append(f"{60 * so_far / wall_s:.3g} {'runs' if in_runs else 'jobs'}/min")
        parts.append(f"{duration(wall_s / so_far * max(total - so_far, 0))} left")
    return f"{name:<{NAME_WIDTH}}{', '.join(parts)}"


def short_line(active: Mapping[str, Stage], count: Count | None, now_s: float) -> str:
    """Write what is under way on one line: in full where that is one stage."""
    if len(active) == 1:
        return "".join(stage_line(name, stage, count, now_s) for name, stage in active.items())
    return " | ".join(f"{name} {done(name, stage, count)}" for name, stage in active.items())


def waits(name: str, tally: Tally) -> bool:
    """Tell whether a stage waits for the one that measures."""
    measuring = tally.stages.get(MEASURE)
    return name != MEASURE and measuring is not None and measuring.under_way


def lines(tally: Tally, count: Count | None, now_s: float) -> list[str]:
    """Write a line for each stage that has begun."""
    return [
        stage_line(name, stage, count, now_s, waits(name, tally))
        for name, stage in tally.stages.items()
        if stage.began_s is not None
    ]


def measured(count: Count) -> str:
    """Say what there is of cells and runs."""
    words = f"{count.cells_done} of {count.cells} cells, {count.runs_done} runs"
    if not count.invalid:
        return f"{words}, none invalid" if count.cells_done else words
    return f"{words}, {count.invalid} invalid ({enumerated(count.invalid_in)})"


def enumerated(names: Sequence[str]) -> str:
    """List names, the first few of many."""
    more = [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return ", ".join([*names[:SHOWN], *more])


def summary(tally: Tally, count: Count | None, now_s: float) -> list[str]:
    """Write what a campaign that ended leaves: cells, runs, wall time, reports, what is kept."""
    wall = duration((tally.ended_s or now_s) - tally.began_s)
    there = [f"losslab: {measured(count)}"] if count is not None and count.cells else []
    if tally.complete:
        reports = [f"  {path}" for path in tally.targets]
        return [*there, f"losslab: done in {wall}" + (":" if reports else ""), *reports]
    if tally.failures:
        what = f"stopped after {wall}, failed: {enumerated(tally.failures)}"
    else:
        what = f"interrupted after {wall}"
    return [*there, f"losslab: {what}; {KEPT}"]
