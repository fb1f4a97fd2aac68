"""`losslab why`: the dropped packets that caused a stall or a timeout.

The replicate is cut before the symptom. Of the packets dropped from then on, delta debugging keeps
those without which the symptom does not occur: a 1-minimal cause. The past stays exact.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from losslab.campaign import rerun
from losslab.campaign.futures import Change, Future, Past
from losslab.errors import LosslabError
from losslab.reading import UsageError, number_option, read_rows
from losslab.study.axes import short
from losslab.study.condition import AXES, Condition
from losslab.study.ddmin import minimise
from losslab.whatif import Recorded

# A future has the stall if one of its stalls after the cut lasts this share of the original.
SAME_STALL = 0.8
# First distance of the cut from the symptom; doubled if the symptom no longer depends on later
# drops.
BEFORE_S = 0.5
# A future's stall may end this much later than the original.
LATER_S = 0.5
# Shorter times without delivered data occur without any loss, such as in slow start.
MIN_STALL_RTTS, MIN_STALL_S = 3, 0.1
COUNTER = "TcpExtTCPTimeouts"
CAUSE, WITHOUT = "cause", "without"


@dataclass(frozen=True)
class Stall:
    """The longest time in which a replicate's largest flow delivered nothing."""

    begin_s: float
    length_s: float

    @property
    def until_s(self) -> float:
        """Return the time by which a future has the same stall, if it has it."""
        return self.begin_s + self.length_s + LATER_S


@dataclass
class Search:
    """A search for the cause of a symptom after a cut."""

    past: Past
    folder: Path
    shows: Callable[[Future], bool]
    runs: list[Future] = field(default_factory=list)

    def with_drops(self, numbers: Sequence[int], name: str = "") -> Future:
        """Run the future that drops exactly these data packets after the cut."""
        change = Change(name or "only", only={"data": tuple(numbers)})
        self.runs.append(self.past.run(change, self.folder / (name or f"{len(self.runs):04}")))
        return self.runs[-1]


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `why`."""
    command = commands.add_parser("why", help="find the dropped packets that caused a stall")
    command.add_argument("replicate", metavar="RUN", type=Path, help="a replicate's folder")
    symptom = command.add_mutually_exclusive_group(required=True)
    symptom.add_argument(
        "--stall", action="store_true", help="the longest time without delivered data"
    )
    symptom.add_argument("--timeout", action="store_true", help="a retransmission timeout")
    command.add_argument(
        "--at", type=number_option("at", above=0), metavar="S",
        help="time of the cut in s (default: shortly before the longest stall)",
    )  # fmt: skip
    command.add_argument(
        "--out", type=Path, required=True,
        help="new folder for the run with the cause alone, and the run without it",
    )  # fmt: skip
    command.add_argument(rerun.TRUST, action="store_true", help=rerun.TRUST_HELP)
    command.set_defaults(run=_why, interrupted="remove --out if it exists")


def _why(options: argparse.Namespace) -> int:
    recorded = Recorded.of(options)
    stall = longest_stall(recorded.folder, end_s=recorded.condition.duration_s)
    timeouts = _timeouts(recorded.manifest)
    min_s = max(MIN_STALL_S, MIN_STALL_RTTS * recorded.condition.rtt_ms / 1e3)
    if options.stall and stall.length_s < min_s:
        raise UsageError(
            f"the run must have a stall of at least {min_s:g} s, {MIN_STALL_RTTS} RTTs, found at "
            f"most {stall.length_s:.3f} s without delivered data"
        )
    if options.timeout and not timeouts:
        raise UsageError("the run must have a retransmission timeout, found none")
    before_s = BEFORE_S
    while True:
        at_s = options.at or max(0.0, stall.begin_s - before_s)
        with recorded.cut(at_s) as (past, untouched, work):
            if _search(past, untouched, work, stall, options):
                return 0
        if options.at or at_s == 0:
            raise LosslabError(
                f"the symptom must depend on packets dropped after {at_s:g} s, found that it also "
                "occurs without them",
                hint="name an earlier time with --at"
                if at_s
                else "packets that the bottleneck drops are no part of the search",
            )
        before_s *= 2


def _search(
    past: Past, untouched: Future, work: Path, stall: Stall, options: argparse.Namespace
) -> bool:
    """Find and print the cause; return False if the symptom does not depend on later drops."""
    later = [drop for drop in untouched.drops if drop.t_s > past.at_s and drop.direction == "data"]
    search = Search(past, work, lambda _: False)
    none = search.with_drops([])
    if options.timeout:
        search.shows = lambda its: _timeouts(its.manifest) > _timeouts(none.manifest)
    else:
        search.shows = lambda its: (
            longest_stall(its.folder, past.at_s, stall.until_s).length_s
            >= SAME_STALL * stall.length_s
        )
    numbers = [drop.number for drop in later]
    if search.shows(none) or not search.shows(untouched):
        return False
    cause = minimise(numbers, lambda part: search.shows(search.with_drops(part)))
    for name, its in ((CAUSE, cause), (WITHOUT, [n for n in numbers if n not in cause])):
        past.run(Change(name, only={"data": tuple(its)}), options.out / name)
    times = {drop.number: drop.t_s for drop in later}
    # The number of timeouts is known, but not their times.
    what = f"stall of {stall.length_s:.3f} s at {stall.begin_s:.3f} s"
    what = "timeout after the cut" if options.timeout else what
    print(f"{what}: caused by {len(cause)} of {len(numbers)} packets")
    for number in cause:
        print(f"  data packet {number}, dropped at {times[number]:.6f} s")
    print(f"dropped after the cut at {past.at_s:g} s; without any one of them it does not occur.")
    print(f"{len(search.runs)} futures.\n")
    print("\n".join(_explained(past, stall, options.out)))
    return True


def _explained(past: Past, stall: Stall, out: Path) -> Iterator[str]:
    """Yield what the sender did with the cause alone and without it, and the reproducer."""
    for name, words in ((CAUSE, "only the cause"), (WITHOUT, "all drops but the cause")):
        folder = out / name
        manifest = rerun.load_manifest(folder)
        found = longest_stall(folder, past.at_s, stall.until_s)
        windows = [
            int(row["cwnd_packets"])
            for row in _samples(folder)
            if past.at_s < float(row["t_s"]) <= stall.until_s
        ]
        yield (
            f"{words}: until {stall.until_s:.3g} s, longest stall {found.length_s:.3f} s, "
            f"timeouts: {_timeouts(manifest)}, cwnd from {min(windows)} to {max(windows)} packets"
        )
    cell = Condition.from_json(rerun.load_manifest(out / CAUSE)["cell"])
    yield f"\nReproduce it from the start: {measure_command(cell, past.seed)}"


def measure_command(condition: Condition, seed: int) -> str:
    """Return the command that measures a condition."""
    words = ["losslab", "measure"]
    for name, axis in AXES.items():
        value = getattr(condition, name)
        if value != axis.default:
            words += [f"--{name.replace('_', '-')}", short(value)]
    return shlex.join([*words, "--seed", str(seed), "--out", "reproduced"])


def longest_stall(folder: Path, from_s: float = 0.0, end_s: float = float("inf")) -> Stall:
    """Return the longest stall of a replicate's largest flow that begins and ends in a period.

    Raises:
        LosslabError: The replicate has no TCP connection.
    """
    last: tuple[float, int] | None = None
    longest = Stall(from_s, 0.0)
    for row in _samples(folder):
        t_s, delivered = float(row["t_s"]), int(row["delivered_bytes"])
        if t_s > end_s:
            break
        if not delivered:
            continue  # before the first data
        if last is None or delivered != last[1]:
            if last is not None and last[0] >= from_s and t_s - last[0] > longest.length_s:
                longest = Stall(last[0], t_s - last[0])
            last = t_s, delivered
    return longest


def _samples(folder: Path) -> list[dict[str, str]]:
    """Return the rows of tcp.csv of the flow that delivered most."""
    rows = read_rows(folder / "tcp.csv")
    delivered = {row["flow"]: int(row["delivered_bytes"]) for row in rows}
    if not delivered:
        raise LosslabError("the run must have a TCP connection of its sender, found none")
    flow = max(delivered, key=delivered.__getitem__)
    return [row for row in rows if row["flow"] == flow]


def _timeouts(manifest: Mapping[str, Any]) -> int:
    return int(manifest["observed"]["state"]["sender"]["counters"].get(COUNTER, 0))
