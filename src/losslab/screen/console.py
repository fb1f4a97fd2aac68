"""The screen of a running workflow: one line that is kept up to date, or a line now and then."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path
from typing import IO

from losslab.screen import words
from losslab.screen.cells import Cells, Count
from losslab.screen.stages import FOLDER, MEASURE, Stage, Tally

# How often the line is brought up to date; counting a thousand cells takes some 30 ms.
REFRESH_S = 2.0
# Where there is no terminal, as in a log: often enough to see that it goes on.
LOG_REFRESH_S = 60.0
LOG_LINES = 20  # of a failed job's log
# What a command of losslab says last when it was; it may say so before Snakemake does.
INTERRUPTED = "losslab: interrupted: "
CLEAR = "\r\033[K"


class Console:
    """Writes what a reader wants to know of a workflow, and leaves it for `losslab status`."""

    def __init__(self, stream: IO[str], root: Path) -> None:
        """Write to a stream of a workflow that runs in `root`."""
        self._stream, self._root = stream, root
        self._terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._drawn = self._interrupted = False
        self._cells: Cells | None = None
        self._thread: threading.Thread | None = None
        self.tally = Tally(began_s=time.time())

    def plan(self, counts: dict[str, int]) -> None:
        """Begin: the workflow says how many jobs of each rule it has."""
        with self._lock:
            self.tally.plan(counts)
            self.tally.write(self._root / FOLDER)
        if self._thread is None:
            self._thread = threading.Thread(target=self._refresh, daemon=True)
            self._thread.start()

    def start(self, job: int, rule: str) -> None:
        """Note that a job starts."""
        with self._lock:
            self.tally.start(job, rule, time.time())

    def finish(self, job: int) -> None:
        """Note that a job has ended well; where its stage has, it gets its last line."""
        with self._lock:
            over = self.tally.finish(job, time.time())
            if over is not None:
                self._stage_over(over)

    def fail(self, job: int, rule: str, what: str, logs: list[str]) -> None:
        """Tell of a job that failed, with the end of its log."""
        with self._lock:
            if any(line.startswith(INTERRUPTED) for log in logs for line in self._last_lines(log)):
                self.interrupt()
            if self._interrupted:
                return
            self.tally.fail(job, rule, what)
            self.say(f"FAILED: {what}")
            for log in logs:
                self.say(f"  {log}:")
                for line in self._last_lines(log):
                    self.say(f"    {line}")
            self.tally.write(self._root / FOLDER)

    def interrupt(self) -> None:
        """Note that the user ends it: what jobs say from now on is no failure."""
        with self._lock:
            if not self._interrupted:
                self._interrupted = True
                self.say("losslab: interrupted; ending what is at work")

    def complain(self, words: str) -> None:
        """Tell of what Snakemake has to say, unless it only says that it was interrupted."""
        if not self._interrupted:
            self.say(words)

    def _last_lines(self, log: str) -> list[str]:
        try:
            text = (self._root / log).read_text(errors="replace")
        except OSError:
            return ["(no log)"]
        return text.splitlines()[-LOG_LINES:] or ["(an empty log)"]

    def say(self, line: str) -> None:
        """Write a line that stays."""
        with self._lock:
            if self._drawn:
                self._stream.write(CLEAR)
                self._drawn = False
            self._stream.write(line + "\n")
            self._stream.flush()

    def end(self) -> None:
        """Write how it ended, once, unless it never began."""
        if self._thread is None or self._ended.is_set():
            return
        self._ended.set()
        self._thread.join()
        with self._lock:
            self.tally.ended_s = time.time()
            self.tally.write(self._root / FOLDER)
            now_s = self.tally.ended_s
            for name, stage in self.tally.stages.items():
                if stage.under_way:
                    waits = words.waits(name, self.tally)
                    self.say(words.stage_line(name, stage, self._todo(), now_s, waits))
            cells = self._open()
            for line in words.summary(self.tally, cells.every() if cells else None, now_s):
                self.say(line)

    def _stage_over(self, stage: Stage) -> None:
        name = next(name for name, each in self.tally.stages.items() if each is stage)
        count = self._todo() if name == MEASURE else None
        self.say(words.stage_line(name, stage, count, time.time()))

    def _open(self) -> Cells | None:
        """Find what the campaign measures, once it has said so."""
        if self._cells is None:
            self._cells = Cells.of(self._root / FOLDER, self._root)
        return self._cells

    def _todo(self) -> Count | None:
        cells = self._open()
        return cells.todo() if cells else None

    def _refresh(self) -> None:
        """Keep the line up to date until the end."""
        said_s = time.time()
        while not self._ended.wait(REFRESH_S):
            with self._lock:
                now_s = time.time()
                self.tally.write(self._root / FOLDER)
                if not self._terminal and now_s - said_s < LOG_REFRESH_S:
                    continue
                said_s = now_s
                active = {n: stage for n, stage in self.tally.stages.items() if stage.under_way}
                count = self._todo() if MEASURE in active else None
                if self._terminal:
                    self._draw(words.short_line(active, count, now_s))
                    continue
                for name, stage in active.items():
                    if not words.waits(name, self.tally):
                        self.say(words.stage_line(name, stage, count, now_s))

    def _draw(self, text: str) -> None:
        """Put a text in the place of the last, on one line of the terminal."""
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(CLEAR + text[:width])
        self._stream.flush()
        self._drawn = bool(text)
