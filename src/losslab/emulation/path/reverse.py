"""A bottleneck of the reverse path, as of DOCSIS, DSL and mobile links: a rate and a queue.

A token bucket or an exact link below the reverse netem link, so that every packet of the reverse
path passes both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from losslab.emulation import shaping
from losslab.emulation.mechanism import Effect, Mechanism, of
from losslab.emulation.qdiscs import REVERSE_HANDLE, REVERSE_QUEUE_HANDLE, Qdisc
from losslab.emulation.topology import interface, reverse_router
from losslab.study import features
from losslab.study.axes import NONE, axis

if TYPE_CHECKING:
    from losslab.study.condition import Condition


@dataclass(frozen=True)
class Reverse(Mechanism):
    """The reverse path's bottleneck."""

    order = 2.5
    needs_netem_links = with_second = True
    counted = {"reverse_drops": "link_back_drops"}
    axes = {
        "reverse_rate_mbit": axis(
            0.0,
            help="rate of a bottleneck of the reverse path, with a `reverse_queue`; 0: none",
            span="[0, 10000]", smallest=0.01, unit="Mbit/s", named="reverse{}",
        ),
        "reverse_buffer_packets": axis(
            0,
            help="buffer size of the reverse path's bottleneck; 0: `buffer_packets`",
            span="[0, 10000000]", unit="packets", named="reverse-buffer{}",
        ),
        "reverse_queue": axis(
            "fifo",
            help="queue of the reverse path's bottleneck, as `queue` of the forward path",
            choices=dict.fromkeys(("fifo", "bfifo", "codel", "fq_codel", "pie", "cake", "red"), ""),
            named="reverse-{}",
        ),
    }  # fmt: skip
    metrics = features.metrics(
        ("reverse_rate_mbit", "reverse_drops", "Drops of the reverse bottleneck", "packets", "less",
         "Packets that the queue of the reverse path's bottleneck dropped."),
    )  # fmt: skip

    def conflicts(self, condition: Condition) -> Iterator[str]:
        others = [name for name in self.changed(condition) if name != "reverse_rate_mbit"]
        if others and not condition.reverse_rate_mbit:
            yield f"{others[0]} needs reverse_rate_mbit, found no reverse_rate_mbit"
        if condition.reverse_rate_mbit and condition.trace != NONE:
            yield "reverse_rate_mbit must be 0 with a trace; use trace_back"

    def effect(self, condition: Condition) -> Effect:
        return Effect(reverse_rate_mbit=condition.reverse_rate_mbit)

    def qdiscs(self, condition: Condition) -> list[Qdisc]:
        """Return what limits the rate and its queue, as those of the forward path."""
        where = interface(reverse_router(condition.path), "r1")
        as_forward = replace(
            condition,
            queue=condition.reverse_queue,
            rate_mbit=condition.reverse_rate_mbit,
            buffer_packets=condition.reverse_buffer_packets or condition.buffer_packets,
        )
        (queue,) = shaping.queue(as_forward, of(as_forward))
        return [
            shaping.rate_qdisc(
                condition, where, condition.reverse_rate_mbit, "parent 1:1", REVERSE_HANDLE
            ),
            replace(
                queue, where=where, parent=f"parent {REVERSE_HANDLE}1", handle=REVERSE_QUEUE_HANDLE
            ),
        ]


FEATURE = Reverse()
