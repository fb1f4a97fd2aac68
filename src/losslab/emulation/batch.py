"""`ip` and `tc` that wait in a host's network namespace for lines to carry out.

Starting a process costs a guest some ten milliseconds of wall time, and what it does hardly any:
each host has one of both, started with it, for all that is set and read back.
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

# What tc says of a qdisc that it does not know (print_unknown_opt, tc/tc_qdisc.c), JSON or not.
UNKNOWN_OPTIONS = re.compile(r"\[Unknown qdisc, optlen=\d+\] ?")
CHUNK_BYTES = 65_536
COMMAND_TIMEOUT_S = 60  # no configuring command waits for the network; this ends a hung one
# Each listing is answered with a JSON document.
OPTIONS = ("-json", "-statistics", "-batch", "-")
# A short listing: its answer says that what was before it is done. Not of one device: `tc` would
# keep to that from then on (filter_ifindex, tc/tc_qdisc.c).
DONE = {"ip": "link show dev lo", "tc": "qdisc show"}


class Batch:
    """One of them; it waits until it is closed."""

    def __init__(self, program: str, pid: int) -> None:
        self._program = program
        with netns.inside(pid):
            self._process = subprocess.Popen(
                [program, *OPTIONS],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip

    def do(self, lines: Sequence[str]) -> None:
        """Carry out lines that are no listings."""
        self.ask([*lines, DONE[self._program]], 1)

    def ask(self, lines: Sequence[str], listings: int) -> list[Any]:
        """Carry out lines and return what the listings among them say."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        text = "\n".join(lines) + "\n"
        with contextlib.suppress(BrokenPipeError):  # it ended; its words say why
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()
        said, complaint = "", ""
        found = _documents(said)
        while len(found) < listings and (chunk := _read(self._process.stdout)):
            said += chunk.decode(errors="replace")
            found = _documents(said)
        assert self._process.stderr is not None
        if len(found) < listings:  # it ended
            complaint = self._process.stderr.read().decode(errors="replace").strip()
        elif select.select([self._process.stderr], [], [], 0)[0]:
            complaint = _read(self._process.stderr).decode(errors="replace").strip()
        if complaint or len(found) != listings:
            raise LosslabError(
                f"`{self._program} {' '.join(OPTIONS)}` must succeed in silence, found: "
                f"{complaint or said}",
                hint=f"its input was:\n{text}",
            )
        return found

    def close(self) -> None:
        """End it."""
        self._process.kill()
        # Waits for it and closes its pipes, into one of which something may be left to say.
        with contextlib.suppress(BrokenPipeError), self._process:
            pass


def _read(stream: Any) -> bytes:
    """Read what there is; nothing at the end."""
    if not select.select([stream], [], [], COMMAND_TIMEOUT_S)[0]:
        raise LosslabError(
            f"`ip` and `tc` must answer within {COMMAND_TIMEOUT_S} s, found no answer"
        )
    return os.read(stream.fileno(), CHUNK_BYTES)


def _documents(text: str) -> list[Any]:
    """Return the whole JSON documents that a text begins with, one behind the other."""
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
    """What sets a host up and reads it back."""

    pid: int  # a process in its network namespace
    ip: Batch
    tc: Batch


@contextlib.contextmanager
def handles(pids: Mapping[str, int]) -> Iterator[dict[str, Handle]]:
    """Start both for every host, for the length of the block."""
    with contextlib.ExitStack() as stack:

        def started(program: str, pid: int) -> Batch:
            return stack.enter_context(contextlib.closing(Batch(program, pid)))

        yield {
            host: Handle(pid, started("ip", pid), started("tc", pid)) for host, pid in pids.items()
        }
