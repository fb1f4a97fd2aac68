"""`losslab why`: the dropped packets that caused a stall, a timeout or a bad metric.

The replicate is cut before the symptom. Of the packets dropped from then on, delta debugging keeps
those without which the symptom does not occur: a 1-minimal cause. The past stays exact. The cause
alone and the run without it are then measured from the start, with captures.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from losslab import __version__, cellspec
from losslab.campaign import replicate, rerun
from losslab.campaign.packets import SENDERS_LINK, Segment, segments, traffic
from losslab.campaign.rerun import load_manifest
from losslab.campaign.results import MANIFEST_FILE, digest_of
from losslab.emulation import capture, droplist
from losslab.emulation.topology import interface
from losslab.errors import LosslabError
from losslab.reading import out_folder, read_text
from losslab.study import metrics, units
from losslab.study.condition import Condition
from losslab.study.packetsizes import frame_bytes
from losslab.tools.timetravel import futures, symptoms
from losslab.tools.timetravel.futures import Change, Drop, Future, Past, drops_of
from losslab.tools.timetravel.symptoms import Symptom, longest_stall, samples, timeouts
from losslab.tools.timetravel.whatif import Recorded

# First distance of the cut from the symptom; doubled if the symptom no longer depends on later
# drops.
BEFORE_S = 0.5
CAUSE, WITHOUT = "cause", "without"
# Where data packets are captured just before netem drops some.
BEFORE_LOSS = interface("r2", "r1").name

KEPT = "the search is kept; repeat the command, without --out if it exists"
# The clocks of captures and of tables begin some microseconds apart.
SAME_S = 1e-4


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


class Verdicts:
    """Verdicts on futures, in a file beside the output folder: a repeated command continues.

    A line has a digest of run, symptom, cut and dropped packets, and 1 if the future has it.
    """

    def __init__(self, out: Path, run: object) -> None:
        """Read the file, if an earlier start left it; `run` identifies the run."""
        self.file = out.with_name(f"{out.name}.search")
        self._run = digest_of([__version__, run])
        self._lock = threading.Lock()
        text = read_text(self.file) if self.file.exists() else ""
        pairs = (line.split() for line in text.splitlines())
        self.known = {pair[0]: pair[1] == "1" for pair in pairs if len(pair) == 2}

    def of(
        self, symptom: Symptom, at_s: float, packets: Sequence[Drop], find: Callable[[], bool]
    ) -> bool:
        """Return the verdict on the future that drops exactly these packets; `find` it once."""
        names = [(drop.direction, drop.number) for drop in packets]
        key = digest_of([self._run, symptom.text, at_s, names])
        if key not in self.known:
            found = find()
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self._lock, self.file.open("a") as file:
                self.known[key] = found
                file.write(f"{key} {found:d}\n")
        return self.known[key]


@dataclass
class Search:
    """A search for the cause of a symptom after a cut."""

    past: Past
    untouched: Future
    folder: Path
    verdicts: Verdicts
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

    def cause(self, symptom: Symptom) -> list[int] | None:
        """Return the 1-minimal cause of a symptom; None if it does not depend on `drops`."""
        base = self.spared
        if symptom.shows(base, base) or not symptom.shows(self.untouched, base):
            return None
        return self.reduction(symptom).minimise(range(len(self.drops)))

    def reduction(self, symptom: Symptom) -> Reduction:
        """Return the search for the drops after the cut that show a symptom."""

        def shows(places: Sequence[int]) -> bool:
            packets = [self.drops[at] for at in places]
            return self.verdicts.of(
                symptom, self.past.at_s, packets,
                lambda: symptom.shows(self.dropping(places), self.spared),
            )  # fmt: skip

        return Reduction(shows, futures.at_once())


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
        "--metric", metavar="NAME",
        help="a metric of the run that is worse than without any drop, such as fct_p99_s",
    )  # fmt: skip
    symptom.add_argument(
        "--case", metavar="SUITE/CASE",
        help="the failure of a case of `losslab conform`, of which this is the run",
    )  # fmt: skip
    command.add_argument(
        "--at", type=units.number_option("at-s", above=0), metavar="S",
        help="time of the cut in s (default: shortly before the symptom)",
    )  # fmt: skip
    command.add_argument(
        "--out", type=out_folder, required=True,
        help="new folder for the run with the cause alone, and the run without it",
    )  # fmt: skip
    command.add_argument(rerun.TRUST, action="store_true", help=rerun.TRUST_HELP)
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_why, interrupted=KEPT)


def _why(options: argparse.Namespace) -> int:
    recorded = Recorded.of(options)
    cause = find(recorded, _symptom(recorded, options), options.out, options.at)
    folders = cause.folders[CAUSE], cause.folders[WITHOUT]
    manifest = rerun.load_manifest(cause.folders[CAUSE])
    command = cellspec.measure_command(Condition.from_json(manifest["cell"]), manifest["seed"])
    senders = [*sender(*folders, cause.at_s, cause.symptom.until_s)]
    if options.json:
        facts = {
            "symptom": cause.symptom.text,
            "cut_s": cause.at_s,
            "packets": [vars(each) for each in cause.packets],
            "candidates": cause.candidates,
            "futures": cause.futures,
            "core_s": cause.core_s,
            "runs": {name: str(folder) for name, folder in cause.folders.items()},
            "sender": senders,
            "command": command,
        }
        print(json.dumps(facts, indent=1))
        return 0
    print(f"{cause.symptom.text}: caused by {len(cause.packets)} of {cause.candidates} packets")
    for line in dropped(cause.folders[CAUSE], cause.packets):
        print(f"  {line}")
    print(f"dropped after the cut at {cause.at_s:g} s; without any one of them it does not occur.")
    print(f"{cause.futures} futures, {cause.core_s:.1f} core-s.\n")
    print("\n".join(senders))
    print(f"\nBoth over time: losslab plot {shlex.join(map(str, folders))}")
    print(f"Reproduce it from the start: {command}")
    return 0


def _symptom(recorded: Recorded, options: argparse.Namespace) -> Symptom:
    """Return the symptom that the options name; UsageError if the run does not have it."""
    folder, condition = recorded.folder, recorded.condition
    if options.stall:
        return symptoms.stall(folder, condition)
    if options.timeout:
        return symptoms.timeout(folder, condition, recorded.manifest)
    if options.case:
        return symptoms.failure(folder, condition, recorded.manifest, options.case)
    return _worse(recorded, options.metric, options.out)


def _worse(recorded: Recorded, metric: str, out: Path) -> Symptom:
    """Return a metric that drops made worse, and the time of the drop at which it became so."""
    metrics.require_declared(metric, [recorded.manifest["summary"]])
    with recorded.cut(0.0) as (past, untouched, work):
        search = Search(past, untouched, work, Verdicts(out, recorded.manifest))
        lossless = search.spared.manifest["summary"]
        end_s = recorded.condition.duration_s
        found = symptoms.worse(metric, untouched.manifest["summary"], lossless, end_s)
        prefix = search.reduction(found).prefix(range(len(search.drops)))
        last_s = search.drops[prefix[-1]].t_s
    return replace(found, begin_s=last_s)


def find(recorded: Recorded, symptom: Symptom, out: Path, at_s: float | None = None) -> Cause:
    """Find the cause of a replicate's symptom; write the runs with and without it to a new folder.

    The cut is by default `BEFORE_S` before the symptom, or earlier if needed. Raises LosslabError
    if the symptom does not depend on packets dropped after it.
    """
    before_s, core_s = BEFORE_S, -time.process_time()
    verdicts = Verdicts(out, recorded.manifest)
    while True:
        cut_s = max(0.0, symptom.begin_s - before_s) if at_s is None else at_s
        with recorded.cut(cut_s) as (past, untouched, work):
            search = Search(past, untouched, work, verdicts)
            places = search.cause(symptom)
            core_s += past.guest.snapshot.forks_cpu_s
            if places is not None:
                core_s += time.process_time()
                folders = _measured(search, places, recorded, out)
                verdicts.file.unlink(missing_ok=True)
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
        from_start(search.dropping(places), recorded.prepared, folder)
    return folders


def from_start(future: Future, prepared: rerun.Ready, out: Path) -> None:
    """Measure a future from the start, as a replicate of the condition that lists its drops.

    Its folder `out` also has captures of the sender's link and, if it fits into the guest's memory,
    of the link before the loss. `prepared` is that of its replicate, as from `rerun.ready`. Raises
    LosslabError if a file has other bytes than the future's.
    """
    _, tools, video = prepared
    manifest = future.manifest
    condition = Condition.from_json(manifest["cell"])
    links = [SENDERS_LINK]
    frame = frame_bytes(condition.mtu_bytes)
    room = capture.ring_bytes(condition.rate_mbit, condition.duration_s, frame)
    links += [BEFORE_LOSS] if 2 * room <= capture.RING_MAX_BYTES else []
    captures = dict.fromkeys((*manifest.get("captures", ()), *links))
    replicate.run(condition, manifest["seed"], out, tools, video, captures=[*captures])
    own = (*map(capture.name, links), MANIFEST_FILE)
    if problems := rerun.compare(future.folder, out).problems(*own):
        raise LosslabError(
            f"a future must have the bytes of its condition, measured from the start, found: "
            f"{problems}",
            hint="report this, with the replicate's manifest",
        )


@dataclass
class Reduction:
    """Delta debugging of a list of which some items show a symptom.

    The algorithm is ddmin (Zeller and Hildebrandt, IEEE TSE 28(2), 2002), on the shortest prefix
    that bisection finds. `shows` is called once for each sublist, for up to `at_once` of them at
    the same time, in threads.
    """

    shows: Callable[[Sequence[int]], bool]
    at_once: int = 1
    known: dict[tuple[int, ...], bool] = field(default_factory=dict)

    def first(self, parts: Sequence[Sequence[int]]) -> int | None:
        """Return the place of the first part that shows the symptom; None if none does."""
        with ThreadPoolExecutor(self.at_once) as pool:
            for begin in range(0, len(parts), self.at_once):
                keys = [tuple(part) for part in parts[begin : begin + self.at_once]]
                new = [key for key in dict.fromkeys(keys) if key not in self.known]
                self.known.update(zip(new, pool.map(self.shows, new), strict=True))
                for place, key in enumerate(keys, begin):
                    if self.known[key]:
                        return place
        return None

    def minimise(self, items: Sequence[int]) -> list[int]:
        """Return a 1-minimal sublist that shows the symptom: without any one item it does not.

        It need not be the smallest.
        """
        if self.first([[]]) is not None:
            return []
        sublist = self.prefix(items)
        parts = 2
        while len(sublist) > 1:
            size = -(-len(sublist) // parts)
            chunks = [sublist[at : at + size] for at in range(0, len(sublist), size)]
            rests = [[item for item in sublist if item not in chunk] for chunk in chunks]
            if (at := self.first(chunks)) is not None:
                sublist, parts = chunks[at], 2
            elif (at := self.first(rests)) is not None:
                sublist, parts = rests[at], max(parts - 1, 2)
            elif size == 1:
                break
            else:
                parts = min(len(sublist), 2 * parts)
        return sublist

    def prefix(self, items: Sequence[int]) -> list[int]:
        """Return a prefix that shows the symptom, while one shorter by 1 does not."""
        low, high = 0, len(items)
        while high - low > 1:
            points = self.at_once + 1
            lengths = sorted({low + (high - low) * n // points for n in range(1, points)} - {low})
            at = self.first([items[:length] for length in lengths])
            if at is None:
                low = lengths[-1]
            else:
                low, high = [low, *lengths][at], lengths[at]
        return [*items[:high]]


def dropped(folder: Path, cause: Sequence[Drop]) -> Iterator[str]:
    """Yield a line for each packet of a cause, given the run that drops the cause alone.

    Times are those of this run: after the first packet, they may differ from the original's.
    """
    origin_ns, own = segments((folder / capture.name(SENDERS_LINK)).read_bytes())
    lost = _lost(folder, origin_ns)
    names = {(drop.direction, drop.number) for drop in cause}
    for drop in drops_of(folder):
        name = drop.direction, drop.number
        if name in names:
            text = f"{drop.direction} packet {drop.number}, dropped at {drop.t_s:.6f} s"
            its = lost.get(name)
            yield text if its is None else f"{text}: {_described(its, drop.t_s, origin_ns, own)}"


def sent(content: bytes, origin_ns: int) -> list[Segment | None]:
    """Read the sender's packets of the traffic, on any link; None for those that are not TCP.

    Pings on the idle path are before the traffic, which begins at `origin_ns` at the sender.
    """
    _, found = traffic(content)
    own = [(at_ns, segment) for at_ns, segment in found if segment is None or segment.sent]
    first = next(n for n, (at_ns, its) in enumerate(own) if its is not None or at_ns >= origin_ns)
    return [segment for _, segment in own[first:]]


def _lost(folder: Path, origin_ns: int) -> dict[tuple[str, int], Segment]:
    """Return the segments that were dropped, by direction and number.

    netem drops the n-th packet of the traffic that is captured on the link before, at that time.
    `origin_ns` is 0 s of the tables: packets reach that link only after the bottleneck sent them.
    """
    file = folder / capture.name(BEFORE_LOSS)
    if not file.exists():
        return {}
    arrivals = sent(file.read_bytes(), origin_ns)
    segments = {}
    for drop in drops_of(folder):
        segment = arrivals[drop.number - 1] if drop.number <= len(arrivals) else None
        if drop.direction != "data" or segment is None:
            continue
        if abs(drop.t_s - (segment.at_ns - origin_ns) / 1e9) < SAME_S:
            segments[drop.direction, drop.number] = segment
    return segments


def _described(lost: Segment, t_s: float, origin_ns: int, sent: Sequence[Segment]) -> str:
    """Describe a lost segment: its bytes, and when they were sent before and after."""
    if not lost.octets:
        return f"no data, port {lost.port}"
    segments = [each for each in sent if each.sent and each.port == lost.port and each.octets]
    first = segments[0].begin
    times = [
        (each.at_ns - origin_ns) / 1e9
        for each in segments
        if (lost.begin - each.begin) % (1 << 32) < each.octets
    ]
    earlier = sum(time_s <= t_s for time_s in times)
    begin = (lost.begin - first) % (1 << 32)
    what = f"bytes {begin} to {begin + lost.octets - 1} of port {lost.port}"
    which = "first sent" if earlier == 1 else f"transmission {earlier}, sent"
    text = f"{what}, {which} at {times[earlier - 1]:.6f} s"
    after = f", again at {times[earlier]:.6f} s" if earlier < len(times) else ", not sent again"
    return text + after


def sender(cause: Path, without: Path, from_s: float, until_s: float) -> Iterator[str]:
    """Yield what the sender did in the runs with the cause alone and without it.

    The cut is at `from_s`; the symptom ends at `until_s`.
    """
    for name, folder in (("only the cause", cause), ("all drops but the cause", without)):
        stall = longest_stall(folder, from_s, until_s)
        windows = [
            int(row["cwnd_packets"])
            for row in samples(folder)
            if from_s < float(row["t_s"]) <= until_s
        ]
        span = f"cwnd from {min(windows)} to {max(windows)} packets" if windows else "no samples"
        yield (
            f"{name}: until {until_s:.3g} s, longest stall {stall.length_s:.3f} s, "
            f"timeouts: {timeouts(load_manifest(folder))}, {span}"
        )
