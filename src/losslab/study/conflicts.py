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
    TRACE_QUEUES,
)

if TYPE_CHECKING:
    from losslab.study.condition import Condition


def conflicts(its: Condition) -> Iterator[tuple[bool, str]]:
    """List what must hold between axes: whether it is broken, and what to say then."""
    apps, traced = features.apps(), its.trace != NO_TRACE
    if its.app not in apps:
        return
    app, rivals = apps[its.app], [name for name, each in apps.items() if each.with_competitor]
    alone = [name for name, each in apps.items() if not each.with_flows]
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
        its.competitor != NO_COMPETITOR and not app.with_competitor,
        f"competitor needs the app {' or '.join(rivals)}, found {its.app}",
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
    crowded = its.flows != crowd.NO_FLOWS
    yield (
        crowded and (its.competitor != NO_COMPETITOR or not app.with_flows),
        f"flows exclude a competitor, which is one of them, and the apps {' and '.join(alone)}",
    )
    yield (
        crowded and (together or its.queue == "two-fifos" or its.sender_delay_ms > 0),
        "flows need one queue, the shaper tbf and no sender_delay_ms",
    )
    yield from ((True, words) for words in crowd.problems(its))
    mechanisms = [each for each in features.mechanisms() if each.on(its)]
    simple = not traced and all(each.with_second for each in mechanisms)
    yield (
        its.second_rate_mbit > 0 and (not crowded or its.bare or not simple),
        "second_rate_mbit needs flows, an rtt_ms, and a path without changes, ecn, trace, jitter, "
        "reordering and duplicates",
    )
    asked = [next(iter(each.axes)) for each in mechanisms if each.of_lines]
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
    yield (
        its.loss_direction == "back" and its.sender_delay_ms > 0,
        "loss_direction must not be back with sender_delay_ms, where the sender loses data",
    )
    for feature in features.found():
        yield from feature.conflicts(its)
