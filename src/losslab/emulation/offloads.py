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
WORDS = {"off": 0, "on": 1}


def _ioctl(interface_name: str, command: int, value: int) -> int:
    """Send a `struct ethtool_value` for an interface of the current namespace; return its data."""
    message = array.array("B", struct.pack("=II", command, value))
    # struct ifreq: the name and a pointer to the message.
    request = struct.pack("16sP", interface_name.encode(), message.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        fcntl.ioctl(channel, SIOCETHTOOL, request)
    return int(struct.unpack("=II", message.tobytes())[1])


def set_all(interface_name: str, word: str) -> None:
    """Turn all offloads `on` or `off`. Whether that took is for `read` to say."""
    for _, command in COMMANDS.values():
        _ioctl(interface_name, command, WORDS[word])


def read(interface_name: str) -> dict[str, str]:
    """Return each offload as `on` or `off`."""
    return {
        feature: "on" if _ioctl(interface_name, command, 0) else "off"
        for feature, (command, _) in COMMANDS.items()
    }
