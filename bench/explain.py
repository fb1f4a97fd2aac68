"""Hide a setting, publish what it gives, and count how often `losslab explain` finds it.

    nice python -m bench.explain --cases 30 --seed 7 --out planted

A third of the truths are pairs of built-in settings, a third are not in the list, and of the rest
some hide nothing. They lie on three bases. Without `--seed`, a fresh seed is drawn and printed. The
published numbers are means of five runs with seeds that the search never has. Finished runs are
kept, and `--base` shares the cases out among processes. Exit 1 if more than one truth in thirty is
named wrongly, or one outside the list is "explained".
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import operator
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import yaml

from losslab import cellspec
from losslab.errors import LosslabError
from losslab.study import metrics
from losslab.study.condition import Condition
from losslab.study.intervals import MIN_RUNS, ratio_interval
from losslab.tools.explain import verdict
from losslab.tools.explain.candidates import REPORTED, Setting, built_in
from losslab.tools.explain.case import effect, read
from losslab.tools.explain.explain import Runs
from losslab.tools.explain.search import Search
from losslab.tools.explain.verdict import Verdict

METRICS = ("goodput_mbit", "retransmits")
BASES, PUBLISHED_RUNS, PACKET_BITS = 3, 5, 12_000
VISIBLE = 1.05
# With less loss, a run has too few; with more, the congestion window is a few packets.
LOSS_PERCENT = (0.05, 0.5)
# Settings that the list does not have.
OUTSIDE = (
    Setting("policer at 0.5 of the rate", {"policer_mbit": "=rate_mbit x0.5"}),
    Setting("duplicates of 5 %", {"duplicate_percent": 5}),
    Setting("data in batches of 5 ms", {"data_batch_ms": 5}),
    Setting("slow reverse path", {"reverse_rate_mbit": "=rate_mbit x0.01"}),
    Setting("second bottleneck", {"second_rate_mbit": "=rate_mbit x0.6"}),
    Setting("five flows beside it", {"flows": "cubic,count=5"}),
    Setting("RTT x2", {"rtt_ms": "x2"}),
    Setting("loss x5", {"loss_percent": "x5"}),
    Setting("rate x0.5", {"rate_mbit": "x0.5"}),
    Setting("queue pie", {"queue": "pie"}),
)
NONE, SINGLE, PAIR, OTHER = "nothing hidden", "single", "pair", "not in the list"
KINDS = (PAIR, OTHER, SINGLE, PAIR, OTHER, SINGLE, PAIR, OTHER, NONE)


class Planted(NamedTuple):
    """A truth on a base."""

    kind: str
    base: int
    truth: Setting


def bases(rng: random.Random) -> list[dict[str, Any]]:
    """Draw the reported conditions."""
    drawn: list[dict[str, Any]] = []
    while len(drawn) < BASES:
        rate_mbit, rtt_ms = round(10 ** rng.uniform(1.2, 2.2)), round(rng.uniform(8, 60))
        base = {"rate_mbit": rate_mbit, "rtt_ms": rtt_ms, "shaper": "tbf", "duration_s": 10,
                "warmup_s": 1, "buffer_packets": f"{rng.choice((0.5, 1, 1.5))}bdp"}  # fmt: skip
        if LOSS_PERCENT[0] <= loss_percent(base) <= LOSS_PERCENT[1]:
            drawn.append(base)
    return drawn


def loss_percent(base: dict[str, Any]) -> float:
    """Return the loss that limits a flow to a quarter of the rate (Mathis et al., CCR 27(3), 1997).

    A flow that fills the path tells little about it.
    """
    mbit_of_one_percent = 1.22 * PACKET_BITS / 1e3 / base["rtt_ms"] * 10
    return float(f"{(4 * mbit_of_one_percent / base['rate_mbit']) ** 2:.2g}")


def conditions(base: dict[str, Any]) -> list[tuple[dict[str, Any], bool]]:
    """Return the conditions of a base's published numbers, and whether they are held out."""
    loss = loss_percent(base)
    return [
        ({"algorithm": "cubic", "loss_percent": 0}, False),
        ({"algorithm": "cubic", "loss_percent": loss}, False),
        ({"algorithm": "bbr", "loss_percent": 1}, False),
        ({"algorithm": "cubic", "loss_percent": 4 * loss}, True),
    ]


def planted(rng: random.Random, count: int, drawn: list[dict[str, Any]]) -> Iterator[Planted]:
    """Draw truths whose conditions are possible."""
    listed = [each for each in built_in() if "kernel" not in each.changes]
    for number in range(count):
        kind, base = KINDS[number % len(KINDS)], number // 3 % BASES
        while True:
            parts = {
                NONE: [], SINGLE: [rng.choice(listed)], PAIR: rng.sample(listed, 2),
                OTHER: [rng.choice(OUTSIDE)],
            }[kind]  # fmt: skip
            if len(parts) > 1 and parts[0].subject & parts[1].subject:
                continue
            try:
                truth = functools.reduce(operator.add, parts) if parts else REPORTED
                made = [cellspec.condition(drawn[base] | own) for own, _ in conditions(drawn[base])]
                if not all(_acts(each, made) for each in parts):
                    continue
                for each in made:
                    truth.condition(each)
            except LosslabError:
                continue
            yield Planted(kind, base, truth)
            break


def _acts(setting: Setting, reported: list[Condition]) -> bool:
    """Return whether a setting changes a condition, or what is published."""
    rate = setting.factor("goodput_mbit") != 1
    return rate or any(setting.condition(each) != each for each in reported)


def write_case(which: Planted, base: dict[str, Any], seed: int, runs: Runs, file: Path) -> None:
    """Measure a truth, and write what a report that leaves it out would say."""
    published = []
    for own, held_out in conditions(base):
        reported = cellspec.condition(base | own)
        condition = which.truth.condition(reported)
        measured = runs([(condition, seed + n) for n in range(PUBLISHED_RUNS)])
        numbers = {}
        for metric in METRICS:
            values = [metrics.value(each.summary, metric) for each in measured.values()
                      if not each.violations]  # fmt: skip
            known = [value for value in values if value is not None]
            if known:
                numbers[metric] = round(which.truth.factor(metric) * fmean(known), 3)
        if numbers:
            published.append({"condition": own, "numbers": numbers, "runs": PUBLISHED_RUNS}
                             | ({"held_out": True} if held_out else {}))  # fmt: skip
    case = {"source": "planted", "reported": base, "published": published}
    file.write_text(yaml.safe_dump(case, sort_keys=False))


def score(which: Planted, file: Path, runs: Runs, budget_s: float) -> tuple[str, Search]:
    """Explain a case; return how right the result is, and the result."""
    search = Search(read(file), runs, budget_s)
    search.run()
    file.with_suffix(".json").write_text(json.dumps(verdict.result(search), indent=1))
    said, settings = verdict.verdict(search), [each for each in search.agreed if each != REPORTED]
    truth, subjects = which.truth, {each.subject for each in search.agreed}

    def equals(setting: Setting) -> bool:
        """Return whether a setting changes the same, or has the same effect as far as runs tell."""
        if setting.subject == truth.subject or effect(setting, search.case.numbers) == effect(
            truth, search.case.numbers
        ):
            return True
        if not setting.subject < truth.subject:
            return False
        return not _differ(search, setting, truth)

    if which.kind == NONE:
        judged = "right" if said is Verdict.NOTHING else "WRONG"
    elif said is Verdict.NOTHING:
        visible = _differ(search, REPORTED, truth)
        judged = "missed: nothing to explain" if visible else "right: no visible effect"
    elif not settings:
        judged = "right" if which.kind == OTHER else "missed, and says so"
    elif any(map(equals, settings)):
        judged = {1: "right, alone", 2: "right, of two"}.get(len(subjects), "right, of more")
    elif which.kind == PAIR and search.pairs_left_out:
        judged = "missed, and says so"
    else:
        judged = {1: "WRONG, alone", 2: "WRONG, of two"}.get(len(subjects), "WRONG, of more")
    return judged, search


def _differ(search: Search, one: Setting, other: Setting) -> bool:
    """Return whether two settings differ by more than 5 % in a number that was searched with."""
    search.request([one, other], search.numbers, MIN_RUNS)
    for number in search.numbers:
        # With the shift of small counts that the search has, too.
        first, second = (
            [math.exp(number.log(value)) for value in search.values(each, number).values()]
            for each in (one, other)
        )
        ends = ratio_interval(first, second, paired=False).interval
        if ends is None or ends[0] > VISIBLE or ends[1] < 1 / VISIBLE:
            return sorted(first) != sorted(second)
    return False


def main() -> int:
    """Run the cases; print a line for each, and the counts."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m bench.explain", None, __doc__, formatter_class=form)
    parser.add_argument("--cases", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--budget-s", type=float, default=300.0, help="of a case, in core-seconds")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--base", type=int, choices=range(BASES), help="only cases of this base")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    rng = random.Random(options.seed)
    drawn = bases(rng)
    counts, explained_outside = Counter[str](), 0
    for number, which in enumerate(planted(rng, options.cases, drawn)):
        if options.base not in (None, which.base):
            continue
        folder = options.out / f"base{which.base}-{options.seed}"
        folder.mkdir(parents=True, exist_ok=True)
        file, runs = folder / f"case{number}.yaml", Runs(folder / "runs", options.cores)
        seed = 10**6 + 10**4 * number + options.seed
        write_case(which, drawn[which.base], seed, runs, file)
        judged, search = score(which, file, runs, options.budget_s)
        counts[judged.partition(":")[0]] += 1
        said = verdict.verdict(search)
        explained_outside += which.kind == OTHER and said is Verdict.EXPLAINED
        print(f"{number:3} {which.kind}: {which.truth.label}: {judged}: "
              f"{verdict.headline(search)}", flush=True)  # fmt: skip
    for judged, count in counts.most_common():
        print(f"{count:4} {judged}")
    print(f"{explained_outside:4} not in the list, but explained")
    wrong = sum(count for judged, count in counts.items() if judged.startswith("WRONG"))
    return int(wrong > max(1, options.cases // 30) or explained_outside > 0)


if __name__ == "__main__":
    sys.exit(main())
