"""Hide a setting, publish what it gives, and count how often `losslab explain` finds it.

    nice python -m bench.explain --cases 30 --seed 7 --out planted

A third of the truths are pairs of built-in settings, a third are not in the list, and of the rest
some hide nothing. They lie on three bases. Without `--seed`, a fresh seed is drawn and printed. The
published numbers are means of three runs with seeds that the search never has. Finished runs are
kept. Exit 1 if more than one truth in thirty is named wrongly, or one outside the list is
"explained".
"""

from __future__ import annotations

import argparse
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
from losslab.tools.explain import verdict
from losslab.tools.explain.candidates import Candidate, Setting, built_in
from losslab.tools.explain.case import read
from losslab.tools.explain.explain import Runs, buildable
from losslab.tools.explain.search import REPORTED, Search
from losslab.tools.explain.verdict import Verdict

METRICS = ("goodput_mbit", "retransmits")
BASES, PUBLISHED_RUNS = 3, 3
# Settings that the list does not have.
OUTSIDE = (
    Candidate("policer at 0.5 of the rate", {"policer_mbit": "=rate_mbit x0.5"}),
    Candidate("duplicates of 5 %", {"duplicate_percent": 5}),
    Candidate("data in batches of 5 ms", {"data_batch_ms": 5}),
    Candidate("slow reverse path", {"reverse_rate_mbit": "=rate_mbit x0.01"}),
    Candidate("second bottleneck", {"second_rate_mbit": "=rate_mbit x0.6"}),
    Candidate("five flows beside it", {"flows": "cubic,count=5"}),
    Candidate("RTT x2", {"rtt_ms": "x2"}),
    Candidate("loss x5", {"loss_percent": "x5"}),
    Candidate("rate x0.5", {"rate_mbit": "x0.5"}),
    Candidate("queue pie", {"queue": "pie"}),
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
    return [
        {"rate_mbit": round(10 ** rng.uniform(1.2, 2.2)), "rtt_ms": round(rng.uniform(8, 60)),
         "buffer_packets": f"{rng.choice((0.5, 1, 1.5))}bdp", "duration_s": 10, "warmup_s": 1}
        for _ in range(BASES)
    ]  # fmt: skip


def conditions(number: int) -> list[tuple[dict[str, Any], bool]]:
    """Return the conditions of a base's published numbers, and whether they are held out."""
    loss = (0.05, 0.1, 0.2)[number % 3]
    return [
        ({"algorithm": "cubic", "loss_percent": 0}, False),
        ({"algorithm": "cubic", "loss_percent": loss}, False),
        ({"algorithm": "bbr", "loss_percent": 1}, False),
        ({"algorithm": "cubic", "loss_percent": 1}, True),
    ]


def planted(rng: random.Random, count: int, drawn: list[dict[str, Any]]) -> Iterator[Planted]:
    """Draw truths whose conditions are possible."""
    listed = [each for each in built_in() if "kernel" not in each.changes]
    for number in range(count):
        kind, base = KINDS[number % len(KINDS)], number % BASES
        while True:
            truth = {
                NONE: Setting(), SINGLE: Setting((rng.choice(listed),)),
                PAIR: Setting(tuple(rng.sample(listed, 2))), OTHER: Setting((rng.choice(OUTSIDE),)),
            }[kind]  # fmt: skip
            if len({*truth.subject}) < sum(len(each.subject) for each in truth.candidates):
                continue
            try:
                made = [cellspec.condition(drawn[base] | own) for own, _ in conditions(base)]
                if kind != NONE and all(truth.condition(each) == each for each in made):
                    continue
            except LosslabError:
                continue
            yield Planted(kind, base, truth)
            break


def write_case(which: Planted, base: dict[str, Any], seed: int, runs: Runs, file: Path) -> None:
    """Measure a truth, and write what a report that leaves it out would say."""
    published = []
    for own, held_out in conditions(which.base):
        reported = cellspec.condition(base | own)
        condition = which.truth.condition(reported)
        measured = runs([(condition, seed + n) for n in range(PUBLISHED_RUNS)])
        numbers = {}
        for metric in METRICS:
            values = [metrics.value(each.summary, metric) for each in measured.values()
                      if not each.violations]  # fmt: skip
            known = [value for value in values if value is not None]
            if known:
                numbers[metric] = round(which.truth.scale(metric) * fmean(known), 3)
        if numbers:
            published.append({"condition": own, "numbers": numbers, "runs": PUBLISHED_RUNS}
                             | ({"held_out": True} if held_out else {}))  # fmt: skip
    case = {"source": "planted", "reported": base, "published": published}
    file.write_text(yaml.safe_dump(case, sort_keys=False))


def score(which: Planted, file: Path, runs: Runs, budget_s: float) -> tuple[str, Verdict, str]:
    """Explain a case; return how right it is, the verdict, and the headline."""
    case = buildable(read(file))
    search = Search(case, runs, budget_s)
    found = search.run()
    said = verdict.verdict(found)
    settings = [each for each in found.agreed if each != REPORTED]
    subjects = {each.subject for each in settings}
    truth = which.truth
    right = any(
        all(each.condition(n.condition) == truth.condition(n.condition)
            and each.scale(n.metric) == truth.scale(n.metric) for n in case.numbers)
        or each.subject == truth.subject
        for each in settings
    )  # fmt: skip
    if which.kind == NONE:
        judged = "right" if said is Verdict.NOTHING else "WRONG"
    elif said is Verdict.NOTHING:
        search.request([truth], case.search, 5)
        visible = search.trial(truth, case.search).moves
        judged = "missed: nothing to explain" if visible else "right: no visible effect"
    elif not settings:
        judged = "right" if which.kind == OTHER else "missed, and says so"
    elif right:
        judged = {1: "right, alone", 2: "right, of two"}.get(len(subjects), "right, of more")
    elif which.kind == PAIR and any(subject < truth.subject for subject in subjects):
        judged = "half of the pair"
    else:
        judged = "WRONG"
    return judged, said, verdict.headline(found)


def main() -> int:
    """Run the cases; print a line for each, and the counts."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m bench.explain", None, __doc__, formatter_class=form)
    parser.add_argument("--cases", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--budget-s", type=float, default=300.0, help="of a case, in core-seconds")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cores", type=int, default=1)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    rng = random.Random(options.seed)
    drawn = bases(rng)
    counts, explained_outside = Counter[str](), 0
    for number, which in enumerate(planted(rng, options.cases, drawn)):
        folder = options.out / f"base{which.base}-{options.seed}"
        folder.mkdir(parents=True, exist_ok=True)
        file, runs = folder / f"case{number}.yaml", Runs(folder / "runs", options.cores)
        seed = 10**6 + 10**4 * number + options.seed
        write_case(which, drawn[which.base], seed, runs, file)
        judged, said, headline = score(which, file, runs, options.budget_s)
        counts[judged.partition(":")[0]] += 1
        explained_outside += which.kind == OTHER and said is Verdict.EXPLAINED
        print(f"{number:3} {which.kind}: {which.truth.label}: {judged}: {headline}", flush=True)
    for judged, count in counts.most_common():
        print(f"{count:4} {judged}")
    print(f"{explained_outside:4} not in the list, but explained")
    return int(counts["WRONG"] > max(1, options.cases // 30) or explained_outside > 0)


if __name__ == "__main__":
    sys.exit(main())
