"""Background flows: the syntax of the axis `flows`.

    FLOW+FLOW+...       each: ALGORITHM[,key=value...], as in EXAMPLE

The guest imports this module: use only the standard library.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from losslab.errors import LosslabError
from losslab.study.axes import NONE, plain, settings

EXAMPLE = "same,count=9+cubic,start_s=2"
# The algorithm of the foreground flow.
SAME = "same"
ALGORITHM = r"[a-z][a-z0-9_-]*"
FLOW = rf"{ALGORITHM}(,[a-z_]+=[a-z0-9.]+)*"
PATTERN = rf"{FLOW}(\+{FLOW})*"
BOTTLENECKS = ("both", "first", "second")
# Values of keys with choices, besides the default.
CHOICES: Mapping[str, tuple[Any, ...]] = {
    "sizes": ("fixed", "exponential", "pareto"), "over": BOTTLENECKS,
    "direction": ("data", "back"),
}  # fmt: skip


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
    label: str = ""  # name in metrics, `flows_LABEL_...`; empty: the algorithm as written here

    @property
    def name(self) -> str:
        """Return the name in the metrics of these flows."""
        return self.label or self.algorithm

    @property
    def short(self) -> bool:
        """Return whether the group is a Poisson process of short flows."""
        return self.arrivals_per_s is not None

    @property
    def bulk(self) -> bool:
        """Return whether the flows are bulk flows: limited by neither size nor rate."""
        return self.size_kb is None and self.rate_mbit is None

    def expected_arrivals(self, duration_s: float) -> float:
        """Return the expected number of short flows in a run; 0 for long flows."""
        end_s = duration_s if self.end_s is None else self.end_s
        return (self.arrivals_per_s or 0.0) * max(0.0, end_s - self.start_s)

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


def refuse_pools(text: str) -> None:
    """Raise LosslabError, which names the new form, for flows with the old key `pool`."""
    if re.search(r",pool=", text):
        raise LosslabError(
            f"flows have no pools any more, found {text!r:.200}",
            hint="each algorithm has metrics of its own, such as flows_bbr_fct_median_s; give "
            "flows of one algorithm that you compare a label: bbr,label=pages+bbr,label=bulk",
        )


def parse(text: str) -> tuple[Group, ...]:
    """Parse the value of the axis."""
    if text == NONE:
        return ()
    if not re.fullmatch(PATTERN, text):
        raise LosslabError(
            f"flows must be {NONE} or ALGORITHM[,key=value...] joined by +, found {text!r}"
        )
    refuse_pools(text)
    parts = (f"algorithm={flow}".split(",") for flow in text.split("+"))
    return tuple(Group(**settings(pairs, "flows", KEYS, EXAMPLE)) for pairs in parts)


def to_text(groups: Sequence[Mapping[str, Any]]) -> str:
    """Convert the list of flows in a study's file to the axis's value."""
    return "+".join(Group(**group).text() for group in groups) or NONE


def algorithms(text: str) -> set[str]:
    """Return the algorithms that the flows name, without `same`."""
    return {group.algorithm for group in parse(text)} - {SAME}
