"""Flows beside a cell's own: what the words of the axis `flows` mean.

    FLOW+FLOW+...       each: ALGORITHM[,key=value...], as `same,count=9+cubic,start_s=2`

Pure data, standard library only: the guest imports it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from losslab.errors import LosslabError
from losslab.study.axes import LARGEST, SMALLEST, decimal, plain

if TYPE_CHECKING:
    from losslab.study.condition import Condition

NO_FLOWS = "none"
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
        said = [
            f"{field.name}={_short(getattr(self, field.name))}"
            for field in dataclasses.fields(self)[1:]
            if getattr(self, field.name) != field.default
        ]
        return ",".join([self.algorithm, *said])


KEYS = {field.name: str(field.type) for field in dataclasses.fields(Group)}


def _short(value: object) -> str:
    return plain(value) if isinstance(value, float) else str(value)


def parse(text: str) -> tuple[Group, ...]:
    """Read the value of the axis."""
    if text == NO_FLOWS:
        return ()
    if not re.fullmatch(PATTERN, text):
        raise LosslabError(
            f"flows must be {NO_FLOWS} or ALGORITHM[,key=value...] joined by +, found {text!r}"
        )
    groups = []
    for word in text.split("+"):
        algorithm, *pairs = word.split(",")
        told = {key: value for key, _, value in (pair.partition("=") for pair in pairs)}
        if len(told) < len(pairs) or "algorithm" in told:
            raise LosslabError(f"each key of flows must be said once, found {word!r}")
        groups.append(_group({"algorithm": algorithm, **told}))
    return tuple(groups)


def _group(told: Mapping[str, Any]) -> Group:
    values: dict[str, Any] = {}
    for name, value in told.items():
        if name not in KEYS:
            raise LosslabError(f"keys of flows must be among {', '.join(KEYS)}, found {name}")
        values[name] = value if KEYS[name] == "str" else _number(name, value)
    return Group(**values)


def _number(name: str, value: object) -> float:
    """Read a number of a group: a word's part, or what a file has."""
    number = decimal(value) if isinstance(value, str) else value
    whole = KEYS[name] == "int"
    if not isinstance(number, int | float) or not (number == 0 or SMALLEST <= number <= LARGEST):
        raise LosslabError(f"{name} of flows must be a finite number, found {value!s:.60}")
    if whole and number != int(number):
        raise LosslabError(f"{name} of flows must be a whole number, found {value!s:.60}")
    return int(number) if whole else float(number)


def words(listed: Sequence[Mapping[str, Any]]) -> str:
    """Write flows that a file lists as the axis's value."""
    if any("algorithm" not in told for told in listed):
        raise LosslabError("each of flows must say its algorithm, found one that does not")
    return "+".join(_group(told).words() for told in listed) or NO_FLOWS


def algorithms(text: str) -> set[str]:
    """Name the kernel's algorithms that flows use besides the cell's own."""
    return {group.algorithm for group in parse(text)} - {SAME}


def own_rtts_ms(condition: Condition) -> list[float]:
    """List the round-trip times of flows that are not the path's, from the least."""
    own = {group.rtt_ms for group in parse(condition.flows) if group.rtt_ms is not None}
    return sorted(own - {condition.rtt_ms})


def problems(condition: Condition) -> list[str]:
    """Say what is wrong with a condition's flows; empty when they can be measured."""
    try:
        groups = parse(condition.flows)
    except LosslabError as error:
        return [error.message]
    found = [f"{what} ({group.words()})" for group in groups for what in _wrong(group, condition)]
    if groups:
        found += _together(groups, condition)
    return found


def _together(groups: tuple[Group, ...], condition: Condition) -> Iterator[str]:
    """Say what is wrong with all flows together."""
    count = sum(group.count for group in groups)
    arrivals = sum(expected_arrivals(group, condition.duration_s) for group in groups)
    rtts = len(own_rtts_ms(condition))
    if rtts > RTTS_MAX:
        yield f"RTTs of flows must be at most {RTTS_MAX}, found {rtts}"
    if count > FLOWS_MAX:
        yield f"flows must be at most {FLOWS_MAX}, found {count}"
    if arrivals > ARRIVALS_MAX:
        yield f"short flows must be at most {ARRIVALS_MAX} in the mean, found {arrivals:g}"


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
    if group.size_kb is not None and group.size_kb <= 0:
        yield f"size_kb of flows must be positive, found {group.size_kb:g}"
    if group.rate_mbit is not None and (group.rate_mbit <= 0 or group.size_kb is not None):
        yield f"rate_mbit of flows must be positive and have no size_kb, found {group.rate_mbit:g}"
    if group.rtt_ms is not None and (condition.bare or group.rtt_ms < condition.rtt_ms):
        yield (
            f"rtt_ms of flows must be at least the path's {condition.rtt_ms:g}, which is not 0, "
            f"found {group.rtt_ms:g}"
        )
    if group.arrivals_per_s is not None and group.arrivals_per_s <= 0:
        yield f"arrivals_per_s of flows must be positive, found {group.arrivals_per_s:g}"
    if group.sizes not in SIZES:
        yield f"sizes of flows must be one of {', '.join(SIZES)}, found {group.sizes}"
    if group.over not in WAYS:
        yield f"over of flows must be one of {', '.join(WAYS)}, found {group.over}"
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
