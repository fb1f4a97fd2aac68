"""Burst loss: netem's Gilbert-Elliott model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from losslab.emulation.mechanism import Effect, Mechanism, NetemLink, burst_chances
from losslab.emulation.qdiscs import percent
from losslab.study.axes import MIN_PERCENT, axis

if TYPE_CHECKING:
    from losslab.study.condition import Condition


@dataclass(frozen=True)
class Bursts(Mechanism):
    """Burst loss with a mean length in packets."""

    burst_packets: float = 1.0

    order = 2
    needs_netem_links = with_second = True
    axes = {
        "loss_burst_packets": axis(
            1.0,
            help="mean length of a loss burst (Gilbert-Elliott model); 1 for independent losses",
            span="[1, 1000]", unit="packets", named="burst{}",
        )
    }  # fmt: skip

    def of(self, condition: Condition) -> Self:
        return replace(self, burst_packets=condition.loss_burst_packets)

    def conflicts(self, condition: Condition) -> Iterator[str]:
        if condition.loss_burst_packets > 1 and condition.loss_percent == 0:
            yield (
                f"loss_burst_packets {condition.loss_burst_packets:g} needs a loss_percent above 0"
            )
        elif condition.loss_burst_packets > 1:
            # Between two bursts, at least one packet passes. A burst begins with a probability
            # that is as much smaller than the loss.
            packets, percent = condition.loss_burst_packets, condition.loss_percent
            least, most = MIN_PERCENT * packets, 100 * packets / (packets + 1)
            if not least <= percent <= most:
                yield (
                    f"loss_percent must be {least:g} to {most:.6g} with loss_burst_packets "
                    f"{packets:g}, found {percent:g}"
                )

    def on_netem_link(self, condition: Condition, direction: str, link: NetemLink) -> NetemLink:
        """Lose every packet in the bad state and none in the good state (tc-netem(8))."""
        if link.loss_percent == 0:
            return link
        enter, leave = burst_chances(link.loss_percent / 100, self.burst_packets)
        words = f"loss gemodel {percent(enter)} {percent(leave)}"
        expected = {"p": enter, "r": leave, "1-h": 1.0, "1-k": 0.0}
        read_back = {f"loss-gemodel.{name}": value for name, value in expected.items()}
        return replace(link, loss_percent=0.0).plus(words, read_back)

    def effect(self, condition: Condition) -> Effect:
        return Effect(loss_run_packets=self.burst_packets)


FEATURE = Bursts()
