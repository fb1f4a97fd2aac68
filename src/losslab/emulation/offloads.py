"""Read and set an interface's segmentation and receive offloads through the ethtool ioctl.

The `ethtool` program would cost thirty processes per replicate. Constants: linux/ethtool.h and
linux/sockios.h.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct

SIOCETHTOOL = 0x8946
# feature: (ETHTOOL_G..., ETHTOOL_S...)
COMMANDS = {"tso": (0x1E, 0x1F), "gso": (0x23, 0x24), "gro": (0x2B, 0x2C)}
# Features that have no command of their own are bits, by the places of their names.
GSTRINGS, GSSET_INFO, GFEATURES, SFEATURES = 0x1B, 0x37, 0x3A, 0x3B
SS_FEATURES, GSTRING_BYTES = 4, 32
UDP_FEATURE = "tx-udp-segmentation"
WORDS = {"off": 0, "on": 1}


def _ioctl(interface_name: str, command: int, value: int) -> int:
    """Send a `struct ethtool_value` for an interface of the current namespace; return its data."""
    message = array.array("B", struct.pack("=II", command, value))
    # struct ifreq: the name and a pointer to the message.
    request = struct.pack("16sP", interface_name.encode(), message.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        fcntl.ioctl(channel, SIOCETHTOOL, request)
    return int(struct.unpack("=II", message.tobytes())[1])


def _features(interface_name: str, command: int, *words: int, room: int = 0) -> bytes:
    """Send a message of 32-bit words, with room for more of them; return what it is then."""
    message = array.array("B", struct.pack(f"={1 + len(words)}I", command, *words) + bytes(room))
    request = struct.pack("16sP", interface_name.encode(), message.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        fcntl.ioctl(channel, SIOCETHTOOL, request)
    return message.tobytes()


def _udp_bit(interface_name: str) -> tuple[int, int]:
    """Say how many words of features there are, and which bit UDP's segmentation has."""
    found = _features(interface_name, GSSET_INFO, 0, 1 << SS_FEATURES, 0, room=4)
    (count,) = struct.unpack_from("=I", found, 16)
    strings = _features(interface_name, GSTRINGS, SS_FEATURES, 0, room=GSTRING_BYTES * count)[12:]
    names = [
        strings[at : at + GSTRING_BYTES].rstrip(b"\0").decode()
        for at in range(0, GSTRING_BYTES * count, GSTRING_BYTES)
    ]
    return (count + 31) // 32, names.index(UDP_FEATURE)


def set_all(interface_name: str, word: str, udp: bool = False) -> None:
    """Turn all offloads `on` or `off`. Whether that took is for `read` to say.

    `udp`: also that of UDP, which few programs ask for.
    """
    for _, command in COMMANDS.values():
        _ioctl(interface_name, command, WORDS[word])
    if udp:
        words, bit = _udp_bit(interface_name)
        asked = [0] * (2 * words)  # valid and requested, by turns
        asked[2 * (bit // 32)] = 1 << bit % 32
        asked[2 * (bit // 32) + 1] = WORDS[word] << bit % 32
        _features(interface_name, SFEATURES, words, *asked)


def read(interface_name: str, udp: bool = False) -> dict[str, str]:
    """Return each offload as `on` or `off`; arguments as for `set_all`."""
    found = {
        feature: "on" if _ioctl(interface_name, command, 0) else "off"
        for feature, (command, _) in COMMANDS.items()
    }
    if udp:
        words, bit = _udp_bit(interface_name)
        state = _features(interface_name, GFEATURES, words, room=16 * words)
        # By word: available, requested, active, never changed.
        (active,) = struct.unpack_from("=I", state, 8 + 16 * (bit // 32) + 8)
        found["udp"] = "on" if active >> bit % 32 & 1 else "off"
    return found
