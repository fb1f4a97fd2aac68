"""Run a job on any backend."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from collections.abc import Iterator

from losslab import interrupts, processes
from losslab.backends.base import (
    CLEAN,
    CONSOLE_FILE,
    JOB_FILE,
    SCRATCH_FULL_BYTES,
    STARTED,
    Backend,
    End,
    Instrument,
    Job,
    Outcome,
    Start,
)
from losslab.errors import HostError, LosslabError

# In real time, more frequent polling would take CPU time from the measurement.
START_POLL_S, POLL_S = 0.05, 0.5
# Share of a job's limit after which it is mentioned. Usual jobs take a tenth of their limit.
NOTE_SHARE = 0.15


def run(backend: Backend, tools: Instrument, job: Job) -> Outcome:
    """Run one job to its end; if this process is interrupted or killed, the job ends, too.

    Raises HostError if there is no room for the job's files; also see `Backend.result`.
    """
    try:
        with backend.start(tools, job) as start:
            begin = time.monotonic() - start.before_s
            end = wait_for_end(start, job)
        console = (job.folder / CONSOLE_FILE).read_text(errors="replace")
    except OSError as error:
        raise HostError(
            f"a job's files must fit into its scratch folder and into {job.folder.parent}, "
            f"found: {error}",
            hint="free disk space there, or set LOSSLAB_SCRATCH, and start again; finished "
            "replicates are kept",
        ) from error
    wall_s = time.monotonic() - begin
    try:
        return Outcome(backend.result(job, end, console), console, wall_s)
    except LosslabError:
        # The next job starts from a new snapshot.
        if job.snapshots is not None:
            job.snapshots.drop()
        raise


def wait_for_end(start: Start, job: Job) -> End:
    """Run a job's process until its end or its time limit; then clean up."""
    with begun(start, job) as process:
        return _wait(process, start, job)


@contextlib.contextmanager
def begun(start: Start, job: Job) -> Iterator[processes.Running]:
    """Run a job's process during the block; end it and clean up after it."""
    text = json.dumps(job.spec | dict(start.more), indent=1, sort_keys=True)
    (job.folder / JOB_FILE).write_text(text + "\n")
    with (job.folder / CONSOLE_FILE).open("wb") as console:
        process = start.begin(console)
        try:
            yield process
        finally:
            processes.end_session(process, start.patience_s)
            if process.returncode != 0 and start.clean_up is not None:
                start.clean_up()


def _wait(process: processes.Running, start: Start, job: Job) -> End:
    begin, full, noted_s = time.monotonic(), False, 0.0
    while True:
        if job.spec["kind"] != CLEAN:  # a cleanup continues while this process ends
            interrupts.heed()
        started = start.start_limit_s is None or (job.folder / STARTED).exists()
        status = processes.wait(process, POLL_S if started else START_POLL_S)
        if status is not None:
            return End(status, full)
        if start.scratch is not None:
            full = full or shutil.disk_usage(start.scratch).free < SCRATCH_FULL_BYTES
        limit_s = job.timeout_s
        if time.monotonic() - begin > noted_s + limit_s * NOTE_SHARE:
            noted_s = time.monotonic() - begin
            print(
                f"losslab: note: a run has not ended after {noted_s:.0f} s of wall time; it is "
                f"ended after {limit_s:g} s. An endless loop in your kernel code has the same "
                "effect, and so has a program that polls without a wait: its time stands still",
                file=sys.stderr, flush=True,
            )  # fmt: skip
        if not started and start.start_limit_s is not None:
            limit_s = min(start.start_limit_s, limit_s)
        if time.monotonic() - begin > limit_s:
            return End(None, full)
