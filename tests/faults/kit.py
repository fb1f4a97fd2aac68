"""Commands and campaigns that faults break."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from losslab.backends import runner, virtual
from losslab.backends.base import Job
from losslab.backends.snapshot import Snapshots
from losslab.campaign.instrument import instrument
from losslab.campaign.plan import CampaignPlan, Planned
from losslab.campaign.results import HOST_FILE
from losslab.instrument import image, kernel
from losslab.instrument.cache import cache_folder
from losslab.reading import read_yaml
from losslab.study import design
from losslab.study.condition import Condition
from losslab.study.intervals import StoppingRule

ROOT = Path(__file__).resolve().parents[2]
LOSSLAB = [sys.executable, "-m", "losslab.cli"]
SNAKEMAKE = [str(Path(sys.executable).parent / "snakemake")]
# A cell that takes a second or two on an idle machine.
QUICK = ["--algorithm", "cubic", "--loss-percent", "5", "--duration-s", "1", "--warmup-s", "0.1"]
CONDITION = {
    "algorithm": "cubic", "loss_percent": 5, "path": "symmetric", "app": "iperf3",
    "rtt_ms": 0.44, "rate_mbit": 1000, "buffer_packets": 1000, "duration_s": 1, "warmup_s": 0.1,
}  # fmt: skip
# Limit of any wait: with twenty other jobs per CPU, Snakemake alone takes minutes to start.
WAIT_S = 600.0
# Replicates of a campaign of two cells, which must not end while a fault breaks something.
REPLICATES = 12
# A report takes minutes on two idle CPUs, which tests share.
COMMAND_TIMEOUT_S = 1800.0
GUEST_TIMEOUT_S = 300.0


def run(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command; return its output."""
    options = {"cwd": ROOT, **options}
    return subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False,
        timeout=COMMAND_TIMEOUT_S, **options,
    )  # type: ignore[call-overload,no-any-return]  # fmt: skip


def losslab(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run losslab; return its output."""
    return run(*LOSSLAB, *words, **options)


def contents(folder: Path) -> dict[str, bytes]:
    """Read a replicate's files except the one that describes the host."""
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.name != HOST_FILE}


def wait_for(holds: Callable[[], object], what: str) -> None:
    """Poll until a condition holds."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {WAIT_S:g} s")
        time.sleep(0.05)


def in_guest(script: str, folder: Path, snapshots: Snapshots | None = None) -> Any:
    """Run a Python script in a guest; return the content of the found.json that it writes."""
    (folder / "script.py").write_text(script)
    what = {"kind": "command", "command": ["python3", "/mnt/out/script.py"]}
    job = Job(what, folder, 7, GUEST_TIMEOUT_S, snapshots=snapshots)
    runner.run(virtual.Guest(), instrument(), job)
    return json.loads((folder / "found.json").read_text())


def cell_command(
    results: Path, replicates: int, condition: Mapping[str, Any] = CONDITION
) -> list[str]:
    """Plan a cell in a results folder; return the command of its job."""
    rule = StoppingRule(replicates, replicates)
    cell = design.Cell("loss", "main", Condition.from_json(condition), rule)
    planned = Planned(cell, "", recorded=False)
    CampaignPlan({("loss", cell.name): planned}, {"loss": []}, {"loss": {}}, None).write(results)
    return [*LOSSLAB, "cell", f"loss/{cell.name}", "--results", str(results)]


def cell_folder(results: Path) -> Path:
    """Return the folder of the cell of `cell_command`."""
    (cell,) = CampaignPlan.read(results).cells.values()
    return cell.file(results).parent


def descendants(pid: int) -> list[int]:
    """Return the descendants of a process."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def guest_of(pid: int, generations: int = 3) -> int | None:
    """Return the kernel process of the guest of a losslab process's job.

    In a cell, it is a fork of the cell's snapshot, which is a fork of the base snapshot: three
    generations. `losslab measure` boots one guest. It leads a process group, unlike its own
    processes.
    """

    def is_kernel(number: int) -> bool:
        return Path(f"/proc/{number}/exe").resolve().parent.parent == cache_folder() / "kernel"

    def parent(number: int) -> int:
        return int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])

    for child in descendants(pid):
        with contextlib.suppress(OSError):
            line = [child]
            while len(line) < generations:
                line.append(parent(line[-1]))
            if os.getpgid(child) == child and all(map(is_kernel, line)):
                return child
    return None


def campaign(folder: Path) -> list[str]:
    """Return the command that measures a campaign of one small block into a folder."""
    config = folder / "small.yaml"
    block = f"{{replicates: {REPLICATES // 2}, duration_s: 1, warmup_s: 0.1}}"
    config.write_text(f"studies:\n  loss:\n    main: {block}\n")
    cells = design.load_cells(read_yaml(config), ROOT)
    begins = tuple(f"cubic_loss{percent}_symmetric_iperf3_" for percent in (8, 9))
    names = [cell.name for cell in cells if cell.name.startswith(begins)]
    return [
        *SNAKEMAKE, "--cores", "1", "--configfile", str(config), "--directory", str(folder),
        *(f"results/cells/loss/{name}/cell.json" for name in names),
    ]  # fmt: skip


def finished_replicates(folder: Path) -> dict[Path, dict[str, bytes]]:
    """Read every finished replicate of a campaign."""
    # STUDY/CELL/N: unfinished replicates are in hidden folders, which may be gone at any time.
    manifests = (folder / "results" / "cells").glob("*/*/[0-9]*/manifest.json")
    return {manifest.parent: contents(manifest.parent) for manifest in manifests}


@dataclass(frozen=True)
class Cache:
    """A cache that may be broken."""

    folder: Path
    kernel: Path
    image: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that make losslab use it."""
        return {"LOSSLAB_CACHE": str(self.folder)}


def own_cache(folder: Path) -> Cache:
    """Return a cache with this project's kernel and image.

    Its files are hard links where possible: replace a file to change it.
    """
    cache, made = folder / "cache", []
    for built in (kernel.part().existing(), image.part().existing()):
        if built is None:
            pytest.skip("kernel and image must be built")
        target = cache / built.relative_to(cache_folder())
        target.parent.mkdir(parents=True)
        if run("cp", "-al", built, target).returncode != 0:
            shutil.rmtree(target, ignore_errors=True)
            run("cp", "-a", built, target)
        made.append(target)
    return Cache(cache, *made)


def forbid(call: int) -> None:
    """Install a filter (seccomp(2), linux/filter.h) that makes a system call fail with EPERM."""
    load_number, jump_if_equal, give_back = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF_0000, 0x0005_0001
    steps = (load_number, 0, 0, 0), (jump_if_equal, 0, 1, call), (give_back, 0, 0, refuse), (
        give_back, 0, 0, allow,
    )  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    if libc.prctl(22, 2, ctypes.c_char_p(program)) != 0:  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        sys.exit("no filter")


def after_mounts(script: str, *command: object) -> subprocess.CompletedProcess[str]:
    """Run a command after a shell script that mounts, both in a mount namespace of their own."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting needs root and unshare")
    done = run("unshare", "--mount", "sh", "-c", f'set -e; {script}; exec "$@"', "sh", *command)
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    return done


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Fill a folder's file system and keep it full: a process that ends frees space."""
    path, ended = folder / "filler", threading.Event()
    with path.open("wb", buffering=0) as file:

        def refill() -> None:
            while True:
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(2**20))
                if ended.wait(0.01):
                    return

        filler = threading.Thread(target=refill)
        filler.start()
        time.sleep(0.2)
        try:
            yield
        finally:
            ended.set()
            filler.join()
            path.unlink()
