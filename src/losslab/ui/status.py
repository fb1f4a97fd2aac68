"""Text of a campaign's progress, for `losslab status` and the running workflow."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from losslab.reading import UsageError
from losslab.ui.progress import FOLDER, MEASURE, PROGRESS_FILE, Tally

SHOWN = 3  # names shown of a long list
KEPT = "finished jobs are kept; repeat the same command to continue"


def report(folder: Path) -> list[str]:
    """Return a campaign's progress, or its summary if it ended; UsageError without any."""
    tally, now_s = _read(folder), time.time()
    if not running(folder):
        # A killed workflow could not record its end.
        tally.ended_s = tally.ended_s or (folder / FOLDER / PROGRESS_FILE).stat().st_mtime
        return [*stage_lines(tally, tally.ended_s), *summary(tally)]
    return [
        f"losslab: running for {duration(now_s - tally.began_s)} (process {tally.process})",
        *stage_lines(tally, now_s),
        *(f"FAILED     {what}" for what in tally.failures),
    ]


def facts(folder: Path) -> dict[str, Any]:
    """Return the progress as data for JSON; UsageError if the folder has no started campaign."""
    tally = _read(folder)
    data = asdict(tally) | {"running": running(folder), "complete": tally.complete}
    return {name: value for name, value in data.items() if name not in ("jobs", "process")}


def _read(folder: Path) -> Tally:
    tally = Tally.read(folder / FOLDER)
    if tally is None:
        raise UsageError(
            f"{folder.resolve()} must have a started campaign, found none",
            hint="name the folder in which snakemake runs: losslab status DIR",
        )
    return tally


def running(folder: Path) -> bool:
    """Return whether a workflow runs in a folder; it locks the folder while it runs."""
    try:
        descriptor = os.open(folder / ".snakemake", os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def duration(seconds: float) -> str:
    """Format a duration as hours, minutes and seconds: 0:03:20."""
    return str(timedelta(seconds=round(seconds)))


def stage_line(name: str, tally: Tally, now_s: float) -> str:
    """Return a stage's line; only the measuring stage has an estimate of the remaining time."""
    stage, unit = tally.stages[name], " cells" if name == MEASURE else ""
    parts = [f"{stage.done} of {stage.total}{unit}"]
    if name == MEASURE:
        invalid = sum(tally.invalid.values())
        parts += [f"{tally.runs} runs", *([f"{invalid} invalid"] if invalid else [])]
    wall_s = stage.wall_s(now_s)
    if stage.over:
        parts.append(f"in {duration(wall_s)}")
    elif name == MEASURE and stage.done and wall_s > 0:
        left_s = wall_s / stage.done * (stage.total - stage.done)
        parts += [f"{60 * tally.runs / wall_s:.3g} runs/min", f"{duration(left_s)} left"]
    return f"{name:<10} {', '.join(parts)}"


def stage_lines(tally: Tally, now_s: float) -> list[str]:
    """Return a line for each stage that has begun."""
    begun = [name for name, stage in tally.stages.items() if stage.began_s is not None]
    return [stage_line(name, tally, now_s) for name in begun]


def summary(tally: Tally) -> list[str]:
    """Return a summary of an ended campaign: cells, runs, wall time and reports."""
    wall = duration((tally.ended_s or time.time()) - tally.began_s)
    lines = []
    if MEASURE in tally.stages:
        cells, invalid = tally.stages[MEASURE], sum(tally.invalid.values())
        found = f"{invalid} invalid ({_first([*tally.invalid])})" if invalid else "none invalid"
        lines = [f"losslab: {cells.done} of {cells.total} cells, {tally.runs} runs, {found}"]
    if tally.complete:
        # Hidden folders hold intermediate files.
        reports = [f"  {path}" for path in tally.targets if not path.startswith(".")]
        return [*lines, f"losslab: done in {wall}" + (":" if reports else ""), *reports]
    failed = f", failed: {_first(tally.failures)}" if tally.failures else ""
    return [*lines, f"losslab: stopped after {wall}{failed}; {KEPT}"]


def _first(names: Sequence[str]) -> str:
    more = [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return ", ".join([*names[:SHOWN], *more])
