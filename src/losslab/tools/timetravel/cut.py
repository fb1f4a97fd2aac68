"""A guest in the middle of its job, at its cut, and the futures that are forked from it.

A fork of such a guest continues exactly as the guest would have done without the cut (kernel patch
0015). Its files lie in its job's folder; a fork, which is one of its futures, gets copies of them.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from losslab import processes
from losslab.backends import resources, runner
from losslab.backends.base import (
    CONSOLE_FILE,
    Backend,
    End,
    Instrument,
    Job,
    Needs,
    Outcome,
    Start,
)
from losslab.backends.snapshot import Fork, Snapshot, control_sockets
from losslab.errors import LosslabError
from losslab.study.condition import Condition


@dataclass(frozen=True)
class Cut:
    """A guest in the middle of its job, at its cut."""

    snapshot: Snapshot
    backend: Backend
    tools: Instrument
    job: Job

    def future(
        self, folder: Path, orders: Sequence[str] = (), more: Callable[[Path], None] | None = None
    ) -> Outcome:
        """Fork the guest and run its job to the end; arguments as of `fork`.

        Raises LosslabError if the job fails, as in `backends.runner.run`.
        """
        task = self._task(folder, more)
        return runner.run(_Future(self, tuple(orders)), self.tools, task)

    @contextlib.contextmanager
    def again(
        self, folder: Path, orders: Sequence[str] = (), more: Callable[[Path], None] | None = None
    ) -> Iterator[Cut]:
        """Fork the guest, and wait for another cut, which one of the orders asks for."""
        with cut(_Future(self, tuple(orders)), self.tools, self._task(folder, more)) as found:
            yield replace(found, backend=self.backend)

    def _task(self, folder: Path, more: Callable[[Path], None] | None) -> Job:
        """Copy the guest's files to an existing folder, and return the job of a future there."""
        without = shutil.ignore_patterns(CONSOLE_FILE)
        # A guest with containers has a link to their image.
        shutil.copytree(self.job.folder, folder, symlinks=True, ignore=without, dirs_exist_ok=True)
        if more is not None:
            more(folder)
        return replace(self.job, folder=folder, control=None, snapshots=None)


@dataclass(frozen=True)
class _Future:
    """Backend of the futures of a cut."""

    past: Cut
    orders: tuple[str, ...]

    @property
    def needs(self) -> Needs:
        return self.past.backend.needs

    def ready(self, image_root: Path, condition: Condition) -> dict[str, Any]:
        return self.past.backend.ready(image_root, condition)

    @contextlib.contextmanager
    def start(self, tools: Instrument, job: Job) -> Iterator[Start]:
        with resources.own_cpu() as cpu:

            def begin(_: object) -> Fork:
                return self.past.snapshot.fork_future(job.folder, cpu, self.orders, job.control)

            yield Start(begin, scratch=self.past.snapshot.folder)

    def result(self, job: Job, end: End, console: str) -> dict[str, Any]:
        return self.past.backend.result(job, end, console)


@contextlib.contextmanager
def cut(backend: Backend, tools: Instrument, job: Job) -> Iterator[Cut]:
    """Run a job up to the cut that its guest asks for; end the guest after the block.

    Raises LosslabError if the guest failed or ended before the cut.
    """
    ours, theirs = control_sockets()
    with ours, contextlib.ExitStack() as stack:
        with theirs:
            start = stack.enter_context(backend.start(tools, replace(job, control=theirs.fileno())))
            process = stack.enter_context(runner.begun(start, job))
        snapshot = Snapshot(ours, job.folder / CONSOLE_FILE)
        if not snapshot.ready(job.timeout_s):
            status = processes.wait(process, 0.0)
            console = (job.folder / CONSOLE_FILE).read_text(errors="replace")
            backend.result(job, End(status), console)  # raises the error of a failed job
            raise LosslabError("a cut must come before the replicate's end, found it after")
        yield Cut(snapshot, backend, tools, job)
