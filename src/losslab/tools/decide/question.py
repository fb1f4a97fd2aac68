"""The question of `losslab decide`: a path, the choices, the other flows and what users do."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from losslab import cellspec, cli, sweeps
from losslab.campaign import inputs
from losslab.emulation.app import apps
from losslab.errors import LosslabError
from losslab.reading import UsageError, input_errors, number, shown
from losslab.repository import ROOT
from losslab.study import background, design, parameters, units
from losslab.study.axes import NONE, short
from losslab.study.condition import AXES, NO_TRACE

BULK, PAGES, VIDEO = "bulk", "pages", "video"
USES = (BULK, PAGES, VIDEO)
# Share of the link that the pages take, and limits of their number.
PAGE_LOAD, PAGES_PER_S_MAX, PAGES_MIN = 0.1, 100.0, 10
DEFAULT_FLOWS, MIXED_FLOWS = 1, 10
SHARE = "share"
ACCEPT = "--accept-left-out"
# Values of a path that are rarely known: varied by default.
UNCERTAIN = ("loss_percent", "buffer_packets", SHARE, "jitter_ms", "rtt_ms", "rate_mbit")
# Axes that the question sets otherwise than by their options.
NOT_OF_PATH = {
    "algorithm", "app", "competitor", "flows", "parameters", "warmup_s", "image",
    *(name for app in apps().values() for name in app.axes if name != "video"),
}  # fmt: skip


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
    left_out: tuple[str, ...] = ()  # words of the file of --from-tc that the path does not have

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
        return point | {"flows": flows or NONE}


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


def asked(options: argparse.Namespace) -> Question:
    """Return the question that the options ask; UsageError if it cannot be measured."""
    choices = tuple(
        dict.fromkeys(each for form in options.choices for each in parameters.expanded(form))
    )
    if len(choices) < 2:
        raise UsageError(f"a decision must be between two algorithms or more, found {choices[0]}")
    cellspec.require_algorithms(choices)
    given = {name: getattr(options, name, None) for name in AXES}
    path, left_out = dict[str, Any](), list[str]()
    if options.from_tc:
        path, left_out = _from_tc(options.from_tc, [n for n, text in given.items() if text])
        if left_out and not options.accept_left_out:
            raise UsageError(
                f"the path must have all that {options.from_tc} sets, found {len(left_out)} left "
                f"out: {'; '.join(left_out)}",
                hint=f"decide without them by {ACCEPT}, which the decision's page then lists; or "
                "set the axes themselves",
            )
    path |= {name: _value(name, text) for name, text in given.items() if text is not None}
    with input_errors():
        path = units.resolved(path)
    shares = dict(read_share(text) for text in options.share)
    if len(shares) < len(options.share):
        raise UsageError("--share must name each algorithm once, found one twice")
    cellspec.require_algorithms([*shares])
    by_trace = path.get("trace", NO_TRACE) != NO_TRACE
    flows = options.link_flows or (2 if by_trace else MIXED_FLOWS) if shares else DEFAULT_FLOWS
    flows = options.link_flows or flows
    uses, page_kb = read_uses(options.use or [BULK])
    mbit = float(path.get("rate_mbit", AXES["rate_mbit"].default or 0))
    question = Question(choices, path, shares, flows, uses, page_kb, mbit, tuple(left_out))
    _require_measurable(question)
    return question


def _value(name: str, text: str) -> Any:
    found = inputs.value(name, text) if name in inputs.OF_FILES else text
    return found if AXES[name].kind == "str" else units.option(name, found)


def _from_tc(file: Path, given: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the axes that `losslab path from-tc` reads in a file, and what it leaves out.

    The axes `given` are set by options, so their values in the file need not be known.
    """
    words = ["path", "from-tc", str(file), "--json"]
    command = cli.parser(words).parse_args(words)
    try:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            command.run(command)
    except UsageError as error:
        hint = f"`losslab path from-tc {file}` has options for this (--forward, --class, --run ...)"
        hint += "; give the axes that it prints to decide, instead of --from-tc"
        raise UsageError(error.message, hint=hint if file.is_file() else error.hint) from error
    found = json.loads(out.getvalue())
    lines = [f"# {each['tc']} -> {each['axes']}" for each in found["from"]]
    replaced = {text for axis, text in found["unknown"].items() if axis in given}
    left_out = [f"{each['tc']} ({each['reason']})" for each in found["left_out"]
                if each["tc"] not in replaced]  # fmt: skip
    left_out += [f"{axis} is unknown, set by {text}" for axis, text in found["unknown"].items()
                 if axis not in given]  # fmt: skip
    lines += [f"# left out: {each}" for each in left_out]
    lines += [f"# beware: {each}" for each in found["beware"]]
    print("\n".join(lines), file=sys.stderr)
    path = {name: its for name, its in found["condition"].items() if name not in NOT_OF_PATH}
    return path, left_out


def quantity(name: str, text: str, what: str) -> float:
    """Read a number, with or without the unit that the name ends in."""
    with input_errors():
        found = units.value(name, text)
    return number(text, what) if isinstance(found, str) else float(found)


def read_share(text: str) -> tuple[str, float]:
    """Read the value of --share: an algorithm and its percentage."""
    name, _, percent = text.partition("=")
    share = quantity("share_percent", percent, "the percentage of --share")
    if not 0 < share < 100:
        raise UsageError(f"--share must be above 0 and below 100 %, found {shown(text)}")
    return name, share


def read_uses(given: Sequence[str]) -> tuple[tuple[str, ...], float | None]:
    """Read the values of --use: the uses, and the size of pages in kB."""
    uses, page_kb = [], None
    for text in given:
        use, _, size = text.partition("=")
        if use not in USES or bool(size) != (use == PAGES):
            raise UsageError(f"--use must be bulk, pages=SIZE or video, found {shown(text)}",
                             hint="a page of 300 kB is --use pages=300kB")  # fmt: skip
        if use == PAGES:
            if page_kb is not None:
                raise UsageError(f"--use must have one SIZE of pages, found {shown(text)}, too")
            page_kb = quantity("page_kb", size, "SIZE of pages")
            if page_kb <= 0:
                raise UsageError(f"the SIZE of pages must be above 0, found {shown(size)}")
        uses.append(use)
    return tuple(dict.fromkeys(uses)), page_kb


def _require_measurable(question: Question) -> None:
    """Refuse a question that no cell can measure; the error names the option to change."""
    if question.by_trace and (
        question.page_kb is not None
        or question.flows > 2
        or (question.shares and VIDEO in question.uses)
        or (question.flows == 2) != (len(question.shares) == 1)
    ):
        raise UsageError(
            "with --trace, one other long flow can be on the link, and none beside video or pages, "
            f"found {question.flows} flows, uses {', '.join(question.uses)}, "
            f"shares {dict(question.shares)}",
            hint="use `--use bulk` with or without `--share ALGORITHM=50%`, or give --rate-mbit "
            "instead of --trace",
        )
    if not question.by_trace and (
        0 in question.counts.values() or sum(question.counts.values()) >= question.flows
    ):
        counts = ", ".join(f"{count} of {name}" for name, count in question.counts.items())
        raise UsageError(
            f"--share must leave whole flows to the others and one to you, found {counts} of "
            f"{question.flows} flows",
            hint="give more flows with --link-flows, or other shares",
        )
    cells(question)


def cells(
    question: Question, duration_s: float | None = None, out: Path = Path()
) -> list[tuple[str, sweeps.SweepCell]]:
    """Return the cells of a question with their choices; UsageError if one is impossible."""
    times = {} if duration_s is None else {"duration_s": duration_s, "warmup_s": duration_s / 5}
    names = design.load_names(ROOT)
    planned = [
        (choice, cellspec.condition(question.point(choice, app) | times, names))
        for choice in question.choices
        for app in question.apps
    ]
    inputs.require([condition for _, condition in planned])
    return [
        (choice, sweeps.SweepCell(condition, out / "cells" / condition.full_name()))
        for choice, condition in planned
    ]


def others(question: Question, given: Sequence[str]) -> Iterator[Variant]:
    """Yield the question with one uncertain value at its bounds, or at those of the options."""
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
        if not now and not bounds:
            raise UsageError(
                f"--uncertain {name} must have bounds, because the path has {name} 0, found none",
                hint=f"write --uncertain {name}=LOW..HIGH",
            )
        if bounds:
            if not dots:
                raise UsageError(f"--uncertain must be NAME=LOW..HIGH, found {shown(text)}")
            axis = "share_percent" if name == SHARE else name
            values = [quantity(axis, each, f"a bound of {name}") for each in (low, high)]
            is_given = name == SHARE or name in question.path
            if is_given and not min(values) <= now <= max(values):
                raise UsageError(
                    f"--uncertain {name} must have bounds around {short(now)}, the value of your "
                    f"path, found {shown(bounds)}",
                    hint=f"give another --{name.replace('_', '-')}, or bounds around it",
                )
        whole = name in AXES and AXES[name].kind == "int"
        for value in (round(each) if whole else float(f"{each:.9g}") for each in values):
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
    its = AXES.get(name)
    if its is None or its.kind == "str" or its.of_campaign or name in NOT_OF_PATH:
        raise UsageError(f"--uncertain must name a number of the path or {SHARE} (with --share), "
                         f"found {shown(name)}")  # fmt: skip
    return float(question.path.get(name, its.default or 0))


def _with(question: Question, name: str, value: float) -> Question:
    if name == SHARE:
        first = next(iter(question.shares))
        return replace(question, shares={**question.shares, first: min(value, 100.0)})
    return replace(question, path={**question.path, name: value})
