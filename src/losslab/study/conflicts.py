"""Constraints between a condition's axes. Use only the standard library, as `condition.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from losslab.study import features
from losslab.study.axes import NONE

if TYPE_CHECKING:
    from losslab.study.condition import Condition

# Queues that the shaper htb-netem can emulate.
ONE_INTERFACE_QUEUES = ("fifo", "two-fifos")
# Largest buffers of queues whose limits are bytes in 32 bits (get_size, lib/utils_math.c): of
# full-size frames (`qdiscs.FRAME_BYTES`), or of memory (`shaping.QUEUED_BYTES`). fq_codel's limit
# has 31 bits (fq_codel_change, net/sched/sch_fq_codel.c). tc warns of RED's burst for larger
# buffers than RED's (red_parse_opt, tc/q_red.c).
BUFFER_MAX_PACKETS = {
    "bfifo": 2_836_834, "red-step": 2_836_834, "cake": 1_864_135, "fq_codel": 932_067,
    "red": 8_186,
}  # fmt: skip
# On a bare path, the serialization delay replaces the propagation delay. At this rate it is
# 0.24 ms, several times the time in which a machine forwards a packet between two hosts.
BARE_RATE_MAX_MBIT = 50.0


def conflicts(condition: Condition) -> Iterator[str]:
    """Yield the constraints that a condition violates."""
    if condition.app not in features.apps():
        return
    one_interface = condition.shaper == "htb-netem"
    if condition.bare and condition.rate_mbit > BARE_RATE_MAX_MBIT:
        yield (
            f"rate_mbit must be at most {BARE_RATE_MAX_MBIT:g} with rtt_ms 0, found "
            f"{condition.rate_mbit:g}: without delay, small changes decide the results of a fast "
            "path"
        )
    if condition.bare and condition.loss_percent > 0:
        yield (
            "loss_percent must be 0 with rtt_ms 0, a path without netem, found "
            f"{condition.loss_percent:g}"
        )
    largest = BUFFER_MAX_PACKETS.get(condition.queue, condition.buffer_packets)
    if condition.buffer_packets > largest:
        yield (
            f"buffer_packets must be at most {largest} with the queue {condition.queue}, found "
            f"{condition.buffer_packets}"
        )
    if condition.sender_delay_ms > condition.rtt_ms:
        yield (
            f"sender_delay_ms must be at most rtt_ms ({condition.rtt_ms:g}), found "
            f"{condition.sender_delay_ms:g}"
        )
    if condition.warmup_s >= condition.duration_s:
        yield (
            f"warmup_s must be below duration_s ({condition.duration_s:g}), found "
            f"{condition.warmup_s:g}"
        )
    excluded = (condition.loss_percent, condition.sender_delay_ms, condition.trace != NONE)
    if one_interface and (condition.bare or any(excluded)):
        yield (
            "shaper htb-netem sets rate, delay and buffer on one interface: it needs an rtt_ms "
            "above 0 and excludes loss_percent, sender_delay_ms and trace"
        )
    if one_interface and condition.queue not in ONE_INTERFACE_QUEUES:
        yield (
            f"queue must be one of {', '.join(ONE_INTERFACE_QUEUES)} with the shaper htb-netem, "
            f"found {condition.queue}"
        )
    if condition.sender_queue != "fq" and (condition.bare or condition.sender_delay_ms > 0):
        yield (
            "sender_queue must be fq with rtt_ms 0 or sender_delay_ms, which leave no qdisc to "
            f"choose on the sender's interface, found {condition.sender_queue}"
        )
    yield from _mechanism_conflicts(condition)
    for feature in features.all_features():
        yield from feature.conflicts(condition)


def _mechanism_conflicts(condition: Condition) -> Iterator[str]:
    mechanisms = [each for each in features.mechanisms() if each.on(condition)]
    axes = ", ".join(next(iter(each.axes)) for each in mechanisms if each.needs_netem_links)
    on_routers = (
        condition.rtt_ms > 0 and condition.sender_delay_ms == 0 and condition.shaper == "tbf"
    )
    if axes and not on_routers:
        yield (
            f"{axes} must be at their defaults with rtt_ms 0, sender_delay_ms or the shaper "
            "htb-netem, with which the routers have no netem links"
        )
    if axes and condition.offloads == "on":
        yield f"offloads must be off with {axes}, to count packets and not aggregates"
    if condition.loss_direction == "back" and condition.sender_delay_ms > 0:
        yield (
            "loss_direction must not be back with sender_delay_ms, with which the sender drops "
            "data packets"
        )
