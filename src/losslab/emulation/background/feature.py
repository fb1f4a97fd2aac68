"""Background flows as a feature: a competitor, and groups of TCP flows (`study/background.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from losslab.emulation.background.plan import MODULE
from losslab.study import background, features
from losslab.study.axes import NONE, Seed, axis
from losslab.study.features import Feature

if TYPE_CHECKING:
    from losslab.study.condition import Condition


# Metrics of each pool: name, label, unit, which is better, description.
OF_POOL = (
    ("goodput_mbit", "Goodput", "Mbit/s", "-",
     "Goodput of all flows of the pool between the warm-up and the end of the run."),
    ("first_byte_median_s", "Median time to first byte", "s", "less",
     "Median time from connect to the first byte read of flows that start after the warm-up."),
    ("fct_mean_s", "Mean flow completion time", "s", "less",
     "Mean completion time of the pool's flows of a size that start after the warm-up."),
    ("fct_median_s", "Median flow completion time", "s", "less",
     "Median completion time of the pool's flows of a size that start after the warm-up."),
    ("fct_p95_s", "95th percentile flow completion time", "s", "less",
     "95th percentile of the completion time of the pool's flows of a size that start after the "
     "warm-up."),
    ("short_unfinished", "Unfinished flows", "flows", "less",
     "Flows of the pool with a size that start after the warm-up and were not complete."),
)  # fmt: skip


class Background(Feature):
    """Flows over the same path as the foreground flow."""

    programs = (MODULE,)
    metrics = tuple(
        {"of": "flows", "name": name, "label": label, "unit": unit, "better": better,
         "description": text}
        for name, label, unit, better, text in (
            ("upload_goodput_mbit", "Goodput of uploads", "Mbit/s", "-",
             "Acknowledged data of all flows with direction=back between the warm-up and the end "
             "of the run."),
            *((f"pool{pool}_{name}", f"{label} of pool {pool}", *more)
              for pool in background.POOLS for name, label, *more in OF_POOL),
        )
    )  # fmt: skip
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


FEATURE = Background()
