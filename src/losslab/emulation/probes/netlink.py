"""Speak to the kernel over netlink: messages, their attributes, and a dump in few system calls.

Layouts: linux/netlink.h. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Iterable, Iterator

HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
ATTRIBUTE_HEADER = struct.Struct("=HH")
NLM_F_REQUEST, NLM_F_ACK, NLM_F_ECHO, NLM_F_DUMP = 0x1, 0x4, 0x8, 0x300
NETLINK_ROUTE = 0
NLMSG_ERROR, NLMSG_DONE = 2, 3
# The kernel puts no more into one part of an answer (netlink_recvmsg, net/netlink/af_netlink.c).
PART_BYTES = 1 << 15
# A dump of little is one part, and one that says that it was all.
PARTS = 2
MSG_WAITFORONE = 0x10000  # linux/socket.h


def request(kind: int, flags: int, body: bytes) -> bytes:
    """Make a request, the only one that is under way on its socket."""
    return HEADER.pack(HEADER.size + len(body), kind, NLM_F_REQUEST | flags, 1, 0) + body


def attributes(data: bytes) -> dict[int, bytes]:
    """Split netlink attributes (type, payload); NLA_ALIGNTO is 4."""
    found = {}
    at = 0
    while at + 4 <= len(data):
        length, kind = ATTRIBUTE_HEADER.unpack_from(data, at)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[at + 4 : at + length]
        at += (length + 3) & ~3
    return found


def split(part: bytes) -> Iterator[tuple[int, bytes]]:
    """Split a part of an answer into (type, payload); OSError if the kernel refused."""
    at = 0
    while at + HEADER.size <= len(part):
        length, kind, *_ = HEADER.unpack_from(part, at)
        payload = part[at + HEADER.size : at + length]
        if kind == NLMSG_ERROR and (code := -struct.unpack_from("=i", payload)[0]):
            raise OSError(code, "netlink refused a request")
        yield kind, payload
        at += (length + 3) & ~3


def attribute(kind: int, content: bytes) -> bytes:
    """Write a netlink attribute."""
    whole = ATTRIBUTE_HEADER.pack(ATTRIBUTE_HEADER.size + len(content), kind) + content
    return whole + bytes(-len(whole) % 4)


def ask(kind: int, flags: int, body: bytes) -> None:
    """Send a request about this namespace's links; OSError if the kernel refused it."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE) as sock:
        sock.send(request(kind, flags, body))
        list(split(sock.recv(PART_BYTES)))


def dump(kind: int, body: bytes) -> list[tuple[int, bytes]]:
    """Dump this namespace's links as (type, payload); OSError if the kernel refused it."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE) as sock:
        sock.send(request(kind, NLM_F_DUMP, body))
        return _until_done(iter(lambda: sock.recv(PART_BYTES), b""))


def _until_done(parts: Iterable[bytes]) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for part in parts:
        for kind, payload in split(part):
            if kind == NLMSG_DONE:
                return found
            found.append((kind, payload))
    return found


class _Iovec(ctypes.Structure):  # struct iovec
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Header(ctypes.Structure):  # struct msghdr
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("iov", ctypes.POINTER(_Iovec)),
        ("iov_length", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Message(ctypes.Structure):  # struct mmsghdr: where to, and how many bytes were received
    _fields_ = (("header", _Header), ("received", ctypes.c_uint))


class Answers:
    """Receives dumps on one socket again and again.

    Its memory stays: that of `recv` would be mapped, touched and unmapped each time. And the end of
    a dump comes with it: as another part it would take another system call.
    """

    def __init__(self, sock: socket.socket) -> None:
        """Stay beside a socket, which stays the caller's."""
        self._number = sock.fileno()
        self._memory = [ctypes.create_string_buffer(PART_BYTES) for _ in range(PARTS)]
        self._places = [_Iovec(ctypes.addressof(each), PART_BYTES) for each in self._memory]
        self._messages = (_Message * PARTS)(
            *(_Message(_Header(iov=ctypes.pointer(at), iov_length=1)) for at in self._places)
        )
        self._receive = ctypes.CDLL(None, use_errno=True).recvmmsg

    def dump(self) -> list[tuple[int, bytes]]:
        """Receive the messages of one dump, as (type, payload); OSError if it was refused."""
        return _until_done(self._parts())

    def _parts(self) -> Iterator[bytes]:
        while True:
            count = self._receive(self._number, self._messages, PARTS, MSG_WAITFORONE, None)
            if count < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            for memory, message in zip(self._memory[:count], self._messages, strict=False):
                yield ctypes.string_at(memory, message.received)
