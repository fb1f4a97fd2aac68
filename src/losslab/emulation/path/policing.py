"""Policing: a filter before the bottleneck that drops packets above a rate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from losslab.emulation.mechanism import Mechanism
from losslab.emulation.qdiscs import BUCKET_MAX_S, DROP, Filter, Qdisc
from losslab.emulation.topology import bottleneck
from losslab.study.axes import axis
from losslab.study.packetsizes import frame_bytes

if TYPE_CHECKING:
    from losslab.emulation.checks import Evidence
    from losslab.study.condition import Condition

# The policer drops larger packets, unless it has another `mtu` (tc-police(8)).
DEFAULT_MTU_BYTES = 2047


@dataclass(frozen=True)
class Policing(Mechanism):
    """Policer with a rate and a bucket of full packets."""

    policer_mbit: float = 0.0
    policer_burst_packets: int = 0

    order = 6
    needs_netem_links = with_second = True
    counted = {"policer_drops": "policer_drops"}
    axes = {
        "policer_mbit": axis(
            0.0,
            help="rate of a policer before the bottleneck, which drops packets above it; 0 for "
            "none",
            span="[0, 10000]", smallest=0.01, unit="Mbit/s", named="policer{}",
        ),
        "policer_burst_packets": axis(
            100,
            help="burst that the policer lets through: full packets in its bucket",
            span="[2, 100000]", unit="packets", named="bucket{}",
        ),
    }  # fmt: skip

    def of(self, condition: Condition) -> Self:
        rate, burst = condition.policer_mbit, condition.policer_burst_packets
        return replace(self, policer_mbit=rate, policer_burst_packets=burst if rate else 0)

    def conflicts(self, condition: Condition) -> Iterator[str]:
        if "policer_burst_packets" in self.changed(condition) and not condition.policer_mbit:
            yield (
                f"policer_burst_packets {condition.policer_burst_packets} needs a policer_mbit "
                "above 0"
            )

        rate, burst = _bucket(condition)
        if condition.policer_mbit > 0 and burst > BUCKET_MAX_S * rate:
            most = BUCKET_MAX_S * rate // frame_bytes(condition.mtu_bytes)
            yield (
                f"policer_burst_packets must be at most {most} at policer_mbit "
                f"{condition.policer_mbit:g}, found {condition.policer_burst_packets}: a policer's "
                f"bucket must fill in {BUCKET_MAX_S} s"
            )

    def qdiscs(self, condition: Condition) -> list[Qdisc]:
        """Return the filter that drops packets above the rate, before the bottleneck."""
        rate, burst = _bucket(condition)
        words = f"matchall action police rate {rate * 8}bit burst {burst} conform-exceed drop/ok"
        if (frame := frame_bytes(condition.mtu_bytes)) > DEFAULT_MTU_BYTES:
            words = words.replace(" conform", f" mtu {frame} conform")
        action: dict[str, int | str] = {
            "kind": "police", "action": DROP, "rate": rate, "burst": burst,
        }  # fmt: skip
        return [Filter.on(bottleneck(), words, action)]

    def violations(self, e: Evidence) -> Iterator[str | None]:
        if len(e.queue) < 2:
            return
        first, last = e.queue[0], e.queue[-1]
        seconds = last.t_s - first.t_s
        passed = last.sent_bytes + last.backlog_bytes - first.sent_bytes - first.backlog_bytes
        allowed = seconds * self.policer_mbit * 1e6 / 8
        allowed += (self.policer_burst_packets + 1) * e.path_spec.sizes.frame_bytes
        if passed > allowed:
            yield (
                f"a policer of {self.policer_mbit:g} Mbit/s must pass at most {allowed:.0f} bytes "
                f"in {seconds:.3f} s, found {passed}"
            )


def _bucket(condition: Condition) -> tuple[int, int]:
    """Return the rate of a condition's policer in bytes/s, and its burst in bytes."""
    rate = math.floor(condition.policer_mbit * 1e6 / 8)
    return rate, condition.policer_burst_packets * frame_bytes(condition.mtu_bytes)


FEATURE = Policing()
