"""Flows beside a cell's own: what the words of the axis `flows` mean.

    FLOW+FLOW+...       each: ALGORITHM[,key=value...], as in EXAMPLE

Pure data, standard library only: the guest imports it.
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
# The algorithm of the cell's own flow.
SAME = "same"
WORD = r"[a-z][a-z0-9_-]*(,[a-z_]+=[a-z0-9.]+)*"
PATTERN = rf"{WORD}(\+{WORD})*"
SIZES = ("fixed", "exponential", "pareto")
WAYS = ("both", "first", "second")
# A port each, and a line of the sender's samples: what has been tried.
FLOWS_MAX = 1000
# A link each.
RTTS_MAX = 50
# Of short flows as many may be expected: their arrivals stand in the plan.
ARRIVALS_MAX = 5000


@dataclass(frozen=True)
class Group:
    """Flows of one kind.

    Attributes:
        algorithm: The kernel's name, or `same`.
        count: How many.
        start_s: When the first starts, on the replicate's clock.
        every_s: How much later each starts than the one before.
        end_s: When they stop, at once; None: with the run.
        rate_mbit: What their programs give them to send at most; None: as much as they can.
        size_kb: What each sends before it closes, in kB of 1000 bytes; of arrivals the mean.
        rtt_ms: Their own round-trip time; None: the cell's.
        arrivals_per_s: They are a Poisson process of short flows instead, from start to end.
        sizes: How those sizes are distributed.
        over: Which bottlenecks they pass, where there are two.
    """

    algorithm: str
    count: int = 1
    start_s: float = 0.0
    every_s: float = 0.0
    end_s: float | None = None
    rate_mbit: float | None = None
    size_kb: float | None = None
    rtt_ms: float | None = None
    arrivals_per_s: float | None = None
    sizes: str = "fixed"
    over: str = "both"

    @property
    def short(self) -> bool:
        """Tell whether they are a process of short flows."""
        return self.arrivals_per_s is not None

    @property
    def bulk(self) -> bool:
        """Tell whether they want all that the path can carry until they are stopped."""
        return self.size_kb is None and self.rate_mbit is None

    def words(self) -> str:
        """Write it as a part of the axis's value."""
        told = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)[1:]
            if getattr(self, field.name) != field.default
        }
        written = {key: v if isinstance(v, str) else plain(v) for key, v in told.items()}
        return ",".join([self.algorithm, *(f"{key}={text}" for key, text in written.items())])


KEYS = {field.name: str(field.type) for field in dataclasses.fields(Group)}


def parse(text: str) -> tuple[Group, ...]:
    """Read the value of the axis."""
    if text == NO_FLOWS:
        return ()
    if not re.fullmatch(PATTERN, text):
        raise LosslabError(
            f"flows must be {NO_FLOWS} or ALGORITHM[,key=value...] joined by +, found {text!r}"
        )
    words = (f"algorithm={word}".split(",") for word in text.split("+"))
    return tuple(Group(**settings(pairs, "flows", KEYS, EXAMPLE)) for pairs in words)


def words(listed: Sequence[Mapping[str, Any]]) -> str:
    """Write flows that a file lists, as its schema has them, as the axis's value."""
    return "+".join(Group(**told).words() for told in listed) or NO_FLOWS


def algorithms(text: str) -> set[str]:
    """Name the kernel's algorithms that flows use besides the cell's own."""
    return {group.algorithm for group in parse(text)} - {SAME}


def own_rtts_ms(condition: Condition) -> list[float]:
    """List the round-trip times of flows that are not the path's, from the least."""
    own = {group.rtt_ms for group in parse(condition.flows) if group.rtt_ms is not None}
    return sorted(own - {condition.rtt_ms})


def problems(condition: Condition) -> Iterator[str]:
    """Say what is wrong with a condition's flows; nothing when they can be measured."""
    try:
        groups = parse(condition.flows)
    except LosslabError as error:
        yield error.message
        return
    for group in groups:
        yield from (f"{what} ({group.words()})" for what in _wrong(group, condition))
    for what, count, most in (
        ("RTTs of flows must be at most", len(own_rtts_ms(condition)), RTTS_MAX),
        ("flows must be at most", sum(group.count for group in groups), FLOWS_MAX),
        (
            "short flows in the mean must be at most",
            sum(expected_arrivals(group, condition.duration_s) for group in groups),
            ARRIVALS_MAX,
        ),
    ):
        if count > most:
            yield f"{what} {most}, found {count:g}"


def _wrong(group: Group, condition: Condition) -> Iterator[str]:
    """Say what is wrong with one kind of flows."""
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
        yield f"rate_mbit of flows must have no size_kb, found {group.size_kb:g}"
    if group.rtt_ms is not None and (condition.bare or group.rtt_ms < condition.rtt_ms):
        yield (
            f"rtt_ms of flows must be at least the path's {condition.rtt_ms:g}, which is not 0, "
            f"found {group.rtt_ms:g}"
        )
    for key, allowed in (("sizes", SIZES), ("over", WAYS)):
        if getattr(group, key) not in allowed:
            yield f"{key} of flows must be one of {', '.join(allowed)}, found {getattr(group, key)}"
    if group.over != "both" and not condition.second_rate_mbit:
        yield f"over of flows needs a second_rate_mbit, found {group.over} without one"
    if group.short and (group.size_kb is None or group.count != 1 or group.every_s):
        yield "arrivals_per_s of flows needs a size_kb, and neither count nor every_s"
    if group.sizes != "fixed" and not group.short:
        yield "sizes of flows needs arrivals_per_s"


def expected_arrivals(group: Group, duration_s: float) -> float:
    """Return how many short flows are expected in a run."""
    end_s = duration_s if group.end_s is None else group.end_s
    return (group.arrivals_per_s or 0.0) * max(0.0, end_s - group.start_s)
