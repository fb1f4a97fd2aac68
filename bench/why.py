"""Evaluate `losslab why`: timeouts with a planted cause, and stalls of random loss.

    python -m bench.why            20 planted causes and 10 stalls; print them
    python -m bench.why --write    also write docs/figures/why.csv and the tables of
                                   docs/explanation/cuts.md

A planted cause is a window of consecutive packets that are dropped on a path without random loss,
which causes a timeout. Between other packets, single ones are dropped, too. The command must name
packets of the window only.

For each stall, the bench measures from the start: the run that drops the cause alone after the cut
must have the stall, and without any one packet of the cause it must not.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import functools
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from bench.readme import replaced
from losslab.backends.snapshot import Snapshots
from losslab.campaign import rerun
from losslab.campaign.instrument import instrument
from losslab.campaign.replicate import run
from losslab.emulation import droplist
from losslab.study.condition import Condition
from losslab_timetravel import futures, symptoms, why
from losslab_timetravel.symptoms import Stall, Symptom
from losslab_timetravel.whatif import Recorded
from losslab_timetravel.why import Cause

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "figures" / "why.csv"
PAGE = ROOT / "docs" / "explanation" / "cuts.md"
MARK = "<!-- {}: written by `python -m bench.why --write` -->\n"
# A slow path with a small buffer, whose window is at most 12 packets.
PLANTED = Condition(
    algorithm="cubic", rtt_ms=40, rate_mbit=2, buffer_packets=5, duration_s=6, warmup_s=1
)
ALGORITHMS = ("cubic", "reno", "westwood", "htcp")
WINDOW_PACKETS = 16
WINDOWS = (300, 340, 380, 420, 460)  # first packet of the window
SINGLE = range(100, 900, 60)
APART_PACKETS = 62  # of single packets from the window: 0.4 s, in which a flow recovers
# At 1 % loss, stalls are rare unless windows are small.
RANDOM = replace(PLANTED, rate_mbit=4, buffer_packets=10, duration_s=10)
LOSSES_PERCENT = (1, 2, 3, 4, 5)
STALLS_PER_LOSS = 2
MAX_SEEDS = 200  # to look for a stall
LIMIT_S = 120.0
RUN = "run"


@dataclass(frozen=True)
class Case:
    """A case and its outcome."""

    kind: str  # planted or stall
    algorithm: str
    loss_percent: float
    seed: int
    symptom: str
    candidates: int
    cause: str  # numbers of its data packets
    futures: int
    core_s: float
    wall_s: float
    # Longest time without delivered data around the symptom, with the cause alone and without it.
    stall_s: float
    without_s: float
    found: bool  # as the bench demands


def planted() -> Iterator[Case]:
    """Yield the cases with a planted cause."""
    for number, begin in enumerate(WINDOWS):
        for algorithm in ALGORITHMS:
            window = range(begin, begin + WINDOW_PACKETS)
            apart = range(begin - APART_PACKETS, begin + WINDOW_PACKETS + APART_PACKETS)
            numbers = sorted({*window, *(each for each in SINGLE if each not in apart)})
            text = droplist.to_text({"data": tuple(numbers)})
            condition = replace(PLANTED, algorithm=algorithm, drop_list=text)
            with measured(condition, 1 + number) as folder:
                recorded = _recorded(folder)
                if not symptoms.timeouts(recorded.manifest):
                    raise SystemExit(f"a planted cause must cause a timeout, {condition} has none")
                symptom = symptoms.timeout(recorded.folder, condition, recorded.manifest)
                yield _case("planted", recorded, symptom, folder, _is_part_of(window))


def stalls() -> Iterator[Case]:
    """Yield the cases with random loss."""
    for loss_percent in LOSSES_PERCENT:
        condition = replace(RANDOM, loss_percent=float(loss_percent))
        found, seeds = 0, iter(range(1000 * loss_percent, 1000 * loss_percent + MAX_SEEDS))
        with Snapshots() as snapshots:
            while found < STALLS_PER_LOSS and (seed := next(seeds, None)) is not None:
                with measured(condition, seed, snapshots) as folder:
                    stall = symptoms.longest_stall(folder / RUN, end_s=condition.duration_s)
                    if stall.length_s < symptoms.min_stall_s(condition):
                        continue
                    found += 1
                    recorded, symptom = _recorded(folder), symptoms.stall(folder / RUN, condition)
                    demanded = functools.partial(_causes, stall, recorded, folder)
                    yield _case("stall", recorded, symptom, folder, demanded)


@contextlib.contextmanager
def measured(condition: Condition, seed: int, snapshots: Snapshots | None = None) -> Iterator[Path]:
    """Measure a replicate into the folder `RUN` of a temporary one; yield that."""
    with tempfile.TemporaryDirectory(prefix="losslab-why-") as name:
        tools = instrument(condition=condition)
        run(condition, seed, Path(name, RUN), tools, snapshots=snapshots)
        yield Path(name)


def _recorded(folder: Path) -> Recorded:
    options = argparse.Namespace(replicate=folder / RUN, out=folder / "why", trust=False)
    return Recorded.of(options)


def _case(
    kind: str,
    recorded: Recorded,
    symptom: Symptom,
    folder: Path,
    demanded: Callable[[Cause], bool],
) -> Case:
    """Find the cause of a symptom, and whether it is as demanded."""
    begin = time.monotonic()
    cause = why.find(recorded, symptom, folder / "why")
    wall_s = time.monotonic() - begin
    until_s = symptom.begin_s + symptoms.LATER_S
    lengths = [
        symptoms.longest_stall(cause.folders[name], cause.at_s, until_s).length_s
        for name in (why.CAUSE, why.WITHOUT)
    ]
    condition = recorded.condition
    return Case(
        kind, condition.algorithm, condition.loss_percent, recorded.manifest["seed"], symptom.text,
        cause.candidates, " ".join(str(drop.number) for drop in cause.packets), cause.futures,
        round(cause.core_s, 1), round(wall_s, 1), round(lengths[0], 3), round(lengths[1], 3),
        cause.core_s <= LIMIT_S and bool(cause.packets) and demanded(cause),
    )  # fmt: skip


def _is_part_of(window: Sequence[int]) -> Callable[[Cause], bool]:
    return lambda cause: all(drop.number in window for drop in cause.packets)


def _causes(stall: Stall, recorded: Recorded, folder: Path, cause: Cause) -> bool:
    """Return whether a cause is one and 1-minimal; each run is measured from the start."""
    cell = rerun.load_manifest(cause.folders[why.CAUSE])["cell"]
    condition, lists = Condition.from_json(cell), droplist.parse(cell["drop_list"])
    tools = recorded.prepared[1]

    def remains_without(number: int) -> bool:
        kept = tuple(each for each in lists["data"] if each != number)
        text = droplist.to_text({**lists, "data": kept})
        out = folder / f"without-{number}"
        run(replace(condition, drop_list=text), recorded.manifest["seed"], out, tools)
        return stall.remains(out, cause.at_s)

    with ThreadPoolExecutor(futures.at_once()) as pool:
        minimal = not any(pool.map(remains_without, (drop.number for drop in cause.packets)))
    remain = [stall.remains(folder, cause.at_s) for folder in cause.folders.values()]
    return minimal and remain == [True, False]


def tables(cases: Sequence[Case]) -> dict[str, str]:
    """Return the parts of the page as Markdown, by their mark."""
    of = {kind: [case for case in cases if case.kind == kind] for kind in ("planted", "stall")}
    lines = [
        "| cases | cause found | drops after the cut | packets of the cause | futures | core-s |",
        "|---|---|---|---|---|---|",
    ]
    for kind, text in (("planted", "planted cause of a timeout"), ("stall", "stall at 1 to 5 %")):
        its = of[kind]
        lines.append(
            f"| {text} | {sum(case.found for case in its)} of {len(its)} "
            f"| {_range(case.candidates for case in its)} "
            f"| {_range(len(case.cause.split()) for case in its)} "
            f"| {_range(case.futures for case in its)} | {_range(case.core_s for case in its)} |"
        )
    stalls = [
        "| loss, % | seed | stall | packets of the cause | longest stall without them, s |",
        "|---|---|---|---|---|",
        *(
            f"| {case.loss_percent:g} | {case.seed} | {case.symptom.removeprefix('stall of ')} "
            f"| {case.cause} | {case.without_s:.3f} |"
            for case in of["stall"]
        ),
    ]
    return {"why": "\n".join(lines) + "\n", "stalls": "\n".join(stalls) + "\n"}


def _range(values: Iterable[float]) -> str:
    found = sorted(values)
    return f"{found[0]:g} to {found[-1]:g}" if found else "-"


def page(text: str, cases: Sequence[Case]) -> str:
    """Return the documentation page with the tables of cases."""
    for part, table in tables(cases).items():
        text = replaced(text, MARK.format(part), table)
    return text


def read(file: Path = FILE) -> list[Case]:
    """Read recorded cases."""
    with file.open(newline="") as rows:
        return [
            Case(
                row["kind"], row["algorithm"], float(row["loss_percent"]), int(row["seed"]),
                row["symptom"], int(row["candidates"]), row["cause"], int(row["futures"]),
                float(row["core_s"]), float(row["wall_s"]), float(row["stall_s"]),
                float(row["without_s"]), row["found"] == "True",
            )
            for row in csv.DictReader(rows)
        ]  # fmt: skip


def write(cases: Sequence[Case], file: Path = FILE) -> None:
    """Record cases."""
    with file.open("w", newline="") as out:
        names = [field.name for field in fields(Case)]
        writer = csv.DictWriter(out, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, cases))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases; return 1 if a cause is not as demanded."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.why", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--only", choices=("planted", "stalls"), help="only these cases")
    parser.add_argument("--write", action="store_true", help="into the docs; not with --only")
    options = parser.parse_args(arguments)
    cases = []
    for kind, source in (("planted", planted), ("stalls", stalls)):
        for case in source() if options.only in (None, kind) else ():
            cases.append(case)
            print(*asdict(case).values(), sep="; ", flush=True)
    print(*tables(cases).values(), sep="\n")
    if options.write and options.only is None:
        write(cases)
        PAGE.write_text(page(PAGE.read_text(), cases))
    return 0 if all(case.found for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
