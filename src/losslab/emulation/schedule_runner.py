"""Runner of a path schedule: change qdiscs during the traffic, and check each phase.

Exact links change their rate themselves: the runner gives them the time of their 0 s.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from losslab.emulation.goodput import Deliveries
from losslab.emulation.hosts import Handle, inside
from losslab.emulation.mechanism import outside_acceptance_interval
from losslab.emulation.probes import QueueSample
from losslab.emulation.qdiscs import REVERSE_HANDLE, Link, LinkCount, Qdisc, differences
from losslab.errors import LosslabError
from losslab.study import schedule
from losslab.study.axes import plain
from losslab.study.packetsizes import DEFAULT, PacketSizes
from losslab.study.schedule import Phase

TABLE = "phases.csv"
COLUMNS = (
    "phase,begin_s,end_s,rate_mbit,rtt_ms,loss_percent,outage,goodput_mbit,utilisation,"
    "queue_mean_packets,loss_packets,settle_s"
)
# Step between the windows in which a flow's goodput may have settled.
SETTLE_STEP_S = 0.1
# Maximum length of a window as a share of its phase.
WINDOW_OF_PHASE = 0.5
# Length of a window. Goodput over shorter windows varies with the flow's own dynamics.
SETTLE_WINDOW_S = 1.0
# A flow has settled at this share of the link's rate. The value is losslab's own choice: BBR's
# PROBE_BW spends 1 of 8 round trips at three quarters of the rate.
SETTLED_SHARE = 0.8
# Output of `tc -json -statistics qdisc show` by host, as from `hosts.read_back`.
State = Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """Change of qdiscs at the beginning of a phase."""

    phase: Phase
    becoming: list[Qdisc]  # changed ones, in the order of their commands
    then: list[Qdisc]  # all of the path, as they must read back afterwards


@dataclass(frozen=True)
class ChangePlan:
    """Path schedule of a replicate, with what its checks need."""

    steps: list[Step]
    phases: list[Phase]  # including the first; the last ends with the run
    # Whether data packets and acknowledgements are lost; None if a drop list says which.
    strikes: list[bool | None]
    burst_packets: float
    early_ms: float  # tolerance for early pings
    lines: list[tuple[str, str]]  # host and interface of both netem links

    @property
    def spans(self) -> list[Phase]:
        """Periods between changes of qdiscs: the phases, or longer ones with exact links."""
        later = [step.phase for step in self.steps]
        end_s = later[0].begin_s if later else self.phases[-1].end_s
        return [replace(self.phases[0], end_s=end_s), *later]


@dataclass(frozen=True)
class Boundary:
    """Counters at the beginning of a phase, or at the end of the traffic."""

    t_s: float  # time of the last output
    took_s: float  # from the first command to the last output
    state: State


@dataclass
class ScheduleRunner:
    """Runs a path schedule in a thread of its own, while flows and queue are sampled."""

    plan: ChangePlan
    handles: Mapping[str, Handle]
    others: Sequence[Qdisc] = ()  # qdiscs that no change concerns
    links: Sequence[Link] = ()  # exact links with a list of steps, the bottleneck's first
    sizes: PacketSizes = DEFAULT
    boundaries: list[Boundary] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Return whether all changes are made, or one failed."""
        return bool(self.violations) or len(self.boundaries) == len(self.plan.steps)

    @contextlib.contextmanager
    def running(self, origin_ns: int) -> Iterator[None]:
        """Make each change at its time; `origin_ns` is CLOCK_MONOTONIC at 0 s."""
        for link in self.links:
            with inside(self.handles[link.where.host].pid):
                link.begin(origin_ns)
        ended = threading.Event()
        thread = threading.Thread(target=self._run, args=(origin_ns, ended))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        for step in self.plan.steps[len(self.boundaries) :]:
            self.violations.append(
                f"the change at {step.phase.begin_s:g} s must precede the end of the traffic, "
                "found it did not"
            )

    def _run(self, origin_ns: int, ended: threading.Event) -> None:
        try:
            for step in self.plan.steps:
                wait_s = step.phase.begin_s - (time.monotonic_ns() - origin_ns) / 1e9
                if ended.wait(max(0.0, wait_s)):
                    return
                self._make(step, origin_ns)
        except LosslabError as error:
            self.violations.append(str(error))

    def _make(self, step: Step, origin_ns: int) -> None:
        begin_ns = time.monotonic_ns()
        hosts = sorted({qdisc.where.host for qdisc in step.then})
        for host in hosts:
            if lines := [q.change_command() for q in step.becoming if q.where.host == host]:
                self.handles[host].tc.do(lines)
        qdiscs = {host: self.handles[host].tc.ask(["qdisc show"], 1)[0] for host in hosts}
        end_ns = time.monotonic_ns()
        state = {host: {"qdiscs": listed} for host, listed in qdiscs.items()}
        boundary = Boundary((end_ns - origin_ns) / 1e9, (end_ns - begin_ns) / 1e9, state)
        self.boundaries.append(boundary)
        self.violations += [
            f"after the change at {step.phase.begin_s:g} s: {difference}"
            for difference in differences([*step.then, *self.others], qdiscs)
        ]

    def all_boundaries(self, before: Any, after: Any) -> list[Boundary]:
        """List the boundaries of all phases, from the beginning to the end of the traffic."""
        return [Boundary(0.0, 0.0, before), *self.boundaries, Boundary(0.0, 0.0, after)]

    def check(
        self,
        before: Any,
        after: Any,
        queue: list[QueueSample],
        replies: list[tuple[float, float]],
        tolerance_ms: float,
        bucket_bytes: int,
    ) -> list[str]:
        """List the violations of the path schedule.

        `before` and `after` are from `hosts.read_back`; a ping may be faster than the base RTT by
        `tolerance_ms`. The bottleneck may send `bucket_bytes` at once.
        """
        plan = self.plan
        if self.violations or len(self.boundaries) != len(plan.steps):
            return self.violations
        boundaries = self.all_boundaries(before, after)
        changed_s = {
            span.begin_s: boundary.t_s
            for span, boundary in zip(plan.spans, boundaries[:-1], strict=True)
        }
        since_s = [changed_s.get(phase.begin_s, phase.begin_s) for phase in plan.phases]
        if self.links:
            rates = step_violations(plan.phases, self._counts(after), self.sizes.frame_bytes)
        else:
            rates = rate_violations(plan.phases, since_s, queue, bucket_bytes)
        return [
            *loss_violations(plan, boundaries, self.sizes.frame_bytes),
            *rates,
            *rtt_violations(plan.phases, since_s, replies, plan.early_ms + tolerance_ms),
        ]

    def _counts(self, after: Any) -> list[LinkCount]:
        """Return what the bottleneck sent in each phase; it also counts after the last."""
        bottleneck = self.links[0]
        return bottleneck.counts(after[bottleneck.where.host])[:-1]

    def _lost(self, before: Any, after: Any) -> list[int | None]:
        """Return the data packets lost in each phase; None if netem's are of a longer time."""
        ends = self.all_boundaries(before, after)
        by_netem = [counted(a.state, b.state, self.plan.lines)[0][1] for a, b in pairwise(ends)]
        if not self.links:
            return [*by_netem]
        counts = self._counts(after)
        return [None if any(by_netem) else count.lost for count in counts]

    def summary(
        self, before: Any, after: Any, queue: list[QueueSample], source_port: int | None,
        folder: Path, ports: Container[int] | None,
    ) -> dict[str, float | None]:  # fmt: skip
        """Return metrics of the first flow after changes; write a table of all phases to `folder`.

        `before` and `after` are from `hosts.read_back`; `folder` contains tcp.csv, and `ports` are
        those of the data connections.
        """
        if len(self.boundaries) != len(self.plan.steps):
            return {}
        delivered = Deliveries.read(folder / "tcp.csv", source_port, ports)
        lost = self._lost(before, after)
        rows, settled, share = [COLUMNS], [], None
        for number, phase in enumerate(self.plan.phases):
            max_mbit = phase.values["rate_mbit"] * self.sizes.payload_share
            since_s = self._since_s(number)
            goodput = delivered.sampled_mbit(since_s, phase.end_s)
            share = goodput and goodput / max_mbit if max_mbit else None
            waiting = [s.backlog_packets for s in queue if phase.begin_s <= s.t_s <= phase.end_s]
            settle_s = None
            sends = not phase.outage and max_mbit > 0
            if sends:
                settle_s = _settle_s(delivered, phase, since_s, max_mbit)
            if number and sends:
                settled.append(settle_s)
            values = [phase.values[name] for name in schedule.SET]
            cells: list[object] = [
                number, *(plain(each) for each in (phase.begin_s, phase.end_s, *values)),
                int(phase.outage), _written(goodput, 6),
                _written(share, 6),
                _written(sum(waiting) / len(waiting) if waiting else None, 3),
                "" if lost[number] is None else lost[number],
                _written(settle_s, 1),
            ]  # fmt: skip
            rows.append(",".join(map(str, cells)))
        (folder / TABLE).write_text("\n".join(rows) + "\n")
        known = [settle_s for settle_s in settled if settle_s is not None]
        return {
            "settle_s": max(known) if known and len(known) == len(settled) else None,
            "after_change_share": share,  # of the last phase
        }

    def _since_s(self, number: int) -> float:
        """Return the time from which all acknowledged bytes passed the bottleneck in a phase.

        It is one base RTT after the beginning, the longer one of this and the previous phase.
        """
        phase = self.plan.phases[number]
        before = self.plan.phases[number - 1] if phase.begin_s else phase
        longest_ms = max(before.values["rtt_ms"], phase.values["rtt_ms"])
        return phase.begin_s + (longest_ms / 1e3 if phase.begin_s else 0.0)


def _written(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _settle_s(delivered: Deliveries, phase: Phase, since_s: float, max_mbit: float) -> float | None:
    """Return the time from a phase's beginning until a flow has settled; None if it does not.

    Bytes that are acknowledged from `since_s` on belong to the phase.
    """
    window_s = min(SETTLE_WINDOW_S, WINDOW_OF_PHASE * (phase.end_s - phase.begin_s))
    at_s = since_s
    while at_s + window_s <= phase.end_s:
        goodput = delivered.sampled_mbit(at_s, at_s + window_s)
        if goodput is not None and goodput >= SETTLED_SHARE * max_mbit:
            return at_s - phase.begin_s
        at_s += SETTLE_STEP_S
    return None


def counted(first: State, last: State, links: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    """Count packets offered and lost at netem links (host, interface) between two states."""
    counts = []
    for host, name in links:
        by_handle = [
            {q["handle"]: q for q in at[host]["qdiscs"] if q.get("dev") == name and "handle" in q}
            for at in (first, last)
        ]
        before, after = (qdiscs["1:"] for qdiscs in by_handle)
        dropped = after["drops"] - before["drops"]
        # netem drops packets when they arrive: those offered have left, are inside, or are lost. It
        # counts what the bottleneck below it drops, too.
        inside = after["qlen"] - before["qlen"]
        below = [qdiscs.get(REVERSE_HANDLE, {"drops": 0})["drops"] for qdiscs in by_handle]
        lost = dropped - (below[1] - below[0])
        counts.append((after["packets"] - before["packets"] + inside + dropped, lost))
    return counts


def loss_violations(
    plan: ChangePlan, boundaries: Sequence[Boundary], frame_bytes: int
) -> Iterator[str]:
    """Yield a violation for each phase, between two boundaries, with a wrong loss rate."""
    for phase, (first, last) in zip(plan.spans, pairwise(boundaries), strict=True):
        # Packets that the link may have sent while the counters at a boundary were read.
        packets_per_s = phase.values["rate_mbit"] * 1e6 / 8 / frame_bytes
        edge = sum(math.ceil(each.took_s * packets_per_s) for each in (first, last))
        directions = zip(
            ("", " on the reverse path"), plan.strikes,
            counted(first.state, last.state, plan.lines), strict=True,
        )  # fmt: skip
        for direction, lossy, (offered, lost) in directions:
            if lossy is None:
                continue
            percent, run = phase.values["loss_percent"] if lossy else 0.0, plan.burst_packets
            if phase.outage:
                percent, run = 100.0, 1.0
            name = f"loss{direction} from {phase.begin_s:g} s"
            if violation := outside_acceptance_interval(name, percent, offered, lost, run, edge):
                yield violation


def rate_violations(
    phases: Sequence[Phase],
    since_s: Sequence[float],
    queue: Sequence[QueueSample],
    bucket_bytes: int,
) -> Iterator[str]:
    """Yield a violation for each phase in which the bottleneck exceeded its rate.

    `since_s` has the time at which each phase's change was complete. The bottleneck may send
    `bucket_bytes` at once.
    """
    for phase, begin_s in zip(phases, since_s, strict=True):
        inside = [s for s in queue if begin_s < s.t_s < phase.end_s]
        if len(inside) < 2:
            continue
        first, last = inside[0], inside[-1]
        rate, seconds = phase.values["rate_mbit"], last.t_s - first.t_s
        sent = last.sent_bytes - first.sent_bytes
        if sent > seconds * rate * 1e6 / 8 + bucket_bytes:
            yield (
                f"from {phase.begin_s:g} s the bottleneck must send at most {rate:g} Mbit/s, "
                f"found {sent * 8 / 1e6 / seconds:.3f} Mbit/s"
            )


def step_violations(
    phases: Sequence[Phase], counts: Sequence[LinkCount], frame_bytes: int
) -> Iterator[str]:
    """Yield a violation for each phase in which an exact link sent or lost what it could not.

    A phase carries at most its rate for its length, and the one packet that began before it.
    """
    for phase, count in zip(phases, counts, strict=True):
        rate, seconds = phase.values["rate_mbit"], phase.end_s - phase.begin_s
        if count.octets > seconds * rate * 1e6 / 8 + frame_bytes:
            yield (
                f"from {phase.begin_s:g} s the bottleneck must send at most {rate:g} Mbit/s for "
                f"{seconds:g} s and a packet, found {count.octets} bytes"
            )
        if count.lost != (count.packets if phase.outage else 0):
            yield (
                f"from {phase.begin_s:g} s the bottleneck must lose "
                f"{'all' if phase.outage else 'none'} of {count.packets} packets, found "
                f"{count.lost} lost"
            )


def rtt_violations(
    phases: Sequence[Phase],
    since_s: Sequence[float],
    replies: Sequence[tuple[float, float]],
    below_ms: float,
) -> Iterator[str]:
    """Yield a violation for each phase with an RTT below the base RTT, or a reply in an outage.

    `since_s` is as in `rate_violations`; pings may be faster than the base RTT by `below_ms`.
    """
    for phase, begin_s in zip(phases, since_s, strict=True):
        inside = [
            rtt_ms for t_s, rtt_ms in replies if begin_s < t_s and t_s + rtt_ms / 1e3 < phase.end_s
        ]
        base_ms = phase.values["rtt_ms"]
        if inside and phase.outage:
            yield (
                f"no ping may be answered in the outage from {phase.begin_s:g} s, found "
                f"{len(inside)} replies"
            )
        elif inside and min(inside) < base_ms - below_ms:
            yield (
                f"RTTs from {phase.begin_s:g} s must be at least {base_ms:g} ms, found "
                f"{min(inside):g} ms"
            )
