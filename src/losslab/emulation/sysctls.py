"""The sysctls of the emulated hosts' namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from losslab.emulation.topology import INTERFACES, ROUTERS, Interface

if TYPE_CHECKING:
    from losslab.study.condition import Condition

# Buffers that never limit: 512 MiB is the bandwidth-delay product of 10 Gbit/s over 400 ms.
MAX_SOCKET_BUFFER_BYTES = 512 * 2**20
# Linux's own (tcp_init, net/ipv4/tcp.c, 6.12), where memory is not short: the smallest, what a
# socket begins with, and what it may grow to by what the program has read.
LINUX_RECEIVE_BUFFER_BYTES = (4096, 131_072, 6 * 2**20)
# Neither asked for nor granted; both; both as AccECN, since Linux 7.0 (ip-sysctl.rst).
ECN_SYSCTL = "net.ipv4.tcp_ecn"
ECN = {"off": "0", "on": "1", "accurate": "3"}
ALGORITHM_SYSCTL = "net.ipv4.tcp_congestion_control"


def sysctls(
    host: str, condition: Condition, ends: Sequence[Interface] = INTERFACES
) -> dict[str, str]:
    """List the sysctls of a host's namespace (Documentation/networking/ip-sysctl.rst)."""
    wanted = {
        "net.ipv6.conf.all.disable_ipv6": "1",
        "net.ipv6.conf.default.disable_ipv6": "1",
        "net.ipv4.conf.all.rp_filter": "0",
        "net.ipv4.conf.default.rp_filter": "0",
        "net.ipv4.conf.all.send_redirects": "0",
        "net.ipv4.ip_forward": "1" if host in ROUTERS else "0",
    }
    wanted |= {f"net.ipv4.conf.{end.name}.rp_filter": "0" for end in ends if end.host == host}
    if host in ROUTERS:
        return wanted
    return wanted | {
        # Before any socket exists: one that is born under another default keeps its pacing.
        ALGORITHM_SYSCTL: condition.algorithm,
        "net.ipv4.tcp_no_metrics_save": "1",
        ECN_SYSCTL: ECN[condition.ecn],
        "net.ipv4.tcp_rmem": " ".join(map(str, receive_buffer_bytes(condition))),
        "net.ipv4.tcp_wmem": f"4096 16384 {MAX_SOCKET_BUFFER_BYTES}",
    }


def receive_buffer_bytes(condition: Condition) -> tuple[int, int, int]:
    """Return the receive buffer's least, first and largest size.

    Linux grows it by what the program has read, which is nothing while a hole waits to be filled:
    with loss and a long RTT the receiver's window then holds back what the sender's congestion
    control allows. One that is large from the start leaves the decision to the algorithm.
    """
    if condition.receive_buffer == "linux":
        return LINUX_RECEIVE_BUFFER_BYTES
    return LINUX_RECEIVE_BUFFER_BYTES[0], MAX_SOCKET_BUFFER_BYTES, MAX_SOCKET_BUFFER_BYTES
