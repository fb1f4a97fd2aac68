"""Trace-driven links: an exact link, or with the shaper `tbf` a program behind a TUN device."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation import shaping
from losslab.emulation.link import exact, forward, queues, tracelink
from losslab.emulation.link.banded import banded
from losslab.emulation.mechanism import Mechanism, MechanismResult
from losslab.emulation.probes import QueueSample
from losslab.emulation.programs import NS_PER_S, sleep_until
from losslab.emulation.qdiscs import REVERSE_HANDLE, REVERSE_QUEUE_HANDLE, Qdisc
from losslab.emulation.topology import interface, reverse_router
from losslab.errors import LosslabError
from losslab.study.axes import DRAWN_TRACE, NONE, OWN, Seed, axis, derived_seed

if TYPE_CHECKING:
    from losslab.emulation.checks import Evidence
    from losslab.emulation.hosts import Handle
    from losslab.emulation.link.forward import LinkPlan
    from losslab.emulation.outcome import Observations
    from losslab.emulation.plan import Plan
    from losslab.emulation.programs import Host
    from losslab.study.condition import Condition

# A file of config/traces, or the name and the digest of another file.
PATTERN = r"[A-Za-z0-9-][A-Za-z0-9.-]*(@[0-9a-f]{16})?"
# Length of the queue behind the link, which never fills.
SPARE_PACKETS = 1000
# A trace begins one to two seconds later; a link's program is ready within one.
BEGIN_AFTER_S = 2


@dataclass(frozen=True)
class Trace(Mechanism):
    """Trace-driven links of both directions; the reverse link has a FIFO."""

    order = 0
    per_gb_s = 98.0  # Python
    programs = (forward.MODULE,)
    axes = {
        "trace": axis(
            NONE,
            help="packet-delivery trace that replaces the bottleneck's rate: `none`, a file of "
            "`config/traces`, on the command line any file, or `cellular`, drawn for each "
            "replicate; with a trace and the shaper `tbf` the queue is `fifo`, `bfifo`, "
            "`codel`, `fq_codel`, `pie`, `red` or `own`",
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
            try:
                queues.queue_of(_queue(condition), condition.buffer_packets)
            except LosslabError as error:
                yield error.message
        if condition.trace_back != NONE and condition.trace == NONE:
            yield f"trace_back {condition.trace_back} needs a trace, found none"

    def on_queue(self, condition: Condition, qdisc: Qdisc) -> Qdisc:
        """Replace the bottleneck's queue by a spare FIFO: packets queue in the link's program."""
        if shaping.exact(condition):
            return qdisc
        limit = {"limit": SPARE_PACKETS}
        return replace(qdisc, kind="pfifo", arguments=f"limit {SPARE_PACKETS}", expected=limit)

    def qdiscs(self, condition: Condition) -> list[Qdisc]:
        """Return the exact link of the reverse path, below its netem link."""
        if condition.trace_back == NONE or not shaping.exact(condition):
            return []
        where, packets = interface(reverse_router(condition.path), "r1"), condition.buffer_packets
        fifo = Qdisc(
            where, "", REVERSE_QUEUE_HANDLE, "pfifo", f"limit {packets}", {"limit": packets}
        )
        return banded(where, "parent 1:1", (REVERSE_HANDLE, "21:", "22:"), [fifo])

    def plan(self, condition: Condition, seed: int) -> dict[str, Any]:
        ways = (
            ("data", condition.trace, _queue(condition), "trace", tracelink.MEAN_MBIT),
            ("back", condition.trace_back, "fifo", "trace-back", tracelink.MEAN_BACK_MBIT),
        )
        drawing = {forward.SEED: derived_seed(seed, "trace-queue")}
        draws = not shaping.exact(condition) and _queue(condition).startswith(("pie", "red"))
        return (drawing if draws else {}) | {
            "links": [
                forward.LinkPlan(
                    way, queue, condition.buffer_packets,
                    derived_seed(seed, purpose) if trace == DRAWN_TRACE else None, mean_mbit,
                )
                for way, trace, queue, purpose, mean_mbit in ways
                if trace != NONE
            ]
        }  # fmt: skip

    def preloaded_programs(self, plan: Plan) -> list[tuple[str, str]]:
        if plan.path_spec.exact:
            return []
        return [(forward.ROUTER, forward.MODULE)] * len(plan.parts["links"])

    @contextlib.contextmanager
    def attached(
        self, plan: Plan, nodes: Mapping[str, Host], handles: Mapping[str, Handle], folder: Path
    ) -> Iterator[dict[str, Any]]:
        """Run the links' programs on traces that are drawn here.

        The image's Python and libm draw them: the host's may give other values.
        """
        router, handle = nodes[forward.ROUTER], handles[forward.ROUTER]
        for link in plan.parts["links"]:
            if link.drawn_seed is not None:
                drawn = tracelink.generate(link.drawn_seed, mean=link.drawn_mbit)
                (folder.parent / link.file).write_text(tracelink.write(drawn))
        # The traces of both directions may be recorded together, so they begin together.
        begin_ns = (int(time.monotonic()) + BEGIN_AFTER_S) * NS_PER_S
        with contextlib.ExitStack() as stack:
            # The forward link ends first: its last packets are acknowledged over the reverse link.
            for link in reversed(plan.parts["links"]):
                if plan.path_spec.exact:
                    host = exact.link_of(plan, link.way).where.host
                    attached = exact.attached(link, plan, handles[host], folder, begin_ns)
                else:
                    attached = forward.attached(router, handle, link, plan, folder, begin_ns)
                stack.enter_context(attached)
            sleep_until(begin_ns)
            yield {"link_begin_ns": begin_ns}

    def violations(self, e: Evidence) -> Iterator[str | None]:
        if e.path_spec.exact:
            return
        rate_mbit = e.path_spec.rate_mbit
        waiting = max((sample.backlog_bytes for sample in e.queue), default=0)
        wait_ms = waiting * 8 / 1e3 / rate_mbit
        if wait_ms > tracelink.WAIT_MAX_MS:
            yield (
                "packets must not wait behind the trace-driven link, found a wait of "
                f"{wait_ms:.0f} ms: rate_mbit {rate_mbit:g} must be above the trace's rate"
            )

    def note(self, plan: Plan, observations: Observations, folder: Path) -> MechanismResult:
        links: list[LinkPlan] = plan.parts["links"]
        begin_ms = (observations.run.timeline.origin_ns - observations.noted["link_begin_ns"]) / 1e6
        drops, summary = {}, dict[str, Any]()
        for link in links:
            lines = (folder / forward.LOGS[link.way]).read_text().splitlines()
            name = {"data": "link_drops", "back": "link_back_drops"}[link.way]
            # Drops of the whole log count; the other figures are of the run's time.
            events = (line.split() for line in lines)
            drops[name] = sum(int(numbers[0]) for _, kind, *numbers in events if kind == "d")
            path = folder.parent / link.file
            described = tracelink.describe(tracelink.parse(path.read_text(), str(path)))
            of_run = tracelink.summarise(lines, begin_ms, begin_ms + plan.duration_s * 1e3)
            if link.way == "back":
                summary["trace_back_mbit"] = described["trace_mbit"]
                summary["queue_back_delay_p95_ms"] = of_run.get("queue_delay_p95_ms")
            else:
                summary |= described | of_run
                # The bucket behind the link never runs dry: packets queue in the link.
                times = [sample.t_s for sample in observations.run.queue]
                states = tracelink.backlog(lines, [begin_ms + 1e3 * t_s for t_s in times])
                waiting = [QueueSample(t, *state) for t, state in zip(times, states, strict=True)]
        digests = {
            link.way: hashlib.sha256((folder.parent / link.file).read_bytes()).hexdigest()
            for link in links
        }
        # The replicate's 0 s on the forward link's clock.
        observed = {"link_begin_ms": begin_ms, "trace_sha256": digests}
        # An exact link's drops are those of qdiscs, too.
        counts = {} if plan.path_spec.exact else drops
        return MechanismResult(drops | summary, counts, waiting, observed)


def _queue(condition: Condition) -> str:
    """Return the link's queue: its name, or RED's and the user's with the options of tc."""
    if condition.queue not in ("red", OWN):
        return condition.queue
    (its,) = shaping.queue(condition)
    return f"{its.kind} {its.arguments}".strip()


FEATURE = Trace()
