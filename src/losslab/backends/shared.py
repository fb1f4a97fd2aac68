"""Base snapshots that several processes share, from the side of the process that needs one.

Booting a guest takes most of a second of CPU time, with containers five. A process that measures
many cells (`backends.snapshot_server`) boots one for all of them. Without such a process, or if its
instrument differs, each process boots its own.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.backends import payload
from losslab.backends.base import Instrument
from losslab.errors import HostError

# Environment variable with the path of the server's socket.
VARIABLE = "LOSSLAB_BASE_SNAPSHOTS"
MESSAGE_BYTES = 65_536
# Limit of a request: others may wait for guests with containers to boot.
REQUEST_LIMIT_S = 600.0
STARTED, FAILED = "started", "failed"
# Types of the entries of `describe`.
TYPES = {
    "backend": str, "where": str, "kernel": str, "images": list, "boot": list, "payload": str,
}  # fmt: skip


def describe(tools: Instrument) -> dict[str, Any]:
    """Return what decides a base snapshot: the instrument and the guest's code."""
    return {
        "backend": tools.backend,
        "where": tools.where,
        "kernel": str(tools.kernel.resolve()),
        "images": [str(root.resolve()) for root in tools.image_roots],
        "boot": list(tools.boot),
        "payload": payload_digest(),
    }


@functools.cache
def payload_digest() -> str:
    """Return the SHA-256 of the guest's code, as this process packs it."""
    digest = hashlib.sha256()
    for name, path in payload.files().items():
        digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


@dataclass(frozen=True)
class SharedBase:
    """Base snapshot of the server."""

    path: str
    wanted: dict[str, Any]

    def fork_snapshot(self, folder: Path, cpu: int, control: int) -> int:
        """Fork it, as `snapshot.Base`."""
        request = self.wanted | {"folder": str(folder.resolve()), "cpu": cpu}
        try:
            with _connected(self.path) as server:
                socket.send_fds(server, [json.dumps(request).encode()], [control])
                status, _, text = server.recv(MESSAGE_BYTES).decode().partition(" ")
        except OSError as error:
            status, text = "failed", f"no reply of the process that shares snapshots: {error}"
        if status != STARTED:
            raise HostError(text or "the process that shares snapshots must run, found its end")
        return int(text)


def connect(tools: Instrument) -> SharedBase | None:
    """Return the shared base snapshot for an instrument; None if no process shares one."""
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    wanted = describe(tools)
    # The server answers a request without a folder with whether it has the instrument.
    with contextlib.suppress(OSError), _connected(path) as server:
        server.send(json.dumps(wanted).encode())
        if server.recv(MESSAGE_BYTES).decode() == STARTED:
            return SharedBase(path, wanted)
    return None


@contextlib.contextmanager
def _connected(path: str) -> Any:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.settimeout(REQUEST_LIMIT_S)
        server.connect(path)
        yield server
