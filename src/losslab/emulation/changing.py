"""Change a path while its traffic runs, each change at its time; and judge what came of it."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation.goodput import Deliveries
from losslab.emulation.mechanism import outside_interval
from losslab.emulation.qdiscs import FRAME_BYTES, differences
from losslab.emulation.shaping import BURST_FRAMES
from losslab.errors import LosslabError
from losslab.study import changes
from losslab.study.changes import Phase

if TYPE_CHECKING:
    from losslab.emulation.batch import Handle
    from losslab.emulation.path.schedule import ChangePlan, Step
    from losslab.emulation.probes.queue import QueueSample

TABLE = "phases.csv"
COLUMNS = (
    "phase,begin_s,end_s,rate_mbit,rtt_ms,loss_percent,outage,goodput_mbit,utilisation,"
    "queue_mean_packets,loss_packets,settle_s"
)
# How often a settling flow's goodput is looked at.
SETTLE_STEP_S = 0.1
# Of a phase, at the most, what a window is long; of a shorter one it says nothing.
WINDOW_OF_PHASE = 0.5
# The mean is over windows of this length; shorter ones say more of the flow than of the path.
SETTLE_WINDOW_S = 1.0
# Of what the link carries: a flow that has this much of a new rate has found it. Ours; BBR's
# PROBE_BW alone spends 1 of 8 round trips at three quarters.
SETTLED_SHARE = 0.8
# Of a full packet on the link, what is the flow's: 1448 bytes with time stamps (RFC 7323).
PAYLOAD_SHARE = 1448 / FRAME_BYTES
# Per host what `tc -json -statistics qdisc show` says, as `hosts.read_back` has it.
State = Mapping[str, Any]


@dataclass(frozen=True)
class Boundary:
    """Counters at the begin of a phase, or at the end."""

    t_s: float  # when the reading was whole
    took_s: float  # from the first command to the last answer
    state: State


@dataclass
class Changing:
    """Carries a plan out, in a thread of its own: the sampling of flows and queue goes on."""

    plan: ChangePlan
    handles: Mapping[str, Handle]
    boundaries: list[Boundary] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def running(self, origin_ns: int) -> Iterator[None]:
        """Make each change at its time, for the length of the block.

        `origin_ns` is the monotonic clock at the replicate's 0 s.
        """
        ended = threading.Event()
        thread = threading.Thread(target=self._run, args=(origin_ns, ended))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        for step in self.plan.steps[len(self.boundaries) :]:
            self.reasons.append(
                f"the change at {step.phase.begin_s:g} s must be made, found that the traffic had "
                "ended"
            )

    def _run(self, origin_ns: int, ended: threading.Event) -> None:
        try:
            for step in self.plan.steps:
                wait_s = step.phase.begin_s - (time.monotonic_ns() - origin_ns) / 1e9
                if ended.wait(max(0.0, wait_s)):
                    return
                self._make(step, origin_ns)
        except LosslabError as error:
            self.reasons.append(str(error))

    def _make(self, step: Step, origin_ns: int) -> None:
        begin_ns = time.monotonic_ns()
        hosts = sorted({qdisc.where.host for qdisc in step.then})
        for host in hosts:
            if lines := [q.changing() for q in step.becoming if q.where.host == host]:
                self.handles[host].tc.do(lines)
        found = {host: self.handles[host].tc.ask(["qdisc show"], 1)[0] for host in hosts}
        end_ns = time.monotonic_ns()
        state = {host: {"qdiscs": qdiscs} for host, qdiscs in found.items()}
        boundary = Boundary((end_ns - origin_ns) / 1e9, (end_ns - begin_ns) / 1e9, state)
        self.boundaries.append(boundary)
        self.reasons += [
            f"after the change at {step.phase.begin_s:g} s: {reason}"
            for reason in differences(step.then, found)
        ]

    def all_boundaries(self, before: Any, after: Any) -> list[Boundary]:
        """List every reading, with those before and after the traffic."""
        return [Boundary(0.0, 0.0, before), *self.boundaries, Boundary(0.0, 0.0, after)]

    def judge(
        self,
        before: Any,
        after: Any,
        queue: list[QueueSample],
        replies: list[tuple[float, float]],
        tolerance_ms: float,
    ) -> list[str]:
        """Say what was not kept; empty when all was.

        States are as of `hosts.read_back`; a ping may be faster than the path by `tolerance_ms`.
        """
        its = self.plan
        if self.reasons or len(self.boundaries) != len(its.steps):
            return self.reasons
        read = self.all_boundaries(before, after)
        made_s = [boundary.t_s for boundary in read[:-1]]
        return [
            *loss_reasons(its, read),
            *rate_reasons(its.phases, made_s, queue),
            *rtt_reasons(its.phases, made_s, replies, its.early_ms + tolerance_ms),
        ]

    def summary(
        self, before: Any, after: Any, queue: list[QueueSample], source_port: int | None,
        folder: Path,
    ) -> dict[str, float | None]:  # fmt: skip
        """Write what the first flow made of each phase, and describe the whole.

        States are as of `hosts.read_back`; `folder` has tcp.csv and gets the table.
        """
        if len(self.boundaries) != len(self.plan.steps):
            return {}
        delivered = Deliveries.read(folder / "tcp.csv", source_port)
        read = self.all_boundaries(before, after)
        rows, settled, share = [COLUMNS], [], None
        for number, phase in enumerate(self.plan.phases):
            (_, lost), _ = counted(read[number].state, read[number + 1].state, self.plan.lines)
            carries_mbit = phase.values["rate_mbit"] * PAYLOAD_SHARE
            since_s = self._since_s(number)
            goodput = delivered.sampled_mbit(since_s, phase.end_s)
            share = goodput and goodput / carries_mbit
            waiting = [s.backlog_packets for s in queue if phase.begin_s <= s.t_s <= phase.end_s]
            settle_s = None
            if not phase.outage:
                settle_s = _settle_s(delivered, phase, since_s, carries_mbit)
            if number and not phase.outage:
                settled.append(settle_s)
            values = [phase.values[name] for name in changes.SET]
            cells: list[object] = [
                number, f"{phase.begin_s:g}", f"{phase.end_s:g}", *(f"{v:g}" for v in values),
                int(phase.outage), _written(goodput, 6),
                _written(share, 6),
                _written(sum(waiting) / len(waiting) if waiting else None, 3), lost,
                _written(settle_s, 1),
            ]  # fmt: skip
            rows.append(",".join(map(str, cells)))
        (folder / TABLE).write_text("\n".join(rows) + "\n")
        found = [settle_s for settle_s in settled if settle_s is not None]
        return {
            "settle_s": max(found) if found and len(found) == len(settled) else None,
            "after_change_share": share,  # of the last phase
        }

    def _since_s(self, number: int) -> float:
        """Say from when on what is acknowledged passed the bottleneck in a phase.

        That is a round trip after its beginning, of the path as it was or is.
        """
        phase = self.plan.phases[number]
        before = self.plan.phases[number - 1] if phase.begin_s else phase
        longest_ms = max(before.values["rtt_ms"], phase.values["rtt_ms"])
        return phase.begin_s + (longest_ms / 1e3 if phase.begin_s else 0.0)


def _written(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _settle_s(
    delivered: Deliveries, phase: Phase, since_s: float, carries_mbit: float
) -> float | None:
    """Say how long a flow needs to find most of what the link carries; None where it does not.

    What is acknowledged from `since_s` on is of this phase.
    """
    window_s = min(SETTLE_WINDOW_S, WINDOW_OF_PHASE * (phase.end_s - phase.begin_s))
    at_s = since_s
    while at_s + window_s <= phase.end_s:
        goodput = delivered.sampled_mbit(at_s, at_s + window_s)
        if goodput is not None and goodput >= SETTLED_SHARE * carries_mbit:
            return at_s - phase.begin_s
        at_s += SETTLE_STEP_S
    return None


def counted(first: State, last: State, lines: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    """Count the packets that each of some netem links was offered, and lost, between readings."""
    found = []
    for host, name in lines:
        before, after = (
            next(q for q in its[host]["qdiscs"] if (q.get("dev"), q.get("handle")) == (name, "1:"))
            for its in (first, last)
        )
        lost = after["drops"] - before["drops"]
        # What left, and what is still in it: packets are lost on their way in.
        inside = after["qlen"] - before["qlen"]
        found.append((after["packets"] - before["packets"] + inside + lost, lost))
    return found


def loss_reasons(its: ChangePlan, boundaries: Sequence[Boundary]) -> Iterator[str]:
    """Say which phase did not lose what it promised; there is a boundary more than phases."""
    for phase, (first, last) in zip(its.phases, pairwise(boundaries), strict=True):
        # Packets that passed between the first command and the last answer, either side.
        packets_per_s = phase.values["rate_mbit"] * 1e6 / 8 / FRAME_BYTES
        edge = sum(math.ceil(each.took_s * packets_per_s) for each in (first, last))
        ways = zip(
            ("", " on the way back"), its.strikes, counted(first.state, last.state, its.lines),
            strict=True,
        )  # fmt: skip
        for way, strikes, (offered, lost) in ways:
            percent, run = phase.values["loss_percent"] if strikes else 0.0, its.burst_packets
            if phase.outage:
                percent, run = 100.0, 1.0
            what = f"loss{way} from {phase.begin_s:g} s"
            if reason := outside_interval(what, percent, offered, lost, run, edge):
                yield reason


def rate_reasons(
    promised: Sequence[Phase], made_s: Sequence[float], queue: Sequence[QueueSample]
) -> Iterator[str]:
    """Say in which phase the bottleneck sent more than its rate allows.

    `made_s` has when the change was complete that began each phase.
    """
    for phase, since_s in zip(promised, made_s, strict=True):
        inside = [s for s in queue if since_s < s.t_s < phase.end_s]
        if len(inside) < 2:
            continue
        first, last = inside[0], inside[-1]
        rate, seconds = phase.values["rate_mbit"], last.t_s - first.t_s
        sent = last.sent_bytes - first.sent_bytes
        if sent > seconds * rate * 1e6 / 8 + BURST_FRAMES * FRAME_BYTES:
            yield (
                f"from {phase.begin_s:g} s the bottleneck must send at most {rate:g} Mbit/s, "
                f"found {sent * 8 / 1e6 / seconds:.3f} Mbit/s"
            )


def rtt_reasons(
    promised: Sequence[Phase],
    made_s: Sequence[float],
    replies: Sequence[tuple[float, float]],
    below_ms: float,
) -> Iterator[str]:
    """Say in which phase a ping was faster than the path, or came back in an outage.

    `made_s` is as of `rate_reasons`; one may be faster by `below_ms`.
    """
    for phase, since_s in zip(promised, made_s, strict=True):
        inside = [
            rtt_ms for t_s, rtt_ms in replies if since_s < t_s and t_s + rtt_ms / 1e3 < phase.end_s
        ]
        wanted_ms = phase.values["rtt_ms"]
        if inside and phase.outage:
            yield f"no ping may come back in the outage from {phase.begin_s:g} s"
        elif inside and min(inside) < wanted_ms - below_ms:
            yield (
                f"RTTs from {phase.begin_s:g} s must be at least {wanted_ms:g} ms, found "
                f"{min(inside):g} ms"
            )
