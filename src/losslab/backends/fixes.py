"""Causes on the host for the loss of a guest, and fixes, from its exit status and console."""

from __future__ import annotations

import re
import signal

from losslab.errors import GuestLostError, HostError

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
# (arch/um/os-Linux/skas/process.c and mem.c, Linux 6.1 to 7.2, and patches 0005 and 0007). The
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
# Texts of a panic, and what the kernel's code did.
PANICS = (
    ("Kernel mode signal 8", "a division by zero"),
    ("Segfault with no mm", "an access through a NULL or invalid pointer"),
    ("Kernel mode fault at", "an access through a NULL or invalid pointer"),
    ("Kernel mode signal 4", "an invalid instruction, such as of BUG()"),
)
# Causes for a guest that does not start its job: texts on the console, requirement, fix. The first
# match counts.
CAUSES = (
    (
        ("fp regs failed", "fp_regs failed"),
        "the kernel must have room for this processor's register state",
        REBUILD,
    ),
    (
        ("failed to set personality",),
        "a process must be allowed to disable address randomisation (personality(2))",
        PERSONALITY,
    ),
    # A killed child does not match; its message is "check_ptrace : expected SIGSTOP, got status =
    # 9" alone.
    (
        ("ptrace: ", "failed: Operation not permitted"),
        "the kernel must be allowed to trace its processes",
        PTRACE,
    ),
    (
        ("noexec",),
        "the folder of the guest's memory must allow exec",
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
    """Return the error of a guest that did not start its job; status is None after a timeout."""
    late = status is None
    again = f"start again, because the guest may have been killed; if the error persists, {REBUILD}"
    requirement, fix = "a guest must boot and start its job", TIME if late else again
    for texts, cause, cause_fix in reversed(CAUSES):
        if any(text in console for text in texts):
            requirement, fix = cause, cause_fix
    found = "it still booting at its time limit" if late else f"exit status {status}"
    return HostError(
        f"{requirement}, found {found}; last on its console: {last_lines(console)}",
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


def crash(console: str) -> str:
    """Explain a panic of the guest's kernel: its kind, and the innermost function that is known.

    Returns an empty text without a panic that the kernel's own code caused.
    """
    kinds = [kind for text, kind in PANICS if text in console]
    if not kinds or "Kernel panic" not in console:
        return ""
    frame = re.search(r"Call Trace:\n\s*\[<\w+>\] \??\s*(\S+)", console)
    inside = "Received SIGSEGV in SIGSEGV handler" not in console and frame
    where = f", in {frame[1]} or a function that it calls" if inside and frame else ""
    return (
        f"; the kernel's code has {kinds[0]}{where}; if you added or changed code, look there first "
        "(the whole message is in console.log)"
    )


def last_lines(console: str) -> str:
    """Return the line of a kernel panic and the one before it, or else the last line."""
    lines = [line.strip() for line in console.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if "Kernel panic" in line:
            return "; ".join(lines[max(0, number - 1) : number + 1])
    return lines[-1] if lines else "nothing"
