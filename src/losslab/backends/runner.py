"""Run a job on any backend."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from losslab import interrupts, processes
from losslab.backends import base, crash
from losslab.backends.base import Backend, End, Instrument, Job, Outcome, Start
from losslab.errors import HostError, LosslabError
from losslab.lock import own_folder

# In real time, more frequent polling would take CPU time from the measurement.
START_POLL_S, POLL_S = 0.05, 0.5
# Share of a job's limit after which it is mentioned. Usual jobs take a tenth of their limit.
NOTE_SHARE = 0.15
# Size of a guest's console above which its middle is left out while it still runs.
CONSOLE_BYTES = 2**24


def run(backend: Backend, tools: Instrument, job: Job, repeatable: bool = True) -> Outcome:
    """Run one job to its end; if this process is interrupted or killed, the job ends, too.

    If its guest's kernel crashes, a `repeatable` job runs again to find where. Raises HostError if
    there is no room for the job's files; also see `Backend.result`.
    """
    try:
        with backend.start(tools, job) as start:
            begin = time.monotonic() - start.before_s
            end = wait_for_end(start, job)
        base.shorten(job.folder / base.CONSOLE_FILE)
        console = (job.folder / base.CONSOLE_FILE).read_text(errors="replace")
        if backend.needs.guest and end.status != 0:

            def again() -> list[int]:
                return _traced(backend, tools, job) if repeatable and not job.interactive else []

            found = crash.explained(tools.kernel, console, end.spun, again)
            end = replace(end, crash=found)
    except OSError as error:
        raise HostError(
            f"a job's files must fit into its scratch folder and into {job.folder.parent}, "
            f"found: {error}",
            hint="free disk space there, or set LOSSLAB_SCRATCH, and start again; finished "
            "replicates are kept",
        ) from error
    wall_s = time.monotonic() - begin
    try:
        return Outcome(backend.result(job, end, console), wall_s)
    except LosslabError:
        # The next job starts from a new snapshot.
        if job.snapshots is not None:
            job.snapshots.drop()
        raise


def _traced(backend: Backend, tools: Instrument, job: Job) -> list[int]:
    """Run a job again in a guest of its own, and return where its kernel crashes."""
    with own_folder(job.folder.parent, "losslab-again-") as folder:

        def made(inside: str, names: list[str]) -> list[str]:
            return [n for n in names if n in base.ENDED_FILES or Path(inside, n).is_symlink()]

        shutil.copytree(job.folder, folder, ignore=made, dirs_exist_ok=True)
        again = replace(job, folder=folder, alone=True, snapshots=None, control=None)
        try:
            with backend.start(tools, again) as start, begun(start, again) as process:
                return crash.traced(process.pid, job.timeout_s)
        except OSError:  # of ptrace(2) or the copy
            return []


def wait_for_end(start: Start, job: Job) -> End:
    """Run a job's process until its end or its time limit; then clean up."""
    with begun(start, job) as process:
        return _wait(process, start, job)


@contextlib.contextmanager
def begun(start: Start, job: Job) -> Iterator[processes.Running]:
    """Run a job's process during the block; end it and clean up after it."""
    text = json.dumps(job.spec | dict(start.more), indent=1, sort_keys=True)
    (job.folder / base.JOB_FILE).write_text(text + "\n")
    # Appended to, because `shorten` may act before the end.
    with (job.folder / base.CONSOLE_FILE).open("ab") as console:
        process = start.begin(console)
        try:
            yield process
        finally:
            processes.end_session(process, start.patience_s)
            if process.returncode != 0 and start.clean_up is not None:
                start.clean_up()


def _wait(process: processes.Running, start: Start, job: Job) -> End:
    begin, full, noted_s, spin = time.monotonic(), False, 0.0, crash.Spin(process.pid)
    while True:
        if job.spec["kind"] != base.CLEAN:  # a cleanup continues while this process ends
            interrupts.heed()
        started = start.start_limit_s is None or (job.folder / base.STARTED).exists()
        status = processes.wait(process, POLL_S if started else START_POLL_S)
        if status is not None:
            return End(status, full)
        if start.scratch is not None:
            full = full or shutil.disk_usage(start.scratch).free < base.SCRATCH_FULL_BYTES
            base.shorten(job.folder / base.CONSOLE_FILE, most_bytes=CONSOLE_BYTES)
            if (spins := spin.whose()) == "kernel":
                return End(None, full, spin.addresses())
            if spins:
                return End(None, full, program_spun=True)
        limit_s = job.timeout_s
        if time.monotonic() - begin > noted_s + limit_s * NOTE_SHARE:
            noted_s = time.monotonic() - begin
            print(
                f"losslab: note: a run has not ended after {noted_s:.0f} s of wall time; it is "
                f"ended after {limit_s:g} s. A program that polls without a wait has the same "
                "effect: its time stands still",
                file=sys.stderr, flush=True,
            )  # fmt: skip
        if not started and start.start_limit_s is not None:
            limit_s = min(start.start_limit_s, limit_s)
        if time.monotonic() - begin > limit_s:
            return End(None, full)
