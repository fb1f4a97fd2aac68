"""Base snapshots that several processes share, from the side of the process that has them.

A process that starts `losslab cell` for many cells boots one guest for each instrument, and forks
it for these processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab import interrupts
from losslab.backends import virtual
from losslab.backends.base import Instrument
from losslab.backends.registry import BACKENDS
from losslab.backends.snapshot import Snapshot
from losslab.backends.virtual import Guest

SOCKET = "socket"
# A client sends its request as soon as it has connected.
READ_LIMIT_S = 10.0


@contextlib.contextmanager
def serving() -> Iterator[dict[str, str]]:
    """Share base snapshots with child processes; yield the variable that these need."""
    with contextlib.ExitStack() as stack:
        # Only this user may enter it.
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="losslab-snapshots-"))
        path = str(Path(folder, SOCKET))
        listening = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        listening.bind(path)
        listening.listen()
        server = _Server(listening)
        stack.callback(server.end)
        server.start()
        yield {virtual.VARIABLE: path}


class _Server:
    """Reads each client's request in a thread of its own, and forks in one that lasts.

    A client that is slow or stopped keeps no other one waiting. Guests end with the thread that
    boots them.
    """

    def __init__(self, listening: socket.socket) -> None:
        self._listening, self._waiting = listening, queue.SimpleQueue[_Work | None]()
        self._readers: dict[threading.Thread, socket.socket] = {}
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._accept, self._fork)
        ]

    def start(self) -> None:
        """Start to answer requests."""
        for each in self._threads:
            each.start()

    def end(self) -> None:
        """End all threads and guests, also if a signal arrives meanwhile."""
        with interrupts.held():
            with contextlib.suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)
            accepting, forking = self._threads
            accepting.join()
            for client in self._readers.values():
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
            for reader in self._readers:
                reader.join()
            self._waiting.put(None)
            forking.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            client.settimeout(READ_LIMIT_S)
            self._readers = {each: its for each, its in self._readers.items() if each.is_alive()}
            reader = threading.Thread(target=self._read, args=(client,), daemon=True)
            self._readers[reader] = client
            reader.start()

    def _read(self, client: socket.socket) -> None:
        """Answer a client's request, or put it into the queue if it needs a fork."""
        descriptors: list[int] = []
        try:
            text, descriptors, flags, _ = socket.recv_fds(client, virtual.MESSAGE_BYTES, 1)
            if flags & socket.MSG_TRUNC:
                raise ValueError(f"more than {virtual.MESSAGE_BYTES} bytes")
            request = _Request.parse(text)
            if request.folder is not None:
                if not descriptors:
                    raise ValueError("no descriptor")
                self._waiting.put(_Work(client, request, request.folder, descriptors))
                return
            reply = virtual.FORKED
        except TimeoutError:
            reply = f"{virtual.FAILED} a request must arrive within {READ_LIMIT_S:g} s"
        except ValueError as error:
            reply = f"{virtual.FAILED} a request must be one of losslab's, found {error}"
        except OSError:
            reply = ""  # it has ended
        _reply(client, reply, descriptors)

    def _fork(self) -> None:
        with contextlib.ExitStack() as guests:
            bases = _Bases(guests)
            while (work := self._waiting.get()) is not None:
                its = work.request
                try:
                    pid = bases.fork(its.wanted, work.folder, its.cpu, work.descriptors[0])
                    reply = f"{virtual.FORKED} {pid}"
                except BaseException as error:  # also of a signal, which the main thread heeds
                    reply = f"{virtual.FAILED} {error}"
                _reply(work.client, reply, work.descriptors)


def _reply(client: socket.socket, text: str, descriptors: Sequence[int]) -> None:
    """Answer a client, unless it has ended, and close its descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)
    with client, contextlib.suppress(OSError):
        client.send(text.encode()[: virtual.MESSAGE_BYTES])


@dataclass(frozen=True)
class _Request:
    """A request: a base snapshot, and the folder and CPU of its fork, if one is wanted."""

    wanted: dict[str, Any]
    folder: Path | None
    cpu: int

    @classmethod
    def parse(cls, text: bytes) -> _Request:
        """Parse a request; ValueError if it is malformed."""
        try:
            data = json.loads(text)
        except RecursionError as error:
            raise ValueError("too many levels") from error
        if not isinstance(data, dict):
            raise ValueError(type(data).__name__)
        folder, cpu = data.pop("folder", None), data.pop("cpu", 0)
        if not (isinstance(folder, str | None) and type(cpu) is int and cpu >= 0):
            raise ValueError("another folder or CPU")
        types = {key: type(value) for key, value in data.items()}
        if types != virtual.TYPES or not all(
            isinstance(each, str) for key in ("images", "boot") for each in data[key]
        ):
            raise ValueError(f"the keys {', '.join(sorted(data)) or 'of none'}")
        if not data["images"] or not isinstance(
            BACKENDS.get((data["backend"], data["where"])), Guest
        ):
            raise ValueError("no backend with a guest")
        if data["payload"] != virtual.payload_digest():
            raise ValueError("other code of the guest than that of the process that shares them")
        return cls(data, None if folder is None else Path(folder), cpu)


@dataclass(frozen=True)
class _Work:
    """A client, and the fork that it asked for."""

    client: socket.socket
    request: _Request
    folder: Path
    descriptors: list[int]


class _Bases:
    """Base snapshots by what decides them; each is booted when it is first needed."""

    def __init__(self, guests: contextlib.ExitStack) -> None:
        self._guests, self._bases = guests, dict[str, Snapshot]()

    def fork(self, wanted: dict[str, Any], folder: Path, cpu: int, control: int) -> int:
        """Fork a base snapshot; after a failure, it is not used again."""
        key = json.dumps(wanted)
        base = self._bases.pop(key, None)
        if base is None or not base.alive:
            base = self._guests.enter_context(_backend(wanted).boot(_instrument(wanted)))
        pid = base.fork_snapshot(folder, cpu, control)
        self._bases[key] = base
        return pid


def _backend(wanted: dict[str, Any]) -> Guest:
    backend = BACKENDS[wanted["backend"], wanted["where"]]
    assert isinstance(backend, Guest)
    return backend


def _instrument(wanted: dict[str, Any]) -> Instrument:
    """Return the instrument of a request; it measures nothing, and needs no provenance."""
    images = [Path(image) for image in wanted["images"]]
    return Instrument(
        Path(wanted["kernel"]), images[0], {}, wanted["backend"], wanted["where"],
        engine_root=images[1] if images[1:] else None, boot=tuple(wanted["boot"]),
    )  # fmt: skip
