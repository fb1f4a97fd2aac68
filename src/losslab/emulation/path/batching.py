"""Batches: netem holds a direction's packets and releases all of them every so many ms.

Wi-Fi, cable and mobile links deliver aggregates. BBR's authors wrote netem's slots to measure what
that does to it (Linux commit 836af83b54e3). A slot begins when the one before it has ended and a
packet waits, so the first packet after a pause waits for at most a slot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from losslab.emulation.mechanism import Effect, Mechanism, NetemLink
from losslab.emulation.qdiscs import SLOT
from losslab.study.axes import MIN_MS, axis

if TYPE_CHECKING:
    from losslab.emulation.checks import Evidence
    from losslab.study.condition import Condition


@dataclass(frozen=True)
class Batching(Mechanism):
    """Batches of acknowledgements, of data packets, or of both."""

    ack_batch_ms: float = 0.0
    data_batch_ms: float = 0.0

    order = 7.5
    needs_netem_links = with_second = True
    axes = {
        "ack_batch_ms": axis(
            0.0,
            help="the reverse path delivers packets in batches, one every so many ms; 0: each at "
            "once",
            span="[0, 1000]", smallest=MIN_MS, unit="ms", named="ack-batch{}",
        ),
        "data_batch_ms": axis(
            0.0,
            help="the forward path delivers packets in batches behind its bottleneck, one every so "
            "many ms; 0: each at once",
            span="[0, 1000]", smallest=MIN_MS, unit="ms", named="data-batch{}",
        ),
    }  # fmt: skip

    def on(self, condition: Condition) -> bool:
        return bool(self.changed(condition))

    def on_netem_link(self, condition: Condition, direction: str, link: NetemLink) -> NetemLink:
        """Add slots of one length without a limit of packets."""
        batch_ms = self.data_batch_ms if direction == "data" else self.ack_batch_ms
        if not batch_ms:
            return link
        slot_ns = round(batch_ms * 1e6)
        return link.plus(f"slot {slot_ns}ns", dict.fromkeys(SLOT, slot_ns / 1e9))

    def effect(self, condition: Condition) -> Effect:
        return Effect(above_ms=self.ack_batch_ms + self.data_batch_ms)

    def violations(self, e: Evidence) -> Iterator[str | None]:
        """Compare the slowest idle ping with what it may wait.

        A lone packet's slot begins when it reaches netem, so it waits if the slot is longer than
        the delay (`netem_dequeue`, net/sched/sch_netem.c). If the slot ends during the delay, the
        next one begins when another packet comes, or at the delay's end: it may wait or not.
        """
        batches, half_ms = (self.ack_batch_ms, self.data_batch_ms), e.path_spec.rtt_ms / 2
        effect = e.path_spec.effect
        alone_ms = sum(max(0.0, ms - half_ms) for ms in batches)
        others = effect.below_ms > 0 or effect.above_ms > sum(batches)
        alone_rtt_ms = e.path_spec.rtt_ms + e.path_spec.ping_ms
        waited_ms = max(e.idle_ms, default=alone_rtt_ms) - alone_rtt_ms
        low_ms = e.rtt_tolerance_ms if alone_ms > e.rtt_tolerance_ms else -math.inf
        if not others and not low_ms < waited_ms <= sum(batches) + e.rtt_tolerance_ms:
            yield (
                f"an idle ping must wait up to {sum(batches):g} ms for batches, found "
                f"{waited_ms:g} ms at most"
            )


FEATURE = Batching()
