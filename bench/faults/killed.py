"""Killed or interrupted runs, and what they leave."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from bench.faults.kit import (
    LOSSLAB,
    QUICK,
    REPLICATES,
    ROOT,
    WAIT_S,
    Outcome,
    campaign,
    cell_command,
    contents,
    finished_replicates,
    first_line,
    guest_of,
    run,
    wait_for,
)
from losslab.backends import resources


def killed_snakemake(folder: Path) -> Outcome:
    """kill -9 of Snakemake during a campaign, then the same command again."""
    command = campaign(folder)
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
        "kill -9 of Snakemake during a campaign, then the same command again",
        f"it continued: {first_line(logs, 'kept') or 'no replicate repeated'}",
        "nothing" if kept else "a finished replicate changed",
        good=again.returncode == 0 and kept and len(after) == REPLICATES,
    )


def killed_cell(folder: Path) -> Outcome:
    """kill -9 of a cell's job during a replicate, then the same job again."""
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
        "kill -9 of a job during a replicate, then the same job again",
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
    """A truncated manifest, as after a power failure."""
    run(*cell_command(folder, 2))
    before = [contents(folder / str(number)) for number in range(2)]
    manifest = folder / "1" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:100])
    again = run(*cell_command(folder, 2))
    after = [contents(folder / str(number)) for number in range(2)]
    return Outcome(
        "a truncated manifest, then the job again",
        "that replicate alone was measured again, with the same bytes",
        "nothing" if before == after else "bytes differ",
        good=again.returncode == 0 and before == after and "0: kept" in again.stdout,
    )


def killed_measure(folder: Path) -> Outcome:
    """kill -9 of `losslab measure`, then the same command again."""
    words = [*LOSSLAB, "measure", *QUICK, "--out"]
    job = subprocess.Popen([*words, str(folder / "killed")], cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_for(lambda: list(folder.glob(".losslab-*/*/started")), "the guest's start")
    left = [*folder.glob(".losslab-*"), *_scratch(job.pid)]
    job.send_signal(signal.SIGKILL)
    job.wait()
    done = run(*words, folder / "out")
    remain = [str(path) for path in left if path.exists()]
    return Outcome(
        "kill -9 of `losslab measure`, then the same command again",
        f"it left {len(left)} folders; the next start removed them",
        good=done.returncode == 0 and len(left) >= 3 and not remain,
    )


def _scratch(pid: int) -> set[Path]:
    """Return the folders of guests' memory that a process holds; other jobs have such, too."""
    opened = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            opened.add(Path(os.readlink(descriptor)))
    return opened & set(resources.scratch_folder().glob("losslab-guest-*/*"))


def interrupted_cell(folder: Path) -> Outcome:
    """SIGINT to a cell's job."""
    job = subprocess.Popen(
        cell_command(folder, 5), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    wait_for((folder / "0" / "manifest.json").exists, "the first replicate")
    wait_for(lambda: guest_of(job.pid), "the second guest")
    before = contents(folder / "0")
    job.send_signal(signal.SIGINT)
    _, words = job.communicate(timeout=WAIT_S)
    left = [p.name for p in folder.glob(".*")]
    return Outcome(
        "Ctrl-C to a job",
        f"exit {job.returncode}: {first_line(words, 'interrupted')}",
        good=job.returncode == 130 and "are kept" in words and "Traceback" not in words
        and not left and contents(folder / "0") == before,
    )  # fmt: skip


def interrupted_campaign(folder: Path) -> Outcome:
    """SIGINT to Snakemake and all its jobs, as a terminal sends it; then the same command again."""
    command = campaign(folder)
    with (folder / "words").open("w") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        wait_for(lambda: finished_replicates(folder), "the first replicate")
        os.killpg(process.pid, signal.SIGINT)
        status = process.wait(timeout=WAIT_S)
    words = (folder / "words").read_text()
    words += "".join(p.read_text() for p in (folder / "logs").rglob("*.log"))
    before = finished_replicates(folder)
    again = run(*command)
    after = finished_replicates(folder)
    kept = all(after.get(path) == files for path, files in before.items())
    return Outcome(
        "Ctrl-C to a campaign, then the same command again",
        f"exit {status}, no traceback; it continued",
        "nothing" if kept else "a finished replicate changed",
        good=status != 0 and "Traceback (most" not in words and again.returncode == 0 and kept
        and len(after) == REPLICATES,
    )  # fmt: skip
