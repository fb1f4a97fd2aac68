"""Path schedule: rate, delay and loss that change while the traffic runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from losslab.emulation.changing import Changing
from losslab.emulation.mechanism import Mechanism
from losslab.emulation.phases import phases_of, plan_of
from losslab.emulation.qdiscs import Shaper
from losslab.errors import LosslabError
from losslab.study import changes
from losslab.study.axes import NONE, axis

if TYPE_CHECKING:
    from losslab.emulation.batch import Handle
    from losslab.emulation.plan import Plan
    from losslab.study.condition import Condition


@dataclass(frozen=True)
class Schedule(Mechanism):
    """Mean rate of the time that goodput is of; loss is judged phase by phase."""

    scheduled_mbit: float | None = None

    order = 1
    with_others = True
    after = "write_kib"
    axes = {
        "changes": axis(
            NONE,
            help="what becomes of the path while it runs: `at_s=10,rate_mbit=2+at_s=15,"
            "rate_mbit=20`, of `rate_mbit`, `rtt_ms`, `loss_percent` and `outage_s`, so long "
            "everything is lost",
            pattern="[a-z0-9_=.,+]+", named="changes-{}",
        )
    }  # fmt: skip

    def of(self, condition: Condition) -> Self:
        """Return the mean rate of what may be acknowledged in the time that goodput is of.

        That passed the bottleneck up to a round trip before.
        """
        if condition.changes == NONE:
            return self
        found = phases_of(condition)
        longest_s = max(phase.values["rtt_ms"] for phase in found) / 1e3
        begin_s, end_s = max(0.0, condition.warmup_s - longest_s), condition.duration_s
        carried = sum(
            max(0.0, phase.end_s - max(phase.begin_s, begin_s)) * phase.values["rate_mbit"]
            for phase in found
        )
        return replace(self, scheduled_mbit=carried / (end_s - condition.warmup_s))

    def specified(self) -> dict[str, Any]:
        return {"mean_rate_mbit": self.scheduled_mbit}

    def conflicts(self, condition: Condition) -> Iterator[str]:
        its = condition
        if its.changes == NONE:
            return
        if its.shaper != "tbf" or its.sender_delay_ms > 0:
            yield "changes must be none with sender_delay_ms or the shaper htb-netem, found changes"
        if its.trace != NONE and "rate_mbit" in its.changes:
            yield "changes must leave rate_mbit alone with a trace, which is the link's rate"
        try:
            found = changes.phases(its.changes, {name: getattr(its, name) for name in changes.SET})
        except LosslabError as error:
            yield error.message
            return
        last_s = found[-1].begin_s
        if last_s >= its.duration_s:
            yield (
                f"changes must end before the run does, at {its.duration_s:g} s, found one at "
                f"{last_s:g} s"
            )
        for phase in found[1:]:
            bare = phase.values["rtt_ms"] == 0
            if bare:
                yield "changes must keep some rtt_ms, whose delay lines they change, found 0"
            if not bare:
                where = f"changes, from {phase.begin_s:g} s: "
                same = type(its).from_json(its.to_json() | phase.values | {"changes": NONE})
                yield from (where + words for words in same.problems())

    def plan(self, condition: Condition, seed: int) -> dict[str, Any]:
        return {"changes": plan_of(condition, seed)}

    def last_qdiscs(self, plan: Plan) -> list[Shaper]:
        last: list[Shaper] = plan.parts["changes"].last
        return last

    def session(self, plan: Plan, handles: Mapping[str, Handle]) -> Changing:
        return Changing(plan.parts["changes"], handles)

    @property
    def mean_rate_mbit(self) -> float | None:
        return self.scheduled_mbit


FEATURE = Schedule()
