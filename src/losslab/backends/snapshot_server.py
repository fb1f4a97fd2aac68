"""Base snapshots that several processes share, from the side of the process that has them.

A thread of a process that starts `losslab cell` for many cells boots one guest for each instrument,
and forks it for these processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from losslab.backends import shared
from losslab.backends.base import Instrument
from losslab.backends.registry import BACKENDS
from losslab.backends.snapshot import Snapshot
from losslab.backends.virtual import Guest
from losslab.errors import LosslabError

SOCKET = "socket"


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
        thread = threading.Thread(target=_serve, args=(listening,), daemon=True)
        thread.start()
        stack.callback(_end, listening, thread)
        yield {shared.VARIABLE: path}


def _end(listening: socket.socket, thread: threading.Thread) -> None:
    """End the thread, which ends its guests."""
    with contextlib.suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


def _serve(listening: socket.socket) -> None:
    """Answer requests until the socket is shut down."""
    with contextlib.ExitStack() as guests:
        bases = _Bases(guests)
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            # A client that has ended needs no answer.
            with client, contextlib.suppress(OSError):
                text, descriptors, _, _ = socket.recv_fds(client, shared.MESSAGE_BYTES, 1)
                try:
                    client.send(_answer(json.loads(text), descriptors, bases).encode())
                except ValueError:
                    pass  # it has ended before its request
                finally:
                    for descriptor in descriptors:
                        os.close(descriptor)


def _answer(request: dict[str, Any], descriptors: list[int], bases: _Bases) -> str:
    """Return the reply to a request: whether its snapshot can be had, or the PID of a fork."""
    folder, cpu = request.pop("folder", None), request.pop("cpu", None)
    if request["payload"] != shared.payload_digest():
        return "failed the guest's code must be that of the process that shares its snapshots"
    if folder is None:
        return shared.STARTED
    try:
        return f"{shared.STARTED} {bases.fork(request, Path(folder), int(cpu), *descriptors)}"
    except LosslabError as error:
        return f"failed {error}"


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
