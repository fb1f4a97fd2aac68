"""Trace-driven links in the guest's kernel: exact links that follow a list of opportunities.

Only TCP and UDP flows pass such a link, those under test and the background flows. Other
connections of their programs and pings bypass it in a band of their own: behind seconds of queue,
iperf3 would give up waiting for its peer's results (nread_read_timeout, src/net.c).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from losslab.emulation.hosts import inside
from losslab.emulation.link import tracelink
from losslab.emulation.link.tracelink import LOGS
from losslab.emulation.programs import ANY
from losslab.emulation.qdiscs import Link
from losslab.emulation.topology import bottleneck, interface
from losslab.errors import LosslabError
from losslab.study.axes import DRAWN_TRACE, NONE, derived_seed
from losslab.study.packetsizes import ETHERNET_BYTES

if TYPE_CHECKING:
    from losslab.emulation.hosts import Handle
    from losslab.emulation.plan import Plan
    from losslab.study.condition import Condition

# The part of a plan with the start of its traces; absent for 0.
START = "trace_start_ms"
NS_PER_MS = 10**6
# Maximum time in which the link must empty its queue once no more packets arrive.
DRAIN_LIMIT_S = 600
DRAIN_STEP_S = 0.1
# Keys of flower.
SOURCE, DESTINATION = "src_port", "dst_port"


@dataclass(frozen=True)
class LinkPlan:
    """Trace-driven link: its direction, queue and trace. Manifests record the fields' names."""

    way: str  # "data" (forward path) or "back" (reverse path)
    queue: str
    buffer_packets: int
    drawn_seed: int | None  # None: the trace is a file
    drawn_mbit: float  # mean rate of a drawn trace

    @property
    def file(self) -> str:
        """Return the name of the trace's file in the job's folder."""
        return {"data": "trace", "back": "trace-back"}[self.way]


def links(condition: Condition, seed: int) -> list[LinkPlan]:
    """List the links of a condition's traces; `seed` is the replicate's."""
    ways = (
        ("data", condition.trace, condition.queue, "trace", tracelink.MEAN_MBIT),
        ("back", condition.trace_back, "fifo", "trace-back", tracelink.MEAN_BACK_MBIT),
    )
    return [
        LinkPlan(
            way, queue, condition.buffer_packets,
            derived_seed(seed, purpose) if trace == DRAWN_TRACE else None, mean_mbit,
        )
        for way, trace, queue, purpose, mean_mbit in ways
        if trace != NONE
    ]  # fmt: skip


def link_of(plan: Plan, way: str) -> Link:
    """Return the planned link of a direction, `data` or `back`."""
    where = bottleneck() if way == "data" else interface(plan.back_router, "r1")
    qdiscs = plan.hosts[where.host].qdiscs
    return next(q for q in qdiscs if isinstance(q, Link) and q.where == where and not q.steps)


def selected(plan: Plan, way: str) -> list[tuple[str, str, int | None]]:
    """List what passes the link of a direction: protocol, and one end's port if not all do."""
    near = SOURCE if way == "data" else DESTINATION
    keys = {
        (ip_proto, near, flow.source_port)
        for flow in plan.flows
        # Not ICMP: pings bypass the link.
        for ip_proto in (("tcp", "udp") if flow.protocol == ANY else (flow.protocol,))
    }
    if plan.background:  # downloads and uploads have the same port, at different ends
        keys |= {("tcp", end, plan.background.flow.port) for end in (SOURCE, DESTINATION)}
    return sorted(keys, key=str)


@contextlib.contextmanager
def attached(
    link: LinkPlan, plan: Plan, handle: Handle, folder: Path, begin_ns: int
) -> Iterator[None]:
    """Send a plan's flows in one direction over an exact link that follows a trace.

    The trace begins at `begin_ns` of CLOCK_MONOTONIC, which is 0 ms of the log. At the block's end,
    the link empties its queue. The log goes to `folder`; the trace is in the folder's parent.
    """
    qdisc, start_ms = link_of(plan, link.way), plan.parts.get(START, 0)
    lines = (folder.parent / link.file).read_text().split()
    with inside(handle.pid):
        qdisc.follow(begin_ns - start_ms * NS_PER_MS, lines)
    bands, device = qdisc.parent.removeprefix("parent ").removesuffix("2"), qdisc.where.name
    protocol = "ipv6" if plan.path_spec.sizes.ip_version == 6 else "ip"
    keys = selected(plan, link.way)
    handle.tc.do(
        [
            f"filter add dev {device} parent {bands} protocol {protocol} pref {pref} flower "
            f"ip_proto {ip_proto} " + (f"{end} {port} " if port else "") + f"classid {bands}2"
            for pref, (ip_proto, end, port) in enumerate(keys, start=1)
        ]
    )
    (filters,) = handle.tc.ask([f"filter show dev {device} parent {bands}"], 1)
    options = [f["options"] for f in filters if "options" in f]
    shown = [
        (option.get("keys", {}).get("ip_proto"), end, option.get("keys", {}).get(end))
        for option, (_, end, _) in zip(options, keys, strict=False)
    ]
    if shown != keys or any(option.get("classid") != f"{bands}2" for option in options):
        raise LosslabError(f"filters must send {keys} to class {bands}2, found {filters}")
    yield
    # Packets that TCP still sends bypass the link, so that its queue empties.
    handle.tc.do([f"filter del dev {device} parent {bands}"])
    ends_s = time.monotonic() + DRAIN_LIMIT_S
    while _queued(handle, qdisc):
        if time.monotonic() > ends_s:
            raise LosslabError(
                f"the trace-driven link must empty its queue within {DRAIN_LIMIT_S} s, "
                "found packets in it"
            )
        time.sleep(DRAIN_STEP_S)
    with inside(handle.pid):
        qdisc.require_trace(lines)
        record = qdisc.read("record")
    text = "".join(f"{line}\n" for line in log_lines(record, start_ms))
    (folder / LOGS[link.way]).write_text(text)


def _queued(handle: Handle, link: Link) -> int:
    (qdiscs,) = handle.tc.ask(["qdisc show"], 1)
    place = (link.where.name, link.handle)
    return int(next(q["qlen"] for q in qdiscs if (q.get("dev"), q.get("handle")) == place))


def log_lines(record: Sequence[str], start_ms: int) -> Iterator[str]:
    """Yield the lines of a link's log (see `tracelink.backlog`) from a record.

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
