"""Break things on purpose, and say what the user saw and what was lost.

`python -m bench.faults` runs the whole list and prints a line per fault; it exits with 1 when a
fault lost something or was not explained. What this machine cannot do is skipped with the reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from losslab.build import kernel
from losslab.build.cache import cache_folder
from losslab.replicate import HOST_FILE

ROOT = Path(__file__).resolve().parents[1]
LOSSLAB = [sys.executable, "-m", "losslab.cli"]
SNAKEMAKE = [str(Path(sys.executable).parent / "snakemake")]
# A cell that measures in a second or two.
QUICK = ["--algorithm", "cubic", "--loss-percent", "5", "--duration-s", "1", "--warmup-s", "0.1"]
CONDITION = {
    "algorithm": "cubic", "loss_percent": 5, "path": "symmetric", "app": "iperf3",
    "rtt_ms": 0.44, "rate_mbit": 1000, "buffer_packets": 1000, "duration_s": 1, "warmup_s": 0.1,
}  # fmt: skip
WAIT_S = 120.0


class SkippedError(Exception):
    """This machine cannot make the fault."""


@dataclass(frozen=True)
class Outcome:
    """What a fault was, what came of it."""

    done: str
    saw: str
    lost: str = "nothing"
    good: bool = True


def run(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command; return what it said."""
    return subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, cwd=ROOT,
        timeout=600, **options,
    )  # type: ignore[call-overload,no-any-return]  # fmt: skip


def first_line(text: str, having: str) -> str:
    """Find the line of a text that has a word."""
    return next((line.strip() for line in text.splitlines() if having in line), "")


def contents(folder: Path) -> dict[str, bytes]:
    """Read a replicate's files, but for the one that describes the host."""
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.name != HOST_FILE}


def wait_for(holds: Callable[[], object], what: str) -> None:
    """Poll until something holds."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {WAIT_S:g} s")
        time.sleep(0.05)


def cell_command(folder: Path, replicates: int) -> list[str]:
    """Write the command of a cell's job."""
    return [
        *LOSSLAB, "cell", "--study", "loss", "--block", "main", "--condition",
        json.dumps(CONDITION), "--out", str(folder / "cell.json"), "--replicates", str(replicates),
    ]  # fmt: skip


def descendants(pid: int) -> list[int]:
    """List the processes below one."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def guest_of(pid: int) -> int | None:
    """Find the guest's kernel below a losslab process."""
    for child in descendants(pid):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{child}/exe").resolve().parent.parent == cache_folder() / "kernel":
                return child
    return None


@contextlib.contextmanager
def campaign(folder: Path) -> Iterator[list[str]]:
    """Give the command that measures a campaign of one small block into a folder."""
    config = folder / "small.yaml"
    config.write_text(
        "studies:\n  loss:\n    main: {replicates: 2, duration_s: 1, warmup_s: 0.1}\n"
    )
    names = [f"cubic_loss{p}_symmetric_iperf3_rtt0.44_offloads-off" for p in (8, 9)]
    yield [
        *SNAKEMAKE, "--cores", "1", "--configfile", str(config), "--directory", str(folder),
        *(f"results/cells/loss/{name}/cell.json" for name in names),
    ]  # fmt: skip


def finished_replicates(folder: Path) -> dict[Path, dict[str, bytes]]:
    """Read every finished replicate of a campaign."""
    manifests = (folder / "results" / "cells").rglob("manifest.json")
    return {m.parent: contents(m.parent) for m in manifests if not m.parent.name.startswith(".")}


def killed_snakemake(folder: Path) -> Outcome:
    """kill -9 of Snakemake in mid-run, then the same command again."""
    with campaign(folder) as command:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for(lambda: finished_replicates(folder), "the first replicate")
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = finished_replicates(folder)
        again = run(*command)
    after = finished_replicates(folder)
    kept = all(after.get(path) == files for path, files in before.items())
    logs = "".join(p.read_text() for p in (folder / "logs").rglob("*.log"))
    return Outcome(
        "kill -9 of Snakemake in mid-run, then the same command again",
        f"it went on where it was: {first_line(logs, 'kept') or 'no replicate repeated'}",
        "nothing" if kept else "a finished replicate changed",
        good=again.returncode == 0 and kept and len(after) == 4,
    )


def killed_cell(folder: Path) -> Outcome:
    """kill -9 of a cell's job in mid-replicate, then again."""
    job = subprocess.Popen(cell_command(folder, 5), cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_for((folder / "0" / "manifest.json").exists, "the first replicate")
    wait_for(lambda: guest_of(job.pid), "the second guest")
    guest = guest_of(job.pid)
    before = contents(folder / "0")
    job.send_signal(signal.SIGKILL)
    job.wait()
    wait_for(lambda: not Path(f"/proc/{guest}").exists(), "the guest's end")
    again = run(*cell_command(folder, 2))
    kept = contents(folder / "0") == before
    return Outcome(
        "kill -9 of a job in mid-replicate, then again",
        f"the guest ended with its job; {first_line(again.stdout, 'kept')}",
        "nothing" if kept else "a finished replicate changed",
        good=again.returncode == 0 and kept and not list(folder.glob(".*")),
    )


def terminated_cell(folder: Path) -> Outcome:
    """SIGTERM, as Snakemake sends on Ctrl-C."""
    job = subprocess.Popen(cell_command(folder, 5), cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_for((folder / "0" / "manifest.json").exists, "the first replicate")
    wait_for(lambda: guest_of(job.pid), "the second guest")
    job.terminate()
    status = job.wait()
    left = [p.name for p in folder.glob(".*")]
    return Outcome(
        "SIGTERM to a job, as on Ctrl-C",
        f"exit status {status}, no partial folder left" if not left else f"left {left}",
        good=status != 0 and not left and (folder / "0" / "manifest.json").exists(),
    )


def damaged_manifest(folder: Path) -> Outcome:
    """A manifest cut off, as after a power failure."""
    run(*cell_command(folder, 2))
    before = [contents(folder / str(number)) for number in range(2)]
    manifest = folder / "1" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:100])
    again = run(*cell_command(folder, 2))
    after = [contents(folder / str(number)) for number in range(2)]
    return Outcome(
        "a manifest cut off in the middle, then the job again",
        "that replicate alone was measured again, with the same bytes",
        "nothing" if before == after else "bytes differ",
        good=again.returncode == 0 and before == after and "0: kept" in again.stdout,
    )


def hanging_guest(folder: Path) -> Outcome:
    """A guest that stops responding."""
    out = folder / "out"
    job = subprocess.Popen(
        [*LOSSLAB, "measure", *QUICK, "--out", str(out), "--timeout-s", "4"],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(lambda: list(folder.glob(".losslab-*/started")), "the guest's start")
    guest = guest_of(job.pid)
    assert guest is not None
    os.kill(guest, signal.SIGSTOP)
    _, words = job.communicate(timeout=WAIT_S)
    manifest = json.loads((out / "manifest.json").read_text())
    return Outcome(
        "SIGSTOP to the guest's kernel",
        f"exit {job.returncode}: {first_line(words, 'must end within')}",
        good=job.returncode == 1 and not manifest["valid"] and not Path(f"/proc/{guest}").exists(),
    )


def patched(changes: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run losslab after changing something inside it."""
    code = f"import sys; {changes}; from losslab.cli import main; sys.exit(main(sys.argv[1:]))"
    return run(sys.executable, "-c", code, *words)


def panicking_guest(folder: Path) -> Outcome:
    """A guest that panics at boot: its first program is not there."""
    out = folder / "cells" / "cell" / "cell.json"
    change = "from losslab.backends import virtual; virtual.VIRTUAL_TIME.append('init=/no/such')"
    done = patched(change, *cell_command(out.parent, 5)[len(LOSSLAB) :])
    left = [path.name for path in out.parent.iterdir()]
    return Outcome(
        "a guest that panics at boot",
        f"exit {done.returncode}, no row: {first_line(done.stderr, 'Kernel panic')}",
        good=done.returncode == 1 and not left and "Kernel panic" in done.stderr
        and "make setup" in done.stderr and done.stderr.count("Kernel panic") == 1,
    )  # fmt: skip


def in_mount_namespace(script: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run losslab after a shell script, both with mounts of their own."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        raise SkippedError("mounting needs root and unshare")
    done = run(
        "unshare", "--mount", "sh", "-c", f'set -e; {script}; exec "$@"', "sh", *LOSSLAB, *words
    )
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        raise SkippedError(f"mounting is not allowed here: {done.stderr.strip()}")
    return done


def small_shm(folder: Path) -> Outcome:
    """/dev/shm of 64 MB, as in a Docker container."""
    return _other_scratch(folder, "size=64m", "MiB free")


def noexec_shm(folder: Path) -> Outcome:
    """/dev/shm mounted noexec, as hardened systems have it."""
    return _other_scratch(folder, "noexec", "noexec")


def _other_scratch(folder: Path, option: str, word: str) -> Outcome:
    done = in_mount_namespace(
        f"mount -t tmpfs -o {option} tmpfs /dev/shm", "measure", *QUICK, "--out", folder / "out"
    )
    return Outcome(
        f"/dev/shm mounted with {option}",
        f"valid; {first_line(done.stderr, word)}",
        good=done.returncode == 0 and word in done.stderr,
    )


def no_scratch(folder: Path) -> Outcome:
    """No place for the guest's memory at all."""
    if ROOT.is_relative_to("/tmp"):
        raise SkippedError("the project lies in /tmp, which this fault hides")
    done = in_mount_namespace(
        "mount -t tmpfs -o noexec tmpfs /dev/shm; mount -t tmpfs -o noexec tmpfs /tmp; "
        f"mkdir -p {folder}; unset TMPDIR LOSSLAB_SCRATCH",
        "measure", *QUICK, "--out", folder / "out",
    )  # fmt: skip
    return Outcome(
        "/dev/shm and /tmp mounted noexec",
        f"exit {done.returncode}: {first_line(done.stderr, 'LOSSLAB_SCRATCH')}",
        good=done.returncode == 1 and "set LOSSLAB_SCRATCH" in done.stderr,
    )


def full_disk(folder: Path) -> Outcome:
    """A results folder that is full."""
    small = folder / "small"
    done = in_mount_namespace(
        f"mkdir {small}; mount -t tmpfs -o size=100k tmpfs {small}",
        "measure", *QUICK, "--out", small / "out",
    )  # fmt: skip
    return Outcome(
        "a results folder with 100 kB of room",
        f"exit {done.returncode}: {first_line(done.stderr, 'free room')}",
        good=done.returncode == 1 and "free room" in done.stderr,
    )


def two_workflows(folder: Path) -> Outcome:
    """A second Snakemake in a folder where one is at work."""
    with campaign(folder) as command:
        first = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for(lambda: list((folder / "results").rglob(".losslab-*")), "the first guest")
        second = run(*command)
        status = first.wait(timeout=WAIT_S)
    words = second.stdout + second.stderr
    return Outcome(
        "a second workflow in a folder where one is at work",
        f"refused: {first_line(words, 'another')}",
        good=status == 0 and second.returncode != 0 and "another" in words
        and len(finished_replicates(folder)) == 4,
    )  # fmt: skip


def two_jobs(folder: Path) -> Outcome:
    """Two jobs that measure the same cell."""
    command = cell_command(folder, 2)
    both = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    words = [process.communicate(timeout=WAIT_S)[0] for process in both]
    kept = [text.count("kept") for text in words]
    return Outcome(
        "two jobs that measure the same cell at once",
        "one measured, the other waited and found both replicates done",
        good=all(p.returncode == 0 for p in both) and sorted(kept) == [0, 2],
    )


def read_only_image(folder: Path) -> Outcome:
    """A cache on a read-only file system."""
    cache = cache_folder()
    done = in_mount_namespace(
        f"mount --bind '{cache}' '{cache}'; mount -o remount,ro,bind '{cache}'",
        "measure", *QUICK, "--out", folder / "out",
    )  # fmt: skip
    plain = run(*LOSSLAB, "measure", *QUICK, "--out", folder / "plain")
    same = contents(folder / "out") == contents(folder / "plain")
    return Outcome(
        "kernel and image on a read-only file system",
        "valid, with the same bytes as from a writable one" if same else "other bytes",
        good=done.returncode == plain.returncode == 0 and same,
    )


def missing_kernel(folder: Path) -> Outcome:
    """An empty cache."""
    environment = os.environ | {"LOSSLAB_CACHE": str(folder / "empty")}
    done = run(*LOSSLAB, "measure", *QUICK, "--out", folder / "out", env=environment)
    return Outcome(
        "an empty cache",
        f"exit {done.returncode}: {first_line(done.stderr, 'make setup')}",
        good=done.returncode == 1 and "make setup" in done.stderr,
    )


def unknown_kernel_option(folder: Path) -> Outcome:
    """A symbol that this kernel does not know, against the configuration that was built."""
    built = kernel.existing()
    if built is None:
        raise SkippedError("no kernel is built")
    fragment = kernel.RECIPE / "fragment.config"
    wanted = fragment.read_text() + "CONFIG_TCP_CONG_NO_SUCH=y\n"
    dropped = kernel.dropped_symbols(wanted, (built / "config").read_text())
    return Outcome(
        "CONFIG_TCP_CONG_NO_SUCH=y in the kernel's fragment",
        f"the build is refused, symbols dropped: {', '.join(dropped)}",
        good=dropped == ["CONFIG_TCP_CONG_NO_SUCH"],
    )


def bad_configuration(folder: Path) -> Outcome:
    """A misspelt key."""
    bad = folder / "bad.yaml"
    bad.write_text("studies: {loss: {main: {replicates: 2, duration_s: 1, warm_up: 0}}}\n")
    done = run(*SNAKEMAKE, "-n", "--configfile", bad, "--directory", folder)
    words = done.stdout + done.stderr
    return Outcome(
        "a misspelt key in the configuration",
        f"nothing ran: {first_line(words, 'warm_up')}",
        good=done.returncode != 0 and "warm_up" in words and not (folder / "results").exists(),
    )


FAULTS: dict[str, Callable[[Path], Outcome]] = {
    f.__name__: f
    for f in (
        killed_snakemake,
        killed_cell,
        terminated_cell,
        damaged_manifest,
        hanging_guest,
        panicking_guest,
        small_shm,
        noexec_shm,
        no_scratch,
        full_disk,
        two_workflows,
        two_jobs,
        read_only_image,
        missing_kernel,
        unknown_kernel_option,
        bad_configuration,
    )
}


def main(names: Sequence[str]) -> int:
    """Run the named faults, or all; print a line for each."""
    bad = 0
    for name in names or FAULTS:
        with tempfile.TemporaryDirectory(prefix="losslab-fault-") as folder:
            try:
                outcome = FAULTS[name](Path(folder))
            except SkippedError as reason:
                print(f"skipped  {name}: {reason}", flush=True)
                continue
        bad += not outcome.good
        mark = "ok      " if outcome.good else "FAILED  "
        print(f"{mark} {outcome.done} | user saw: {outcome.saw} | lost: {outcome.lost}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
