"""Clocks and qdiscs that a program changes during a run, also if it restores them.

A program of a replicate is root in its host's network namespace. The state that is read back before
and after the traffic does not show what was changed in between.

Standard library only.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator, Mapping

from losslab.emulation.hosts import inside

# The offsets between a guest's clocks are constant but for the time between two reads.
CLOCK_TOLERANCE_NS = 10**6
NETLINK_ROUTE = 0  # linux/netlink.h
NLMSG_ERROR, NLMSG_DONE, NLM_F_REQUEST, NLM_F_DUMP = 2, 3, 0x1, 0x300
SOL_NETLINK, NETLINK_ADD_MEMBERSHIP = 270, 1
# linux/rtnetlink.h: the group of messages on qdiscs, classes and filters, and messages on qdiscs.
RTNLGRP_TC, RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC = 4, 36, 37, 38
TCA_OPTIONS = 2
HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
SHAPE = struct.Struct("=BxxxiIII")  # struct tcmsg
ATTRIBUTE = struct.Struct("=HH")  # struct rtattr
# Parent of ingress and clsact, which hold the filters of losslab's own probes and queue nothing.
TC_H_INGRESS = 0xFFFFFFF1
MESSAGES_BYTES = 2**16
# Room for the answers to all samples of the queue in an hour, which this socket receives, too. The
# kernel takes memory only for what waits. Socket option of asm-generic/socket.h, for root.
WAITING_BYTES, SO_RCVBUFFORCE = 2**28, 33

# Interface and handle of a qdisc, and its options as the kernel encodes them; None: deleted.
Qdisc = tuple[int, int]
Options = bytes | None


class Clocks:
    """The offsets between the clocks at the time of its making."""

    def __init__(self) -> None:
        self._before = _offsets_ns()

    def violations(self) -> Iterator[str]:
        """Yield a violation for each clock that was set or whose rate was changed since then."""
        for (name, before), now in zip(self._before.items(), _offsets_ns().values(), strict=True):
            if abs(now - before) > CLOCK_TOLERANCE_NS:
                yield (
                    f"no program may set a clock, found {name} {(now - before) / 1e9:+.6g} s off: "
                    "times that were measured with it are wrong"
                )


def _offsets_ns() -> dict[str, int]:
    monotonic_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return {
        "the real-time clock": time.clock_gettime_ns(time.CLOCK_REALTIME) - monotonic_ns,
        "the rate of the clocks": monotonic_ns - time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW),
    }


class Qdiscs:
    """A record of the changes of qdiscs of some hosts since its making; see rtnetlink(7).

    The kernel tells all who listen of each change, and of each answer to a question.
    """

    def __init__(self, pids: Mapping[str, int]) -> None:
        """Begin the record in the network namespaces of processes, by host."""
        self._sockets: dict[str, socket.socket] = {}
        self._before: dict[str, dict[Qdisc, Options]] = {}
        for host, pid in pids.items():
            with inside(pid):
                changes = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE)
            changes.bind((0, 0))
            with contextlib.suppress(PermissionError):
                changes.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, WAITING_BYTES)
            length = HEADER.size + SHAPE.size
            flags = NLM_F_REQUEST | NLM_F_DUMP
            request = HEADER.pack(length, RTM_GETQDISC, flags, 1, 0) + SHAPE.pack(0, 0, 0, 0, 0)
            changes.sendto(request, (0, 0))
            self._before[host] = dict(_answer(changes))
            changes.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, RTNLGRP_TC)
            self._sockets[host] = changes

    def violations(self) -> Iterator[str]:
        """Yield a violation for each host whose qdiscs were changed; end the record."""
        for host, changes in self._sockets.items():
            before = self._before[host]
            with changes:
                found = any(
                    messages is None or any(before.get(q) != its for q, its in _qdiscs(messages))
                    for messages in _received(changes)
                )
            if found:
                yield (
                    f"no program may change a qdisc during the run, found that one did on {host}; "
                    "the path must be the condition's all the time"
                )


def _answer(asked: socket.socket) -> Iterator[tuple[Qdisc, Options]]:
    """Yield the qdiscs of an answer to a question about all."""
    while True:
        messages = asked.recv(MESSAGES_BYTES)
        yield from _qdiscs(messages)
        if any(kind in (NLMSG_DONE, NLMSG_ERROR) for kind, _ in _split(messages)):
            return


def _received(changes: socket.socket) -> Iterator[bytes | None]:
    """Yield what a socket has received; None if some was lost, as more than its buffer holds."""
    while True:
        try:
            yield changes.recv(MESSAGES_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:  # ENOBUFS
            yield None


def _split(messages: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and the content of each message."""
    at = 0
    while at + HEADER.size <= len(messages):
        length, kind, *_ = HEADER.unpack_from(messages, at)
        yield kind, messages[at + HEADER.size : at + length]
        at += max(HEADER.size, (length + 3) & ~3)


def _qdiscs(messages: bytes) -> Iterator[tuple[Qdisc, Options]]:
    """Yield the qdiscs that messages are of, with their options; not those without a queue."""
    for kind, content in _split(messages):
        if kind not in (RTM_NEWQDISC, RTM_DELQDISC):
            continue
        _, interface, handle, parent, _ = SHAPE.unpack_from(content)
        if parent == TC_H_INGRESS:
            continue
        options, at = b"", SHAPE.size
        while at + ATTRIBUTE.size <= len(content):
            length, name = ATTRIBUTE.unpack_from(content, at)
            if name & 0x3FFF == TCA_OPTIONS:
                options = content[at + ATTRIBUTE.size : at + length]
            at += max(ATTRIBUTE.size, (length + 3) & ~3)
        yield (interface, handle), None if kind == RTM_DELQDISC else options
