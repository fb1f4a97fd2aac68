"""The receiving end of many TCP flows: it reads and drops, and says what it saw of each."""

from __future__ import annotations

import errno
import resource
import select
import socket
import time
from typing import Any

# What a program has open besides flows: Python's own, a listener, a poll.
OTHER_FILES = 32
# As iperf3's of the cell's own flow.
BLOCK_BYTES = 16 * 1024
READ_BYTES = 1 << 20
BACKLOG = 4096
# A last connection, from this port, says that there will be no more. The receiver then waits for
# those that are open: a reset may have been lost.
END_PORT = 10_000
END_WAIT_S = 3.0


def receive(port: int, count: int) -> dict[str, Any]:
    """Read every flow to its end; return what was seen of each of `count`."""
    allow_files(count)
    seen: dict[str, Any] = {}
    readers: dict[int, tuple[socket.socket, dict[str, Any]]] = {}
    last: socket.socket | None = None
    until_s = float("inf")
    block = bytearray(READ_BYTES)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener, select.epoll() as poll:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", port))
        listener.listen(BACKLOG)
        poll.register(listener.fileno(), select.EPOLLIN)
        while last is None or (readers and time.monotonic() < until_s):
            wait_s = None if last is None else max(0.0, until_s - time.monotonic())
            for descriptor, _ in poll.poll(wait_s):
                if descriptor == listener.fileno():
                    connection, (_, source_port) = listener.accept()
                    if source_port == END_PORT:
                        last, until_s = connection, time.monotonic() + END_WAIT_S
                        continue
                    # Fewer wake-ups: see `programs.receive_blocks`. An end of data wakes, too.
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, BLOCK_BYTES)
                    connection.setblocking(False)
                    seen[str(source_port)] = {"bytes": 0, "how": "open"}
                    readers[connection.fileno()] = connection, seen[str(source_port)]
                    poll.register(connection.fileno(), select.EPOLLIN)
                else:
                    connection, its = readers[descriptor]
                    if not _read(connection, its, block):
                        poll.unregister(descriptor)
                        del readers[descriptor]
                        connection.close()
        # What is less than a block wakes nobody, and a reset that was lost does not, either.
        for connection, its in readers.values():
            _read(connection, its, block)
            connection.close()
    if last is not None:
        last.close()
    return seen


def _read(connection: socket.socket, its: dict[str, Any], block: bytearray) -> bool:
    """Read what has come; tell whether more may come."""
    try:
        while count := connection.recv_into(block, 0, socket.MSG_TRUNC):
            its["bytes"] += count
    except BlockingIOError:
        return True
    except OSError as error:
        its["how"] = errno.errorcode.get(error.errno or 0, str(error))
    else:
        its["how"] = "finished"
    its["ended_ns"] = time.monotonic_ns()
    return False


def allow_files(flows: int) -> None:
    """Raise the limit of open files to what so many flows need; ValueError if that is refused.

    A host's programs have a low one (`topology.DESCRIPTOR_LIMIT`).
    """
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = flows + OTHER_FILES
    if least == resource.RLIM_INFINITY or wanted <= least:
        return
    if most != resource.RLIM_INFINITY:
        most = max(most, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
