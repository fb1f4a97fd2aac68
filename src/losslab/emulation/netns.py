"""Enter a host's network namespace and run or read something there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from losslab.errors import LosslabError

COMMAND_TIMEOUT_S = 60  # no configuring command waits for the network; this ends a hung one


@contextmanager
def inside(pid: int) -> Iterator[None]:
    """Put this thread into the network namespace of process `pid` for the length of the block."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        os.setns(there, os.CLONE_NEWNET)
        yield
    finally:
        os.setns(home, os.CLONE_NEWNET)
        os.close(there)
        os.close(home)


def run(command: Sequence[str], text: str | None = None) -> str:
    """Run a command that must succeed and say nothing on stderr; return its output.

    `tc` and `ip` report some failures on stderr only and exit with 0, so any word there counts.
    """
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0 or done.stderr.strip():
        raise LosslabError(
            f"`{' '.join(command)}` must succeed in silence, found status {done.returncode}: "
            f"{done.stderr.strip() or done.stdout.strip()}",
            hint=f"its input was:\n{text}" if text else "",
        )
    return done.stdout


def read_sysctl(name: str) -> str:
    """Read a sysctl of the current namespace; fields are separated by single spaces."""
    path = Path("/proc/sys") / name.replace(".", "/")
    return " ".join(path.read_text().split())


def write_sysctl(name: str, value: str) -> None:
    """Write a sysctl of the current namespace."""
    path = Path("/proc/sys") / name.replace(".", "/")
    try:
        path.write_text(value)
    except OSError as error:
        raise LosslabError(f"sysctl {name} must accept {value!r}, found: {error}") from error


def read_counters() -> dict[str, int]:
    """Read the namespace's TCP and IP counters, named as `nstat` names them (TcpRetransSegs)."""
    counters = {}
    for file in ("/proc/net/snmp", "/proc/net/netstat"):
        lines = Path(file).read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            prefix = names.split(":")[0]
            for name, value in zip(names.split()[1:], values.split()[1:], strict=True):
                counters[prefix + name] = int(value)
    return counters
