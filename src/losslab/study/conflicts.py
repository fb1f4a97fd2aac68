"""What must hold between a condition's axes. Standard library only, as `condition.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from losslab.errors import LosslabError
from losslab.study import changes, crowd
from losslab.study.condition import (
    AXES,
    BARE_RATE_MAX_MBIT,
    FETCH_AFTER_S,
    FETCH_BEFORE_END_S,
    NO_COMPETITOR,
    NO_SCHEME,
    NO_TRACE,
    ONE_INTERFACE_QUEUES,
    TRACE_QUEUES,
)
from losslab.study.programs import NO_COMMAND, NOTHING_BROUGHT, QUIC_ALGORITHMS

if TYPE_CHECKING:
    from losslab.study.condition import Condition

# What the routers' delay lines do besides delaying and losing each packet by itself.
IMPAIRMENTS = (
    "loss_burst_packets", "jitter_ms", "reorder_percent", "duplicate_percent", "ack_thinning",
    "policer_mbit",
)  # fmt: skip


def conflicts(its: Condition) -> Iterator[tuple[bool, str]]:
    """List what must hold between axes: whether it is broken, and what to say then."""
    traced, schemed = its.trace != NO_TRACE, its.scheme != NO_SCHEME
    after_s, fetch_s = its.duration_s - its.warmup_s, FETCH_AFTER_S + FETCH_BEFORE_END_S
    yield (
        its.bare and its.rate_mbit > BARE_RATE_MAX_MBIT,
        f"rate_mbit must be at most {BARE_RATE_MAX_MBIT:g} with rtt_ms 0, found "
        f"{its.rate_mbit:g}: without any delay a fast path is knife-edge and small changes "
        "decide the result",
    )
    yield (
        its.bare and its.loss_percent > 0,
        f"loss_percent must be 0 with rtt_ms 0, a path without netem, found {its.loss_percent:g}",
    )
    yield (
        its.bare and traced,
        f"trace must be {NO_TRACE} with rtt_ms 0, found {its.trace}",
    )
    yield (
        its.sender_delay_ms > its.rtt_ms,
        f"sender_delay_ms must be at most rtt_ms, {its.rtt_ms:g} here, found "
        f"{its.sender_delay_ms:g}",
    )
    yield (
        its.warmup_s >= its.duration_s,
        f"warmup_s must be below duration_s, {its.duration_s:g} here, found {its.warmup_s:g}",
    )
    yield (
        its.competitor != NO_COMPETITOR and its.app not in ("iperf3", "web"),
        f"competitor needs the app iperf3 or web, found {its.app}",
    )
    yield (
        its.write_kib != 0 and its.app != "iperf3" and its.competitor == NO_COMPETITOR,
        f"write_kib {its.write_kib} needs a flow of iperf3, found the app {its.app}",
    )
    yield (
        its.video != AXES["video"].default and its.app != "ffmpeg",
        f"video {its.video} needs the app ffmpeg, found {its.app}",
    )
    yield (
        its.app == "web" and after_s < fetch_s,
        f"duration_s must leave {fetch_s:g} s after the warm-up for the app web, found {after_s:g}",
    )
    yield (
        traced and its.queue not in TRACE_QUEUES,
        f"queue must be one of {', '.join(TRACE_QUEUES)} with a trace, found {its.queue}",
    )
    yield (
        its.trace_back != NO_TRACE and not traced,
        f"trace_back needs a trace, found {its.trace_back} without one",
    )
    together = its.shaper == "htb-netem"
    yield (
        together and (its.bare or traced or its.sender_delay_ms > 0 or its.loss_percent > 0),
        "shaper htb-netem is rate, delay and buffer on one interface: it needs an rtt_ms, and "
        "none of loss_percent, sender_delay_ms and trace",
    )
    yield (
        together and its.queue not in ONE_INTERFACE_QUEUES,
        f"queue must be one of {', '.join(ONE_INTERFACE_QUEUES)} with the shaper htb-netem, "
        f"found {its.queue}",
    )
    yield (
        its.sender_queue != "fq" and (its.bare or its.sender_delay_ms > 0),
        f"sender_queue must be fq with rtt_ms 0 or sender_delay_ms, found {its.sender_queue}: "
        "another qdisc is there, or none",
    )
    yield (
        schemed != (its.app == "datagram"),
        f"scheme and the app datagram need each other, found scheme {its.scheme} and app {its.app}",
    )
    commands = (its.sender_command, its.receiver_command)
    yield (
        any((said not in (NO_COMMAND, "")) != (its.app == "command") for said in commands),
        "sender_command, receiver_command and the app command need each other, found app "
        f"{its.app} with {its.sender_command!r} and {its.receiver_command!r}",
    )
    yield (
        its.bring != NOTHING_BROUGHT and its.app != "command",
        f"bring needs the app command, found {its.app}",
    )
    yield (
        its.app == "quic" and its.algorithm not in QUIC_ALGORITHMS,
        f"algorithm must be one of {', '.join(QUIC_ALGORITHMS)} with the app quic, whose own they "
        f"are, found {its.algorithm}",
    )
    crowded = its.flows != crowd.NO_FLOWS
    yield (
        crowded and (its.competitor != NO_COMPETITOR or its.app in ("datagram", "command")),
        "flows exclude a competitor, which is one of them, and the apps datagram and command",
    )
    yield (
        crowded and (together or its.queue == "two-fifos" or its.sender_delay_ms > 0),
        "flows need one queue, the shaper tbf and no sender_delay_ms",
    )
    yield from ((True, words) for words in crowd.problems(its))
    plain = (its.changes, its.ecn, its.trace) == (changes.NONE, "off", NO_TRACE)
    plain &= its.duplicate_percent == its.reorder_percent == its.jitter_ms == 0
    yield (
        its.second_rate_mbit > 0 and (not crowded or its.bare or not plain),
        "second_rate_mbit needs flows, an rtt_ms, and a path without changes, ecn, trace, jitter, "
        "reordering and duplicates",
    )
    yield from _of_impairments(its)
    yield from _of_changes(its)


def _of_impairments(its: Condition) -> Iterator[tuple[bool, str]]:
    """List what must hold for delay lines that do more than delay and lose."""
    asked = [name for name in IMPAIRMENTS if getattr(its, name) != AXES[name].default]
    words = ", ".join(asked)
    plain = its.rtt_ms > 0 and its.sender_delay_ms == 0 and its.shaper == "tbf"
    yield (
        bool(asked) and not plain,
        f"{words} must be at their defaults with rtt_ms 0, sender_delay_ms or the shaper "
        "htb-netem, which have no delay line of the routers' for them",
    )
    yield (
        bool(asked) and its.offloads == "on",
        f"offloads must be off with {words}: packets are counted, not aggregates",
    )
    filtered = its.ack_thinning > 1 or its.policer_mbit > 0
    yield (
        filtered and its.trace != NO_TRACE,
        "ack_thinning must be 1 and policer_mbit 0 with a trace, past whose link packets go",
    )
    yield (
        its.policer_burst_packets != AXES["policer_burst_packets"].default and not its.policer_mbit,
        f"policer_burst_packets needs a policer_mbit, found {its.policer_burst_packets} without",
    )
    yield (
        its.loss_direction == "back" and its.sender_delay_ms > 0,
        "loss_direction must not be back with sender_delay_ms, where the sender loses data",
    )
    yield (
        its.loss_burst_packets > 1 and its.loss_percent == 0,
        f"loss_burst_packets needs a loss_percent, found {its.loss_burst_packets:g} without one",
    )
    yield (
        its.jitter_order != AXES["jitter_order"].default and its.jitter_ms == 0,
        f"jitter_order {its.jitter_order} needs a jitter_ms, found none",
    )
    yield (
        its.reorder_percent > 0 and its.reorder_ms > its.rtt_ms / 2,
        f"reorder_ms must be at most half of rtt_ms, {its.rtt_ms / 2:g} here, found "
        f"{its.reorder_ms:g}",
    )
    lossy = its.loss_percent > 0 and its.loss_direction != "back"
    yield (
        its.duplicate_percent > 0 and lossy,
        "duplicate_percent needs a way of data without loss: netem draws a packet's loss and its "
        f"copy together, found loss_percent {its.loss_percent:g}",
    )
    yield (
        its.ecn != "off" and (its.trace != NO_TRACE or its.app == "datagram"),
        f"ecn must be off with a trace, whose link does not mark, and with the app datagram, found "
        f"{its.ecn}",
    )
    yield (
        its.mark_packets != AXES["mark_packets"].default and its.queue != "red-step",
        f"mark_packets needs the queue red-step, found {its.queue}",
    )
    yield (
        its.queue == "red-step" and its.mark_packets >= its.buffer_packets,
        f"mark_packets must be below buffer_packets, {its.buffer_packets} here, found "
        f"{its.mark_packets}",
    )


def _of_changes(its: Condition) -> Iterator[tuple[bool, str]]:
    """List what must hold for a path that changes: each of its phases is a path like others."""
    if its.changes == changes.NONE:
        return
    yield (
        its.shaper != "tbf" or its.sender_delay_ms > 0,
        "changes must be none with sender_delay_ms or the shaper htb-netem, found changes",
    )
    yield (
        its.trace != NO_TRACE and "rate_mbit" in its.changes,
        "changes must leave rate_mbit alone with a trace, which is the link's rate",
    )
    try:
        found = changes.phases(its.changes, {name: getattr(its, name) for name in changes.SET})
    except LosslabError as error:
        yield True, error.message
        return
    last_s = found[-1].begin_s
    yield (
        last_s >= its.duration_s,
        f"changes must end before the run does, at {its.duration_s:g} s, found one at {last_s:g} s",
    )
    for phase in found[1:]:
        bare = phase.values["rtt_ms"] == 0
        yield bare, "changes must keep some rtt_ms, whose delay lines they change, found 0"
        if not bare:
            where = f"changes, from {phase.begin_s:g} s: "
            same = type(its).from_json(its.to_json() | phase.values | {"changes": changes.NONE})
            yield from ((True, where + words) for words in same.problems())
