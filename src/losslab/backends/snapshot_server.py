"""Base snapshots that several processes share, from the side of the process that has them.

A process that starts `losslab cell` for many cells boots one guest for each instrument, and forks
it for these processes. Each client has a thread of its own, so one that stops keeps no other
waiting. One further thread boots and forks, because guests end with the thread that boots them.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
# A base snapshot takes 35 MB of memory. Cells with other parameters of algorithms have others.
BASES_MAX = 16
# The end of the server takes at most this time.
POLL_S = 0.1


@contextlib.contextmanager
def serving() -> Iterator[dict[str, str]]:
    """Share base snapshots with child processes; yield the variable that these need."""
    # Only this user may enter the folder.
    with tempfile.TemporaryDirectory(prefix="losslab-snapshots-") as folder:
        path = str(Path(folder, SOCKET))
        server = _Server(path, _Client)
        accepting = threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True)
        accepting.start()
        try:
            yield {virtual.VARIABLE: path}
        finally:
            with interrupts.held():
                server.shutdown()
                accepting.join()
                server.server_close()


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Server of requests; boots each base snapshot when it is first needed."""

    socket_type = socket.SOCK_SEQPACKET
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: str, client: type[_Client]) -> None:
        super().__init__(path, client)
        self._forking = ThreadPoolExecutor(1)
        self._guests, self.bases = contextlib.ExitStack(), dict[str, Snapshot]()

    def server_close(self) -> None:
        """End all guests, and refuse further requests."""
        super().server_close()
        try:
            self._forking.submit(self._guests.close).result()
        except RuntimeError:  # the interpreter exits, and has ended the pool's thread
            self._guests.close()
        self._forking.shutdown()

    def fork(self, wanted: dict[str, Any], folder: Path, cpu: int, control: int) -> int:
        """Fork a base snapshot and return its PID; after a failure, it is not used again."""

        def fork() -> int:
            key = json.dumps(wanted)
            base = self.bases.pop(key, None)
            if base is None or not base.alive:
                base = self._guests.enter_context(_backend(wanted).boot(_instrument(wanted)))
            pid = base.fork_snapshot(folder, cpu, control)
            self.bases[key] = base
            return pid

        return self._forking.submit(fork).result()


class _Client(socketserver.BaseRequestHandler):
    """Answers a request: whether the server has an instrument, or a fork of its base snapshot."""

    request: socket.socket
    server: _Server

    def handle(self) -> None:
        """Reply to a client, unless it has ended."""
        descriptors: list[int] = []
        self.request.settimeout(READ_LIMIT_S)
        try:
            text, descriptors, _, _ = socket.recv_fds(self.request, virtual.MESSAGE_BYTES, 1)
            reply = self._reply(json.loads(text), descriptors)
        except BaseException as error:  # also of a signal, which the main thread heeds
            reply = f"{virtual.FAILED} {error or type(error).__name__}"
        for descriptor in descriptors:
            os.close(descriptor)
        with contextlib.suppress(OSError):
            self.request.send(reply.encode()[: virtual.MESSAGE_BYTES])

    def _reply(self, wanted: dict[str, Any], descriptors: list[int]) -> str:
        folder, cpu = wanted.pop("folder", None), wanted.pop("cpu", 0)
        _backend(wanted)
        if wanted["payload"] != virtual.payload_digest():
            raise ValueError("the guest's code must be that of the process that shares snapshots")
        if folder is None:
            bases = self.server.bases
            has_room = json.dumps(wanted) in bases or len(bases) < BASES_MAX
            return virtual.FORKED if has_room else virtual.FAILED
        return f"{virtual.FORKED} {self.server.fork(wanted, Path(folder), cpu, descriptors[0])}"


def _backend(wanted: dict[str, Any]) -> Guest:
    backend = BACKENDS[wanted["backend"], wanted["where"]]
    if not isinstance(backend, Guest):
        raise ValueError(f"a shared snapshot must be of a backend with a guest, found {backend}")
    return backend


def _instrument(wanted: dict[str, Any]) -> Instrument:
    """Return the instrument of a request; it measures nothing, and needs no provenance."""
    images = [Path(image) for image in wanted["images"]]
    return Instrument(
        Path(wanted["kernel"]), images[0], {}, wanted["backend"], wanted["where"],
        engine_root=images[1] if images[1:] else None, boot=tuple(wanted["boot"]),
    )  # fmt: skip
