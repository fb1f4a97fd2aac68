"""What must hold between a condition's axes. Standard library only, as `condition.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from losslab.study import crowd, features
from losslab.study.condition import (
    BARE_RATE_MAX_MBIT,
    NO_COMPETITOR,
    NO_TRACE,
    ONE_INTERFACE_QUEUES,
)

if TYPE_CHECKING:
    from losslab.study.condition import Condition


def conflicts(its: Condition) -> Iterator[str]:
    """Say what does not hold between axes."""
    if its.app not in features.apps():
        return
    traced, together = its.trace != NO_TRACE, its.shaper == "htb-netem"
    if its.bare and its.rate_mbit > BARE_RATE_MAX_MBIT:
        yield (
            f"rate_mbit must be at most {BARE_RATE_MAX_MBIT:g} with rtt_ms 0, found "
            f"{its.rate_mbit:g}: without any delay a fast path is knife-edge and small changes "
            "decide the result"
        )
    if its.bare and its.loss_percent > 0:
        yield (
            "loss_percent must be 0 with rtt_ms 0, a path without netem, found "
            f"{its.loss_percent:g}"
        )
    if its.sender_delay_ms > its.rtt_ms:
        yield (
            f"sender_delay_ms must be at most rtt_ms, {its.rtt_ms:g} here, found "
            f"{its.sender_delay_ms:g}"
        )
    if its.warmup_s >= its.duration_s:
        yield f"warmup_s must be below duration_s, {its.duration_s:g} here, found {its.warmup_s:g}"
    if together and (its.bare or traced or its.sender_delay_ms > 0 or its.loss_percent > 0):
        yield (
            "shaper htb-netem is rate, delay and buffer on one interface: it needs an rtt_ms, and "
            "none of loss_percent, sender_delay_ms and trace"
        )
    if together and its.queue not in ONE_INTERFACE_QUEUES:
        yield (
            f"queue must be one of {', '.join(ONE_INTERFACE_QUEUES)} with the shaper htb-netem, "
            f"found {its.queue}"
        )
    if its.sender_queue != "fq" and (its.bare or its.sender_delay_ms > 0):
        yield (
            f"sender_queue must be fq with rtt_ms 0 or sender_delay_ms, found {its.sender_queue}: "
            "another qdisc is there, or none"
        )
    yield from _of_flows(its)
    yield from _of_mechanisms(its)
    for feature in features.found():
        yield from feature.conflicts(its)


def _of_flows(its: Condition) -> Iterator[str]:
    apps, crowded = features.apps(), its.flows != crowd.NO_FLOWS
    rivals = [name for name, each in apps.items() if each.with_competitor]
    alone = [name for name, each in apps.items() if not each.with_flows]
    if its.competitor != NO_COMPETITOR and its.app not in rivals:
        yield f"competitor needs the app {' or '.join(rivals)}, found {its.app}"
    if crowded and (its.competitor != NO_COMPETITOR or its.app in alone):
        yield (
            f"flows exclude a competitor, which is one of them, and the apps {' and '.join(alone)}"
        )
    if crowded and (its.shaper != "tbf" or its.queue == "two-fifos" or its.sender_delay_ms > 0):
        yield "flows need one queue, the shaper tbf and no sender_delay_ms"
    yield from crowd.problems(its)


def _of_mechanisms(its: Condition) -> Iterator[str]:
    mechanisms = [each for each in features.mechanisms() if each.on(its)]
    simple = its.trace == NO_TRACE and all(each.with_second for each in mechanisms)
    if its.second_rate_mbit > 0 and (its.flows == crowd.NO_FLOWS or its.bare or not simple):
        yield (
            "second_rate_mbit needs flows, an rtt_ms, and a path without changes, ecn, trace, "
            "jitter, reordering and duplicates"
        )
    asked = [next(iter(each.axes)) for each in mechanisms if each.of_lines]
    words = ", ".join(asked)
    plain = its.rtt_ms > 0 and its.sender_delay_ms == 0 and its.shaper == "tbf"
    if asked and not plain:
        yield (
            f"{words} must be at their defaults with rtt_ms 0, sender_delay_ms or the shaper "
            "htb-netem, which have no delay line of the routers' for them"
        )
    if asked and its.offloads == "on":
        yield f"offloads must be off with {words}: packets are counted, not aggregates"
    if its.loss_direction == "back" and its.sender_delay_ms > 0:
        yield "loss_direction must not be back with sender_delay_ms, where the sender loses data"
