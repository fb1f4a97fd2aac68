"""Progress display of a workflow: a bar per stage, or in a log a line per stage and minute."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from losslab.ui import status
from losslab.ui.progress import FOLDER, MEASURE, Tally

REFRESH_S = 1.0
LOG_REFRESH_S = 60.0
BAR_WIDTH = 20  # characters
LOG_LINES = 20  # of a failed job's log
# Last line of an interrupted job, which may arrive before Snakemake's own message.
INTERRUPTED = "losslab: interrupted: "


class Screen:
    """Display of a workflow's progress, which is also written for `losslab status`."""

    def __init__(self, stream: IO[str], root: Path) -> None:
        """Display the progress of a workflow that runs in `root` on a stream."""
        self._root = root
        self.tally = Tally(began_s=time.time())
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._live = Live(
            console=self._console, get_renderable=self._bars, refresh_per_second=1 / REFRESH_S,
            transient=True, redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._ended = threading.Event()
        self._began = self._interrupted = False

    def plan(self, counts: dict[str, int]) -> None:
        """Start the display with the number of jobs of each rule."""
        self.tally.plan(counts)
        self._write()
        if self._began:
            return
        self._began = True
        if self._console.is_terminal:
            self._live.start()
            self._console.show_cursor()  # a killed workflow could not restore it
        else:
            threading.Thread(target=self._log, daemon=True).start()

    def start(self, job: int, rule: str, outputs: list[str]) -> None:
        """Record that a job starts."""
        self.tally.start(job, rule, outputs, time.time())
        self._write()

    def finish(self, job: int) -> None:
        """Record that a job succeeded; print a line for a complete stage."""
        stage = self.tally.finish(job, self._root, time.time())
        self._write()
        if stage is not None:
            self.say(status.stage_line(stage, self.tally, time.time()))

    def fail(self, job: int, title: str, logs: list[str]) -> None:
        """Report a failed job with the end of its log."""
        tails = {log: self._last_lines(log) for log in logs}
        if any(line.startswith(INTERRUPTED) for lines in tails.values() for line in lines):
            self.interrupt()
        if self._interrupted:
            return
        self.tally.fail(job, title)
        self._write()
        self.say(f"FAILED: {title}")
        for log, lines in tails.items():
            self.say("\n".join([f"  {log}:", *(f"    {line}" for line in lines)]))

    def interrupt(self) -> None:
        """Record an interrupt by the user: later messages of jobs are not failures."""
        if not self._interrupted:
            self._interrupted = True
            self.say("losslab: interrupted; stopping running jobs")

    def warn(self, message: str) -> None:
        """Show a message of Snakemake unless the workflow was interrupted."""
        if not self._interrupted:
            self.say(message)

    def say(self, text: str) -> None:
        """Print permanent lines."""
        self._console.print(Text(text), soft_wrap=True)

    def end(self) -> None:
        """Print a summary once, if the display was started."""
        if not self._began or self._ended.is_set():
            return
        self._ended.set()
        self._live.stop()
        self.tally.ended_s = time.time()
        self._write()
        for name in self._active():
            self.say(status.stage_line(name, self.tally, time.time()))
        self.say("\n".join(status.summary(self.tally)))

    def _write(self) -> None:
        self.tally.write(self._root / FOLDER)

    def _last_lines(self, log: str) -> list[str]:
        try:
            text = (self._root / log).read_text(errors="replace")
        except OSError:
            return ["(no log)"]
        return text.splitlines()[-LOG_LINES:] or ["(an empty log)"]

    def _active(self) -> list[str]:
        return [name for name, stage in [*self.tally.stages.items()] if stage.under_way]

    def _bars(self) -> Table:
        grid = Table.grid(padding=(0, 2, 0, 0))
        for name in self._active():
            stage, line = self.tally.stages[name], status.stage_line(name, self.tally, time.time())
            bar = ProgressBar(stage.total, stage.done, BAR_WIDTH)
            grid.add_row(bar, Text(line, no_wrap=True, overflow="ellipsis"))
        return grid

    def _log(self) -> None:
        """Print a line regularly for the measuring stage, or else for each active stage."""
        while not self._ended.wait(LOG_REFRESH_S):
            active = self._active()
            for name in [MEASURE] if MEASURE in active else active:
                self.say(status.stage_line(name, self.tally, time.time()))
