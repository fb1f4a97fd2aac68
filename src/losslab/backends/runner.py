"""Run a job on any backend."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

from losslab import interrupts, processes
from losslab.backends import base, crash
from losslab.backends.base import Backend, End, Instrument, Job, Outcome, Start
from losslab.backends.snapshot import Fork
from losslab.errors import HostError, LosslabError

# In real time, more frequent polling would take CPU time from the measurement.
START_POLL_S, POLL_S = 0.05, 0.5
PANIC_S = 10.0  # for a kernel to say where it is
# Share of a job's limit after which it is mentioned. Usual jobs take a tenth of their limit.
NOTE_SHARE = 0.15
# Size of a guest's console above which its middle is left out while it still runs.
CONSOLE_BYTES = 2**24


def run(backend: Backend, tools: Instrument, job: Job) -> Outcome:
    """Run one job to its end; if this process is interrupted or killed, the job ends, too.

    Raises HostError if there is no room for the job's files; also see `Backend.result`.
    """
    try:
        with backend.start(tools, job) as start:
            begin = time.monotonic() - start.before_s
            end = wait_for_end(start, job)
        base.refuse_long_logs(job.folder)
        base.shorten(job.folder / base.CONSOLE_FILE)
        console = (job.folder / base.CONSOLE_FILE).read_text(errors="replace")
        if backend.needs.guest and end.status != 0:
            end = replace(end, crash=crash.explained(tools.kernel, console, end.spun))
    except OSError as error:
        raise HostError(
            f"a job's files must fit into its scratch folder and into {job.folder.parent}, "
            f"found: {error}",
            hint="free disk space there, or set LOSSLAB_SCRATCH, and start again; finished "
            "replicates are kept",
        ) from error
    wall_s = time.monotonic() - begin
    try:
        return Outcome(backend.result(job, end, console), wall_s, end.cpu_s)
    except LosslabError:
        # The next job starts from a new snapshot.
        if job.snapshots is not None:
            job.snapshots.drop()
        raise


def wait_for_end(start: Start, job: Job) -> End:
    """Run a job's process until its end or its time limit; then clean up."""
    before_s = _children_s()
    with begun(start, job) as process:
        end = _wait(process, start, job)
    # A fork is a child of its snapshot.
    its_s = process.cpu_s if isinstance(process, Fork) else _children_s() - before_s
    return replace(end, cpu_s=its_s)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
        if base.long_logs(job.folder):  # they would fill the disk
            return End(None, full)
        if start.scratch is not None:
            full = full or shutil.disk_usage(start.scratch).free < base.SCRATCH_FULL_BYTES
            base.shorten(job.folder / base.CONSOLE_FILE, most_bytes=CONSOLE_BYTES)
            if (spins := spin.whose()) == "kernel":
                os.kill(process.pid, signal.SIGILL)
                return End(processes.wait(process, PANIC_S), full, spun=True)
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
