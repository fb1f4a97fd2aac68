"""Where the code of a guest's kernel crashes or spins: function, file, line and source.

A kernel that panics prints its stack and where it was (kernel patch 0020). One in an endless loop
does so when it gets SIGILL.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from losslab import processes
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
# CPU time that a guest's kernel spends without waiting for one of its programs. A flow of 1 Gbit/s
# has it wait thousands of times in each second of CPU time.
SPIN_CPU_S = 20.0
# CPU time that a program spends without a system call. No virtual time passes meanwhile, so a
# program that busy-waits never ends.
PROGRAM_CPU_S = 30.0
# Addresses of a panic: the stack's, innermost first, and that of the instruction. Further out, the
# stack has old ones, too.
CALL = re.compile(r"^ *(?:\[ *\d+\.\d+\] *)?\[<(\w+)>\]", re.MULTILINE)
AT = re.compile(r"at \[<(\w+)>\]")
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


def _cpu_s(pid: int | str) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")  # utime and stime


def _programs_cpu_s(pid: int) -> float:
    """Return the CPU time of a kernel's programs; 0 if the host does not list them."""
    with contextlib.suppress(OSError):
        return sum(map(_cpu_s, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    return 0.0


def explained(linux: Path, console: str, spun: bool = False) -> str:
    """Say what the kernel's code did and where; "" if it did not crash or spin."""
    kind = LOOP if spun else next((k for text, k in FAULTS if text in console), "")
    panic = re.search(r"Kernel panic - not syncing: (.+)", console)
    if not spun and panic is None:
        return ""
    # A call is before its return address.
    calls = [int(call, 16) - 1 for call in CALL.findall(console)[:MOST_CALLS]]
    frames = list(_frames(linux, [*(int(at, 16) for at in AT.findall(console)), *calls]))
    of_user = next((frame for frame in frames if frame.path is not None), None)
    if not kind:
        # A panic of the code itself, such as by BUG().
        return f"a panic, `{panic[1].strip()}`, in {of_user.text()}" if of_user and panic else ""
    if of_user is None:
        return f"{kind} in {frames[0].text()}" if frames else kind
    inner = "" if of_user == frames[0] else f"{frames[0].function}, called by "
    return f"{kind} in {inner}{of_user.text()}"


def _frames(linux: Path, addresses: Sequence[int]) -> Iterator[Frame]:
    """Yield the functions at addresses, inlined ones before those that contain them."""
    debug = linux.with_name(kernel.DEBUG)
    words = [str(debug if debug.is_file() else linux), *map(hex, addresses)]
    done = processes.attempt(
        ["addr2line", "--functions", "--inlines", "--pretty-print", "--addresses", "-e", *words]
    )
    for function, path, line in LINE.findall(done.out if addresses else ""):
        if function != "??":
            source = None if line == "?" else kerneltree.user_source(path)
            yield Frame(function, source, int(line) if source else 0)
