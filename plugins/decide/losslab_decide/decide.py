"""`losslab decide`: which of some congestion controls to use on a path.

The question is a path, the other flows on it, and what users do. Each choice is measured with the
same seeds, on the path and on paths in which one uncertain value differs. The cells are those of a
sweep, so finished runs are kept.
"""

from __future__ import annotations

import argparse
import resource
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from losslab import cellspec, pathcommand, sweeps, tclines, tcpath
from losslab.backends.base import GUEST, VIRTUAL
from losslab.campaign import cost, inputs
from losslab.campaign.instrument import at_first_use
from losslab.campaign.results import read_cell, write_json
from losslab.emulation.background.outcome import TABLE
from losslab.errors import LosslabError
from losslab.reading import (
    CONFIG_BYTES,
    UsageError,
    input_errors,
    number,
    out_folder,
    read_text,
    shown,
    whole_option,
)
from losslab.repository import ROOT
from losslab.study import background, design, metrics, units
from losslab.study.axes import NONE, short
from losslab.study.condition import AXES, NO_TRACE
from losslab.study.intervals import MIN_RUNS
from losslab_decide import page
from losslab_decide.verdict import (
    Answer,
    Comparison,
    Measure,
    answer,
    change,
    compare,
    headline,
)

BULK, PAGES, VIDEO = "bulk", "pages", "video"
# The first measure of a use decides, the others are shown.
USES: dict[str, tuple[str, ...]] = {
    BULK: ("own_goodput_mbit",),
    PAGES: ("fct_median_s", "fct_p95_s"),
    VIDEO: ("frames_on_time_percent", "stall_s"),
}
COST = "cost"
COSTS = ("others_goodput_mbit", "rtt_loaded_ms", "queue_delay_p95_ms", "retransmits")
# Measures that are no metrics of a run's summary, or have a clearer title here.
MEASURES = {
    "own_goodput_mbit": Measure("Mean goodput of your long flows", "Mbit/s", True),
    "others_goodput_mbit": Measure("Mean goodput of a flow of the others", "Mbit/s", True),
    "fct_median_s": Measure("Median load time of a page", "s", False),
    "fct_p95_s": Measure("95th percentile of the load time", "s", False),
    "frames_on_time_percent": Measure("Video frames on time", "%", True),
    "stall_s": Measure("Time in which the video stalls", "s", False),
    "rtt_loaded_ms": Measure("Mean RTT during the traffic", "ms", False),
    "queue_delay_p95_ms": Measure("95th percentile of the queueing delay", "ms", False),
    "retransmits": Measure("Retransmitted packets of the flow under test", "packets", False),
}
# Share of the link that the pages take, and limits of their number.
PAGE_LOAD, PAGES_PER_S_MAX, PAGES_MIN = 0.1, 100.0, 10
DEFAULT_FLOWS, MIXED_FLOWS = 1, 10
SHARE = "share"
# Values of a path that are rarely known: varied by default.
UNCERTAIN = ("loss_percent", "buffer_packets", SHARE, "jitter_ms", "rtt_ms", "rate_mbit")
SECONDS, RTTS, PRECISE_RUNS, RUNS_MAX = 10.0, 50, 10, 30
# Core-seconds that a run took with other work on the machine, per core-second of the cost model.
MODEL = 2.0
DEFAULT_BUDGET = "5min"
# Axes that the question sets otherwise than by their options.
NOT_OF_PATH = ("algorithm", "app", "competitor", "flows", "parameters", "scheme", "warmup_s",
               "sender_command", "receiver_command", "listens", "bring", "image")  # fmt: skip


@dataclass(frozen=True)
class Question:
    """A path, the choices, the other flows and the uses."""

    choices: tuple[str, ...]
    path: Mapping[str, Any]  # axes' values in their units
    shares: Mapping[str, float]  # percent of the flows by algorithm, whatever you choose
    flows: int  # long flows on the link, with the flow under test
    uses: tuple[str, ...]
    page_kb: float | None = None
    page_mbit: float = 0.0  # rate of the path that decides how many pages are loaded

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of flows of each other algorithm."""
        return {name: round(self.flows * share / 100) for name, share in self.shares.items()}

    @property
    def by_trace(self) -> bool:
        """Return whether a trace replaces the path's rate."""
        return bool(self.path.get("trace", NO_TRACE) != NO_TRACE)

    @property
    def apps(self) -> list[str]:
        """Return the apps of the flow under test."""
        bulk = ["iperf3"] if {BULK, PAGES} & {*self.uses} else []
        return bulk + (["ffmpeg"] if VIDEO in self.uses else [])

    @property
    def pages_per_s(self) -> float:
        """Return how many pages are loaded per second; 0 without pages."""
        if self.page_kb is None:
            return 0.0
        return min(PAGES_PER_S_MAX, PAGE_LOAD * self.page_mbit * 1e3 / 8 / self.page_kb)

    def point(self, choice: str, app: str) -> dict[str, Any]:
        """Return the axes' values of a cell."""
        point = dict(self.path) | {"algorithm": choice, "app": app}
        if self.by_trace:
            return point | {"competitor": next(iter(self.shares), NONE)}
        groups = [background.Group(name, count) for name, count in self.counts.items()]
        own = self.flows - 1 - sum(self.counts.values())
        groups += [background.Group(background.SAME, own)] if own else []
        if self.page_kb is not None:
            rate = float(f"{self.pages_per_s:.3g}")
            groups.append(
                background.Group(background.SAME, arrivals_per_s=rate, size_kb=self.page_kb)
            )
        flows = "+".join(each.text() for each in groups)
        return point | {"flows": flows or background.NO_FLOWS}


class Variant(NamedTuple):
    """The question, or one in which an uncertain value differs."""

    name: str  # "" for the question itself
    value: float
    question: Question

    @property
    def label(self) -> str:
        """Return the name with the value and its unit."""
        unit = AXES[self.name].unit.split(" ")[0] if self.name in AXES else "%"
        return f"{self.name} {short(self.value)} {unit}".rstrip()


@dataclass
class Outcome:
    """Measured values of a variant."""

    variant: Variant
    values: dict[str, dict[str, dict[int, float]]] = field(
        default_factory=dict
    )  # by measure and choice
    violations: list[str] = field(default_factory=list)

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
        "--share", action="append", default=[], metavar="ALGORITHM=PERCENT",
        help="share of the link's long flows that use an algorithm whatever you choose, such as "
        "cubic=30%%; all others use the choice (repeatable)",
    )  # fmt: skip
    question.add_argument(
        "--link-flows", type=whole_option("link-flows", 1, background.FLOWS_MAX),
        help=f"long flows on the link, with the flow under test (default {MIXED_FLOWS} with "
        f"--share, or else {DEFAULT_FLOWS})",
    )  # fmt: skip
    question.add_argument(
        "--use", action="append", default=[], metavar="USE",
        help="what users do: bulk, pages=SIZE (such as pages=300kB) or video (repeatable; default "
        "bulk)",
    )  # fmt: skip
    question.add_argument(
        "--uncertain", action="append", default=[], metavar="NAME[=LOW..HIGH]",
        help="value of the path, or share, that is not known well: measured at these bounds, or at "
        f"half and double; default: those of {', '.join(UNCERTAIN)} that you gave; none: no other "
        "paths",
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
    run.add_argument("--out", type=out_folder, required=True, help="folder; finished runs are kept")
    path = parser.add_argument_group("path")
    for name, its in AXES.items():
        if name not in NOT_OF_PATH:
            path.add_argument(f"--{name.replace('_', '-')}", metavar="VALUE",
                              help=its.help.replace("%", "%%").replace("`", ""))  # fmt: skip
    parser.set_defaults(run=_decide, interrupted=sweeps.KEPT)


def _decide(options: argparse.Namespace) -> int:
    question = asked(options)
    budget_s = units.value("budget_s", options.budget)
    if isinstance(budget_s, str):
        budget_s = number(budget_s, "--budget")
    variants = [Variant("", 0.0, question), *others(question, options.uncertain)]
    made = Plan.of(variants, budget_s * options.cores, options)
    for note in made.notes(options.cores):
        print(f"losslab: {note}", file=sys.stderr, flush=True)
    if options.estimate:
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    used_s = made.measure(options.out, options.cores)
    print(f"losslab: {used_s:.0f} s of CPU time for the runs that were missing", file=sys.stderr)
    outcomes = [outcome(each, made.duration_s, options.out) for each in made.variants]
    found = decision(outcomes, made)
    more = max((its["more_runs"] or 0 for its in found["answers"].values()), default=0)
    found["command"] = again(options, made, more)
    write_json(found, options.out / "decision.json")
    (options.out / "decision.html").write_text(page.html(found))
    print(page.text(found))
    print(f"\n{options.out / 'decision.html'}\n{options.out / 'decision.json'}")
    measured = all(its["verdict"] != "not measured" for its in found["answers"].values())
    return 0 if measured else 1


def asked(options: argparse.Namespace) -> Question:
    """Return the question that the options ask; UsageError if it cannot be measured."""
    choices = tuple(dict.fromkeys(options.choices))
    if len(choices) < 2:
        raise UsageError(f"a decision must be between two algorithms or more, found {choices[0]}")
    cellspec.require_algorithms(choices)
    path = _from_tc(options.from_tc) if options.from_tc else {}
    given = {name: getattr(options, name, None) for name in AXES}
    path |= {name: _value(name, text) for name, text in given.items() if text is not None}
    with input_errors():
        path = units.resolved(path)
    shares = dict(_share(text) for text in options.share)
    cellspec.require_algorithms([*shares])
    by_trace = path.get("trace", NO_TRACE) != NO_TRACE
    flows = options.link_flows or (2 if by_trace else MIXED_FLOWS) if shares else DEFAULT_FLOWS
    flows = options.link_flows or flows
    uses, page_kb = _uses(options.use or [BULK])
    mbit = float(path.get("rate_mbit", AXES["rate_mbit"].default or 0))
    question = Question(choices, path, shares, flows, uses, page_kb, mbit)
    _require_measurable(question)
    return question


def _value(name: str, text: str) -> Any:
    found = inputs.value(name, text) if name in inputs.OF_FILES else text
    return found if AXES[name].kind == "str" else units.option(name, found)


def _from_tc(file: Path) -> dict[str, Any]:
    reading = tcpath.Reading(tclines.read(read_text(file, CONFIG_BYTES), {}), {}, "cubic")
    for line in pathcommand.report(reading):
        print(line, file=sys.stderr)
    return {name: its for name, its in reading.values.items() if name not in NOT_OF_PATH}


def _share(text: str) -> tuple[str, float]:
    name, _, percent = text.partition("=")
    with input_errors():
        found = units.value("share_percent", percent)
    share = found if isinstance(found, float) else number(percent, "the percentage of --share")
    if not 0 < share < 100:
        raise UsageError(f"--share must be above 0 and below 100 %, found {shown(text)}")
    return name, share


def _uses(given: Sequence[str]) -> tuple[tuple[str, ...], float | None]:
    uses, page_kb = [], None
    for text in given:
        use, _, size = text.partition("=")
        if use not in USES or bool(size) != (use == PAGES):
            raise UsageError(f"--use must be bulk, pages=SIZE or video, found {shown(text)}",
                             hint="a page of 300 kB is --use pages=300kB")  # fmt: skip
        if use == PAGES:
            with input_errors():
                found = units.value("page_kb", size)
            page_kb = float(found if isinstance(found, float) else number(size, "SIZE of pages"))
        uses.append(use)
    return tuple(dict.fromkeys(uses)), page_kb


def _require_measurable(question: Question) -> None:
    """Refuse a question that no cell can measure; the error names the option to change."""
    its = question
    if its.by_trace and (its.page_kb is not None or its.flows > 2 or
                         (its.shares and VIDEO in its.uses) or
                         (its.flows == 2) != (len(its.shares) == 1)):  # fmt: skip
        raise UsageError(
            "with --trace, one other long flow can be on the link, and none beside video or pages, "
            f"found {its.flows} flows, uses {', '.join(its.uses)}, shares {dict(its.shares)}",
            hint="use `--use bulk` with or without `--share ALGORITHM=50%`, or give --rate-mbit "
            "instead of --trace",
        )
    if not its.by_trace and (0 in its.counts.values() or sum(its.counts.values()) >= its.flows):
        found = ", ".join(f"{count} of {name}" for name, count in its.counts.items())
        raise UsageError(
            f"--share must leave whole flows to the others and one to you, found {found} of "
            f"{its.flows} flows",
            hint="give more flows with --link-flows, or other shares",
        )
    _cells(its)


def _cells(
    question: Question, duration_s: float | None = None, out: Path = Path()
) -> list[tuple[str, sweeps.SweepCell]]:
    """Return the cells of a question with their choices; UsageError if one is impossible."""
    times = {} if duration_s is None else {"duration_s": duration_s, "warmup_s": duration_s / 5}
    names = design.load_names(ROOT)
    found = [
        (choice, cellspec.condition(question.point(choice, app) | times, names))
        for choice in question.choices
        for app in question.apps
    ]
    inputs.require([condition for _, condition in found])
    return [
        (choice, sweeps.SweepCell(condition, out / "cells" / condition.full_name()))
        for choice, condition in found
    ]


def others(question: Question, given: Sequence[str]) -> Iterator[Variant]:
    """Yield the question with one uncertain value at its bounds."""
    if list(given) == [NONE]:
        return
    absent = {"rate_mbit"} if question.by_trace else set()
    known = [name for name in UNCERTAIN if question.path.get(name) and name not in absent]
    if question.shares and not question.by_trace:
        known.insert(UNCERTAIN.index(SHARE), SHARE)
    for text in given or known:
        name, _, bounds = text.partition("=")
        now = _now(question, name)
        low, dots, high = bounds.partition("..")
        values = [now / 2, now * 2]
        if bounds:
            if not dots:
                raise UsageError(f"--uncertain must be NAME=LOW..HIGH, found {shown(text)}")
            values = [_bound(name, each) for each in (low, high)]
        for value in values:
            try:
                other = _with(question, name, value)
                _require_measurable(other)
            except LosslabError as error:
                if bounds:
                    raise UsageError(f"--uncertain {text}: {error.message}", error.hint) from error
                print(f"losslab: without {name} {value:g}: {error.message}", file=sys.stderr)
                continue
            yield Variant(name, value, other)


def _now(question: Question, name: str) -> float:
    if name == SHARE and question.shares:
        return next(iter(question.shares.values()))
    if name not in AXES or AXES[name].kind == "str" or name in NOT_OF_PATH:
        raise UsageError(f"--uncertain must name a number of the path or {SHARE} (with --share), "
                         f"found {shown(name)}")  # fmt: skip
    return float(question.path.get(name, AXES[name].default or 0))


def _bound(name: str, text: str) -> float:
    with input_errors():
        found = units.value("share_percent" if name == SHARE else name, text)
    return float(found if not isinstance(found, str) else number(text, f"a bound of {name}"))


def _with(question: Question, name: str, value: float) -> Question:
    if name == SHARE:
        first = next(iter(question.shares))
        return replace(question, shares={**question.shares, first: min(value, 100.0)})
    typed = round(value) if AXES[name].kind == "int" else float(f"{value:.9g}")
    return replace(question, path={**question.path, name: typed})


@dataclass(frozen=True)
class Plan:
    """Variants, and the number and length of their runs."""

    variants: tuple[Variant, ...]
    duration_s: float
    runs: int  # of the question
    other_runs: int  # of each other path
    core_s: float
    left_out: tuple[str, ...] = ()  # other paths that the budget did not allow

    @classmethod
    def of(
        cls, variants: Sequence[Variant], budget_core_s: float, options: argparse.Namespace
    ) -> Plan:
        """Return the largest plan within a budget; UsageError if none is."""
        question = variants[0].question
        rtt_s = float(question.path.get("rtt_ms", 0)) / 1e3
        least_s = max(SECONDS, RTTS * rtt_s)
        if question.page_kb is not None:
            least_s = max(least_s, PAGES_MIN / question.pages_per_s / 0.8)
        least_s = float(f"{least_s:.3g}")
        own_s = question.path.get("duration_s")
        lengths = [float(own_s)] if own_s else [2 * least_s, least_s]
        whole = tuple(variants)
        plans = [(whole, each_s) for each_s in lengths]
        plans += [(whole[:count], lengths[-1]) for count in range(len(whole) - 1, 0, -1)]
        for kept, duration_s in plans:
            made = cls._at(kept, duration_s, budget_core_s, options.replicates)
            if made.core_s <= budget_core_s or options.replicates:
                return replace(made, left_out=tuple(each.label for each in whole[len(kept) :]))
        minutes = made.core_s / options.cores / 60
        raise UsageError(
            f"--budget must be enough for {MIN_RUNS} runs of each choice, found {options.budget}, "
            f"of about {minutes:.1f} min on {options.cores} cores",
            hint="give more with --budget; a lower rate or fewer uses take less",
        )

    @classmethod
    def _at(
        cls, variants: tuple[Variant, ...], duration_s: float, budget_s: float, runs: int | None
    ) -> Plan:
        def each_s(variant: Variant) -> tuple[float, float]:
            cells = _cells(variant.question, duration_s)
            once = sum(cost.replicate_s(cell.condition, VIRTUAL) for _, cell in cells)
            return cost.CELL_S[VIRTUAL] * len(cells), once * MODEL

        costs = [each_s(variant) for variant in variants]
        fixed_s = sum(cell_s for cell_s, _ in costs)
        more_s = fixed_s + MIN_RUNS * sum(once for _, once in costs[1:])
        fit = int((budget_s - more_s) / costs[0][1])
        # Other paths are worth less than a precise answer.
        least = PRECISE_RUNS if len(variants) > 1 else MIN_RUNS
        number_ = runs or max(least, min(RUNS_MAX, fit))
        return cls(variants, duration_s, number_, MIN_RUNS, more_s + number_ * costs[0][1])

    def notes(self, cores: int) -> Iterator[str]:
        """Yield what is measured."""
        its = self.variants[0].question
        for name, count in its.counts.items():
            yield f"{its.shares[name]:g} % of the long flows: {count} of {its.flows} use {name}"
        others_ = len(self.variants) - 1
        yield (
            f"{self.runs} runs of {self.duration_s:g} s for each choice, {self.other_runs} on "
            f"each of {others_} other paths: about {self.core_s / cores / 60:.1f} min on {cores} "
            "idle cores, without finished runs"
        )
        if self.left_out:
            yield f"the budget is too small for {', '.join(self.left_out)}; give more --budget"

    def measure(self, out: Path, cores: int) -> float:
        """Measure what is missing; return its CPU time in s."""
        before = _cpu_s()
        todo = [
            [cell for _, cell in _cells(variant.question, self.duration_s, out)]
            for variant in self.variants
        ]
        for cell in dict.fromkeys(cell for its in todo for cell in its):
            at_first_use(cell.condition, VIRTUAL, GUEST)
        sweeps.measure(todo[0], self.runs, cores)
        rest = dict.fromkeys(cell for its in todo[1:] for cell in its)
        sweeps.measure([cell for cell in rest if cell not in todo[0]], self.other_runs, cores)
        return _cpu_s() - before


def _cpu_s() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def outcome(variant: Variant, duration_s: float, out: Path) -> Outcome:
    """Read a variant's values from its cells."""
    found, its = Outcome(variant), variant.question
    for choice, cell in _cells(its, duration_s, out):
        measured = read_cell(cell.file).checked(cell.condition)
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
    others_ = [mbit for group, mbit in long if group <= len(question.counts)]
    own = [mbit for group, mbit in long if group > len(question.counts)]
    competitor = metrics.value(summary, "competitor_goodput_mbit")
    others_ += [competitor] if competitor is not None else []
    foreground = metrics.value(summary, "goodput_mbit")
    own += [foreground] if foreground is not None else []
    found = {name: metrics.value(summary, name) for name in MEASURES}
    found["own_goodput_mbit"] = fmean(own) if own else None
    found["others_goodput_mbit"] = fmean(others_) if others_ else None
    return {name: value for name, value in found.items() if value is not None}


def decision(outcomes: Sequence[Outcome], made: Plan) -> dict[str, Any]:
    """Return the decision as data: answers, comparisons with the first choice, other paths."""
    base, its = outcomes[0], made.variants[0].question
    answers = base.answers()
    shown_ = [(use, name) for use in its.uses for name in USES[use]]
    rows = [
        _row(part, name, compare(choice, its.choices[0], base.values[name], more_is_better))
        for part, name in [*shown_, *((COST, name) for name in COSTS)]
        if name in base.values
        for more_is_better in [MEASURES[name].more_is_better]
        for choice in its.choices[1:]
    ]
    elsewhere = [(each.variant, each.answers()) for each in outcomes[1:]]
    return {
        "headline": headline(answers, its.choices[0]),
        "answers": {use: _said(each) for use, each in answers.items()},
        "comparisons": rows,
        "other_paths": [
            {"path": variant.label, "name": variant.name, "value": variant.value,
             "answers": {use: _said(each) | {"change": change(answers[use], each)}
                         for use, each in found.items()}}
            for variant, found in elsewhere
        ],
        "question": {
            "choices": list(its.choices), "path": dict(its.path), "flows": its.flows,
            "others": its.counts, "uses": list(its.uses), "page_kb": its.page_kb,
            "pages_per_s": its.pages_per_s,
        },
        "duration_s": made.duration_s,
        "runs": made.runs,
        "other_runs": made.other_runs,
        "left_out": list(made.left_out),
        "violations": Counter(each for one in outcomes for each in one.violations),
    }  # fmt: skip


def _said(its: Answer) -> dict[str, Any]:
    return {"verdict": its.verdict, "choices": list(its.choices), "more_runs": its.more_runs,
            "text": str(its)}  # fmt: skip


def _row(part: str, name: str, its: Comparison) -> dict[str, Any]:
    return {
        "part": part, "measure": name, **asdict(MEASURES[name]), **asdict(its),
    }  # fmt: skip


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
    return shlex.join(words)
