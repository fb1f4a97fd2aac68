"""Network namespaces of hosts: enter one, and read or set sysctls, counters and offloads.

Offloads use the ethtool ioctl; the `ethtool` program would start 30 processes per replicate.
Constants: linux/ethtool.h and linux/sockios.h.
"""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from losslab.errors import LosslabError

COUNTERS = ("snmp", "netstat")  # files of /proc/net
SIOCETHTOOL = 0x8946
# feature: (ETHTOOL_G..., ETHTOOL_S...)
COMMANDS = {"tso": (0x1E, 0x1F), "gso": (0x23, 0x24), "gro": (0x2B, 0x2C)}
# Features without a command of their own are bits, numbered by the position of their names.
GSTRINGS, GSSET_INFO, GFEATURES, SFEATURES = 0x1B, 0x37, 0x3A, 0x3B
SS_FEATURES, GSTRING_BYTES = 4, 32
UDP_FEATURE = "tx-udp-segmentation"
VALUES = {"off": 0, "on": 1}


@contextmanager
def inside(pid: int) -> Iterator[None]:
    """Move this thread into the network namespace of process `pid` for the length of the block."""
    original = os.open("/proc/self/ns/net", os.O_RDONLY)
    target = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        os.setns(target, os.CLONE_NEWNET)
        yield
    finally:
        os.setns(original, os.CLONE_NEWNET)
        os.close(target)
        os.close(original)


def read_sysctl(name: str) -> str:
    """Read a sysctl of the current namespace; single spaces separate its fields."""
    path = Path("/proc/sys") / name.replace(".", "/")
    return " ".join(path.read_text().split())


def write_sysctl(name: str, value: str) -> None:
    """Write a sysctl of the current namespace."""
    path = Path("/proc/sys") / name.replace(".", "/")
    try:
        path.write_text(value)
    except OSError as error:
        raise LosslabError(f"sysctl {name} must accept {value!r}, found: {error}") from error


def read_counters(
    folder: Path = Path("/proc/net"), files: Sequence[str] = COUNTERS
) -> dict[str, int]:
    """Read the TCP and IP counters of a namespace, with the names of `nstat` (TcpRetransSegs)."""
    counters = {}
    for file in files:
        lines = (folder / file).read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            prefix, *names_of = names.replace(":", "").split()
            for name, value in zip(names_of, values.split()[1:], strict=True):
                counters[prefix + name] = int(value)
    return counters


def _ethtool(interface_name: str, command: int, *words: int, room: int = 0) -> bytes:
    """Send an ethtool message of 32-bit words with `room` further bytes; return the reply."""
    message = array.array("B", struct.pack(f"={1 + len(words)}I", command, *words) + bytes(room))
    # struct ifreq: the name and a pointer to the message.
    request = struct.pack("16sP", interface_name.encode(), message.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        fcntl.ioctl(channel, SIOCETHTOOL, request)
    return message.tobytes()


def _udp_bit(interface_name: str) -> tuple[int, int]:
    """Return the number of 32-bit words of features, and the bit of UDP segmentation."""
    found = _ethtool(interface_name, GSSET_INFO, 0, 1 << SS_FEATURES, 0, room=4)
    (count,) = struct.unpack_from("=I", found, 16)
    strings = _ethtool(interface_name, GSTRINGS, SS_FEATURES, 0, room=GSTRING_BYTES * count)[12:]
    names = [
        strings[at : at + GSTRING_BYTES].rstrip(b"\0").decode()
        for at in range(0, GSTRING_BYTES * count, GSTRING_BYTES)
    ]
    return (count + 31) // 32, names.index(UDP_FEATURE)


def set_offloads(interface_name: str, value: str, udp: bool = False) -> None:
    """Request all offloads, with `udp` also UDP segmentation; check with `read_offloads`."""
    for _, command in COMMANDS.values():
        _ethtool(interface_name, command, VALUES[value])
    if udp:
        words, bit = _udp_bit(interface_name)
        request = [0] * (2 * words)  # alternately: valid, requested
        request[2 * (bit // 32)] = 1 << bit % 32
        request[2 * (bit // 32) + 1] = VALUES[value] << bit % 32
        _ethtool(interface_name, SFEATURES, words, *request)


def read_offloads(interface_name: str, udp: bool = False) -> dict[str, str]:
    """Return the state of each offload, `on` or `off`; with `udp` also of UDP segmentation."""
    found = {
        feature: "on" if any(_ethtool(interface_name, command, 0)[4:]) else "off"
        for feature, (command, _) in COMMANDS.items()
    }
    if udp:
        words, bit = _udp_bit(interface_name)
        state = _ethtool(interface_name, GFEATURES, words, room=16 * words)
        # Fields of each word: available, requested, active, never changed.
        (active,) = struct.unpack_from("=I", state, 8 + 16 * (bit // 32) + 8)
        found["udp"] = "on" if active >> bit % 32 & 1 else "off"
    return found
