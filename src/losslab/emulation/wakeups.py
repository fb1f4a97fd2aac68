"""Let a bulk receiver wake for whole blocks instead of for every packet.

A processor without cost, as virtual time has it, runs the receiving program once per packet. That
changes nothing that is measured, since the program counts whole blocks, but is most of what a fast
flow costs the host: each time, guest and program change places.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from pathlib import Path

SYS_PIDFD_GETFD = 438  # asm-generic/unistd.h; the same number on every architecture


def receive_blocks(pid: int, sender_port: int, block_bytes: int) -> bool:
    """Set SO_RCVLOWAT (socket(7)) on a process's connection that comes from `sender_port`.

    Returns whether the process has such a connection.

    Raises:
        OSError: the process is gone.
    """
    pidfd = os.pidfd_open(pid)
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            # A descriptor may be closed between listing and looking.
            if not entry.is_socket():
                continue
            copy = ctypes.CDLL(None, use_errno=True).syscall(
                SYS_PIDFD_GETFD, pidfd, int(entry.name), 0
            )
            if copy < 0:
                continue
            with socket.socket(fileno=copy) as connection, contextlib.suppress(OSError):
                if connection.getpeername()[1] == sender_port:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, block_bytes)
                    return True
    finally:
        os.close(pidfd)
    return False
