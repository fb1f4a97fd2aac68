"""Background flows as a feature: a competitor, and groups of TCP flows (`study/background.py`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from losslab.emulation.app import apps
from losslab.emulation.flows.plan import MODULE, extra_rtts_ms
from losslab.emulation.mechanism import mechanisms
from losslab.errors import LosslabError
from losslab.study import background, features
from losslab.study.axes import NONE, Seed, axis
from losslab.study.background import Group
from losslab.study.features import Feature

if TYPE_CHECKING:
    from losslab.study.condition import Condition

# The largest tested number; each flow has its port and its lines in the sender's samples.
FLOWS_MAX = 1000
# Each RTT has its link.
RTTS_MAX = 50
# Maximum base RTT, that of the axis rtt_ms.
RTT_MAX_MS = 10_000
# Limit of the expected number of short flows, whose arrivals the plan lists.
ARRIVALS_MAX = 5000
LABEL = "[a-z][a-z0-9]*"
# Metrics of the flows of each label: end of the name, label, unit, which is better, description.
OF_LABEL = (
    ("goodput_mbit", "Goodput", "Mbit/s", "-",
     "Goodput of the background flows LABEL between the warm-up and the end of the run."),
    ("first_byte_median_s", "Median time to first byte", "s", "less",
     "Median time from connect to the first byte read, by the end of the run, of the background "
     "flows LABEL that start after the warm-up; if a group has a `label`."),
    ("fct_mean_s", "Mean flow completion time", "s", "less",
     "Mean completion time of the background flows LABEL of a size that start after the warm-up."),
    ("fct_median_s", "Median flow completion time", "s", "less",
     "Median completion time of the background flows LABEL of a size that start after the "
     "warm-up."),
    ("fct_p95_s", "95th percentile flow completion time", "s", "less",
     "95th percentile of the completion time of the background flows LABEL of a size that start "
     "after the warm-up."),
    ("short_unfinished", "Unfinished flows", "flows", "less",
     "Background flows LABEL of a size that start after the warm-up and were not complete."),
)  # fmt: skip


class Background(Feature):
    """Flows over the same path as the foreground flow."""

    programs = (MODULE,)
    metrics = features.metrics(
        ("flows", "upload_goodput_mbit", "Goodput of uploads", "Mbit/s", "-",
         "Acknowledged data of all flows with direction=back between the warm-up and the end of "
         "the run."),
        *(("flows", f"flows_LABEL_{name}", f"{label} of LABEL flows", *more)
          for name, label, *more in OF_LABEL),
    )  # fmt: skip
    axes = {
        "competitor": axis(
            NONE,
            help="congestion control of a second bulk flow over the same bottleneck; `none`: no "
            "such flow; `same` (in a study): that of the foreground flow",
            named="vs-{}", seed=Seed.WHETHER_DEFAULT,
        ),
        "flows": axis(
            NONE,
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
        with_flows = condition.flows != NONE
        competing = [name for name, app in apps().items() if app.with_competitor]
        alone = [name for name, app in apps().items() if not app.with_flows]
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
        one_queue = condition.shaper != "htb-netem" and condition.queue != "two-fifos"
        if with_flows and (not one_queue or condition.sender_delay_ms > 0):
            yield "flows need one queue, another shaper than htb-netem and no sender_delay_ms"
        yield from _flow_problems(condition)
        used = (each for each in mechanisms() if each.on(condition))
        simple = condition.trace == NONE and all(each.with_second for each in used)
        if condition.second_rate_mbit > 0 and (not with_flows or condition.bare or not simple):
            yield (
                "second_rate_mbit needs flows, an rtt_ms above 0, and a path without changes, ecn, "
                "trace, jitter, reordering and duplicates"
            )


def _flow_problems(condition: Condition) -> Iterator[str]:
    """Yield what is wrong with a condition's flows; nothing if they can be measured."""
    try:
        groups = background.parse(condition.flows)
    except LosslabError as error:
        yield error.message
        return
    for group in groups:
        if group.label and not re.fullmatch(LABEL, group.label):
            yield f"label of flows must be a word of a-z and 0-9, found {group.label}"
        yield from (f"{problem} ({group.text()})" for problem in _group_problems(group, condition))
    yield from _upload_problems(groups, condition)
    short = sum(group.expected_arrivals(condition.duration_s) for group in groups)
    for name, count, maximum in (
        ("number of different rtt_ms", len(extra_rtts_ms(condition)), RTTS_MAX),
        ("number of flows", sum(group.count for group in groups), FLOWS_MAX),
        ("expected number of short flows", short, ARRIVALS_MAX),
    ):
        if count > maximum:
            yield f"flows: the {name} must be at most {maximum}, found {count:g}"


def _upload_problems(groups: Sequence[Group], condition: Condition) -> Iterator[str]:
    """Yield what uploads exclude: acknowledgements and data share each direction with them."""
    uploads = [group for group in groups if group.direction == "back"]
    if any(group.rtt_ms is not None or group.over != "both" for group in uploads):
        yield "flows with direction=back must have neither rtt_ms nor over"
    if uploads and condition.reverse_rate_mbit == 0 and condition.trace_back == NONE:
        yield (
            "flows with direction=back need reverse_rate_mbit, the rate of the reverse path, or a "
            "trace_back, found none: without it, nothing limits an upload"
        )
    for name, default in (("ecn", "off"), ("ack_thinning", 1), ("second_rate_mbit", 0.0)):
        if uploads and (found := getattr(condition, name)) != default:
            yield f"flows with direction=back need {name} {default}, found {found}"


def _group_problems(group: Group, condition: Condition) -> Iterator[str]:
    end_s = condition.duration_s if group.end_s is None else group.end_s
    last_s = group.start_s + (group.count - 1) * group.every_s
    if group.count < 1:
        yield f"count of flows must be at least 1, found {group.count}"
    if not 0 <= group.start_s <= last_s < end_s <= condition.duration_s:
        yield (
            f"flows must start and end within the run's {condition.duration_s:g} s, found "
            f"{group.start_s:g} to {last_s:g} s for the starts and {end_s:g} s for the end"
        )
    for key in ("size_kb", "rate_mbit", "arrivals_per_s"):
        value = getattr(group, key)
        if value is not None and value <= 0:
            yield f"{key} of flows must be positive, found {value:g}"
    if group.rate_mbit is not None and group.size_kb is not None:
        yield f"flows must not have both rate_mbit and size_kb, found size_kb {group.size_kb:g}"
    if group.rtt_ms is not None and condition.bare:
        yield f"flows must have no rtt_ms on a path with rtt_ms 0, found {group.rtt_ms:g}"
    elif group.rtt_ms is not None and not condition.rtt_ms <= group.rtt_ms <= RTT_MAX_MS:
        yield (
            f"rtt_ms of flows must be at least the path's {condition.rtt_ms:g} and at most "
            f"{RTT_MAX_MS}, found {group.rtt_ms:g}"
        )
    for key, values in background.CHOICES.items():
        if (value := getattr(group, key)) not in (*values, getattr(Group, key)):
            words = ", ".join(map(str, values))
            yield f"{key} of flows must be one of {words}, found {value}"
    if group.over != "both" and not condition.second_rate_mbit:
        yield f"over of flows needs second_rate_mbit, found {group.over} without it"
    if group.short and (group.size_kb is None or group.count != 1 or group.every_s):
        yield "arrivals_per_s of flows needs size_kb and excludes count and every_s"
    if group.sizes != "fixed" and not group.short:
        yield "sizes of flows needs arrivals_per_s"


FEATURE = Background()
