"""ACK thinning: a filter on the reverse path that forwards one in N acknowledgements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from losslab.emulation.mechanism import Mechanism
from losslab.emulation.qdiscs import DETERMINISTIC, DROP, OK, Filter, Qdisc
from losslab.emulation.shaping import ethertype
from losslab.emulation.topology import interface, reverse_router
from losslab.study.axes import axis

if TYPE_CHECKING:
    from losslab.emulation.checks import Evidence
    from losslab.study.condition import Condition


@dataclass(frozen=True)
class Thinning(Mechanism):
    """ACK thinning that forwards one in `ack_thinning` pure acknowledgements."""

    ack_thinning: int = 1

    order = 7
    needs_netem_links = with_second = True
    counted = {"acks_thinned": "acks_thinned"}
    axes = {
        "ack_thinning": axis(
            1,
            help="N, where one in N pure acknowledgements gets through; 1 for all",
            span="[1, 100]", named="thin{}",
        )
    }  # fmt: skip

    def qdiscs(self, condition: Condition) -> list[Qdisc]:
        """Return the filter of pure acknowledgements (no SYN, FIN, PSH)."""
        words = (
            f"protocol {ethertype(condition)} flower ip_proto tcp tcp_flags 0x10/0x1f action drop "
            f"random determ ok {self.ack_thinning}"
        )
        action: dict[str, int | str] = {
            "kind": "gact", "action": DROP, "otherwise": OK, "one_of": self.ack_thinning,
            "random": DETERMINISTIC,
        }  # fmt: skip
        return [Filter.on(interface(reverse_router(condition.path), "r1"), words, action)]

    def violations(self, e: Evidence) -> Iterator[str | None]:
        t = e.traffic
        expected = t.acks_seen - t.acks_seen // self.ack_thinning
        if t.acks_thinned != expected:
            yield (
                f"{expected} of {t.acks_seen} acknowledgements must be dropped, so that one in "
                f"{self.ack_thinning} gets through, found {t.acks_thinned} dropped"
            )


FEATURE = Thinning()
