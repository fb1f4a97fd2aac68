"""Kill workflows and commands at random times; the next start must give the same bytes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.faults.damage import CAMPAIGN, TARGETS, results_of
from bench.faults.kit import (
    LOSSLAB,
    QUICK,
    ROOT,
    SNAKEMAKE,
    contents,
    descendants,
    start,
    status_of,
)

WORKFLOW, SWEEP, EXPORT = "workflow", "sweep", "export"
REPLICATES = 2
# Signals of the out-of-memory killer, of an operator, and of Ctrl-C.
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
# Targets: the command alone, its whole session, or one process of it.
COMMAND, ALL, ONE = "the process that was started", "all processes", "one process"
SAME, KEPT, WRONG = "same bytes at once", "same bytes after the next start", "WRONG"


@dataclass(frozen=True)
class Subject:
    """A command to kill."""

    command: Callable[[Path], list[str]]  # for an output folder
    results: Callable[[Path], dict[str, bytes]]  # which kills must not change


def _workflow(folder: Path) -> list[str]:
    config = folder / "small.yaml"
    config.write_text(CAMPAIGN.format(replicates=REPLICATES))
    return [
        *SNAKEMAKE, "--cores", "2", "--configfile", str(config), "--directory", str(folder),
        *TARGETS,
    ]  # fmt: skip


def _sweep(folder: Path) -> list[str]:
    return [
        *LOSSLAB, "sweep", *QUICK, "--rtt-ms", "1,2", "--replicates", str(REPLICATES),
        "--out", str(folder / "out"),
    ]  # fmt: skip


def _export(folder: Path) -> list[str]:
    run = folder.parent / "measured"
    if not run.exists():
        subprocess.run(
            [*LOSSLAB, "measure", *QUICK, "--out", str(run)], cwd=ROOT, check=True,
            capture_output=True,
        )  # fmt: skip
    return [*LOSSLAB, "export", str(run), "--qlog", "--out", str(folder / "run.qlog")]


def _sweeps_results(folder: Path) -> dict[str, bytes]:
    out = folder / "out"
    files = [path for path in out.iterdir() if path.is_file()] if out.is_dir() else []
    found = {path.name: path.read_bytes() for path in files}
    for manifest in out.glob("cells/*/[0-9]/manifest.json"):
        its = contents(manifest.parent)
        found |= {f"{manifest.parent.relative_to(out)}/{name}": its[name] for name in its}
    return found


SUBJECTS = {
    WORKFLOW: Subject(_workflow, lambda folder: results_of(folder / "results")),
    SWEEP: Subject(_sweep, _sweeps_results),
    EXPORT: Subject(_export, lambda f: {p.name: p.read_bytes() for p in f.glob("*.qlog")}),
}


@dataclass(frozen=True)
class Reference:
    """Results and duration of an undisturbed command."""

    results: dict[str, bytes]
    took_s: float


def reference(name: str, folder: Path) -> Reference:
    """Run a command to its end."""
    its = SUBJECTS[name]
    command = its.command(folder)
    begin = time.monotonic()
    status = status_of(start(command, folder / "words"))
    if status != 0:
        raise RuntimeError(f"the undisturbed {name} must succeed, found: {_words(folder)}")
    return Reference(its.results(folder), time.monotonic() - begin)


def kill_one(name: str, folder: Path, expected: Reference, draw: random.Random) -> tuple[str, str]:
    """Kill a command at a random time, and start it again unless it succeeded.

    Returns:
        The target of the signal, and the outcome with the findings.
    """
    its = SUBJECTS[name]
    command = its.command(folder)
    number = draw.choice(SIGNALS)
    whom = draw.choice((COMMAND, COMMAND, ALL, ONE))
    after_s = draw.uniform(0, expected.took_s)
    done = f"{number.name} to {whom} of {name} after {after_s:.2f} s"
    job = start(command, folder / "words")
    with contextlib.suppress(subprocess.TimeoutExpired):
        job.wait(after_s)
    _signal(job, number, whom, draw)
    status, words = status_of(job), _words(folder)
    if status == 0 and its.results(folder) == expected.results:
        return done, SAME
    if status == 0 or crashed(words):
        return done, f"{WRONG}: exit status {status}: {words}"
    status = 0
    # A complete export is not written again.
    if not (name == EXPORT and its.results(folder)):
        status = status_of(start(command, folder / "words"))
    if status == 0 and its.results(folder) == expected.results:
        return done, KEPT
    return done, f"{WRONG}: {words}; then exit status {status}: {_words(folder)}"


def crashed(words: str) -> bool:
    """Return whether a program's output has a traceback.

    Python prints one, too, for an interrupt before the program's first function.
    """
    _, *traces = words.split("Traceback (most")
    return any(" in main" in trace or "KeyboardInterrupt" not in trace for trace in traces)


def _signal(
    job: subprocess.Popen[bytes], number: signal.Signals, whom: str, draw: random.Random
) -> None:
    below = descendants(job.pid)
    pids = {COMMAND: [job.pid], ALL: [job.pid, *below], ONE: below and [draw.choice(below)]}[whom]
    for pid in pids if job.poll() is None else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _words(folder: Path) -> str:
    return (folder / "words").read_text(errors="replace").strip()
