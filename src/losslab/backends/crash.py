"""Where the code of a guest's kernel crashes or spins: function, file, line and source.

A crashed kernel does not say where it divided by zero. With its seed it crashes again at the same
place, so the job runs once more while ptrace(2) stops the kernel at its fault. A kernel in an
endless loop is stopped where it is.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from losslab import interrupts, processes
from losslab.instrument import kernel, kerneltree

# Texts of a panic after a signal, and what the kernel's code did.
FAULTS = (
    ("Kernel mode signal 8", "a division by zero"),
    ("Segfault with no mm", "an access through a NULL or invalid pointer"),
    ("Kernel mode fault at", "an access through a NULL or invalid pointer"),
    ("Kernel tried to access user memory", "an access through an invalid pointer"),
    ("Kernel mode signal 4", "an invalid instruction"),
)
LOOP = "an endless loop"
SIGNALS = {signal.SIGFPE, signal.SIGSEGV, signal.SIGILL}
# CPU time that a guest's kernel spends without waiting for one of its programs. A flow of 1 Gbit/s
# has it wait thousands of times in each second of CPU time.
SPIN_CPU_S = 20.0
# CPU time that a program spends without a system call. No virtual time passes meanwhile, so a
# program that busy-waits never ends.
PROGRAM_CPU_S = 30.0
# Requests and structures of ptrace(2) on x86-64 (sys/ptrace.h, sys/user.h, bits/waitflags.h).
CONT, GETREGS, DETACH, SEIZE, INTERRUPT = 7, 12, 17, 0x4206, 0x4207
REGISTERS, RIP, RSP, WORD_BYTES = 27, 16, 19, 8
WALL = 0x40000000
# The binary of User-Mode Linux begins at START (arch/x86/um/vmlinux.lds.S), in all versions.
TEXT = range(0x60000000, 0x62000000)
STACK_BYTES, MOST_ADDRESSES = 4096, 40
# From the panic itself to the code that called it. Further out, the stack has old addresses, too.
MOST_CALLS = 8
# A line of `addr2line --pretty-print`.
LINE = re.compile(r"^(?:0x\w+: | \(inlined by\) )(.+) at (.*):(\d+|\?)", re.MULTILINE)


@dataclass(frozen=True)
class Frame:
    """A function on the stack, and its place in a file that the kernel was built from."""

    function: str
    path: Path | None  # None: not a user's
    line: int

    def text(self) -> str:
        """Name the function, its place and the source line."""
        if self.path is None:
            return self.function
        with contextlib.suppress(OSError, IndexError):
            source = self.path.read_text(errors="replace").splitlines()[self.line - 1].strip()
            return f"{self.function}, {kerneltree.shown(self.path)}:{self.line}: `{source:.120}`"
        return self.function


class Spin:
    """A guest's kernel, to be asked repeatedly whether it or a program is in an endless loop."""

    def __init__(self, pid: int) -> None:
        """Watch the kernel with this PID."""
        self._pid, self._waits, self._kernel_s, self._programs_s = pid, "", 0.0, 0.0

    def whose(self) -> str:
        """Return `kernel` or `program` if its CPU time was too long without a wait; or empty.

        The kernel waits for a program until the program's next system call.
        """
        try:
            status = Path(f"/proc/{self._pid}/status").read_text()
            kernel_s = _cpu_s(self._pid)
        except OSError:  # it has ended
            return ""
        (waits,) = re.findall(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE) or [""]
        programs_s = _programs_cpu_s(self._pid)
        if waits != self._waits:
            self._waits, self._kernel_s, self._programs_s = waits, kernel_s, programs_s
        if kernel_s - self._kernel_s > SPIN_CPU_S:
            return "kernel"
        return "program" if programs_s - self._programs_s > PROGRAM_CPU_S else ""

    def addresses(self) -> list[int]:
        """Return where it is, innermost first; nothing if this process may not trace it."""
        try:
            _ptrace(SEIZE, self._pid)
            _ptrace(INTERRUPT, self._pid)
            os.waitpid(self._pid, WALL)
            found = _addresses(self._pid)
            _ptrace(DETACH, self._pid)
        except OSError:
            return []
        return found


def _cpu_s(pid: int | str) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")  # utime and stime


def _programs_cpu_s(pid: int) -> float:
    """Return the CPU time of a kernel's programs; 0 if the host does not list them."""
    with contextlib.suppress(OSError):
        return sum(map(_cpu_s, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    return 0.0


def traced(pid: int, limit_s: float) -> list[int]:
    """Trace a guest's kernel to its end; return where its last fault was, innermost first."""
    found: list[int] = []
    _ptrace(SEIZE, pid)
    late = threading.Timer(limit_s, os.kill, (pid, signal.SIGKILL))
    late.start()
    try:
        while True:
            interrupts.heed()
            _, status = os.waitpid(pid, WALL)
            if not os.WIFSTOPPED(status):
                return found
            number, event = os.WSTOPSIG(status), status >> 16
            if number in SIGNALS and not event:
                found = _addresses(pid)
            _ptrace(CONT, pid, 0 if event else number)
    finally:
        late.cancel()


def _ptrace(request: int, pid: int, data: int | ctypes.Array[ctypes.c_ulong] = 0) -> None:
    call = ctypes.CDLL(None, use_errno=True).ptrace
    call.restype = ctypes.c_long
    call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if call(request, pid, None, data) == -1:
        raise OSError(ctypes.get_errno(), "ptrace")


def _addresses(pid: int) -> list[int]:
    """Return a stopped kernel's instruction, and what on its stack may be a return address."""
    registers = (ctypes.c_ulong * REGISTERS)()
    _ptrace(GETREGS, pid, registers)
    with contextlib.suppress(OSError), Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        memory.seek(registers[RSP])
        stack = memory.read(STACK_BYTES)
        words = (
            int.from_bytes(stack[at : at + WORD_BYTES], "little")
            for at in range(0, len(stack), WORD_BYTES)
        )
        # The call is before its return address.
        calls = [word - 1 for word in words if word in TEXT]
        return [registers[RIP], *calls][:MOST_ADDRESSES]
    return [registers[RIP]]


def explained(
    linux: Path, console: str, spun: Sequence[int] | None, again: Callable[[], Sequence[int]]
) -> str:
    """Say what the kernel's code did and where; "" if it did not crash or spin.

    `linux` is the kernel. `spun` has the addresses of an endless loop, if there was one. `again`
    runs the job again and returns those of its fault.
    """
    kind = LOOP if spun is not None else next((k for text, k in FAULTS if text in console), "")
    panic = re.search(r"Kernel panic - not syncing: (.+)", console)
    if spun is None and panic is None:
        return ""
    if not kind:
        # A panic of the code itself, such as by BUG(), after which the kernel shows its stack.
        calls = re.findall(r"^ *(?:\[ *\d+\.\d+\] *)?\[<(\w+)>\]", console, re.MULTILINE)
        spun = [int(call, 16) - 1 for call in calls[:MOST_CALLS]]
    found = list(_frames(linux, again() if spun is None else spun))
    own = next((frame for frame in found if frame.path is not None), None)
    if not kind:
        return f"a panic, `{panic[1].strip()}`, in {own.text()}" if own and panic else ""
    if own is None:
        return f"{kind} in {found[0].text()}" if found else kind
    inner = "" if own == found[0] else f"{found[0].function}, called by "
    return f"{kind} in {inner}{own.text()}"


def _frames(linux: Path, addresses: Sequence[int]) -> Iterator[Frame]:
    """Yield the functions at addresses, inlined ones before those that contain them."""
    debug = linux.with_name(kernel.DEBUG)
    words = [str(debug if debug.is_file() else linux), *map(hex, addresses)]
    done = processes.attempt(
        ["addr2line", "--functions", "--inlines", "--pretty-print", "--addresses", "-e", *words]
    )
    for function, path, line in LINE.findall(done.out if addresses else ""):
        if function != "??":
            own = None if line == "?" else kerneltree.user_source(path)
            yield Frame(function, own, int(line) if own else 0)
