"""Kill processes of guests, workflows and commands at random; no outcome may be a wrong value.

`python -m bench.faults --kills 100` prints a line per kill and a table at the end. It exits with 1
if a kill left wrong bytes, or an invalid row that the next start keeps.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.faults import command_kills
from bench.faults.kit import Outcome, cell_command, contents, descendants, start, status_of
from losslab.instrument.cache import cache_folder

REPLICATES = 2
POLL_S = 0.01
RUNNER = "runner"
# A snapshot's processes are active until it waits; its forks have processes of their own.
KINDS = (RUNNER, "snapshot kernel", "snapshot process", "guest kernel", "guest process")
# Most of a guest's processes are ptrace stubs, one for each of its programs.
WEIGHTS = (1, 1, 2, 2, 6)
# Signals of the kernel's out-of-memory killer, and of an operator.
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)
SAME, LOST, HOST, ENDED, WRONG = "same bytes", "lost", "host error", "ended", command_kills.WRONG
# Base snapshot, cell's snapshot, and a replicate's guest, each a fork of the one before.
GENERATIONS = ("", "snapshot", "snapshot", "guest")
# Weights of the targets: a cell, and the subjects of `command_kills.SUBJECTS`.
CELL = "cell"
SUBJECT_WEIGHTS = (6, 1, 2, 1)


def host_processes(job: int) -> dict[str, list[int]]:
    """Return a cell's host processes by kind.

    A kernel leads a process group, a stub does not. The base snapshot's kernel is a child of the
    job, the cell's snapshot a child of that, and a replicate's guest a child of the cell's.
    """
    built = cache_folder() / "kernel"
    found: dict[str, list[int]] = {kind: [] for kind in KINDS}
    found[RUNNER].append(job)
    generations: dict[int, int] = {}
    for pid in descendants(job):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/exe").resolve().parent.parent != built:
                continue
            state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
            if state == "Z":
                continue
            group = os.getpgid(pid)
            if group == pid:
                generations[pid] = generations.get(int(parent), 0) + 1
                found[f"{GENERATIONS[generations[pid]]} kernel"].append(pid)
            elif group in generations:
                found[f"{GENERATIONS[generations[group]]} process"].append(pid)
    return found


@dataclass(frozen=True)
class Reference:
    """Results of an undisturbed cell."""

    files: dict[str, dict[str, bytes]]  # by replicate
    spans_s: dict[str, float]  # duration of the processes of each kind


def reference(folder: Path) -> Reference:
    """Measure the cell, and the time during which each kind of process exists."""
    seen: dict[str, list[float]] = {}
    job = _start(folder)
    while job.poll() is None:
        for kind, pids in host_processes(job.pid).items():
            if pids:
                seen.setdefault(kind, []).append(time.monotonic())
        time.sleep(POLL_S)
    if job.returncode != 0:
        raise RuntimeError(f"the undisturbed cell must be measured, found: {_words(folder)}")
    spans_s = {kind: times[-1] - times[0] for kind, times in seen.items()}
    return Reference(_replicates(folder), spans_s)


def kill_one(folder: Path, expected: Reference, draw: random.Random) -> tuple[str, str]:
    """Start a cell, kill one of its processes, and start it again unless it is complete.

    Returns:
        The killed process's kind, and the outcome with the findings.
    """
    kind = draw.choices(KINDS, WEIGHTS)[0]
    number = draw.choice(SIGNALS)
    done = ""
    # The second kill usually affects the retry.
    times = draw.choice([1, 1, 1, 2])
    while not done:
        job = _start(folder)
        for _ in range(times):
            after_s = draw.uniform(0, expected.spans_s[kind])
            done = "; ".join(filter(None, [done, _kill(job, kind, number, after_s, draw)]))
        status = status_of(job)
        if not done:  # the cell ended before the kill: repeat
            shutil.rmtree(folder)
    outcome = _outcome(folder, status, expected, ended=kind == RUNNER)
    if not outcome.startswith(SAME):
        last = _outcome(folder, status_of(_start(folder)), expected, ended=False)
        if not last.startswith(SAME):
            outcome = f"{WRONG}: {outcome}; after the next start: {last}"
    return done, outcome


def _kill(
    job: subprocess.Popen[bytes],
    kind: str,
    number: signal.Signals,
    after_s: float,
    draw: random.Random,
) -> str:
    """Signal a process of a kind, some time after the first one appears; return its description."""
    begin = None
    while job.poll() is None:
        pids = host_processes(job.pid)[kind]
        begin = begin or (time.monotonic() if pids else None)
        if pids and begin is not None and time.monotonic() - begin >= after_s:
            with contextlib.suppress(ProcessLookupError):
                os.kill(draw.choice(pids), number)
                return f"{number.name} to a {kind} after {after_s:.2f} s"
        time.sleep(POLL_S)
    return ""


def _start(folder: Path) -> subprocess.Popen[bytes]:
    return start(cell_command(folder, REPLICATES), folder.parent / f"{folder.name}.words")


def _words(folder: Path) -> str:
    return (folder.parent / f"{folder.name}.words").read_text(errors="replace").strip()


def _replicates(folder: Path) -> dict[str, dict[str, bytes]]:
    return {path.parent.name: contents(path.parent) for path in folder.glob("[0-9]/manifest.json")}


def _outcome(folder: Path, status: int, expected: Reference, ended: bool) -> str:
    """Return the outcome of a start; all but the expected outcomes are wrong.

    Args:
        folder: Folder of the cell.
        status: Exit status of its job.
        expected: The undisturbed cell.
        ended: Whether the job itself was signalled.
    """
    words = _words(folder)
    rows = []
    if (folder / "cell.json").exists():
        rows = json.loads((folder / "cell.json").read_text())["replicates"]
    lost = {str(number): row for number, row in enumerate(rows) if row["lost"]}
    wrong = _difference(folder, expected, without=lost)
    outcome = f"{WRONG}: exit status {status}, {len(rows)} rows: {words}"
    if wrong or command_kills.crashed(words):
        outcome = f"{WRONG}: {wrong or words}"
    elif status == 0 and lost:
        outcome = f"{LOST}: {next(iter(lost.values()))['reasons'][0]}"
    elif status == 0 and len(rows) == REPLICATES:
        outcome = SAME + (" after a retry" if any(row["attempt"] > 1 for row in rows) else "")
    elif not rows and ended:
        outcome = ENDED
    elif not rows and "losslab: error" in words:
        outcome = f"{HOST}: {words}"
    return outcome


def _difference(folder: Path, expected: Reference, without: Container[str]) -> str:
    """Describe the first replicate whose files differ from the undisturbed ones; empty if none."""
    for name, files in _replicates(folder).items():
        if name not in without and files != expected.files[name]:
            reasons = json.loads(files["manifest.json"])["reasons"]
            console = files.get("console.log", b"").decode(errors="replace")
            return f"replicate {name} differs: {reasons or 'valid'}; console: {console}"
    return ""


def kills(folder: Path, count: int, seed: int, say: bool) -> Counter[str]:
    """Kill `count` processes; return the number of each outcome by target."""
    draw = random.Random(seed)
    counts: Counter[str] = Counter()

    @functools.cache
    def expected(what: str) -> Any:
        (folder / what).mkdir()
        return (
            reference(folder / what)
            if what == CELL
            else command_kills.reference(what, folder / what)
        )

    for number in range(count):
        what = draw.choices((CELL, *command_kills.SUBJECTS), SUBJECT_WEIGHTS)[0]
        where = folder / f"kill{number}"
        if what == CELL:
            done, outcome = kill_one(where, expected(what), draw)
            kind = next(kind for kind in KINDS if f" a {kind} " in done)
        else:
            where.mkdir()
            done, outcome = command_kills.kill_one(what, where, expected(what), draw)
            kind = what
        name = outcome.partition(":")[0]
        counts[f"{kind}: {outcome if name == WRONG else name}"] += 1
        if say:
            print(f"{number}: {done}: {outcome}", flush=True)
    return counts


def randomly_killed_processes(folder: Path) -> Outcome:
    """Ten random kills of processes of cells, workflows and commands."""
    seed = random.SystemRandom().randrange(2**32)
    counts = kills(folder, 10, seed, say=False)
    return Outcome(
        f"ten processes killed at random instants (--kills 10 --seed {seed})",
        "; ".join(f"{name}, {count}x" for name, count in sorted(counts.items())),
        "nothing" if not _wrong(counts) else "a number, or an invalid row stays",
        good=not _wrong(counts),
    )


def table(folder: Path, count: int, seed: int) -> int:
    """Kill `count` processes, print the outcomes, and return the exit status."""
    counts = kills(folder, count, seed, say=True)
    for name, number in sorted(counts.items()):
        print(f"{number:5d}  {name}")
    return 1 if _wrong(counts) else 0


def _wrong(counts: Counter[str]) -> int:
    return sum(count for name, count in counts.items() if WRONG in name)
