"""A path that changes: what its qdiscs become and when, and whether each phase kept its promise.

Pure functions, from a condition to a plan and from evidence to reasons; `changing` carries it out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from losslab.emulation.mechanism import loss_percent, of, outside_interval
from losslab.emulation.probes.queue import QueueSample
from losslab.emulation.qdiscs import FRAME_BYTES, Shaper
from losslab.emulation.shaping import BURST_FRAMES, shapers
from losslab.emulation.topology import bottleneck, interface, reverse_router
from losslab.study import changes
from losslab.study.changes import Phase

if TYPE_CHECKING:
    from losslab.study.condition import Condition

# Per host what `tc -json -statistics qdisc show` says, as `hosts.read_back` has it.
State = Mapping[str, Any]

# What a path's rate, delay and loss are made by.
CHANGING = ("tbf", "netem")
# tbf hands its own limit to a FIFO behind it (fifo_set_limit, net/sched/sch_fifo.c), which is then
# told its own again.
FIFOS = ("pfifo", "bfifo")
# The mean is over windows of this length; shorter ones say more of the flow than of the path.
SETTLE_WINDOW_S = 1.0
# Of what the link carries: a flow that has this much of a new rate has found it. Ours; BBR's
# PROBE_BW alone spends 1 of 8 round trips at three quarters.
SETTLED_SHARE = 0.8
# Of a full packet on the link, what is the flow's: 1448 bytes with time stamps (RFC 7323).
PAYLOAD_SHARE = 1448 / FRAME_BYTES


@dataclass(frozen=True)
class Step:
    """A change of qdiscs: the phase that it begins, and what they are from then on."""

    phase: Phase
    becoming: list[Shaper]  # in the order in which they are told
    then: list[Shaper]  # all, as they must read back


def phases_of(condition: Condition) -> list[Phase]:
    """List a condition's phases; one where nothing changes."""
    found = changes.phases(
        condition.changes, {name: getattr(condition, name) for name in changes.SET}
    )
    return changes.until(found, condition.duration_s)


def as_in(condition: Condition, phase: Phase) -> Condition:
    """Return a condition as it is in a phase; in an outage it loses everything."""
    its = type(condition).from_json(condition.to_json() | phase.values | {"changes": changes.NONE})
    if not phase.outage:
        return its
    everything = {"loss_percent": 100.0, "loss_burst_packets": 1.0, "loss_direction": "both"}
    return type(its).from_json(its.to_json() | everything)


def steps(condition: Condition, seed: int) -> list[Step]:
    """List what becomes of a path's qdiscs, phase by phase.

    What changes draws anew from a seed of its own; all else goes on.
    """
    first, *later = phases_of(condition)
    now = {(q.where.name, q.handle): q for q in shapers(as_in(condition, first), seed)}
    before = {key: q.arguments for key, q in now.items()}
    found = []
    for number, phase in enumerate(later, start=1):
        its = as_in(condition, phase)
        plain = {(q.where.name, q.handle): q for q in shapers(its, seed)}
        own = {(q.where.name, q.handle): q for q in shapers(its, _step_seed(seed, number))}
        becoming = [
            own[key]
            for key, q in plain.items()
            if q.kind in CHANGING and q.arguments != before[key]
        ]
        if any(q.kind == "tbf" for q in becoming):
            becoming += [
                q for (name, _), q in now.items() if name == bottleneck().name and q.kind in FIFOS
            ]
        before = {key: q.arguments for key, q in plain.items()}
        now |= {(q.where.name, q.handle): q for q in becoming}
        found.append(Step(phase, becoming, list(now.values())))
    return found


def _step_seed(seed: int, number: int) -> int:
    """Another seed for all that a step sets; `derived_seed` mixes it with what it is for."""
    return seed + number * 2**31


@dataclass(frozen=True)
class ChangePlan:
    """What changes, and what is promised of it."""

    steps: list[Step]
    phases: list[Phase]  # the first included; the last ends with the run
    strikes: tuple[bool, bool]  # whether loss strikes data, and acknowledgements
    burst_packets: float
    early_ms: float  # by which a ping may be faster
    lines: list[tuple[str, str]]  # host and interface of both delay lines

    @property
    def last(self) -> list[Shaper]:
        """List the qdiscs as they are at the end."""
        return self.steps[-1].then


def plan_of(condition: Condition, seed: int) -> ChangePlan:
    """Plan a condition's changes."""
    sure = as_in(condition, Phase(0.0, 0.0, {"loss_percent": 1.0}))
    ends = (interface("r2", "receiver"), interface(reverse_router(condition.path), "r1"))
    return ChangePlan(
        steps=steps(condition, seed),
        phases=phases_of(condition),
        strikes=(loss_percent(sure, "data") > 0, loss_percent(sure, "back") > 0),
        burst_packets=condition.loss_burst_packets,
        early_ms=sum(each.below_ms for each in of(condition)),
        lines=[(end.host, end.name) for end in ends],
    )


@dataclass(frozen=True)
class Boundary:
    """What had been counted when a phase began, or at the end of all."""

    t_s: float  # when the reading was whole
    took_s: float  # from the first command to the last answer
    state: State


@dataclass(frozen=True)
class Counts:
    """What the delay lines of a phase were offered and lost."""

    offered: int
    lost: int
    offered_back: int
    lost_back: int


def counted(first: State, last: State, lines: Sequence[tuple[str, str]]) -> Counts:
    """Count between two readings.

    `lines` are host and interface of the data's delay line, and of that of the way back.
    """
    numbers = []
    for host, name in lines:
        before, after = (_line(state, host, name) for state in (first, last))
        lost = after["drops"] - before["drops"]
        # What left, and what is still in it: packets are lost on their way in.
        inside = after["qlen"] - before["qlen"]
        numbers += [after["packets"] - before["packets"] + inside + lost, lost]
    return Counts(*numbers)


def _line(state: State, host: str, name: str) -> Mapping[str, Any]:
    return next(
        q for q in state[host]["qdiscs"] if q.get("dev") == name and q.get("handle") == "1:"
    )


def reasons(
    promised: Sequence[Phase],
    both_ways: tuple[bool, bool],
    burst_packets: float,
    boundaries: Sequence[Boundary],
    lines: Sequence[tuple[str, str]],
) -> list[str]:
    """Say which phase did not lose what it promised; empty when all did.

    `both_ways` says whether loss strikes data, and whether acknowledgements; `boundaries` are one
    more than phases; `lines` are as of `counted`.
    """
    found = []
    for phase, (first, last) in zip(promised, pairwise(boundaries), strict=True):
        counts = counted(first.state, last.state, lines)
        for way, strikes, offered, lost in (
            ("", both_ways[0], counts.offered, counts.lost),
            (" on the way back", both_ways[1], counts.offered_back, counts.lost_back),
        ):
            percent = phase.values["loss_percent"] if strikes else 0.0
            burst = burst_packets
            if phase.outage:
                percent, burst = 100.0, 1.0
            # Packets that passed between the first command and the last answer, either side.
            edge = _passed(first, phase) + _passed(last, phase)
            what = f"loss{way} from {phase.begin_s:g} s"
            if reason := outside_interval(what, percent, offered, lost, burst, edge):
                found.append(reason)
    return found


def _passed(boundary: Boundary, phase: Phase) -> int:
    return math.ceil(boundary.took_s * phase.values["rate_mbit"] * 1e6 / 8 / FRAME_BYTES)


def rate_reasons(
    promised: Sequence[Phase], made_s: Sequence[float], queue: Sequence[QueueSample]
) -> list[str]:
    """Say in which phase the bottleneck sent more than its rate allows.

    `made_s` has when the change was complete that began each phase.
    """
    found = []
    for phase, since_s in zip(promised, made_s, strict=True):
        inside = [s for s in queue if since_s < s.t_s < phase.end_s]
        if len(inside) < 2:
            continue
        first, last = inside[0], inside[-1]
        rate = phase.values["rate_mbit"]
        allowed = (last.t_s - first.t_s) * rate * 1e6 / 8 + BURST_FRAMES * FRAME_BYTES
        sent = last.sent_bytes - first.sent_bytes
        if sent > allowed:
            found.append(
                f"from {phase.begin_s:g} s the bottleneck must send at most {rate:g} Mbit/s, "
                f"found {sent * 8 / 1e6 / (last.t_s - first.t_s):.3f} Mbit/s"
            )
    return found


def rtt_reasons(
    promised: Sequence[Phase],
    made_s: Sequence[float],
    replies: Sequence[tuple[float, float]],
    below_ms: float,
) -> list[str]:
    """Say in which phase a ping was faster than the path, or came back in an outage.

    `made_s` is as of `rate_reasons`; one may be faster by `below_ms`.
    """
    found = []
    for phase, since_s in zip(promised, made_s, strict=True):
        inside = [
            rtt_ms for t_s, rtt_ms in replies if since_s < t_s and t_s + rtt_ms / 1e3 < phase.end_s
        ]
        wanted_ms = phase.values["rtt_ms"]
        if inside and phase.outage:
            found.append(f"no ping may come back in the outage from {phase.begin_s:g} s")
        elif inside and min(inside) < wanted_ms - below_ms:
            found.append(
                f"RTTs from {phase.begin_s:g} s must be at least {wanted_ms:g} ms, found "
                f"{min(inside):g} ms"
            )
    return found
