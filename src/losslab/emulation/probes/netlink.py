"""Netlink messages, their attributes, and dumps in few system calls.

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
# Maximum size of one part of a reply (netlink_recvmsg, net/netlink/af_netlink.c).
PART_BYTES = 1 << 15
# A small dump has two parts: its messages and the end marker.
PARTS = 2
MSG_WAITFORONE = 0x10000  # linux/socket.h


def request(kind: int, flags: int, body: bytes) -> bytes:
    """Build a request; its socket must have no other request under way."""
    return HEADER.pack(HEADER.size + len(body), kind, NLM_F_REQUEST | flags, 1, 0) + body


def attributes(data: bytes) -> dict[int, bytes]:
    """Parse netlink attributes into payloads by type; NLA_ALIGNTO is 4."""
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
    """Yield the messages of a reply's part as (type, payload); OSError if it is a refusal."""
    at = 0
    while at + HEADER.size <= len(part):
        length, kind, *_ = HEADER.unpack_from(part, at)
        payload = part[at + HEADER.size : at + length]
        if kind == NLMSG_ERROR and (code := -struct.unpack_from("=i", payload)[0]):
            raise OSError(code, "netlink refused a request")
        yield kind, payload
        at += (length + 3) & ~3


def attribute(kind: int, content: bytes) -> bytes:
    """Build a netlink attribute."""
    data = ATTRIBUTE_HEADER.pack(ATTRIBUTE_HEADER.size + len(content), kind) + content
    return data + bytes(-len(data) % 4)


def ask(kind: int, flags: int, body: bytes) -> None:
    """Send a request about links and wait for the acknowledgement; OSError if refused."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE) as sock:
        sock.send(request(kind, flags, body))
        list(split(sock.recv(PART_BYTES)))


def dump(kind: int, body: bytes) -> list[tuple[int, bytes]]:
    """Return the messages of a dump as (type, payload); OSError if it is refused."""
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


class _Message(ctypes.Structure):  # struct mmsghdr: buffers, and the number of bytes received
    _fields_ = (("header", _Header), ("received", ctypes.c_uint))


class DumpReader:
    """Reader of many dumps on one socket.

    It reuses its buffers: `recv` would map, touch and unmap new memory for each dump. It receives a
    small dump and its end marker in one system call.
    """

    def __init__(self, sock: socket.socket) -> None:
        """Prepare the buffers; the caller keeps and closes the socket."""
        self._descriptor = sock.fileno()
        self._buffers = [ctypes.create_string_buffer(PART_BYTES) for _ in range(PARTS)]
        self._vectors = [_Iovec(ctypes.addressof(each), PART_BYTES) for each in self._buffers]
        self._messages = (_Message * PARTS)(
            *(_Message(_Header(iov=ctypes.pointer(each), iov_length=1)) for each in self._vectors)
        )
        self._receive = ctypes.CDLL(None, use_errno=True).recvmmsg

    def dump(self) -> list[tuple[int, bytes]]:
        """Return the messages of a dump as (type, payload); OSError if it is refused."""
        return _until_done(self._parts())

    def _parts(self) -> Iterator[bytes]:
        while True:
            count = self._receive(self._descriptor, self._messages, PARTS, MSG_WAITFORONE, None)
            if count < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            for buffer, message in zip(self._buffers[:count], self._messages, strict=False):
                yield ctypes.string_at(buffer, message.received)
