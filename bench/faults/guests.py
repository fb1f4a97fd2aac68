"""Guests that hang, panic or cannot run, and instruments that lose every guest."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path

from bench.faults.kit import (
    LOSSLAB,
    QUICK,
    ROOT,
    WAIT_S,
    Outcome,
    campaign,
    cell_command,
    first_line,
    guest_of,
    own_cache,
    patched,
    run,
    wait_for,
)
from losslab.instrument import integrity, kernel

# Console of a kernel that does not support the AMX state.
AMX = """#!/bin/sh
echo 'userspace - ptrace set fp regs failed, errno = 14'
echo 'Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b'
kill -ABRT $$
"""
PTRACE = 101  # system call number (asm/unistd_64.h)


def hanging_guest(folder: Path) -> Outcome:
    """A guest that stops responding."""
    out = folder / "out"
    job = subprocess.Popen(
        [*LOSSLAB, "measure", *QUICK, "--out", str(out), "--timeout-s", "4"],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(lambda: list(folder.glob(".losslab-*/*/started")), "the guest's start")
    guest = guest_of(job.pid, generations=1)
    assert guest is not None
    os.kill(guest, signal.SIGSTOP)
    _, words = job.communicate(timeout=WAIT_S)
    manifest = json.loads((out / "manifest.json").read_text())
    return Outcome(
        "SIGSTOP to the guest's kernel",
        f"exit {job.returncode}: {first_line(words, 'must end within')}",
        good=job.returncode == 1 and not manifest["valid"] and not Path(f"/proc/{guest}").exists(),
    )


def panicking_guest(folder: Path) -> Outcome:
    """A guest that panics at boot because its first program is missing."""
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


def crashing_guest(folder: Path) -> Outcome:
    """A guest that panics twice during a replicate; then the same cell without the fault."""
    package = folder / "src" / "losslab"
    shutil.copytree(ROOT / "src" / "losslab", package)
    with (package / "emulation" / "traffic.py").open("a") as file:
        file.write(
            "\nimport os\n_run = run\n"
            "def run(plan, hosts, folder, *more):\n"
            "    if plan.path_spec.loss_percent == 5: os._exit(3)\n"
            "    return _run(plan, hosts, folder, *more)\n"
        )
    change = f"from pathlib import Path; from losslab.backends import payload; \
payload.PACKAGE = Path({str(package)!r})"
    out = folder / "cell" / "cell.json"
    words = cell_command(out.parent, 3)
    done = patched(change, *words[len(LOSSLAB) :])
    rows = json.loads(out.read_text())["replicates"]
    lost = [(row["valid"], row["lost"], row["attempt"]) for row in rows]
    again = run(*words)
    after = [row["valid"] for row in json.loads(out.read_text())["replicates"]]
    return Outcome(
        "a guest that panics twice during a replicate, while the smoke test passes",
        f"an invalid row, not kept: {first_line(done.stderr, 'was lost')}",
        good=done.returncode == 0 and lost == [(False, True, 2)] and again.returncode == 0
        and after == [True] * 3 and "exitcode=0x00000300" in rows[0]["reasons"][0],
    )  # fmt: skip


def panicking_kernel(folder: Path) -> Outcome:
    """A campaign whose kernel panics at every boot, as on processors with AMX."""
    cache = own_cache(folder)
    built = cache.kernel
    (built / "linux").unlink()
    (built / "linux").write_text(AMX)
    (built / "linux").chmod(0o755)
    (built / integrity.LINUX_DIGEST).unlink()
    (built / integrity.LINUX_DIGEST).write_text(kernel.digest(built / "linux"))
    done = run(*campaign(folder), env=os.environ | cache.environment)
    words = done.stdout + done.stderr
    return Outcome(
        "a campaign whose kernel panics at every boot",
        f"stopped before the first cell: {first_line(words, 'register state')}",
        good=done.returncode != 0 and words.count("fp regs failed") == 1 and "make setup" in words
        and "Traceback (most" not in words and not (folder / "results" / "cells").exists(),
    )  # fmt: skip


def forbidden_ptrace(folder: Path) -> Outcome:
    """A container that forbids ptrace."""
    done = subprocess.run(
        [*LOSSLAB, "doctor", "--self-test"], cwd=ROOT, capture_output=True, text=True, check=False,
        preexec_fn=lambda: forbid(PTRACE),
    )  # fmt: skip
    return Outcome(
        "ptrace forbidden, as in many containers",
        f"exit {done.returncode}: {first_line(done.stderr, 'trace its processes')}",
        good=done.returncode == 1 and "SYS_PTRACE" in done.stderr
        and "Traceback" not in done.stderr,
    )  # fmt: skip


def forbid(call: int) -> None:
    """Install a filter (seccomp(2), linux/filter.h) that makes a system call fail with EPERM."""
    load_number, jump_if_equal, give_back = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF_0000, 0x0005_0001
    code = b"".join(
        struct.pack("HBBI", *step)
        for step in (
            (load_number, 0, 0, 0),
            (jump_if_equal, 0, 1, call),
            (give_back, 0, 0, refuse),
            (give_back, 0, 0, allow),
        )
    )
    steps = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(steps))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    if libc.prctl(22, 2, ctypes.c_char_p(program)) != 0:  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        sys.exit("no filter")
