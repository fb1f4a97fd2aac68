"""Causes of a lost guest on the host, and their fixes, from its exit status and console."""

from __future__ import annotations

import re
import signal

from losslab.errors import GuestLostError, HostError

FULL = "the guest's memory must find room in its scratch folder, found it full"
REBUILD = "run `make setup`, which builds a kernel or image that is missing or out of date"
ROOM = "free memory, set LOSSLAB_SCRATCH to a folder with room, or use fewer --cores"
TIME = "leave the machine more time for it: less other work, or fewer --cores"
PTRACE = (
    "allow ptrace: in Docker `--security-opt seccomp=unconfined --cap-add SYS_PTRACE`; elsewhere "
    "`sysctl kernel.yama.ptrace_scope=1` (a scope of 3 lasts until the next boot)"
)
PERSONALITY = (
    "allow personality(2), which Docker's default profile does not: "
    "`--security-opt seccomp=unconfined`"
)
AGAIN = "start again; finished replicates are kept"
# Signals that end a guest's kernel from outside, and what to do: an out-of-memory killer's, an
# operator's or a batch system's, and a limit's.
ENDING = {
    signal.SIGKILL: f"if the host was out of memory (`dmesg`), {ROOM}; then {AGAIN}",
    signal.SIGTERM: AGAIN,
    signal.SIGHUP: AGAIN,
    signal.SIGINT: AGAIN,
    signal.SIGXCPU: "raise the limit of CPU time (`ulimit -t unlimited`), and start again",
}
# Messages of a guest's kernel when the host denies it something: words on the console, what must
# hold and what was found, the fix.
DENIED = (
    # A page of its memory for which there was no room (SIGBUS), or a snapshot's fork.
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
# Messages of a guest's kernel that a host process of the guest is gone or disobeyed: those of
# arch/um/os-Linux/skas/process.c and mem.c, Linux 6.1 to 7.2, and of patches 0005 and 0007. The
# program that ran in the process gets SIGSEGV, so the guest is not to blame for what fails next.
BROKEN_PROCESS = re.compile(
    r"errno = (3|10)\b"  # ESRCH, ECHILD: somebody else ended the process
    r"|fp_registers returned -(3|10)\b"
    r"|start_userspace : (expected SIGSTOP|(wait|munmap|PTRACE_\w+) failed)"
    r"|wait_stub_done\w* : "
    r"|child stopped with signal"  # one that neither the guest nor its kernel sent
    r"|[Ss]tub syscall|Syscall data was corrupted by stub|Failed to continue stub"
    r"|snapshot: a process must start"
)
# Why a guest does not begin its job: words on the console, what must hold, the fix. The first that
# fits counts.
CAUSES = (
    (
        ("fp regs failed", "fp_regs failed"),
        "the kernel must have room for this processor's register state",
        REBUILD,
    ),
    (
        ("failed to set personality",),
        "a process must be allowed to do without address randomisation (personality(2))",
        PERSONALITY,
    ),
    # Not of a child that was killed: "check_ptrace : expected SIGSTOP, got status = 9" alone.
    (
        ("ptrace: ", "failed: Operation not permitted"),
        "the kernel must be allowed to trace its processes",
        PTRACE,
    ),
    (
        ("noexec",),
        "the guest's memory must lie where programs may be run",
        "set LOSSLAB_SCRATCH to a folder that allows exec",
    ),
    (
        ("failed to execute", "Exec format error"),
        "the kernel must be a program that this machine can run (x86-64)",
        REBUILD,
    ),
    (
        ("Requested init", "No working init", "Unable to mount root"),
        "the image must hold the guest's first program",
        REBUILD,
    ),
)


def not_started(console: str, status: int | None) -> HostError:
    """Explain a guest that never began its job; its status is None where it had to be ended."""
    late = status is None
    again = f"start again, as somebody may have ended it; if it stays so, {REBUILD}"
    must, remedy = "a guest must boot and begin its job", TIME if late else again
    for words, its_must, its_remedy in reversed(CAUSES):
        if any(word in console for word in words):
            must, remedy = its_must, its_remedy
    how = "it still booting at its time limit" if late else f"exit status {status}"
    return HostError(
        f"{must}, found {how}; last on its console: {last_words(console)}",
        hint=f"{remedy}; then try `losslab doctor --self-test`",
    )


def refuse_broken_process(console: str) -> None:
    """Refuse a guest that lost a process to the host; nothing that it reports can be trusted."""
    for line in console.splitlines():
        if BROKEN_PROCESS.search(line):
            raise GuestLostError(
                "every process of the guest must run until the guest ends it, found on its "
                f"console: {line.strip()}",
                hint="find out what kills processes on this machine (`dmesg` shows an "
                f"out-of-memory killer), or {ROOM}",
            )


def refuse_host_failure(console: str, status: int | None, scratch_full: bool) -> None:
    """Refuse a guest whose kernel the host killed or left without memory."""
    if scratch_full:
        raise HostError(FULL, hint=ROOM)
    for words, must, remedy in DENIED:
        if any(word in console for word in words):
            raise HostError(must, hint=remedy)
    for number, remedy in ENDING.items():
        if status == -number:
            raise HostError(
                f"the guest must end by itself, found it killed by {number.name}", hint=remedy
            )


def last_words(console: str) -> str:
    """Quote the line that says most: of a panic, with the one before it, or the last one."""
    lines = [line.strip() for line in console.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if "Kernel panic" in line:
            return "; ".join(lines[max(0, number - 1) : number + 1])
    return lines[-1] if lines else "nothing"
