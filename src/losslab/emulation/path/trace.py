"""Trace-driven links: exact links that follow a list of opportunities."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation import shaping
from losslab.emulation.link import exact, tracelink
from losslab.emulation.link.banded import banded
from losslab.emulation.mechanism import Mechanism, MechanismResult
from losslab.emulation.probes import QueueSample
from losslab.emulation.programs import NS_PER_S, sleep_until
from losslab.emulation.qdiscs import REVERSE_HANDLE, REVERSE_QUEUE_HANDLE, Qdisc
from losslab.emulation.topology import interface, reverse_router
from losslab.study.axes import NONE, Seed, axis

if TYPE_CHECKING:
    from losslab.emulation.checks import Evidence
    from losslab.emulation.hosts import Handle
    from losslab.emulation.link.exact import LinkPlan
    from losslab.emulation.outcome import Observations
    from losslab.emulation.plan import Plan
    from losslab.emulation.programs import Host
    from losslab.study.condition import Condition

# A file of config/traces, or the name and the digest of another file.
PATTERN = r"[A-Za-z0-9-][A-Za-z0-9.-]*(@[0-9a-f]{16})?"
# A trace begins one to two seconds after its list is ready.
BEGIN_AFTER_S = 2
# Count of the bytes by which a window carried more than the trace allows.
EXCESS = "link_excess_bytes"


@dataclass(frozen=True)
class Trace(Mechanism):
    """Trace-driven links of both directions; the reverse link has a FIFO."""

    order = 0
    per_gb_s = 2.6  # the link's record, and its analysis
    axes = {
        "trace": axis(
            NONE,
            help="packet-delivery trace that replaces the bottleneck's rate: `none`, a file of "
            "`config/traces`, on the command line any file, or `cellular`, drawn for each "
            "replicate; it needs the shaper `link`",
            pattern=PATTERN, named="trace-{}",
        ),
        "trace_back": axis(
            NONE,
            help="packet-delivery trace of the reverse path, as `trace` of the forward path; "
            "`cellular` has an uplink's mean rate; its queue is a FIFO of the same length",
            pattern=PATTERN, named="back-{}", seed=Seed.NEVER,
        ),
    }  # fmt: skip

    def conflicts(self, condition: Condition) -> Iterator[str]:
        if condition.bare and condition.trace != NONE:
            yield f"trace must be {NONE} with rtt_ms 0, found {condition.trace}"
        if condition.trace != NONE and not shaping.exact(condition):
            yield (
                f"trace needs the shaper link, found {condition.shaper}: no qdisc but losslab's "
                "own, in a guest, can follow a trace"
            )
        if condition.trace_back != NONE and condition.trace == NONE:
            yield f"trace_back {condition.trace_back} needs a trace, found none"

    def qdiscs(self, condition: Condition) -> list[Qdisc]:
        """Return the exact link of the reverse path, below its netem link."""
        if condition.trace_back == NONE:
            return []
        where, packets = interface(reverse_router(condition.path), "r1"), condition.buffer_packets
        fifo = Qdisc(
            where, "", REVERSE_QUEUE_HANDLE, "pfifo", f"limit {packets}", {"limit": packets}
        )
        return banded(where, "parent 1:1", (REVERSE_HANDLE, "21:", "22:"), [fifo])

    def plan(self, condition: Condition, seed: int) -> dict[str, Any]:
        return {"links": exact.links(condition, seed)}

    @contextlib.contextmanager
    def attached(
        self, plan: Plan, nodes: Mapping[str, Host], handles: Mapping[str, Handle], folder: Path
    ) -> Iterator[dict[str, Any]]:
        """Let the links follow their traces; draw those that the job's folder does not have.

        The image's Python and libm draw them: the host's may give other values.
        """
        for link in plan.parts["links"]:
            file = folder.parent / link.file
            if link.drawn_seed is not None and not file.exists():
                file.write_text(
                    tracelink.write(tracelink.generate(link.drawn_seed, mean=link.drawn_mbit))
                )
        # The traces of both directions may be recorded together, so they begin together.
        begin_ns = (int(time.monotonic()) + BEGIN_AFTER_S) * NS_PER_S
        with contextlib.ExitStack() as stack:
            # The forward link ends first: its last packets are acknowledged over the reverse link.
            for link in reversed(plan.parts["links"]):
                host = exact.link_of(plan, link.way).where.host
                stack.enter_context(exact.attached(link, plan, handles[host], folder, begin_ns))
            sleep_until(begin_ns)
            yield {"link_begin_ns": begin_ns}

    def note(self, plan: Plan, observations: Observations, folder: Path) -> MechanismResult:
        planned: list[LinkPlan] = plan.parts["links"]
        begin_ms = (observations.run.timeline.origin_ns - observations.noted["link_begin_ns"]) / 1e6
        drops, summary, excess_bytes = {}, dict[str, Any](), 0
        for link in planned:
            lines = (folder / tracelink.LOGS[link.way]).read_text().splitlines()
            name = {"data": "link_drops", "back": "link_back_drops"}[link.way]
            # Drops of the whole log count; the other figures are of the run's time.
            events = (line.split() for line in lines)
            drops[name] = sum(int(numbers[0]) for _, kind, *numbers in events if kind == "d")
            path = folder.parent / link.file
            opportunities = tracelink.parse(path.read_text(), str(path))
            described = tracelink.describe(opportunities)
            start_ms = plan.parts.get(exact.START, 0)
            excess_bytes = max(excess_bytes, tracelink.excess_bytes(lines, opportunities, start_ms))
            of_run = tracelink.summarise(lines, begin_ms, begin_ms + plan.duration_s * 1e3)
            if link.way == "back":
                summary["trace_back_mbit"] = described["trace_mbit"]
                summary["queue_back_delay_p95_ms"] = of_run.get("queue_delay_p95_ms")
            else:
                summary |= described | of_run
                # The queue's own qdisc is not sampled, and packets of pings are not in its log.
                times = [sample.t_s for sample in observations.run.queue]
                states = tracelink.backlog(lines, [begin_ms + 1e3 * t_s for t_s in times])
                waiting = [QueueSample(t, *state) for t, state in zip(times, states, strict=True)]
        digests = {
            link.way: hashlib.sha256((folder.parent / link.file).read_bytes()).hexdigest()
            for link in planned
        }
        # The replicate's 0 s on the forward link's clock.
        observed = {"link_begin_ms": begin_ms, "trace_sha256": digests}
        return MechanismResult(drops | summary, {EXCESS: excess_bytes}, waiting, observed)

    def violations(self, e: Evidence) -> Iterator[str]:
        excess_bytes = e.traffic.others.get(EXCESS, 0)
        if excess_bytes > (most := e.path_spec.sizes.mtu_bytes):
            yield (
                "no window of a trace-driven link may carry more than its opportunities and one "
                f"packet of {most} bytes, found {excess_bytes} bytes more"
            )


FEATURE = Trace()
