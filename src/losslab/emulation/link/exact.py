"""Trace-driven links in the guest's kernel: exact links that follow a list of opportunities.

Only the flows under test pass such a link; other connections and pings bypass it in a band of
their own, as with the program of `forward`: behind seconds of queue, iperf3 would give up waiting
for its peer's results (nread_read_timeout, src/net.c).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from losslab.emulation.hosts import inside
from losslab.emulation.link import forward
from losslab.emulation.link.forward import LinkPlan
from losslab.emulation.programs import ANY
from losslab.emulation.qdiscs import Link
from losslab.emulation.topology import bottleneck, interface
from losslab.errors import LosslabError
from losslab.study.packetsizes import ETHERNET_BYTES

if TYPE_CHECKING:
    from losslab.emulation.hosts import Handle
    from losslab.emulation.plan import Plan

NS_PER_MS = 10**6
DRAIN_STEP_S = 0.1


def link_of(plan: Plan, way: str) -> Link:
    """Return the planned link of a direction, `data` or `back`."""
    where = bottleneck() if way == "data" else interface(plan.back_router, "r1")
    qdiscs = plan.hosts[where.host].qdiscs
    return next(q for q in qdiscs if isinstance(q, Link) and q.where == where and not q.steps)


@contextlib.contextmanager
def attached(
    link: LinkPlan, plan: Plan, handle: Handle, folder: Path, begin_ns: int
) -> Iterator[None]:
    """Send a plan's flows in one direction over an exact link that follows a trace.

    The trace begins at `begin_ns` of CLOCK_MONOTONIC, which is 0 ms of the log. At the block's end,
    the link empties its queue. The log goes to `folder`; the trace is in the folder's parent.
    """
    qdisc, start_ms = link_of(plan, link.way), plan.parts.get(forward.START, 0)
    lines = (folder.parent / link.file).read_text().split()
    with inside(handle.pid):
        qdisc.follow(begin_ns - start_ms * NS_PER_MS, lines)
    bands, device = qdisc.parent.removeprefix("parent ").removesuffix("2"), qdisc.where.name
    six = plan.path_spec.sizes.ip_version == 6
    protocol, port_of = ("ipv6" if six else "ip"), {"data": "src_port", "back": "dst_port"}
    keys = sorted(
        {
            (ip_proto, flow.source_port)
            for flow in plan.flows
            # Not ICMP: pings bypass the link.
            for ip_proto in (("tcp", "udp") if flow.protocol == ANY else (flow.protocol,))
        },
        key=str,
    )
    handle.tc.do(
        [
            f"filter add dev {device} parent {bands} protocol {protocol} pref {pref} flower "
            f"ip_proto {ip_proto} "
            + (f"{port_of[link.way]} {port} " if port else "")
            + f"classid {bands}2"
            for pref, (ip_proto, port) in enumerate(keys, start=1)
        ]
    )
    (filters,) = handle.tc.ask([f"filter show dev {device} parent {bands}"], 1)
    options = [f["options"] for f in filters if "options" in f]
    selected = [
        (option.get("keys", {}).get("ip_proto"), option.get("keys", {}).get(port_of[link.way]))
        for option in options
    ]
    if selected != keys or any(option.get("classid") != f"{bands}2" for option in options):
        raise LosslabError(f"filters must send {keys} to class {bands}2, found {filters}")
    yield
    # Packets that TCP still sends bypass the link, so that qdisc queue empties.
    handle.tc.do([f"filter del dev {device} parent {bands}"])
    ends_s = time.monotonic() + forward.DRAIN_LIMIT_S
    while _queued(handle, qdisc):
        if time.monotonic() > ends_s:
            raise LosslabError(
                f"the trace-driven link must empty qdisc queue within {forward.DRAIN_LIMIT_S} s, "
                "found packets in it"
            )
        time.sleep(DRAIN_STEP_S)
    with inside(handle.pid):
        qdisc.require_trace(lines)
        record = qdisc.read("record")
    text = "".join(f"{line}\n" for line in log_lines(record, start_ms))
    (folder / forward.LOGS[link.way]).write_text(text)


def _queued(handle: Handle, link: Link) -> int:
    (qdiscs,) = handle.tc.ask(["qdisc show"], 1)
    place = (link.where.name, link.handle)
    return int(next(q["qlen"] for q in qdiscs if (q.get("dev"), q.get("handle")) == place))


def log_lines(record: Sequence[str], start_ms: int) -> Iterator[str]:
    """Yield the lines of a link's log, as `tracelink.TraceLink` has them, from a record.

    Times are whole ms since `start_ms` of the trace, and bytes are those of IP.
    """
    for line in record:
        at_ns, kind, octets, *rest = line.split()
        at_ms, size = int(at_ns) // NS_PER_MS - start_ms, int(octets)
        if kind == "+":
            yield f"{at_ms} + {size - ETHERNET_BYTES}"
        elif kind == "d":
            packets = int(rest[0])
            yield f"{at_ms} d {packets} {size - packets * ETHERNET_BYTES}"
        else:
            delay_ms = at_ms - (int(rest[1]) // NS_PER_MS - start_ms)
            yield f"{at_ms} - {size - ETHERNET_BYTES} {delay_ms}"
