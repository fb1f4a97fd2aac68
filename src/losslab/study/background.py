"""Background flows: the syntax of the axis `flows`.

    FLOW+FLOW+...       each: ALGORITHM[,key=value...], as in EXAMPLE

The guest imports this module: use only the standard library.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from losslab.errors import LosslabError
from losslab.study.axes import plain, settings

if TYPE_CHECKING:
    from losslab.study.condition import Condition

NO_FLOWS = "none"
EXAMPLE = "same,count=9+cubic,start_s=2"
# The algorithm of the foreground flow.
SAME = "same"
FLOW = r"[a-z][a-z0-9_-]*(,[a-z_]+=[a-z0-9.]+)*"
PATTERN = rf"{FLOW}(\+{FLOW})*"
SIZES = ("fixed", "exponential", "pareto")
BOTTLENECKS = ("both", "first", "second")
DIRECTIONS = ("data", "back")
# The largest tested number; each flow has its port and its lines in the sender's samples.
FLOWS_MAX = 1000
# Each RTT has its link.
RTTS_MAX = 50
# Maximum base RTT, that of the axis rtt_ms.
RTT_MAX_MS = 10_000
# Limit of the expected number of short flows, whose arrivals the plan lists.
ARRIVALS_MAX = 5000
# Pools of flows with metrics of their own.
POOLS = (1, 2, 3, 4)


@dataclass(frozen=True)
class Group:
    """A group of background flows with the same parameters."""

    algorithm: str  # congestion control, by the kernel's name; or `same`
    count: int = 1
    start_s: float = 0.0  # start of the first flow, on the replicate's clock
    every_s: float = 0.0  # time between the starts of successive flows
    end_s: float | None = None  # time at which all flows stop; None: the end of the run
    rate_mbit: float | None = None  # maximum sending rate of each application; None: unlimited
    size_kb: float | None = None  # kB of 1000 bytes that each flow sends; the mean of short flows
    rtt_ms: float | None = None  # base RTT; None: the cell's
    # Rate of a Poisson process of short flows from `start_s` to `end_s`; None: long flows.
    arrivals_per_s: float | None = None
    sizes: str = "fixed"  # distribution of the sizes of short flows
    over: str = "both"  # bottlenecks that the flows pass, on a path with two
    direction: str = "data"  # `back` for uploads, from the receiver to the sender
    pool: int = 0  # number of the pool whose metrics count the flows, from 1; 0: none

    @property
    def short(self) -> bool:
        """Return whether the group is a Poisson process of short flows."""
        return self.arrivals_per_s is not None

    @property
    def bulk(self) -> bool:
        """Return whether the flows are bulk flows: limited by neither size nor rate."""
        return self.size_kb is None and self.rate_mbit is None

    def text(self) -> str:
        """Return the group as a part of the axis's value."""
        options = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)[1:]
            if getattr(self, field.name) != field.default
        }
        pairs = (f"{k}={v if isinstance(v, str) else plain(v)}" for k, v in options.items())
        return ",".join([self.algorithm, *pairs])


KEYS = {field.name: str(field.type) for field in dataclasses.fields(Group)}


def parse(text: str) -> tuple[Group, ...]:
    """Parse the value of the axis."""
    if text == NO_FLOWS:
        return ()
    if not re.fullmatch(PATTERN, text):
        raise LosslabError(
            f"flows must be {NO_FLOWS} or ALGORITHM[,key=value...] joined by +, found {text!r}"
        )
    parts = (f"algorithm={flow}".split(",") for flow in text.split("+"))
    return tuple(Group(**settings(pairs, "flows", KEYS, EXAMPLE)) for pairs in parts)


def to_text(groups: Sequence[Mapping[str, Any]]) -> str:
    """Convert the list of flows in a study's file to the axis's value."""
    return "+".join(Group(**group).text() for group in groups) or NO_FLOWS


def algorithms(text: str) -> set[str]:
    """Return the algorithms that the flows name, without `same`."""
    return {group.algorithm for group in parse(text)} - {SAME}


def extra_rtts_ms(condition: Condition) -> list[float]:
    """Return the base RTTs of flows that differ from the path's, in ascending order."""
    rtts_ms = {group.rtt_ms for group in parse(condition.flows) if group.rtt_ms is not None}
    return sorted(rtts_ms - {condition.rtt_ms})


def problems(condition: Condition) -> Iterator[str]:
    """Yield what is wrong with a condition's flows; nothing if they can be measured."""
    try:
        groups = parse(condition.flows)
    except LosslabError as error:
        yield error.message
        return
    for group in groups:
        yield from (f"{problem} ({group.text()})" for problem in _group_problems(group, condition))
    yield from _upload_problems(groups, condition)
    short = sum(expected_arrivals(group, condition.duration_s) for group in groups)
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
    allowed = {"sizes": SIZES, "over": BOTTLENECKS, "pool": POOLS, "direction": DIRECTIONS}
    for key, values in allowed.items():
        if (value := getattr(group, key)) not in (*values, getattr(Group, key)):
            words = ", ".join(map(str, values))
            yield f"{key} of flows must be one of {words}, found {value}"
    if group.over != "both" and not condition.second_rate_mbit:
        yield f"over of flows needs second_rate_mbit, found {group.over} without it"
    if group.short and (group.size_kb is None or group.count != 1 or group.every_s):
        yield "arrivals_per_s of flows needs size_kb and excludes count and every_s"
    if group.sizes != "fixed" and not group.short:
        yield "sizes of flows needs arrivals_per_s"


def expected_arrivals(group: Group, duration_s: float) -> float:
    """Return the expected number of short flows in a run; 0 for long flows."""
    end_s = duration_s if group.end_s is None else group.end_s
    return (group.arrivals_per_s or 0.0) * max(0.0, end_s - group.start_s)
