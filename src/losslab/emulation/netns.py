"""Enter a host's network namespace, and read and set there: sysctls, counters, offloads.

Offloads go through the ethtool ioctl: the `ethtool` program would cost thirty processes per
replicate. Constants: linux/ethtool.h and linux/sockios.h.
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
# Features that have no command of their own are bits, by the places of their names.
GSTRINGS, GSSET_INFO, GFEATURES, SFEATURES = 0x1B, 0x37, 0x3A, 0x3B
SS_FEATURES, GSTRING_BYTES = 4, 32
UDP_FEATURE = "tx-udp-segmentation"
WORDS = {"off": 0, "on": 1}


@contextmanager
def inside(pid: int) -> Iterator[None]:
    """Put this thread into the network namespace of process `pid` for the length of the block."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        os.setns(there, os.CLONE_NEWNET)
        yield
    finally:
        os.setns(home, os.CLONE_NEWNET)
        os.close(there)
        os.close(home)


def read_sysctl(name: str) -> str:
    """Read a sysctl of the current namespace; fields are separated by single spaces."""
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
    """Read a namespace's TCP and IP counters, named as `nstat` names them (TcpRetransSegs)."""
    counters = {}
    for file in files:
        lines = (folder / file).read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            prefix, *names_of = names.replace(":", "").split()
            for name, value in zip(names_of, values.split()[1:], strict=True):
                counters[prefix + name] = int(value)
    return counters


def _ethtool(interface_name: str, command: int, *words: int, room: int = 0) -> bytes:
    """Send a message of 32-bit words, with room for more of them; return what it is then."""
    message = array.array("B", struct.pack(f"={1 + len(words)}I", command, *words) + bytes(room))
    # struct ifreq: the name and a pointer to the message.
    request = struct.pack("16sP", interface_name.encode(), message.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        fcntl.ioctl(channel, SIOCETHTOOL, request)
    return message.tobytes()


def _udp_bit(interface_name: str) -> tuple[int, int]:
    """Say how many words of features there are, and which bit UDP's segmentation has."""
    found = _ethtool(interface_name, GSSET_INFO, 0, 1 << SS_FEATURES, 0, room=4)
    (count,) = struct.unpack_from("=I", found, 16)
    strings = _ethtool(interface_name, GSTRINGS, SS_FEATURES, 0, room=GSTRING_BYTES * count)[12:]
    names = [
        strings[at : at + GSTRING_BYTES].rstrip(b"\0").decode()
        for at in range(0, GSTRING_BYTES * count, GSTRING_BYTES)
    ]
    return (count + 31) // 32, names.index(UDP_FEATURE)


def set_offloads(interface_name: str, word: str, udp: bool = False) -> None:
    """Turn all offloads `on` or `off`. Whether that took is for `read_offloads` to say.

    `udp`: also that of UDP, which few programs ask for.
    """
    for _, command in COMMANDS.values():
        _ethtool(interface_name, command, WORDS[word])
    if udp:
        words, bit = _udp_bit(interface_name)
        asked = [0] * (2 * words)  # valid and requested, by turns
        asked[2 * (bit // 32)] = 1 << bit % 32
        asked[2 * (bit // 32) + 1] = WORDS[word] << bit % 32
        _ethtool(interface_name, SFEATURES, words, *asked)


def read_offloads(interface_name: str, udp: bool = False) -> dict[str, str]:
    """Return each offload as `on` or `off`; arguments as for `set_offloads`."""
    found = {
        feature: "on" if any(_ethtool(interface_name, command, 0)[4:]) else "off"
        for feature, (command, _) in COMMANDS.items()
    }
    if udp:
        words, bit = _udp_bit(interface_name)
        state = _ethtool(interface_name, GFEATURES, words, room=16 * words)
        # By word: available, requested, active, never changed.
        (active,) = struct.unpack_from("=I", state, 8 + 16 * (bit // 32) + 8)
        found["udp"] = "on" if active >> bit % 32 & 1 else "off"
    return found
