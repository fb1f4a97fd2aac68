"""Command `python -m bench.fuzz`."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings

from bench.fuzz.inputs import inputs
from bench.fuzz.judging import ACCEPTED, REFUSED, ViolationError, judge
from bench.fuzz.readers import READERS, clear, folder

EXAMPLES = 50_000
VIOLATED = "violations"
# Per reader; a single fault can fail many inputs.
SHOWN = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the readers in order, each in its own process."""
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz", description=__doc__)
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="inputs in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(READERS), default=list(READERS))
    options = parser.parse_args(arguments)
    each = -(-options.examples // len(options.only))
    print(f"{'reader':<16} {'inputs':>7} {ACCEPTED:>9} {REFUSED:>8} {VIOLATED:>11} {'s':>6}")
    total: Counter[str] = Counter()
    shown = []
    for name in options.only:
        began_s = time.monotonic()
        counts, words = _in_process(name, each, options.seed)
        print(_row(name, counts, time.monotonic() - began_s), flush=True)
        total += counts
        shown += words
    print(_row("all", total))
    for text in shown:
        print(f"violation: {text}")
    return 1 if total[VIOLATED] else 0


def _row(name: str, counts: Counter[str], wall_s: float | None = None) -> str:
    seconds = "" if wall_s is None else f"{wall_s:.1f}"
    return (
        f"{name:<16} {counts.total():>7} {counts[ACCEPTED]:>9} {counts[REFUSED]:>8} "
        f"{counts[VIOLATED]:>11} {seconds:>6}"
    )


def _in_process(name: str, examples: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Run a reader in a new process; a crash is a violation."""
    with ProcessPoolExecutor(1) as pool:
        try:
            return pool.submit(run, name, examples, seed).result()
        except BrokenProcessPool:
            return Counter({VIOLATED: 1}), [f"{name}: the process crashed"]


def run(name: str, examples: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Feed inputs to a reader; count outcomes, and describe the first violations."""
    folder.cache_clear()  # a forked process has its parent's folder
    reader = READERS[name]
    counts: Counter[str] = Counter()
    words: list[str] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(inputs(reader.seeds, reader.form))
    def each(data: bytes) -> None:
        try:
            counts[judge(reader, data)] += 1
        except ViolationError as error:
            counts[VIOLATED] += 1
            if len(words) < SHOWN:
                words.append(str(error))

    try:
        each()
    finally:
        clear()
    return counts, words
