"""Background flows as a feature: a competitor, and groups of TCP flows (`study/background.py`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from losslab.emulation.background import outcome
from losslab.emulation.background import plan as planning
from losslab.emulation.goodput import read_rows
from losslab.study import background, features
from losslab.study.axes import NONE, Seed, axis
from losslab.study.features import Feature

if TYPE_CHECKING:
    from losslab.emulation.background.plan import BackgroundFlows
    from losslab.study.condition import Condition

# Wall time of the start of the programs, per second of a flow, and per short flow, measured with 1
# to 1,001 flows at 100 Mbit/s.
START_S, PER_FLOW_S, PER_SHORT_FLOW_S = 0.5, 0.001, 0.001


class Background(Feature):
    """Flows over the same path as the foreground flow."""

    after, apart = "loss_direction", {"flows": "kernel"}
    programs = (planning.MODULE,)
    axes = {
        "competitor": axis(
            NONE,
            help="congestion control of a second bulk flow over the same bottleneck; `none`: no "
            "such flow; `same` (in a study): that of the foreground flow",
            named="vs-{}", seed=Seed.WHETHER_DEFAULT,
        ),
        "flows": axis(
            background.NO_FLOWS,
            help="TCP background flows: `ALGORITHM,key=value,...` joined by `+`, or a name of the "
            "study's own `flows`; docs/how-to/flows.md has the keys",
            pattern=background.PATTERN, named="flows-{}", commas=True, seed=Seed.NEVER,
        ),
        "second_rate_mbit": axis(
            0.0,
            help="rate of a second bottleneck behind the first, with the same buffer and queue; 0 "
            "for none; the foreground flow passes both, `flows` choose with `over`",
            span="[0, 10000]", smallest=0.01, unit="Mbit/s", named="second{}",
        ),
    }  # fmt: skip
    named = {"flows": background.to_text}
    table = outcome.TABLE
    plan = staticmethod(planning.plan_background_flows)
    own_start_s = staticmethod(planning.own_start_s)
    collect = staticmethod(outcome.collect)
    of_all_links = staticmethod(outcome.of_all_links)
    link_metrics = staticmethod(outcome.link_metrics)

    def conflicts(self, condition: Condition) -> Iterator[str]:
        apps, with_flows = features.apps(), condition.flows != background.NO_FLOWS
        competing = [name for name, app in apps.items() if app.with_competitor]
        alone = [name for name, app in apps.items() if not app.with_flows]
        if condition.competitor != NONE and condition.app not in competing:
            yield f"competitor needs the app {' or '.join(competing)}, found {condition.app}" + (
                f"; with {condition.app}, use flows instead, such as flows {condition.competitor}"
                if condition.app not in alone
                else ""
            )
        if with_flows and (condition.competitor != NONE or condition.app in alone):
            yield (
                "flows exclude competitor (add the competitor to the flows) and the apps "
                f"{' and '.join(alone)}"
            )
        one_queue = condition.shaper == "tbf" and condition.queue != "two-fifos"
        if with_flows and (not one_queue or condition.sender_delay_ms > 0):
            yield "flows need one queue, the shaper tbf and no sender_delay_ms"
        if with_flows and condition.trace != NONE:
            yield (
                f"flows need a path without a trace, because only the app's own flows pass a "
                f"trace-driven link, found trace {condition.trace}; use a competitor instead"
            )
        yield from background.problems(condition)
        mechanisms = [each for each in features.mechanisms() if each.on(condition)]
        simple = condition.trace == NONE and all(each.with_second for each in mechanisms)
        if condition.second_rate_mbit > 0 and (not with_flows or condition.bare or not simple):
            yield (
                "second_rate_mbit needs flows, an rtt_ms above 0, and a path without changes, ecn, "
                "trace, jitter, reordering and duplicates"
            )

    def algorithms(self, condition: Condition) -> set[str]:
        return background.algorithms(condition.flows) | ({condition.competitor} - {NONE})

    def more_flows(self, condition: Condition) -> int:
        return sum(group.count for group in background.parse(condition.flows))

    def cost_s(self, condition: Condition) -> float:
        groups, duration_s = background.parse(condition.flows), condition.duration_s
        bulk = sum(group.count for group in groups if not group.short)
        arrivals = sum(background.expected_arrivals(group, duration_s) for group in groups)
        lasting_s = PER_FLOW_S * bulk * duration_s + PER_SHORT_FLOW_S * arrivals
        return lasting_s + (START_S if groups else 0.0)

    def origin_ns(self, flows: BackgroundFlows, folder: Path) -> int:
        """Return the origin of the tables' times, from the raw files of a replicate."""
        sent = json.loads((folder / flows.flow.caller.log).read_text())
        first = read_rows(folder / self.table)[0]
        started_ns: int = sent[first["source_port"]]["started_ns"]
        return started_ns - round(1e9 * float(first["start_s"]))


FEATURE = Background()
