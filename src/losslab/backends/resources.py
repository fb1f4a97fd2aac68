"""Host resources of a guest: space for its memory, resource limits, and a CPU.

Its exit status and console also say which lack of them ended a guest, and what to do.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from losslab.backends.base import Finding
from losslab.errors import GuestLostError, HostError, LosslabError
from losslab.instrument.cache import locks
from losslab.lock import taken
from losslab.reading import read_rows
from losslab.repository import ROOT

MEMORY_BYTES = 256 * 2**20
KIB_PER_GIB = 2**20
# Minimum of each limit (getrlimit(2)): prlimit(1)'s name, description, bash's command, number, unit
# in bytes. A guest's memory is a sparse file of 2 GiB that its kernel maps completely: a guest
# boots with 2.2 GB of address space, but not with 2.0 GB. The kernel opens each file that the guest
# opens; ffmpeg alone opens 200.
NEEDED = {
    "nofile": ("open files", "ulimit -n", 1024, 1),
    "as": ("address space in KiB", "ulimit -v", 3 * KIB_PER_GIB, 1024),
    "fsize": ("file size in KiB", "ulimit -f", 2 * KIB_PER_GIB, 1024),
}
# For a guest's processes, these soft limits are raised to the hard limits.
RAISED = tuple(NEEDED)
# Maximum number of guests per CPU that take locks; with more, performance does not matter.
PLACES_PER_CPU = 8


def scratch_folder() -> Path:
    """Choose the folder of guests' memory: the first with enough space that allows exec."""
    tried = []
    for place in (os.environ.get("LOSSLAB_SCRATCH"), "/dev/shm", os.environ.get("TMPDIR"), "/tmp"):
        if not place:
            continue
        folder = Path(place).resolve()
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            tried.append(f"{place} is not a writable folder")
            continue
        stats = os.statvfs(folder)
        if stats.f_flag & os.ST_NOEXEC:
            tried.append(f"{place} is mounted noexec")
        elif stats.f_bavail * stats.f_frsize < MEMORY_BYTES:
            tried.append(f"{place} has less than {MEMORY_BYTES >> 20} MiB free")
        else:
            if tried:
                print(
                    f"losslab: note: guest memory in {folder}: {'; '.join(tried)}", file=sys.stderr
                )
            return folder
    raise HostError(
        f"the guest's memory needs a folder that allows exec and has {MEMORY_BYTES >> 20} MiB "
        f"free, found: {'; '.join(tried)}",
        hint="set LOSSLAB_SCRATCH to such a folder",
    )


def limits() -> Iterator[Finding]:
    """Compare each hard limit with what a guest needs."""
    for name, (description, shell, need, unit) in NEEDED.items():
        hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
        limit = None if hard == resource.RLIM_INFINITY else hard // unit
        yield Finding(
            f"limit of {description}",
            limit is None or limit >= need,
            "none" if limit is None else f"{limit}, and a guest needs {need}",
            f"raise it to {need}: `{shell} {need}` in a root shell, `* hard {name} {need}` in "
            "/etc/security/limits.conf, or an option of the batch system or container",
        )


def require_limits() -> None:
    """Raise a HostError that lists the limits that are too low for a guest."""
    low = [finding for finding in limits() if not finding.good]
    if low:
        raise HostError(
            "hard limits must be high enough for a guest, found "
            + "; ".join(f"{finding.requirement}: {finding.found}" for finding in low),
            hint="; ".join(finding.fix for finding in low),
        )


@contextlib.contextmanager
def own_cpu(cpus: Sequence[int] | None = None) -> Iterator[int]:
    """Reserve the CPU that the fewest guests of this user use; by default, of all usable ones.

    A guest whose kernel and processes share a CPU runs up to twice as fast as one that the
    scheduler spreads over several. The locks keep the guests of several campaigns on different
    CPUs. Sharing a CPU costs time, not correctness, and neither does a cache without locks.
    """
    cpus = cpus or sorted(os.sched_getaffinity(0))
    with contextlib.ExitStack() as lock:
        for place, cpu in itertools.product(range(PLACES_PER_CPU), cpus):
            with contextlib.suppress(OSError, LosslabError):  # in use
                # A cache may be on a disk that several machines share.
                name = f"cpu-{os.uname().nodename}-{cpu}.{place}"
                lock.enter_context(taken(locks() / name))
                break
        else:
            cpu = cpus[os.getpid() % len(cpus)]
        yield cpu


FULL = "the scratch folder must have room for the guest's memory, found it full"
REBUILD = "run `make setup`, which builds a missing or outdated kernel or image"
ROOM = "free memory, set LOSSLAB_SCRATCH to a folder with room, or use fewer --cores"
TIME = "reduce the load of the machine, or use fewer --cores"
PTRACE = (
    "allow ptrace: in Docker `--security-opt seccomp=unconfined --cap-add SYS_PTRACE`; elsewhere "
    "`sysctl kernel.yama.ptrace_scope=1` (a scope of 3 lasts until the next boot)"
)
PERSONALITY = (
    "allow personality(2), which Docker's default profile forbids: "
    "`--security-opt seccomp=unconfined`"
)
AGAIN = "start again; finished replicates are kept"
# Signals that end a guest's kernel from outside, with the fix: they come from the out-of-memory
# killer, from an operator or batch system, and from a resource limit.
ENDING = {
    signal.SIGKILL: f"if the host was out of memory (`dmesg`), {ROOM}; then {AGAIN}",
    signal.SIGTERM: AGAIN,
    signal.SIGHUP: AGAIN,
    signal.SIGINT: AGAIN,
    signal.SIGXCPU: "raise the limit of CPU time (`ulimit -t unlimited`), and start again",
}
# Messages of a guest's kernel if the host denies it a resource: texts on the console, error
# message, fix.
DENIED = (
    # No room for a page of its memory (SIGBUS), or for a fork of the snapshot.
    (("Kernel mode signal 7", "snapshot: room for memory"), FULL, ROOM),
    (
        ("clone failed, errno = 11",),
        "the host must let a guest start processes, found a limit reached",
        "raise the limit of processes (`ulimit -u`, pids.max of a container or a user's slice), or "
        "use fewer --cores",
    ),
    (
        ("UML ran out of memory on the host side",),
        "the host must let a guest map its memory, found a limit reached",
        "raise `sysctl vm.max_map_count` and the limits of memory (`ulimit -v`, cgroups), or use "
        "fewer --cores",
    ),
)
# Messages of a guest's kernel about a host process of the guest that was killed or does not respond
# (arch/um/os-Linux/skas/process.c and mem.c, Linux 6.12 to 7.2, and patches 0005 and 0007). The
# program in that process gets SIGSEGV, so later failures are not the guest's fault.
BROKEN_PROCESS = re.compile(
    r"errno = (3|10)\b"  # ESRCH, ECHILD: the process was killed from outside
    r"|fp_registers returned -(3|10)\b"
    r"|start_userspace : (expected SIGSTOP|(wait|munmap|PTRACE_\w+) failed)"
    r"|wait_stub_done\w* : "
    r"|child stopped with signal"  # one that neither the guest nor its kernel sent
    r"|[Ss]tub syscall|Syscall data was corrupted by stub|Failed to continue stub"
    r"|snapshot: a process must start"
)
# Causes for a guest that does not start its job. The first row counts that the console matches. A
# killed child matches none: "check_ptrace : expected SIGSTOP, got status = 9" has no "ptrace: ".
CAUSES = ROOT / "config" / "boot-failures.tsv"


def not_started(console: str, status: int | None) -> HostError:
    """Return the error of a guest that did not start its job; status is None after a timeout."""
    late = status is None
    retry = f"start again, because the guest may have been killed; if the error persists, {REBUILD}"
    requirement, fix = "a guest must boot and start its job", TIME if late else retry
    for row in reversed(read_rows(CAUSES, "\t")):
        if re.search(row["console"], console):
            fixes = {"REBUILD": REBUILD, "PERSONALITY": PERSONALITY, "PTRACE": PTRACE}
            requirement, fix = row["requirement"], row["fix"].format(**fixes)
    state = "it still booting at its time limit" if late else f"exit status {status}"
    return HostError(
        f"{requirement}, found {state}; last on its console: {last_lines(console)}",
        hint=f"{fix}; then try `losslab doctor --self-test`",
    )


def refuse_broken_process(console: str) -> None:
    """Refuse the results of a guest one of whose host processes was killed from outside."""
    for line in console.splitlines():
        if BROKEN_PROCESS.search(line):
            raise GuestLostError(
                "every process of the guest must run until the guest ends it, found on its "
                f"console: {line.strip()}",
                hint="find out what kills processes on this machine (`dmesg` shows an "
                f"out-of-memory killer), or {ROOM}",
            )


def refuse_host_failure(console: str, status: int | None, scratch_full: bool) -> None:
    """Refuse the results of a guest that the host killed or denied a resource."""
    if scratch_full:
        raise HostError(FULL, hint=ROOM)
    for texts, message, fix in DENIED:
        if any(text in console for text in texts):
            raise HostError(message, hint=fix)
    for number, fix in ENDING.items():
        if status == -number:
            raise HostError(
                f"the guest must end by itself, found it killed by {number.name}", hint=fix
            )


def last_lines(console: str) -> str:
    """Return the line of a kernel panic and the one before it, or else the last line."""
    lines = [line.strip() for line in console.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if "Kernel panic" in line:
            return "; ".join(lines[max(0, number - 1) : number + 1])
    return lines[-1] if lines else "nothing"
