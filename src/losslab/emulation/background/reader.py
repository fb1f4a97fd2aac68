"""Receiver of many TCP flows: reads and discards their data, and reports each flow."""

from __future__ import annotations

import errno
import resource
import select
import socket
import time
from typing import Any

# Open files besides flows: Python's own, the listener, the poll.
OTHER_FILES = 32
# As iperf3's in the foreground flow.
BLOCK_BYTES = 16 * 1024
READ_BYTES = 1 << 20
BACKLOG = 4096
# A connection from this port ends the run. The receiver then waits for open connections, because a
# reset may have been lost.
END_PORT = 10_000
END_WAIT_S = 3.0


def receive(port: int, count: int) -> dict[str, Any]:
    """Read `count` flows to their ends; return each flow's report by its source port."""
    allow_files(count)
    reports: dict[str, Any] = {}
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
                    # Fewer wake-ups, see `programs.receive_blocks`; the end of data wakes, too.
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, BLOCK_BYTES)
                    connection.setblocking(False)
                    reports[str(source_port)] = {"bytes": 0, "how": "open"}
                    readers[connection.fileno()] = connection, reports[str(source_port)]
                    poll.register(connection.fileno(), select.EPOLLIN)
                else:
                    connection, report = readers[descriptor]
                    if not _read(connection, report, block):
                        poll.unregister(descriptor)
                        del readers[descriptor]
                        connection.close()
        # Neither less than a block nor a lost reset wakes the receiver.
        for connection, report in readers.values():
            _read(connection, report, block)
            connection.close()
    if last is not None:
        last.close()
    return reports


def _read(connection: socket.socket, report: dict[str, Any], block: bytearray) -> bool:
    """Read all available data; return whether more may come."""
    try:
        while count := connection.recv_into(block, 0, socket.MSG_TRUNC):
            report["bytes"] += count
    except BlockingIOError:
        return True
    except OSError as error:
        report["how"] = errno.errorcode.get(error.errno or 0, str(error))
    else:
        report["how"] = "finished"
    report["ended_ns"] = time.monotonic_ns()
    return False


def allow_files(flows: int) -> None:
    """Raise the limit of open files for a number of flows.

    Programs on hosts have a low limit (`topology.DESCRIPTOR_LIMIT`). Raises ValueError if the hard
    limit is lower and may not be raised.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = flows + OTHER_FILES
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    if hard != resource.RLIM_INFINITY:
        hard = max(hard, needed)
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
