"""Progress of a campaign: a bar on a terminal, or else a line per ten cells.

The bar has the cells that are done, the runs that are invalid, the time left, and below it the jobs
under way. Cells with invalid runs, failed jobs with the end of their logs, and a last line stay on
the screen.
"""

from __future__ import annotations

import textwrap
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from losslab.campaign.results import read_cell
from losslab.errors import LosslabError

# Jobs under way that the screen names, lines of a failed job's log, and characters of a reason.
MAX_NAMES, MAX_LOG_LINES, MAX_REASON = 4, 30, 160
# Cells per line without a terminal.
CELLS_PER_LINE = 10
# Estimated time of a job that measures no cell.
OTHER_JOB_S = 5.0
REFRESH_PER_S = 4
# Free columns at the right, where the terminal shows ^C without moving the bar to another line.
MARGIN = 3


@dataclass(frozen=True)
class Job:
    """A job under way; `cell` is its cell.json if it measures a cell."""

    name: str
    logs: tuple[Path, ...] = ()
    cell: Path | None = None
    start_s: float = field(default_factory=time.monotonic)


class Progress:
    """The jobs of a run of the workflow, by their numbers."""

    def __init__(self, stream: TextIO, color: bool = True) -> None:
        """Show nothing before `begin`, except messages."""
        self._console = Console(file=stream, highlight=False, no_color=not color)
        self._live: Live | None = None
        self._jobs = self._cells = 0
        self._jobs_done = self._cells_started = self._cells_done = self._invalid_runs = 0
        self._interrupted = False
        self._under_way: dict[int, Job] = {}
        self._failed: dict[int, Job] = {}
        # Estimated seconds of one core, by cell.json.
        self._cost_s: Mapping[str, float] = {}
        self._done_s = 0.0
        # Times of the monotonic clock.
        self._begin_s = self._rate_since_s = time.monotonic()
        self._end_s: float | None = None

    def expect(self, cost_s: Mapping[str, float]) -> None:
        """Set the estimated seconds of each cell that will be measured, by its cell.json."""
        self._cost_s = cost_s

    def begin(self, jobs: int, cells: int) -> None:
        """Show the bar of a number of jobs, of which some measure cells."""
        self._jobs, self._cells = jobs, cells
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(
                console=self._console, get_renderable=self._screen, transient=True,
                refresh_per_second=REFRESH_PER_S,
            )  # fmt: skip
            self._live.start()

    def start(self, number: int, job: Job) -> None:
        """Show that a job is under way."""
        first_cell = job.cell and not self._cells_started
        if first_cell or not (self._under_way or self._jobs_done):
            # The kernel may have been built between the first job and the first cell.
            self._rate_since_s = job.start_s
        self._cells_started += job.cell is not None
        self._under_way[number] = job

    def finish(self, number: int) -> None:
        """Show that a job is done, and the invalid runs of its cell."""
        job = self._under_way.pop(number, None)
        self._failed.pop(number, None)  # an earlier attempt
        if job is None:
            return
        self._jobs_done += 1
        self._cells_done += job.cell is not None
        self._done_s += self._cost(job)
        self._estimate_end()
        if job.cell:
            self._show_invalid_runs(job.cell)
        if self._live is None:
            self._show_line(job)

    def _show_line(self, job: Job) -> None:
        """Print the state after some cells, and every other job that is done."""
        if not job.cell:
            if self._jobs_done < self._jobs:
                self.say(f"losslab: {job.name}: done, {self._jobs_done} of {self._jobs} jobs")
        elif self._cells_done % CELLS_PER_LINE == 0 or self._cells_done == self._cells:
            self.say(f"losslab: {self._state()}")

    def fail(self, number: int) -> None:
        """Show the end of the logs of a job that failed, unless the user interrupted it."""
        job = self._under_way.pop(number, None)
        if job is None or self._interrupted:
            return
        self._failed[number] = job
        self.say(f"losslab: error: {job.name} failed", style="red")
        for log in job.logs:
            self.say("\n  ".join([f"  end of {log}:", *_last_lines(log)]))

    def interrupt(self) -> None:
        """Note that the user ends the run, which kills the jobs under way."""
        self._interrupted = True
        self.say("losslab: interrupted; stopping the jobs under way")

    def say(self, text: str, style: str = "") -> None:
        """Print a message that stays on the screen."""
        self._console.print(Text(text, style=style), soft_wrap=True)

    def close(self) -> None:
        """Remove the bar; print what was done, and the logs of failed jobs."""
        if self._live:
            self._live.stop()
            self._live = None
        if self._jobs == 0:
            return
        counts = f"{self._jobs_done} of {self._jobs} jobs"
        if self._cells:
            counts = f"{self._cells_done} of {self._cells} cells, {counts}"
        took = duration(time.monotonic() - self._begin_s)
        self.say(f"losslab: {counts} done in {took}{self._invalid_text()}")
        for job in self._failed.values():
            logs = ", ".join(map(str, job.logs)) or "none"
            self.say(f"losslab: error: {job.name} failed; its log: {logs}", style="red")
        if self._interrupted:
            self.say("losslab: interrupted; the same command continues")
        self._jobs = 0

    # Estimates

    def _cost(self, job: Job) -> float:
        return self._cost_s.get(str(job.cell), OTHER_JOB_S)

    def _estimate_end(self) -> None:
        """Estimate the end from the work per second so far; jobs under way are half done."""
        if self._cells_done == 0 < self._cells:
            return  # builds of kernel and images tell nothing about cells
        others = self._jobs - len(self._cost_s)
        total_s = sum(self._cost_s.values()) + OTHER_JOB_S * others
        done_s = self._done_s + sum(map(self._cost, self._under_way.values())) / 2
        now_s = time.monotonic()
        elapsed_s = now_s - self._rate_since_s
        self._end_s = now_s + elapsed_s * max(0.0, total_s - done_s) / done_s

    # What is shown

    def _show_invalid_runs(self, cell: Path) -> None:
        """Print the number of a cell's invalid runs, if there are any, and a reason."""
        try:
            runs = read_cell(cell).rows
        except (LosslabError, OSError):
            return  # the rules that read it report the error
        invalid = [run for run in runs if not run["valid"]]
        self._invalid_runs += len(invalid)
        if invalid:
            reasons = dict.fromkeys(reason for run in invalid for reason in run["reasons"])
            reason = textwrap.shorten("; ".join(reasons), MAX_REASON, placeholder=" ...")
            name = f"{cell.parent.parent.name}/{cell.parent.name}"
            self.say(
                f"losslab: {name}: {len(invalid)} of {len(runs)} runs invalid: {reason}",
                style="yellow",
            )

    def _invalid_text(self) -> str:
        runs = "run" if self._invalid_runs == 1 else "runs"
        return f", {self._invalid_runs} {runs} invalid" if self._cells else ""

    def _state(self) -> str:
        """Return the counts and the time left."""
        if self._cells_done < self._cells:
            counts = f"{self._cells_done} of {self._cells} cells"
        else:
            counts = f"{self._jobs_done} of {self._jobs} jobs"
        left_s = self._end_s - time.monotonic() if self._end_s else 0.0
        left = f", {duration(left_s)} left" if left_s > 0 else ""
        return f"{counts}{self._invalid_text()}{left}"

    def _screen(self) -> Group:
        """Return the bar with the jobs under way."""
        # Jobs start and end in another thread.
        jobs = list(self._under_way.values())
        line = Table.grid(expand=True, padding=(0, 1))
        line.add_column(ratio=1)
        line.add_column(no_wrap=True)
        bar = ProgressBar(total=max(1, self._jobs), completed=self._jobs_done)
        line.add_row(bar, Text(self._state(), style="yellow" if self._invalid_runs else ""))
        names = Table.grid(expand=True, padding=(0, 1))
        names.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        names.add_column(no_wrap=True, justify="right")
        for job in jobs[:MAX_NAMES]:
            names.add_row(
                Text(f"  {job.name}"), Text(duration(time.monotonic() - job.start_s), style="dim")
            )
        if len(jobs) > MAX_NAMES:
            names.add_row(Text(f"  and {len(jobs) - MAX_NAMES} more", style="dim"), "")
        line.width = names.width = self._console.width - MARGIN
        return Group(line, names)


def duration(seconds: float) -> str:
    """Return a time as text: in seconds, minutes, or hours and minutes."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def _last_lines(log: Path) -> list[str]:
    try:
        with log.open(errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, MAX_LOG_LINES)] or ["(empty)"]
    except OSError as error:
        return [f"({error.strerror})"]
