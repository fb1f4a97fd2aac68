"""Persistent `ip` and `tc` processes in a host's network namespace.

Starting a process costs a guest about 10 ms of wall time, far more than its work. Each host
therefore has one `ip -batch` and one `tc -batch`, which set it up and read it back.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from losslab.emulation import netns
from losslab.errors import LosslabError

# tc prints this for a qdisc that it does not know, also into JSON (print_unknown_opt,
# tc/tc_qdisc.c).
UNKNOWN_OPTIONS = re.compile(r"\[Unknown qdisc, optlen=\d+\] ?")
CHUNK_BYTES = 65_536
COMMAND_TIMEOUT_S = 60  # no command waits for the network, so a longer one hangs
# With -json, each `show` command prints one JSON document.
OPTIONS = ("-json", "-statistics", "-batch", "-")
# A short `show` command; its output means that the commands before it are done. `tc` must not show
# a single device: it would show only that one from then on (filter_ifindex, tc/tc_qdisc.c).
DONE = {"ip": "link show dev lo", "tc": "qdisc show"}


class Batch:
    """A persistent `ip -batch` or `tc -batch` process."""

    def __init__(self, program: str, pid: int) -> None:
        self._program = program
        with netns.inside(pid):
            self._process = subprocess.Popen(
                [program, *OPTIONS],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip

    def do(self, lines: Sequence[str]) -> None:
        """Run commands that print nothing, and wait until they are done."""
        self.ask([*lines, DONE[self._program]], 1)

    def ask(self, lines: Sequence[str], listings: int) -> list[Any]:
        """Run commands, and return the parsed output of the `listings` show commands among them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        text = "\n".join(lines) + "\n"
        with contextlib.suppress(BrokenPipeError):  # it has ended; its stderr has the error
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()
        output, error = "", ""
        documents = _documents(output)
        while len(documents) < listings and (chunk := _read(self._process.stdout)):
            output += chunk.decode(errors="replace")
            documents = _documents(output)
        assert self._process.stderr is not None
        if len(documents) < listings:  # it has ended
            error = self._process.stderr.read().decode(errors="replace").strip()
        elif select.select([self._process.stderr], [], [], 0)[0]:
            error = _read(self._process.stderr).decode(errors="replace").strip()
        if error or len(documents) != listings:
            raise LosslabError(
                f"`{self._program} {' '.join(OPTIONS)}` must succeed without messages, found: "
                f"{error or output}",
                hint=f"its input was:\n{text}",
            )
        return documents

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        # Leaving the block waits for the process and closes its pipes. Closing stdin may flush.
        with contextlib.suppress(BrokenPipeError), self._process:
            pass


def _read(stream: Any) -> bytes:
    """Read the available bytes; none at the end of the stream."""
    if not select.select([stream], [], [], COMMAND_TIMEOUT_S)[0]:
        raise LosslabError(
            f"`ip` and `tc` must answer within {COMMAND_TIMEOUT_S} s, found no output"
        )
    return os.read(stream.fileno(), CHUNK_BYTES)


def _documents(text: str) -> list[Any]:
    """Return the complete JSON documents at the beginning of a text."""
    found: list[Any] = []
    text = UNKNOWN_OPTIONS.sub("", text)
    with contextlib.suppress(json.JSONDecodeError):
        while rest := text.lstrip():
            document, end = json.JSONDecoder().raw_decode(rest)
            found.append(document)
            text = rest[end:]
    return found


@dataclass(frozen=True)
class Handle:
    """`ip` and `tc` of a host."""

    pid: int  # a process in its network namespace
    ip: Batch
    tc: Batch


@contextlib.contextmanager
def handles(pids: Mapping[str, int]) -> Iterator[dict[str, Handle]]:
    """Start `ip` and `tc` on every host for the length of the block."""
    with contextlib.ExitStack() as stack:

        def started(program: str, pid: int) -> Batch:
            return stack.enter_context(contextlib.closing(Batch(program, pid)))

        yield {
            host: Handle(pid, started("ip", pid), started("tc", pid)) for host, pid in pids.items()
        }
