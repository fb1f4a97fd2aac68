"""Count what arrives at an interface of a host, whatever program it is for."""

from __future__ import annotations

from pathlib import Path

COLUMNS = "t_s,packets,bytes,tcp_segments,udp_datagrams"


class ArrivalProbe:
    """The counters of an interface, and those of its host's TCP and UDP."""

    def __init__(self, pid: int, interface_name: str) -> None:
        self._net, self._name = Path(f"/proc/{pid}/net"), interface_name

    def row(self, t_s: float) -> str:
        """Format what has arrived so far as a line of `COLUMNS`; `t_s` is the caller's clock."""
        lines = (self._net / "dev").read_text().splitlines()
        words = next(line.split(":")[1] for line in lines if line.split(":")[0] == self._name)
        octets, packets, *_ = words.split()
        # Behind two lines of IP's and some of ICMP's (net/ipv4/proc.c), names and values by turns.
        rows = [line.split() for line in (self._net / "snmp").read_text().splitlines()]
        counts = {
            (names[0], name): value
            for names, values in zip(rows[::2], rows[1::2], strict=True)
            for name, value in zip(names[1:], values[1:], strict=True)
        }
        segments, datagrams = counts["Tcp:", "InSegs"], counts["Udp:", "InDatagrams"]
        return f"{t_s:.6f},{packets},{octets},{segments},{datagrams}"
