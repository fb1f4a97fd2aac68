"""Measure random conditions over all axes and apps, and judge each run by independent code.

    python -m bench.random --cells 1000 --seed 7      exit 1 if an invariant is violated

Each violation is printed with the command that repeats it. Without `--seed`, a fresh seed is drawn
and printed. Kernels and images that are not built are left out. Conditions that losslab refuses are
drawn, too: a sample of them must end with a reason before anything runs.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from bench.random import draw
from bench.random.judge import OF_ANY, OF_RESULTS, Finished, known, same_bytes
from bench.random.physics import OF_PHYSICS
from bench.random.recompute import RECOMPUTED
from losslab.backends import snapshot_server
from losslab.repository import ROOT
from losslab.study.condition import Condition

# Share of the runs that are measured twice, and that may be invalid; a few always may.
REPEATED, INVALID_MAX, FEW = 0.05, 0.05, 3
# A cell takes about 2 s; the limit ends a guest that hangs.
LIMIT_S = 120.0
# So many packets are not lost at the same places with two seeds.
LOST = 9


@dataclass
class Totals:
    """Counts of a campaign."""

    verdicts: Counter[str] = field(default_factory=Counter)
    invalid: Counter[str] = field(default_factory=Counter)  # by reason
    violated: Counter[str] = field(default_factory=Counter)  # by invariant
    known: Counter[str] = field(default_factory=Counter)  # by number of the fault

    @property
    def failed(self) -> bool:
        """Return whether an invariant is violated or too many runs are invalid."""
        measured = sum(self.verdicts.values())
        not_valid = self.verdicts["invalid"] + self.verdicts["failed"]
        return bool(self.violated) or not_valid > max(FEW, INVALID_MAX * measured)

    def text(self) -> str:
        """Return the totals, a line each."""
        lines = [f"{count:6} {verdict}" for verdict, count in self.verdicts.most_common()]
        for title, counts in (
            ("violated invariants", self.violated),
            ("reasons of runs that are not valid", self.invalid),
            ("known faults", self.known),
        ):
            lines += [f"{title}: {sum(counts.values())}"]
            lines += [f"{count:6}   {name}" for name, count in counts.most_common()]
        return "\n".join(lines)


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False
    )


def rerun(run: Finished) -> Iterator[tuple[str, str]]:
    """Repeat a run by `losslab rerun`, and with another seed; yield violations."""
    again, other = (
        run.folder.with_name(f"{run.folder.name}-{name}") for name in ("again", "other")
    )
    command = [sys.executable, "-m", "losslab.cli", "rerun", "--trust", str(run.folder)]
    done = _run([*command, "--out", str(again)])
    if done.returncode:
        yield "rerun", f"exit status {done.returncode}: {(done.stdout + done.stderr).strip()[:300]}"
    yield from (("same_bytes", each) for each in same_bytes(run.folder, again))
    if (run.summary["loss_packets"] or 0) <= LOST:
        return
    valid = measure(Condition.from_json(dict(run.asked)), run.seed + 1, other, run.cells).valid
    if valid and [*_tables(run.folder)] == [*_tables(other)]:
        yield "other_bytes", "another seed must lose other packets, found the same tables"


def _tables(folder: Path) -> Iterator[bytes]:
    yield from (path.read_bytes() for path in sorted(folder.glob("*.csv")))


def measure(its: Condition, seed: int, folder: Path, cells: int) -> Finished:
    """Measure a condition with the command line."""
    command = [sys.executable, "-m", "losslab.cli", "measure", *draw.words(its)]
    command += ["--seed", str(seed), "--out", str(folder), "--timeout-s", str(LIMIT_S)]
    done = _run(command)
    return Finished(
        its.to_json(), seed, folder, done.returncode, done.stdout, done.stderr, cells=cells
    )


def violations(run: Finished) -> Iterator[tuple[str, str]]:
    """Yield (invariant, violation); a judge that fails on the files is a violation, too."""
    of_results = (*OF_RESULTS, *OF_PHYSICS, *RECOMPUTED)
    for invariant in (*OF_ANY, *(of_results if run.valid else ())):
        try:
            for violation in invariant(run):
                yield invariant.__name__, violation
        except Exception as error:
            yield invariant.__name__, f"the files could not be judged: {error!r}"


def refusal(its: Condition, folder: Path) -> Iterator[tuple[str, str]]:
    """Ask for a refused condition; yield what is wrong with the refusal."""
    run = measure(its, 1, folder, 1)
    yield from violations(run)
    if run.status != 2 or not run.stderr.strip():
        yield "refusal", f"must end with status 2 and a reason, found {run.status}: {run.stderr}"


def verdict(run: Finished) -> str:
    """Return valid, refused (before anything ran), invalid, known, or failed without a result."""
    if run.valid:
        return "valid"
    if any(map(known, run.manifest.get("reasons", []))):
        return "known"
    return "refused" if run.status == 2 else "invalid" if run.manifest else "failed"


def reasons(run: Finished) -> Iterator[str]:
    """Yield the reasons of a run without a valid result, without their numbers."""
    found = run.manifest.get("reasons") or [run.stderr.strip() or "no message"]
    for reason in found:
        yield re.sub(r"[0-9.e-]*[0-9][0-9.e+-]*", "#", " ".join(reason.split()))[:150]


def judged(
    number: int, seed: int, cells: int, folder: Path
) -> tuple[Finished, str, list[tuple[str, str]]]:
    """Draw, measure and judge cell `number` of a campaign, which depends on nothing else."""
    rng = random.Random(f"{seed}-{number}")
    refused = list[Condition]()
    its = draw.condition(rng, refused)
    its_seed = rng.randrange(2**31)
    run = measure(its, its_seed, folder / f"{number}", cells)
    found = list(violations(run))
    if run.valid and rng.random() < REPEATED:
        found += rerun(run)
    for other in refused[:1]:
        command = draw.command(other, 1)
        found += [(name, f"{words}\n    {command}")
                  for name, words in refusal(other, folder / f"{number}-refused")]  # fmt: skip
    return run, draw.command(its, its_seed), found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign; return 1 if an invariant is violated or too many runs are invalid."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.random", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--cells", type=int, default=100)
    parser.add_argument("--seed", type=int, help="seed of all draws (default: a fresh one)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--keep", type=Path, help="keep the runs in this new folder")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    totals, started = Totals(), time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="losslab-random-") as name,
        snapshot_server.serving() as shared,
        ThreadPoolExecutor(options.jobs) as pool,
    ):
        os.environ.update(shared)
        folder = options.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        numbers = range(options.cells)
        for run, command, found in pool.map(
            lambda number: judged(number, seed, options.cells, folder), numbers
        ):
            totals.verdicts[verdict(run)] += 1
            if not run.valid:
                totals.invalid.update(reasons(run))
                print(f"{verdict(run)}: {next(reasons(run))}\n    {command}", flush=True)
                totals.known.update(filter(None, map(known, run.manifest.get("reasons", []))))
            for invariant, violation in found:
                if fault := known(violation):
                    totals.known[fault] += 1
                    continue
                totals.violated[invariant] += 1
                print(f"VIOLATED {invariant}: {violation}\n    {command}", flush=True)
    print(totals.text())
    print(f"{options.cells} cells with seed {seed} in {time.monotonic() - started:.0f} s")
    return int(totals.failed)


if __name__ == "__main__":
    sys.exit(main())
