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

from losslab import cellspec, cli, sweeps, variants
from losslab.campaign import inputs
from losslab.emulation.app import apps
from losslab.errors import LosslabError, did_you_mean
from losslab.reading import UsageError, input_errors, number, shown
from losslab.repository import ROOT
from losslab.study import background, design, parameters, units
from losslab.study.axes import NONE, Value, short
from losslab.study.condition import AXES, NO_TRACE

BULK, PAGES, VIDEO = "bulk", "pages", "video"
USES = (BULK, PAGES, VIDEO)
# Share of the link that the pages take, and limits of their number.
PAGE_LOAD, PAGES_PER_S_MAX, PAGES_MIN = 0.1, 100.0, 10
DEFAULT_FLOWS, MIXED_FLOWS = 1, 10
BULK_APP, PAGE_APP, VIDEO_APP = "iperf3", "stream", "ffmpeg"
SHARE, FLOWS = "share", "link_flows"
UNKNOWN, BUFFER = "unknown", "buffer_packets"
# A buffer that nobody knows is varied between these multiples of the bandwidth-delay product.
BUFFER_BDP = (0.25, 4.0)
PACKET_BITS = 12_000  # 1500 bytes
ACCEPT = "--accept-left-out"
# Values of a path that are rarely known: varied by default.
UNCERTAIN = ("loss_percent", BUFFER, SHARE, FLOWS, "jitter_ms", "rtt_ms", "rate_mbit")
# Values of a path that decide: the page names those that were not given.
DECISIVE = ("rate_mbit", "rtt_ms", "loss_percent", "loss_burst_packets", BUFFER, "queue", "ecn")
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
    unknown_buffer: bool = False  # the buffer is not known: the path's value is a guess

    @property
    def alone(self) -> bool:
        """Return whether no long flow is yours."""
        return not self.by_trace and sum(self.counts.values()) >= self.flows

    @property
    def assumed(self) -> dict[str, Any]:
        """Return the values that decide and were not given."""
        names = [name for name in DECISIVE if name not in self.path]
        names = [name for name in names if not (self.by_trace and name == "rate_mbit")]
        guessed = {BUFFER: self.path[BUFFER]} if self.unknown_buffer else {}
        return guessed | {name: AXES[name].default for name in names}

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
        """Return the apps of the flow under test: without a long flow of yours, a page."""
        bulk = [PAGE_APP if self.alone else BULK_APP] if {BULK, PAGES} & {*self.uses} else []
        return bulk + ([VIDEO_APP] if VIDEO in self.uses else [])

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
        groups += [background.Group(background.SAME, own)] if own > 0 else []
        if app == PAGE_APP:
            point["size_kb"] = self.page_kb
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
    value: Value
    question: Question
    named: bool = False  # the user asked for it, so the budget must not leave it out

    @property
    def label(self) -> str:
        """Return the name with the value and its unit; "" for the question itself."""
        if not self.name:
            return ""
        unit = {SHARE: "%", FLOWS: "flows"}.get(self.name, "")
        return quantity_text(self.name, self.value, unit)


def quantity_text(name: str, value: Any, unit: str = "") -> str:
    """Return a value of the path in words: `loss 0.5 %` for `loss_percent`."""
    if name in AXES:
        unit = AXES[name].unit.split(" ")[0]
    return f"{words(name)} {short(value)} {unit}".rstrip()


def words(name: str) -> str:
    """Return the name of an axis in words, without its unit."""
    if name in AXES and AXES[name].unit:
        name = name.rpartition("_")[0]
    return name.replace("_", " ").replace("rtt", "RTT")


def asked(options: argparse.Namespace) -> Question:
    """Return the question that the options ask; UsageError if it cannot be measured."""
    choices = tuple(
        dict.fromkeys(each for form in options.choices for each in parameters.expanded(form))
    )
    if len(choices) < 2:
        raise UsageError(f"a decision must be between two algorithms or more, found {choices[0]}")
    cellspec.require_algorithms(choices)
    given = {name: getattr(options, name, None) for name in AXES}
    if given[BUFFER] == UNKNOWN:
        given[BUFFER] = None
    for name, text in given.items():
        if text == UNKNOWN:
            raise UsageError(
                f"--{name.replace('_', '-')} must be a value, found {UNKNOWN}",
                hint=f"give a likely value, and its bounds: --uncertain {name}=LOW..HIGH",
            )
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
    unknown_buffer = BUFFER not in path
    if unknown_buffer:
        path[BUFFER] = _guessed_buffer(path)
    shares = dict(read_share(text) for text in options.share)
    if len(shares) < len(options.share):
        raise UsageError("--share must name each algorithm once, found one twice")
    cellspec.require_algorithms([*shares])
    by_trace = path.get("trace", NO_TRACE) != NO_TRACE
    flows = (2 if by_trace else MIXED_FLOWS) if shares else DEFAULT_FLOWS
    flows = flows if options.link_flows is None else options.link_flows
    uses, page_kb = read_uses(options.use or [BULK])
    mbit = float(path.get("rate_mbit", AXES["rate_mbit"].default or 0))
    question = Question(
        choices, path, shares, flows, uses, page_kb, mbit, tuple(left_out), unknown_buffer
    )
    _require_measurable(question)
    return question


def _guessed_buffer(path: Mapping[str, Any]) -> int:
    """Return the bandwidth-delay product in packets; the axis's default if it is not known."""
    rate_mbit, rtt_ms = float(path.get("rate_mbit", 0)), float(path.get("rtt_ms", 0))
    if path.get("trace", NO_TRACE) != NO_TRACE or not rate_mbit or not rtt_ms:
        return int(AXES[BUFFER].default or 0)
    return max(10, round(rate_mbit * rtt_ms * 1e3 / PACKET_BITS))


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
    if not 0 < share <= 100:
        raise UsageError(f"--share must be above 0 and at most 100 %, found {shown(text)}")
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
    if question.shares and not question.flows:
        raise UsageError(
            "--share must be of long flows on the link, found --link-flows 0",
            hint="three long flows of others, and none of yours: --link-flows 3 --share cubic=100%",
        )
    if question.alone and not question.flows and BULK in question.uses:
        raise UsageError(
            "--use bulk must have a long flow of yours, found --link-flows 0",
            hint="what your users do without long flows is --use pages=SIZE, such as pages=300kB",
        )
    many = sum(question.counts.values()) - question.flows + (BULK in question.uses) > 0
    if not question.by_trace and (0 in question.counts.values() or many):
        counts = ", ".join(f"{count} of {name}" for name, count in question.counts.items())
        raise UsageError(
            "--share must leave whole flows to the others, and one to you for --use bulk, found "
            f"{counts} of {question.flows} flows",
            hint="give more flows with --link-flows, or other shares; all long flows can be the "
            "others' (--share cubic=100%) with --use pages=SIZE or video",
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
        # Without a long flow of yours, another share would add some.
        known += [FLOWS] if question.alone else [SHARE, FLOWS]
    named = {*given} | ({BUFFER} if question.unknown_buffer else set())
    if question.unknown_buffer and not any(text.partition("=")[0] == BUFFER for text in given):
        given = [BUFFER, *given] if given else []
    ordered = given or sorted(known, key=lambda name: (name not in named, UNCERTAIN.index(name)))
    for text in ordered:
        name, _, bounds = text.partition("=")
        for value in _values(question, name, bounds):
            try:
                other = _with(question, name, value)
                _require_measurable(other)
            except LosslabError as error:
                if bounds:
                    raise UsageError(f"--uncertain {text}: {error.message}", error.hint) from error
                print(f"losslab: without {name} {short(value)}: {error.message}", file=sys.stderr)
                continue
            yield Variant(name, value, other, text in named)


def _values(question: Question, name: str, bounds: str) -> Sequence[Value]:
    """Return the values of an uncertain axis: the bounds, other choices, or half and double."""
    its = AXES.get(name)
    if its is not None and its.kind == "str" and _of_path(name):
        if not bounds:
            raise UsageError(
                f"--uncertain {name} must have the other values, found none",
                hint=f"write --uncertain {name}=VALUE,VALUE; `losslab axes {name}` lists them",
            )
        now = question.path.get(name, its.default)
        if others := [value for value in sweeps.values(its, bounds) if value != now]:
            return others
        raise UsageError(
            f"--uncertain {name} must have another value than your path's, found {now}"
        )
    now = _now(question, name)
    guessed = name == BUFFER and question.unknown_buffer
    if not bounds:
        if not now:
            raise UsageError(
                f"--uncertain {name} must have bounds, because the path has {name} 0, found none",
                hint=f"write --uncertain {name}=LOW..HIGH",
            )
        factors = BUFFER_BDP if guessed else (0.5, 2.0)
        if its is None:
            return [_rounded(name, factor * now) for factor in factors]
        point = {name: now}
        return [variants.changed(point, {name: f"x{factor}"})[name] for factor in factors]
    low, dots, high = bounds.partition("..")
    if not dots:
        raise UsageError(f"--uncertain must be NAME=LOW..HIGH, found {shown(f'{name}={bounds}')}")
    axis = "share_percent" if name == SHARE else name
    values = [quantity(axis, each, f"a bound of {name}") for each in (low, high)]
    is_given = name in (SHARE, FLOWS, *question.path) and not guessed
    if is_given and not min(values) <= now <= max(values):
        raise UsageError(
            f"--uncertain {name} must have bounds around {short(now)}, the value of your path, "
            f"found {shown(bounds)}",
            hint=f"give another --{name.replace('_', '-')}, or bounds around it",
        )
    return [_rounded(name, each) for each in values]


def _rounded(name: str, value: float) -> float:
    whole = name == FLOWS or (name in AXES and AXES[name].kind == "int")
    return round(value) if whole else float(f"{value:.9g}")


def _of_path(name: str) -> bool:
    return name in AXES and not AXES[name].of_campaign and name not in NOT_OF_PATH


def _now(question: Question, name: str) -> float:
    if name == SHARE and question.shares:
        return next(iter(question.shares.values()))
    if name == FLOWS and question.flows and not question.by_trace:
        return question.flows
    if not _of_path(name):
        known = [SHARE, FLOWS, *filter(_of_path, AXES)]
        raise UsageError(
            f"--uncertain must name an axis of the path, {SHARE} (with --share) or {FLOWS}, found "
            f"{shown(name)}{did_you_mean(name, known)}"
        )
    its = AXES[name]
    return float(question.path.get(name, its.default or 0))


def _with(question: Question, name: str, value: Value) -> Question:
    if name == SHARE:
        first = next(iter(question.shares))
        return replace(question, shares={**question.shares, first: min(float(value), 100.0)})
    if name == FLOWS:
        return replace(question, flows=int(value))
    return replace(question, path={**question.path, name: value})
