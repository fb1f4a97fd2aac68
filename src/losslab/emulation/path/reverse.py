"""A bottleneck of the reverse path, as of DOCSIS, DSL and mobile links: a rate and a FIFO.

A token bucket below the reverse netem link, so that every packet of the reverse path passes both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from losslab.emulation.mechanism import Effect, Mechanism
from losslab.emulation.qdiscs import REVERSE_HANDLE, Qdisc
from losslab.emulation.shaping import BURST_FRAMES
from losslab.emulation.topology import interface, reverse_router
from losslab.study.axes import NONE, axis
from losslab.study.packetsizes import frame_bytes

if TYPE_CHECKING:
    from losslab.emulation.accounting import Traffic
    from losslab.study.condition import Condition


@dataclass(frozen=True)
class Reverse(Mechanism):
    """The reverse path's bottleneck."""

    order = 2.5
    needs_netem_links = with_second = True
    axes = {
        "reverse_rate_mbit": axis(
            0.0,
            help="rate of a bottleneck of the reverse path, with a FIFO; 0: none",
            span="[0, 10000]", smallest=0.01, unit="Mbit/s", named="reverse{}",
        ),
        "reverse_buffer_packets": axis(
            0,
            help="buffer size of the reverse path's bottleneck; 0: `buffer_packets`",
            span="[0, 10000000]", unit="packets", named="reverse-buffer{}",
        ),
    }  # fmt: skip
    metrics = (
        {
            "name": "reverse_drops", "label": "Drops of the reverse bottleneck", "unit": "packets",
            "better": "less", "primary": "", "of": "reverse_rate_mbit",
            "description": "Packets that the queue of the reverse path's bottleneck dropped.",
        },
    )  # fmt: skip

    def conflicts(self, condition: Condition) -> Iterator[str]:
        if condition.reverse_buffer_packets and not condition.reverse_rate_mbit:
            yield (
                "reverse_buffer_packets needs reverse_rate_mbit, found "
                f"{condition.reverse_buffer_packets} without it"
            )
        if condition.reverse_rate_mbit and condition.trace != NONE:
            yield "reverse_rate_mbit must be 0 with a trace; use trace_back"

    def effect(self, condition: Condition) -> Effect:
        return Effect(reverse_rate_mbit=condition.reverse_rate_mbit)

    def qdiscs(self, condition: Condition) -> list[Qdisc]:
        """Return the token bucket and its FIFO, as those of the forward path."""
        where = interface(reverse_router(condition.path), "r1")
        rate_bytes = math.floor(condition.reverse_rate_mbit * 1e6 / 8)
        packets = condition.reverse_buffer_packets or condition.buffer_packets
        burst_bytes = BURST_FRAMES * frame_bytes(condition.mtu_bytes)
        return [
            Qdisc(
                where, "parent 1:1", REVERSE_HANDLE, "tbf",
                f"rate {rate_bytes * 8}bit burst {burst_bytes} limit {burst_bytes}",
                {"rate": rate_bytes},
            ),
            Qdisc(
                where, f"parent {REVERSE_HANDLE}1", "30:", "pfifo", f"limit {packets}",
                {"limit": packets},
            ),
        ]  # fmt: skip

    def summary(self, t: Traffic) -> dict[str, float]:
        return {"reverse_drops": t.link_back_drops}


FEATURE = Reverse()
