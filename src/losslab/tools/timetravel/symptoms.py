"""Symptoms of a replicate: what `losslab why` finds the cause of."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.campaign.criteria import FAIL
from losslab.emulation import capture
from losslab.reading import UsageError, read_rows
from losslab.study import metrics
from losslab.study.condition import Condition
from losslab.study.metrics import Summary
from losslab.tools.timetravel.futures import Future

if TYPE_CHECKING:
    from losslab.tools.conform.timeline import Timeline

# A future has the symptom if this share of the original remains: of a stall's length, or of the
# metric's difference from a run without any drop.
SAME = 0.8
# A future's stall may begin and end this much later than the original.
LATER_S = 0.5
# Shorter times without delivered data occur without any loss, such as in slow start.
MIN_STALL_RTTS, MIN_STALL_S = 3, 0.1
COUNTER = "TcpExtTCPTimeouts"


@dataclass(frozen=True)
class Symptom:
    """A symptom of a replicate, and whether a future has it.

    Attributes:
        text: Description for a terminal.
        begin_s: Time before which the replicate is cut.
        until_s: Time by which a future has the symptom, if it has it.
        shows: Whether the first future has it; the second is the one without any drop after the
            same cut.
    """

    text: str
    begin_s: float
    until_s: float
    shows: Callable[[Future, Future], bool]


@dataclass(frozen=True)
class Stall:
    """A time in which a flow delivered nothing."""

    begin_s: float
    length_s: float

    @property
    def until_s(self) -> float:
        """Time by which a future has the same stall, if it has it."""
        return self.begin_s + self.length_s + LATER_S


def stall(folder: Path, condition: Condition) -> Symptom:
    """Return a replicate's longest stall; UsageError if it is too short to be one."""
    longest = longest_stall(folder, end_s=condition.duration_s)
    min_s = max(MIN_STALL_S, MIN_STALL_RTTS * condition.rtt_ms / 1e3)
    if longest.length_s < min_s:
        raise UsageError(
            f"the run must have a stall of at least {min_s:g} s, {MIN_STALL_RTTS} RTTs, found at "
            f"most {longest.length_s:.3f} s without delivered data"
        )

    def shows(future: Future, _: Future) -> bool:
        again = longest_stall(future.folder, future.at_s, longest.begin_s + LATER_S)
        return again.length_s >= SAME * longest.length_s

    text = f"stall of {longest.length_s:.3f} s at {longest.begin_s:.3f} s"
    return Symptom(text, longest.begin_s, longest.until_s, shows)


def timeout(folder: Path, condition: Condition, manifest: Mapping[str, Any]) -> Symptom:
    """Return a replicate's timeout, at its longest stall's time; UsageError without any."""
    if not timeouts(manifest):
        raise UsageError("the run must have a retransmission timeout, found none")
    around = longest_stall(folder, end_s=condition.duration_s)
    return Symptom(
        "timeout after the cut", around.begin_s, around.until_s,
        lambda future, spared: timeouts(future.manifest) > timeouts(spared.manifest),
    )  # fmt: skip


def failure(folder: Path, condition: Condition, manifest: Mapping[str, Any], name: str) -> Symptom:
    """Return the failure of a case of a draft in a replicate: at least the same steps fail.

    Raises UsageError if the case does not fail, or has no losses on which this could depend.
    """
    from losslab.tools.conform import judge, runs, suite

    of, _, number = name.partition("/")
    if not number:
        raise UsageError(f"--case must be SUITE/CASE, such as bbr-draft/2, found {name}")
    [case] = suite.cases(suite.load(of), [number])
    if not runs.loses_at_random(condition):
        raise UsageError(
            f"the path must drop packets at random, found that case {number} does not depend on "
            "losses: its path drops none"
        )
    if capture.STATE not in manifest.get("captures", ()):
        raise UsageError(
            f"the run must have its state, found no {capture.name(capture.STATE)}",
            hint="measure it again with --capture state, or name a run of `losslab conform`",
        )

    def line(of_run: Path, begin_s: float, summary: Summary) -> Timeline:
        rows = runs.rows_in(of_run, condition, manifest["seed"])
        return runs.line_of(rows, case, condition, begin_s, summary)

    def failing(of_run: Path, begin_s: float, summary: Summary) -> dict[int, str]:
        held, steps = judge.of_case(case.data, line(of_run, begin_s, summary))
        failed = judge.verdict_of(held, steps)[0] == FAIL
        every = enumerate(steps) if failed else ()
        return {at: each["text"] for at, each in every if each["verdict"] == FAIL}

    begin_s = case.known_s
    if begin_s is None:
        begin_s = line(folder, 0.0, {}).span(case.phase).begin_s
    failed_steps = failing(folder, begin_s, manifest["summary"])
    if not failed_steps:
        raise UsageError(f"case {number} must fail in the run, found that it does not")
    return Symptom(
        f"case {number} fails: {'; '.join(failed_steps.values())}", begin_s, condition.duration_s,
        lambda future, _: failed_steps.keys()
        <= failing(future.folder, begin_s, future.manifest["summary"]).keys(),
    )  # fmt: skip


def worse(name: str, recorded: Summary, lossless: Summary, end_s: float) -> Symptom:
    """Return a metric that is worse than in the same run without any drop, from 0 s to its end.

    Raises UsageError if the metric has no better direction, or is not worse.
    """
    metrics.require_declared(name, [recorded])
    dropped, spared = metrics.value(recorded, name), metrics.value(lossless, name)
    better = metrics.declared()[name].better
    if dropped is None or spared is None or better not in ("more", "less"):
        raise UsageError(
            f"--metric must be a number of which more or less is better, found {name}: {dropped}, "
            f"and {spared} without any drop"
        )
    difference = dropped - spared
    if (difference if better == "less" else -difference) <= 0:
        raise UsageError(
            f"--metric must be worse than without any drop, found {name} {dropped:.4g}, and "
            f"{spared:.4g} without any drop"
        )

    def shows(future: Future, _: Future) -> bool:
        value = metrics.value(future.manifest["summary"], name)
        return value is not None and (value - spared) / difference >= SAME

    title = metrics.declared()[name].title
    return Symptom(f"{title} {dropped:.4g}, without any drop {spared:.4g}", 0.0, end_s, shows)


def longest_stall(
    folder: Path, from_s: float = 0.0, until_s: float = math.inf, end_s: float = math.inf
) -> Stall:
    """Return the longest stall of a replicate's largest flow.

    It begins between `from_s` and `until_s`, and ends at `end_s` at the latest. Raises UsageError
    if the replicate has no TCP connection.
    """
    # Time and delivered bytes of each sample, from the first data on.
    points = [(float(row["t_s"]), int(row["delivered_bytes"])) for row in samples(folder)]
    points = [(t_s, octets) for t_s, octets in points if octets and t_s <= end_s]
    # The first sample with each number of bytes: the flow delivered before it, and then stalled.
    times_s = [next(same)[0] for _, same in itertools.groupby(points, key=itemgetter(1))]
    # The last stall lasts until the last sample.
    times_s += [points[-1][0]] if points else []
    stalls = [
        Stall(begin_s, next_s - begin_s)
        for begin_s, next_s in itertools.pairwise(times_s)
        if from_s <= begin_s <= until_s
    ]
    return max([Stall(from_s, 0.0), *stalls], key=attrgetter("length_s"))


def samples(folder: Path) -> list[dict[str, str]]:
    """Return the rows of tcp.csv of the flow that delivered most."""
    rows = read_rows(folder / "tcp.csv")
    delivered = {row["flow"]: int(row["delivered_bytes"]) for row in rows}
    if not delivered:
        raise UsageError("the run must have a TCP connection of its sender, found none")
    flow = max(delivered, key=delivered.__getitem__)
    return [row for row in rows if row["flow"] == flow]


def timeouts(manifest: Mapping[str, Any]) -> int:
    """Return the number of retransmission timeouts of the sender."""
    return int(manifest["observed"]["state"]["sender"]["counters"].get(COUNTER, 0))
