"""Delay lines: netem on a router's interface, and what it does to packets besides delaying them.

All that netem draws comes of its seed. Packets that come early have a second netem behind the
first: what it picks goes at once, what it does not waits for as long as the others come later.
"""

from __future__ import annotations

from dataclasses import dataclass

from losslab.emulation.qdiscs import NEVER_FULL_PACKETS, Shaper, netem
from losslab.emulation.topology import Interface
from losslab.study.condition import Condition
from losslab.study.seeds import derived_seed

# With a rate, netem never sends a packet before those that came before it (netem_enqueue,
# net/sched/sch_netem.c); with one so high that a full packet takes 12 ns of it.
IN_ORDER_RATE = "1000gbit"
IN_ORDER_BYTES_PER_S = 125_000_000_000


@dataclass(frozen=True)
class Line:
    """What happens to packets on one way.

    Attributes:
        delay_ms: Of every packet, at least.
        loss_percent: Of packets, by itself.
        burst_packets: Mean length of a burst of losses; 1 where each packet is drawn for itself.
        jitter_ms: Further delay, drawn evenly from 0 to this.
        kept: None overtakes for the jitter's sake.
        early_percent: Of packets, `early_ms` before their turn.
        early_ms: Part of `delay_ms`.
        duplicate_percent: Of packets, twice.
    """

    delay_ms: float
    loss_percent: float = 0.0
    burst_packets: float = 1.0
    jitter_ms: float = 0.0
    kept: bool = True
    early_percent: float = 0.0
    early_ms: float = 0.0
    duplicate_percent: float = 0.0

    def shapers(self, where: Interface, seed: int, purpose: str) -> list[Shaper]:
        """List its qdiscs.

        Args:
            where: The interface.
            seed: The replicate's.
            purpose: What its random numbers are for, among the replicate's others.
        """
        early_ms = self.early_ms if self.early_percent > 0 else 0.0
        first = netem(
            where,
            self.delay_ms - early_ms + self.jitter_ms / 2,
            self.loss_percent if self.burst_packets == 1 else 0.0,
            derived_seed(seed, purpose),
            more=[*self._jitter(), *self._bursts(), *self._duplicates()],
        )
        if not early_ms:
            return [first]
        percent = self.early_percent
        early = netem(
            where, early_ms, 0.0, derived_seed(seed, f"{purpose}-early"), NEVER_FULL_PACKETS,
            "parent 1:1", "10:",
            more=[(f"reorder {percent:.10g}% gap 1", {"reorder.reorder": percent / 100, "gap": 1})],
        )  # fmt: skip
        return [first, early]

    def _bursts(self) -> list[tuple[str, dict[str, float]]]:
        """Lose packets in a bad state, all of them, and none in a good one (tc-netem(8))."""
        if self.burst_packets == 1 or self.loss_percent == 0:
            return []
        enter, leave = burst_chances(self.loss_percent / 100, self.burst_packets)
        words = f"loss gemodel {100 * enter:.10g}% {100 * leave:.10g}%"
        expected = {"p": enter, "r": leave, "1-h": 1.0, "1-k": 0.0}
        return [(words, {f"loss-gemodel.{name}": value for name, value in expected.items()})]

    def _jitter(self) -> list[tuple[str, dict[str, float]]]:
        if not self.jitter_ms:
            return []
        around_ns = round(self.jitter_ms / 2 * 1e6)
        # Behind `delay TIME`, where tc looks for it.
        found: list[tuple[str, dict[str, float]]] = [
            (f"{around_ns}ns", {"delay.jitter": around_ns / 1e9})
        ]
        if self.kept:
            found.append((f"rate {IN_ORDER_RATE}", {"rate.rate": IN_ORDER_BYTES_PER_S}))
        return found

    def _duplicates(self) -> list[tuple[str, dict[str, float]]]:
        percent = self.duplicate_percent
        if not percent:
            return []
        return [(f"duplicate {percent:.10g}%", {"duplicate.duplicate": percent / 100})]


def burst_chances(share: float, burst_packets: float) -> tuple[float, float]:
    """Return the chances per packet that a burst begins, and that it ends (Gilbert 1960).

    Args:
        share: Of packets that are lost, 0 to 1: begins / (begins + ends).
        burst_packets: Their mean number in a row: 1 / ends.
    """
    ends = 1 / burst_packets
    return ends * share / (1 - share), ends


def data_line(condition: Condition) -> Line:
    """Say what happens to data behind the bottleneck."""
    of_routers = condition.sender_delay_ms == 0 and condition.loss_direction != "back"
    return Line(
        delay_ms=_half_ms(condition),
        loss_percent=condition.loss_percent if of_routers else 0.0,
        burst_packets=condition.loss_burst_packets,
        jitter_ms=condition.jitter_ms,
        kept=condition.jitter_order == "kept",
        early_percent=condition.reorder_percent,
        early_ms=condition.reorder_ms,
        duplicate_percent=condition.duplicate_percent,
    )


def back_line(condition: Condition) -> Line:
    """Say what happens to acknowledgements."""
    lost = condition.loss_direction in ("both", "back")
    return Line(
        delay_ms=_half_ms(condition),
        loss_percent=condition.loss_percent if lost else 0.0,
        burst_packets=condition.loss_burst_packets,
    )


def _half_ms(condition: Condition) -> float:
    return (condition.rtt_ms - condition.sender_delay_ms) / 2
