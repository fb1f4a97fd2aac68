"""Thinning of acknowledgements: a filter on the way back that lets one of so many pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from losslab.emulation.beyond_tc import DETERMINISTIC, DROP, OK, Filter
from losslab.emulation.mechanism import Mechanism
from losslab.emulation.qdiscs import Shaper
from losslab.emulation.topology import interface, reverse_router
from losslab.study.axes import NONE, axis

if TYPE_CHECKING:
    from losslab.emulation.accounts import Traffic
    from losslab.emulation.checks import Evidence
    from losslab.study.condition import Condition


@dataclass(frozen=True)
class Thinning(Mechanism):
    """Of so many acknowledgements without data one gets through."""

    ack_thinning: int = 1

    order = 7
    of_lines = with_second = with_others = True
    explains = ("acks_thinned",)
    after = "duplicate_percent"
    axes = {
        "ack_thinning": axis(
            1,
            help="of so many acknowledgements without data one gets through; 1 for all",
            span="[1, 100]", named="thin{}",
        )
    }  # fmt: skip

    def conflicts(self, condition: Condition) -> Iterator[str]:
        if condition.ack_thinning > 1 and condition.trace != NONE:
            yield "ack_thinning must be 1 with a trace, past whose link packets go"

    def qdiscs(self, condition: Condition) -> list[Shaper]:
        """Filter packets that acknowledge and do nothing else (no SYN, FIN, PSH)."""
        words = (
            "protocol ip flower ip_proto tcp tcp_flags 0x10/0x1f action drop random determ ok "
            f"{self.ack_thinning}"
        )
        action: dict[str, int | str] = {
            "kind": "gact", "action": DROP, "otherwise": OK, "one_of": self.ack_thinning,
            "random": DETERMINISTIC,
        }  # fmt: skip
        return [Filter.on(interface(reverse_router(condition.path), "r1"), words, action)]

    def reasons(self, e: Evidence) -> Iterator[str | None]:
        t = e.traffic
        wanted = t.acks_seen - t.acks_seen // self.ack_thinning
        if t.acks_thinned != wanted:
            yield (
                f"one of {self.ack_thinning} of {t.acks_seen} acknowledgements must get through "
                f"and {wanted} be dropped, found {t.acks_thinned} dropped"
            )

    def summary(self, t: Traffic) -> dict[str, float]:
        return {"acks_thinned": t.acks_thinned}


FEATURE = Thinning()
