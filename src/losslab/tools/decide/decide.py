"""`losslab decide`: which of some congestion controls to use on a path.

The question is a path, the other flows on it, and what users do. Each choice is measured with the
same seeds, on the path and on paths in which one uncertain value differs. The cells are those of a
sweep, so finished runs are kept.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from losslab import __version__, cellspec, sweeps
from losslab.backends.base import GUEST, VIRTUAL
from losslab.campaign import cost, halves, limiters
from losslab.campaign.instrument import at_first_use, require_built
from losslab.campaign.records import parts_of
from losslab.campaign.results import MeasuredCell, read_cell, write_json
from losslab.emulation.flows.feature import FLOWS_MAX
from losslab.emulation.flows.outcome import TABLE
from losslab.reading import UsageError, out_folder, whole_option
from losslab.study import metrics, runlength
from losslab.study.axes import short
from losslab.study.condition import AXES
from losslab.study.intervals import MIN_RUNS
from losslab.tools.decide import page
from losslab.tools.decide.question import (
    ACCEPT,
    BUFFER,
    BULK,
    BULK_APP,
    DEFAULT_FLOWS,
    MIXED_FLOWS,
    NOT_OF_PATH,
    PAGE_LOAD,
    PAGES,
    PAGES_MIN,
    SHARE,
    UNCERTAIN,
    VIDEO,
    Question,
    Variant,
    asked,
    cells,
    others,
    quantity,
)
from losslab.tools.decide.verdict import Answer, Measure, answer, change, compare, headline

# The first measure of a use decides, the others are shown.
USES: dict[str, tuple[str, ...]] = {
    BULK: ("own_goodput_mbit",),
    PAGES: ("fct_median_s", "fct_p95_s", "short_unfinished"),
    VIDEO: ("frames_on_time_percent", "stall_s"),
}
BBR = {"bbr": "BBRv1, as in Linux", "bbr3": "BBRv3"}
COST = "cost"
COSTS = ("others_goodput_mbit", "rtt_loaded_ms", "queue_delay_p95_ms", "retransmits")
# Measures that are no metrics of a run's summary, or have a clearer title here.
MEASURES = {
    "own_goodput_mbit": Measure("Mean goodput of your long flows", "Mbit/s", True),
    "others_goodput_mbit": Measure("Mean goodput of a flow of the others", "Mbit/s", True),
    "fct_median_s": Measure("Median load time of a page", "s", False),
    "fct_p95_s": Measure("95th percentile of the load time", "s", False),
    "short_unfinished": Measure("Pages not loaded at the end", "pages", False),
    "frames_on_time_percent": Measure("Video frames on time", "%", True),
    "stall_s": Measure("Time in which the video stalls", "s", False),
    "rtt_loaded_ms": Measure("Mean RTT during the traffic", "ms", False),
    "queue_delay_p95_ms": Measure("95th percentile of the queueing delay", "ms", False),
    "retransmits": Measure("Retransmitted packets of the flow under test", "packets", False),
}
SECONDS, RTTS, PRECISE_RUNS, RUNS_MAX = 10.0, 50, 10, 30
# Longest run for enough pages.
PAGES_MAX_S = 300.0
# Core-seconds that a run took with other work on the machine, per core-second of the cost model.
MODEL = 2.0
DEFAULT_BUDGET = "5min"


@dataclass
class Outcome:
    """Measured values of a variant."""

    variant: Variant
    # By measure and choice, the value of each seed.
    values: dict[str, dict[str, dict[int, float]]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    measured: list[MeasuredCell] = field(default_factory=list)

    def answers(self) -> dict[str, Answer]:
        """Return the answer for each use."""
        its = self.variant.question
        return {
            use: answer(
                its.choices,
                self.values.get(USES[use][0], {name: {} for name in its.choices}),
                MEASURES[USES[use][0]].more_is_better,
            )
            for use in its.uses
        }


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `decide`."""
    parser = commands.add_parser("decide", usage="%(prog)s NAME NAME ... [OPTION ...] --out FOLDER")
    parser.add_argument("choices", nargs="+", metavar="NAME", help="algorithm; today's first")
    question = parser.add_argument_group("question")
    question.add_argument(
        "--from-tc", type=Path, metavar="FILE", help="take the path from lines of tc or Mininet"
    )
    question.add_argument(
        ACCEPT, action="store_true", help="decide without what --from-tc leaves out of the path"
    )
    question.add_argument(
        "--share", action="append", default=[], metavar="ALGORITHM=PERCENT",
        help="share of the link's long flows that use an algorithm whatever you choose, such as "
        "cubic=30%%; all others use the choice (repeatable)",
    )  # fmt: skip
    question.add_argument(
        "--link-flows", type=whole_option("link-flows", 0, FLOWS_MAX),
        help=f"long flows on the link, with the flow under test (default {MIXED_FLOWS} with "
        f"--share, or else {DEFAULT_FLOWS}); 0: none, pages or a video alone",
    )  # fmt: skip
    question.add_argument(
        "--use", action="append", default=[], metavar="USE",
        help="what users do: bulk, pages=SIZE (such as pages=300kB) or video (repeatable; default "
        "bulk)",
    )  # fmt: skip
    question.add_argument(
        "--uncertain", action="append", default=[], metavar="NAME[=LOW..HIGH|=VALUE,VALUE]",
        help="value of the path, or share, that is not known well: a number is measured at these "
        "bounds, or at half and double, and a text at other values, such as offloads=on; default: "
        f"those of {', '.join(UNCERTAIN)} that you gave; none: no other paths",
    )  # fmt: skip
    run = parser.add_argument_group("run")
    run.add_argument(
        "--budget", default=DEFAULT_BUDGET,
        help="time on idle cores, from which number and length of the runs follow "
        f"(default {DEFAULT_BUDGET})",
    )  # fmt: skip
    run.add_argument(
        "--replicates", type=whole_option("replicates", MIN_RUNS),
        help="runs of each choice, instead of a number that follows from the budget",
    )  # fmt: skip
    cellspec.cores_option(run, "cells")
    run.add_argument("--estimate", action="store_true", help="print the plan and measure nothing")
    run.add_argument(
        "--out", type=out_folder, help="folder, unless --estimate; finished runs are kept"
    )
    path = parser.add_argument_group("path")
    for name, axis in AXES.items():
        if name not in NOT_OF_PATH:
            path.add_argument(f"--{name.replace('_', '-')}", metavar="VALUE",
                              help=axis.help.replace("%", "%%").replace("`", ""))  # fmt: skip
    parser.set_defaults(run=_decide, interrupted=sweeps.KEPT)


def _decide(options: argparse.Namespace) -> int:
    question = asked(options)
    budget_s = quantity("budget_s", options.budget, "--budget")
    variants = [Variant("", 0.0, question), *others(question, options.uncertain)]
    plan = Plan.of(variants, budget_s * options.cores, options)
    require_built([cell.condition for each in plan.variants for _, cell in cells(each.question)])
    for note in plan.notes(options.cores):
        print(f"losslab: {note}", file=sys.stderr, flush=True)
    if options.estimate:
        return 0
    if options.out is None:
        raise UsageError("--out must name a folder for the decision, found no such option")
    options.out.mkdir(parents=True, exist_ok=True)
    plan.measure(options.out, options.cores)
    outcomes = [outcome(each, plan.duration_s, options.out) for each in plan.variants]
    decided = decision(outcomes, plan)
    more = max((its["more_runs"] or 0 for its in decided["answers"].values()), default=0)
    decided["command"] = again(options, plan, more)
    write_json(decided, options.out / "decision.json")
    (options.out / "decision.html").write_bytes(page.html(decided).encode())
    print(page.text(decided))
    print(f"\n{options.out / 'decision.html'}\n{options.out / 'decision.json'}")
    measured = all(its["verdict"] != "not measured" for its in decided["answers"].values())
    return 0 if measured else 1


@dataclass(frozen=True)
class Plan:
    """Variants, and the number and length of their runs."""

    variants: tuple[Variant, ...]
    duration_s: float
    runs: int  # of the question
    other_runs: int  # of each other path
    core_s: float
    left_out: tuple[str, ...] = ()  # other paths that the budget did not allow
    needed: runlength.RunLength | None = None  # unless the user gave the length

    @classmethod
    def of(
        cls, variants: Sequence[Variant], budget_core_s: float, options: argparse.Namespace
    ) -> Plan:
        """Return the largest plan within a budget; UsageError if none is."""
        question = variants[0].question
        rtt_s = float(question.path.get("rtt_ms", 0)) / 1e3
        least_s = max(SECONDS, RTTS * rtt_s)
        if question.page_kb is not None:
            pages_s = PAGES_MIN / question.pages_per_s / 0.8
            if pages_s > PAGES_MAX_S:
                raise UsageError(
                    f"{PAGES_MIN} pages must load in {PAGES_MAX_S:g} s at {PAGE_LOAD:.0%} of the "
                    f"rate, found that {PAGES_MIN} of {question.page_kb:g} kB take {pages_s:.0f} s",
                    hint="give a smaller SIZE, or a higher --rate-mbit",
                )
            least_s = max(least_s, pages_s)
        least_s = float(f"{least_s:.3g}")
        own_s = question.path.get("duration_s")
        whole = tuple(variants)
        rule = runlength.chosen(
            cell.condition for each in whole for _, cell in cells(each.question)
        )
        needed_s = max(least_s, rule.duration_s)
        lengths = [float(own_s)] if own_s else [2 * needed_s, needed_s]
        plans = [(whole, each_s) for each_s in lengths]
        wanted = 1 + sum(each.named for each in whole)  # the named ones are first
        plans += [(whole[:count], lengths[-1]) for count in range(len(whole) - 1, wanted - 1, -1)]
        tried = [(*each, PRECISE_RUNS if len(each[0]) > 1 else MIN_RUNS) for each in plans]
        # Few runs on the path are better than a value that was asked for and not varied.
        tried += [(*plans[-1], MIN_RUNS)]
        if not own_s and least_s < needed_s:
            # Runs that are too short, with a warning, are better than no answer.
            tried += [(whole[:wanted], least_s, MIN_RUNS)]
        for kept, duration_s, fewest in tried:
            made = cls._at(kept, duration_s, budget_core_s, options.replicates, fewest)
            if made.core_s <= budget_core_s or options.replicates:
                left_out = tuple(each.label for each in whole[len(kept) :])
                return replace(made, left_out=left_out, needed=None if own_s else rule)
        minutes = made.core_s / options.cores / 60
        raise UsageError(
            f"--budget must be enough for {MIN_RUNS} runs of each choice"
            + (" with each value that --uncertain names or that is unknown" if wanted > 1 else "")
            + f", about {minutes:.1f} min on {options.cores} cores, found "
            f"{budget_core_s / options.cores:g} s",
            hint="give more with --budget, such as 5min; a lower rate, fewer uses or fewer "
            "--uncertain take less",
        )

    @classmethod
    def _at(
        cls,
        variants: tuple[Variant, ...],
        duration_s: float,
        budget_s: float,
        runs: int | None,
        fewest: int,
    ) -> Plan:
        every = [[cell for _, cell in cells(each.question, duration_s)] for each in variants]
        fixed_s = sum(cost.CELL_S[VIRTUAL] * len(its) for its in every)
        own_s, *others_s = (
            MODEL * sum(cost.replicate_s(each.condition, VIRTUAL) for each in its) for its in every
        )
        more_s = fixed_s + MIN_RUNS * sum(others_s)
        fit = int((budget_s - more_s) / own_s)
        number_ = runs or max(fewest, min(RUNS_MAX, fit))
        return cls(variants, duration_s, number_, MIN_RUNS, more_s + number_ * own_s)

    def notes(self, cores: int) -> Iterator[str]:
        """Yield what is measured."""
        its = self.variants[0].question
        for name, count in its.counts.items():
            yield f"{its.shares[name]:g} % of the long flows: {count} of {its.flows} use {name}"
        count = len(self.variants) - 1
        others = f", {self.other_runs} on each of {count} other paths" if count else ""
        yield (
            f"{self.runs} runs of {self.duration_s:g} s for each choice{others}: about "
            f"{self.core_s / cores / 60:.1f} min on {cores} idle cores, without finished runs"
        )
        if self.needed and self.needed.reason:
            short = self.duration_s < self.needed.duration_s
            yield (
                f"runs need {self.needed}, because {self.needed.reason}"
                + (": the budget is too small for that; give more --budget" if short else "")
            )
        if self.left_out:
            yield f"the budget is too small for {', '.join(self.left_out)}; give more --budget"

    def measure(self, out: Path, cores: int) -> None:
        """Measure what is missing."""
        todo = [
            [cell for _, cell in cells(variant.question, self.duration_s, out)]
            for variant in self.variants
        ]
        for cell in dict.fromkeys(cell for its in todo for cell in its):
            at_first_use(cell.condition, VIRTUAL, GUEST)
        sweeps.measure(todo[0], self.runs, cores)
        rest = dict.fromkeys(cell for its in todo[1:] for cell in its)
        sweeps.measure([cell for cell in rest if cell not in todo[0]], self.other_runs, cores)


def outcome(variant: Variant, duration_s: float, out: Path) -> Outcome:
    """Read a variant's values from its cells."""
    found, its = Outcome(variant), variant.question
    for choice, cell in cells(its, duration_s, out):
        measured = read_cell(cell.file).checked(cell.condition)
        found.measured.append(measured)
        for row, replicate in zip(measured.rows, measured.replicates, strict=True):
            found.violations += row["reasons"]
            values = of_run(row["summary"], replicate.table(TABLE), its) if row["valid"] else {}
            for name, value in values.items():
                if cell.condition.app == its.apps[0] or name in USES[VIDEO]:
                    by_choice = found.values.setdefault(name, {each: {} for each in its.choices})
                    by_choice[choice][row["seed"]] = value
    return found


def of_run(
    summary: Mapping[str, Any], flows: Sequence[Mapping[str, str]], question: Question
) -> dict[str, float]:
    """Return the measures of a valid run; `flows` are the rows of its flows.csv."""
    long = [(int(row["name"].partition("-")[0]), float(row["goodput_mbit"]))
            for row in flows if row["goodput_mbit"]]  # fmt: skip
    # The groups of the others are first.
    others_mbit = [mbit for group, mbit in long if group <= len(question.counts)]
    own_mbit = [mbit for group, mbit in long if group > len(question.counts)]
    competitor = metrics.value(summary, "competitor_goodput_mbit")
    others_mbit += [competitor] if competitor is not None else []
    foreground = metrics.value(summary, "goodput_mbit")
    of_flow = question.apps[0] == BULK_APP  # and not a page's or a video's
    own_mbit += [foreground] if foreground is not None and of_flow else []
    measures = {name: metrics.value(summary, name) for name in MEASURES}
    measures["own_goodput_mbit"] = fmean(own_mbit) if own_mbit else None
    measures["others_goodput_mbit"] = fmean(others_mbit) if others_mbit else None
    return {name: value for name, value in measures.items() if value is not None}


def decision(outcomes: Sequence[Outcome], made: Plan) -> dict[str, Any]:
    """Return the decision as data: answers, comparisons with the first choice, other paths."""
    base, question = outcomes[0], made.variants[0].question
    answers = base.answers()
    shown_ = [(use, name) for use in question.uses for name in USES[use]]
    # Your own long flows pay for a choice that is made for pages or video.
    costs = COSTS if BULK in question.uses else (*USES[BULK], *COSTS)
    costs = tuple(name for name in costs if name != "retransmits" or not question.alone)
    rows = [
        {"part": part, "measure": name} | asdict(measure)
        | asdict(compare(choice, question.choices[0], base.values[name], measure.more_is_better))
        for part, name in [*shown_, *((COST, name) for name in costs)]
        if name in base.values
        for measure in [MEASURES[name]]
        for choice in question.choices[1:]
    ]  # fmt: skip
    elsewhere = [(each.variant, each.answers()) for each in outcomes[1:]]
    return {
        "headline": headline(answers, question.choices[0]),
        "answers": {use: _said(each) for use, each in answers.items()},
        "comparisons": rows,
        "other_paths": [
            {"path": variant.label, "name": variant.name, "value": variant.value,
             "answers": {use: _said(each) | {"change": change(answers[use], each)}
                         for use, each in found.items()}}
            for variant, found in elsewhere
        ],
        "question": {
            "choices": list(question.choices), "path": dict(question.path), "flows": question.flows,
            "others": question.counts, "uses": list(question.uses), "page_kb": question.page_kb,
            "pages_per_s": question.pages_per_s,
            "left_out_of_path": list(question.left_out), "assumed": question.assumed,
            "unknown": [BUFFER] if question.unknown_buffer else [], "alone": question.alone,
        },
        "emulated": True,
        "losslab": __version__,
        "measured_with": instruments(base.measured),
        "bbr_versions": versions([*question.choices, *question.shares]),
        "duration_s": made.duration_s,
        "runs": made.runs,
        "other_runs": made.other_runs,
        "left_out": list(made.left_out),
        "violations": Counter(each for one in outcomes for each in one.violations),
        "warnings": [
            f"{one.variant.label}: {line}" if one.variant.label else line
            for one in outcomes
            for line in [
                *halves.of_cells(one.measured, lambda its: its.algorithm),
                *limiters.of_cells(one.measured, lambda its: its.algorithm),
            ]
        ],
    }  # fmt: skip


def instruments(measured: Sequence[MeasuredCell]) -> dict[str, list[str]]:
    """Return the choices that were measured with each kernel, by the kernel's version."""
    kernels: dict[str, list[str]] = {}
    for cell in measured:
        for row in cell.rows:
            version = dict(parts_of(row["instrument"])).get("kernel", "not recorded")
            choices = kernels.setdefault(version, [])
            if cell.condition.algorithm not in choices:
                choices.append(cell.condition.algorithm)
    return kernels


def versions(names: Iterable[str]) -> dict[str, str]:
    """Return which version of BBR each name means, which is easily mistaken."""
    return {name: BBR[name] for name in names if name in BBR}


def _said(its: Answer) -> dict[str, Any]:
    return {"verdict": its.verdict, "choices": list(its.choices), "more_runs": its.more_runs,
            "text": str(its)}  # fmt: skip


def again(options: argparse.Namespace, made: Plan, more: int = 0) -> str:
    """Return the command that measures the same again, with some more runs."""
    words = ["losslab", "decide", *options.choices]
    given = {name: getattr(options, name, None) for name in AXES} | {
        "from_tc": options.from_tc, "link_flows": options.link_flows,
        "duration_s": short(made.duration_s), "replicates": made.runs + more, "out": options.out,
    }  # fmt: skip
    for name in (SHARE, "use", "uncertain"):
        words += [word for its in getattr(options, name) for word in (f"--{name}", its)]
    for name, its in given.items():
        words += [f"--{name.replace('_', '-')}", str(its)] if its is not None else []
    words += [ACCEPT] * options.accept_left_out
    return shlex.join(words)
