"""`losslab why`: the dropped packets that caused a stall, a timeout or a bad metric.

The replicate is cut before the symptom. Of the packets dropped from then on, delta debugging keeps
those without which the symptom does not occur: a 1-minimal cause. The past stays exact. The cause
alone and the run without it are then measured from the start, with captures.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from losslab.campaign import capturing, explanation, futures, rerun, symptoms
from losslab.campaign.futures import Change, Drop, Future, Past
from losslab.campaign.symptoms import Symptom
from losslab.emulation import droplist
from losslab.errors import LosslabError
from losslab.reading import number_option, out_folder
from losslab.study import metrics
from losslab.study.axes import short
from losslab.study.condition import AXES, Condition
from losslab.study.ddmin import minimise, shortest_prefix
from losslab.whatif import Recorded

# First distance of the cut from the symptom; doubled if the symptom no longer depends on later
# drops.
BEFORE_S = 0.5
CAUSE, WITHOUT = "cause", "without"


@dataclass(frozen=True)
class Cause:
    """A 1-minimal cause of a symptom, given the past up to a cut."""

    symptom: Symptom
    at_s: float  # time of the cut
    packets: list[Drop]
    candidates: int  # drops after the cut
    futures: int
    core_s: float  # CPU time of the futures, of their guests and of losslab
    folders: dict[str, Path]  # of the run with the cause alone, and of the one without it


@dataclass
class Search:
    """A search for the cause of a symptom after a cut."""

    past: Past
    untouched: Future
    folder: Path
    count: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    runs: int = 0

    def __post_init__(self) -> None:
        self.drops = [drop for drop in self.untouched.drops if drop.t_s > self.past.at_s]
        # Every direction that drops packets: a future may have packets that the run did not have.
        self.ways = {"data", *(drop.direction for drop in self.untouched.drops)}
        self.spared = self.dropping([])

    def dropping(self, places: Sequence[int]) -> Future:
        """Run the future that drops exactly these of `drops` after the cut."""
        only: dict[str, tuple[int, ...]] = {
            way: tuple(self.drops[at].number for at in places if self.drops[at].direction == way)
            for way in droplist.DIRECTIONS
            if way in self.ways
        }
        self.runs = next(self.count)
        return self.past.run(Change("only", only=only), self.folder / f"{self.runs:04}")

    def shows(self, symptom: Symptom, places: Sequence[int]) -> bool:
        """Return whether the future that drops exactly these packets has a symptom."""
        return symptom.shows(self.dropping(places), self.spared)

    def cause(self, symptom: Symptom) -> list[int] | None:
        """Return the 1-minimal cause of a symptom; None if it does not depend on `drops`."""
        spared, untouched = (
            symptom.shows(each, self.spared) for each in (self.spared, self.untouched)
        )
        if spared or not untouched:
            return None
        every = range(len(self.drops))
        return minimise(every, lambda part: self.shows(symptom, part), futures.at_once())


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `why`."""
    command = commands.add_parser("why")
    command.add_argument("replicate", metavar="RUN", type=Path, help="a replicate's folder")
    symptom = command.add_mutually_exclusive_group(required=True)
    symptom.add_argument(
        "--stall", action="store_true", help="the longest time without delivered data"
    )
    symptom.add_argument("--timeout", action="store_true", help="a retransmission timeout")
    symptom.add_argument(
        "--below", type=number_option("below", above=0), metavar="MBIT",
        help="the slowest second of the largest flow, if its goodput is below this",
    )  # fmt: skip
    symptom.add_argument(
        "--metric", metavar="NAME",
        help="a metric of the run that is worse than without any drop, such as fct_p99_s",
    )  # fmt: skip
    command.add_argument(
        "--at", type=number_option("at", above=0), metavar="S",
        help="time of the cut in s (default: shortly before the symptom)",
    )  # fmt: skip
    command.add_argument(
        "--out", type=out_folder, required=True,
        help="new folder for the run with the cause alone, and the run without it",
    )  # fmt: skip
    command.add_argument(rerun.TRUST, action="store_true", help=rerun.TRUST_HELP)
    command.set_defaults(run=_why, interrupted="remove --out if it exists")


def _why(options: argparse.Namespace) -> int:
    recorded = Recorded.of(options)
    cause = find(recorded, _symptom(recorded, options), options.out, options.at)
    print(f"{cause.symptom.text}: caused by {len(cause.packets)} of {cause.candidates} packets")
    for line in explanation.packets(cause.folders[CAUSE], cause.packets):
        print(f"  {line}")
    print(f"dropped after the cut at {cause.at_s:g} s; without any one of them it does not occur.")
    print(f"{cause.futures} futures, {cause.core_s:.1f} core-s.\n")
    ends = cause.at_s, cause.symptom.until_s
    folders = cause.folders[CAUSE], cause.folders[WITHOUT]
    print("\n".join(explanation.lines(*folders, cause.packets, *ends)))
    manifest = rerun.load_manifest(cause.folders[CAUSE])
    condition = Condition.from_json(manifest["cell"])
    print(f"\nReproduce it from the start: {measure_command(condition, manifest['seed'])}")
    return 0


def _symptom(recorded: Recorded, options: argparse.Namespace) -> Symptom:
    """Return the symptom that the options name; UsageError if the run does not have it."""
    folder, condition = recorded.folder, recorded.condition
    if options.stall:
        return symptoms.stall(folder, condition)
    if options.timeout:
        return symptoms.timeout(folder, condition, recorded.manifest)
    if options.below is not None:
        return symptoms.slow(folder, condition, options.below)
    return _worse(recorded, options.metric)


def _worse(recorded: Recorded, metric: str) -> Symptom:
    """Return a metric that drops made worse, and the time of the drop at which it became so."""
    metrics.require_declared(metric, [recorded.manifest["summary"]])
    with recorded.cut(0.0) as (past, untouched, work):
        search = Search(past, untouched, work)
        lossless = search.spared.manifest["summary"]
        end_s = recorded.condition.duration_s
        found = symptoms.worse(metric, untouched.manifest["summary"], lossless, end_s)
        prefix = shortest_prefix(
            range(len(search.drops)), lambda part: search.shows(found, part), futures.at_once()
        )
        last_s = search.drops[prefix[-1]].t_s
    return replace(found, begin_s=last_s)


def find(recorded: Recorded, symptom: Symptom, out: Path, at_s: float | None = None) -> Cause:
    """Find the cause of a replicate's symptom; write the runs with and without it to a new folder.

    The cut is by default `BEFORE_S` before the symptom, or earlier if needed. Raises LosslabError
    if the symptom does not depend on packets dropped after it.
    """
    before_s, core_s = BEFORE_S, -time.process_time()
    while True:
        cut_s = max(0.0, symptom.begin_s - before_s) if at_s is None else at_s
        with recorded.cut(cut_s) as (past, untouched, work):
            search = Search(past, untouched, work)
            places = search.cause(symptom)
            core_s += past.guest.snapshot.forks_cpu_s
            if places is not None:
                core_s += time.process_time()
                folders = _measured(search, places, recorded, out)
                packets, count = [search.drops[at] for at in places], len(search.drops)
                return Cause(symptom, cut_s, packets, count, search.runs, core_s, folders)
        if at_s is not None or cut_s == 0:
            raise LosslabError(
                f"the symptom must depend on packets dropped after {cut_s:g} s, found that it also "
                "occurs without them",
                hint="name an earlier time with --at"
                if cut_s
                else "packets that the bottleneck drops are no part of the search",
            )
        before_s *= 2


def _measured(
    search: Search, cause: Sequence[int], recorded: Recorded, out: Path
) -> dict[str, Path]:
    """Measure the runs with the cause alone and without it from the start; return their folders."""
    rest = [at for at in range(len(search.drops)) if at not in cause]
    folders = {CAUSE: out / CAUSE, WITHOUT: out / WITHOUT}
    for folder, places in zip(folders.values(), (cause, rest), strict=True):
        capturing.from_start(search.dropping(places), recorded.prepared, folder)
    return folders


def measure_command(condition: Condition, seed: int) -> str:
    """Return the command that measures a condition."""
    words = ["losslab", "measure"]
    for name, axis in AXES.items():
        value = getattr(condition, name)
        if value != axis.default:
            words += [f"--{name.replace('_', '-')}", short(value)]
    return shlex.join([*words, "--seed", str(seed), "--out", "reproduced"])
