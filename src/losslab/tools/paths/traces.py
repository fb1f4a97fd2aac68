"""`losslab trace import`: convert other projects' rate traces to packet-delivery traces."""

from __future__ import annotations

import argparse
import contextlib
import csv
import itertools
import math
import re
import shlex
import statistics
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from losslab.campaign.inputs import MAX_TRACE_BYTES
from losslab.emulation.link import tracelink
from losslab.emulation.link.tracelink import OPPORTUNITY_BYTES
from losslab.errors import LosslabError
from losslab.reading import (
    RESULT_BYTES,
    UsageError,
    input_errors,
    number,
    out_file,
    parse_json,
    read_text,
    shown,
    write_text,
)
from losslab.study import schedule, units
from losslab.study.axes import DRAWN_TRACE, short
from losslab.study.condition import Condition

# Bits of a unit: of rates per second, and of amounts per row.
RATES = {
    "mbit": 10**6, "kbit": 10**3, "gbit": 10**9, "bit": 1, "byte/s": 8, "kbyte/s": 8 * 10**3,
    "mbyte/s": 8 * 10**6,
}  # fmt: skip
AMOUNTS = {"bytes": 8, "kbytes": 8 * 10**3, "bits": 1}
UNITS = RATES | AMOUNTS
# The last line of a trace is its end and an opportunity, too: at most a tenth more packets.
PACKETS_MIN = 10
EMPTY_PART = "the part to convert must have a length above 0, found none"
TOO_LONG = "check the unit, or convert a part of it, with --from-s and --to-s"
# Units in the names of columns. `MB` is bytes to some and bits to others.
UNCLEAR = re.compile("[MKkG]B(?!it|yte)")
PER_S = r"([ _]*(per|/)[ _]*|[ _]+)(s|secs?|seconds?)(?![a-z])"
NAMED: Sequence[tuple[str, str]] = (
    ("mbps|mbit|megabit", "mbit"), ("kbps|kbit|kilobit", "kbit"), ("gbps|gbit|gigabit", "gbit"),
    (f"(?<![a-z])m(ega)?bytes?{PER_S}", "mbyte/s"), (f"(?<![a-z])k(ilo)?bytes?{PER_S}", "kbyte/s"),
    (f"(?<![a-z])bytes?{PER_S}", "byte/s"), ("(?<![a-z])k(ilo)?bytes(?![a-z])", "kbytes"),
    ("(?<![a-z])bytes(?![a-z])", "bytes"), (f"(?<![a-z])(bps(?![a-z])|bits?{PER_S})", "bit"),
    ("(?<![a-z])bits(?![a-z])", "bits"),
    # The data sets of University College Cork, Beyond throughput (4G 2018, 5G 2020).
    (r"^[ud]l_bitrate$", "kbit"),
)  # fmt: skip
RATE_NAME = re.compile("rate|throughput|bandwidth|capacity|goodput", re.IGNORECASE)
TIME_NAME = re.compile(r"(time|timestamp|t|ts|date|datetime|sec\w*|epoch|unix\w*)\b|time_", re.I)
LENGTH_NAME = re.compile("duration|interval|elapsed|^ms$", re.IGNORECASE)
DELAY_NAME = re.compile("latency|delay|rtt|ping|owd", re.IGNORECASE)
LOSS_NAME = re.compile("loss|lost|drop", re.IGNORECASE)
PERCENT_NAME = re.compile("%|percent|pct|prozent", re.IGNORECASE)
LOSS_UNITS = {"percent": 1, "fraction": 100}
CLOCK = re.compile(r"(\d{1,2}):(\d\d):(\d\d(?:[.,]\d+)?)")
DAY_S = 86_400
# Starlink's terminal numbers its samples, one per second, and keeps them in rings.
RING, RING_COUNT = "dishGetHistory", "current"
DATES = ("ISO 8601", "%Y.%m.%d_%H.%M.%S", "%Y/%m/%d %H:%M:%S", "%a %b %d %H:%M:%S %Y")
ZONE = re.compile(r" [A-Z]{2,5}(?= |$)")  # of a date's time, such as UTC and CDT
# So many amounts that never decrease are those of a counter.
COUNTER_ROWS = 5
# Steps of a column of times without a unit, in s at most and in ms at least.
STEP_MAX_S, STEP_MIN_MS = 10, 100
# Numbers of which only the time of day is one, in s or ms since 1970.
EPOCH_S, EPOCH_MS = 10**8, 10**11


@dataclass(frozen=True)
class Table:
    """Rows of text with the names of their columns; without a header, their numbers from 1."""

    names: list[str]
    rows: list[list[str]]
    header: bool

    def column(self, name: str) -> list[str]:
        """Return the texts of a column."""
        at = self.names.index(name)
        return [row[at] for row in self.rows]

    def fractions(self, name: str) -> list[Fraction]:
        """Return the numbers of a column, which must not be negative."""
        return [_fraction(text, name, line) for line, text in enumerate(self.column(name), 1)]


@dataclass(frozen=True)
class Choices:
    """Options of the user; losslab finds out those that are None."""

    column: str | None = None
    unit: str | None = None
    interval_ms: float | None = None
    time_column: str | None = None
    rtt_column: str | None = None
    delay_column: str | None = None
    loss_column: str | None = None
    loss_unit: str | None = None
    amounts: str | None = None


# Axis and factor of the columns that become a path schedule.
SCHEDULED = {
    "rtt_column": ("rtt_ms", 1), "delay_column": ("rtt_ms", 2), "loss_column": ("loss_percent", 1),
}  # fmt: skip
# Units of times and delays in columns' names, with their milliseconds.
TIME_UNITS: Mapping[str, tuple[str, int | Fraction]] = {
    "ms": (r"ms|msec|milli\w*", 1), "s": (r"s|secs?|seconds?", 1000),
    "us": (r"us|usec|micro\w*", Fraction(1, 1000)), "ns": (r"ns|nsec|nano\w*", Fraction(1, 10**6)),
    "min": (r"min|minutes?", 60_000), "h": (r"h|hours?", 3_600_000),
}  # fmt: skip
DELAY_UNITS = ("ms", "s", "us", "ns")  # `rtt_min` is a minimum
# A run's 0 s is about so late on a trace's clock, `link_begin_ms`.
RUN_BEGINS_MS = 1000
CHANGES_MAX = 1000


class Period(NamedTuple):
    """A time of constant rate."""

    length_ms: Fraction
    bits: Fraction  # its capacity
    axes: Mapping[str, float] = {}  # values of the path's axes

    @property
    def mbit(self) -> float:
        """Return the rate."""
        return float(self.bits / self.length_ms / 1000)


def read(text: str, where: str, choices: Choices) -> tuple[list[Period], dict[str, str]]:
    """Read rates or amounts over time, and how they were read; `where` names the file in errors.

    Raises UsageError if the text has none, or if an option must say how to read it.
    """
    table = _table(text, where)
    name = _rate_column(table, choices)
    unit, why = _unit(table, name, choices)
    lengths, merged, how = _lengths(table, name, unit in AMOUNTS, choices)
    said = {"rate": f"{_called(table, name)} in {unit}: {why}", "time": how}
    columns = {name: _amounts(table, name, choices) if unit in AMOUNTS else table.fractions(name)}
    if choices.rtt_column and choices.delay_column:
        raise UsageError("--rtt-column and --delay-column exclude each other, found both")
    axes = dict[str, tuple[str, Fraction]]()
    for option, (axis, factor) in SCHEDULED.items():
        if column := getattr(choices, option):
            column = _chosen(table, column, f"--{option.replace('_', '-')}")
            columns[column] = table.fractions(column)
            factor_of, unit_of = (
                _loss_unit(table, column, choices)
                if axis == "loss_percent"
                else _named_unit(column, DELAY_UNITS) or (Fraction(1), "")
            )
            axes[axis] = (column, factor * factor_of)
            said[axis] = _called(table, column) + (f" in {unit_of}" if unit_of else "")
    periods = []
    for length, rows in zip(lengths, merged, strict=True):
        sums = {column: sum(its[at] for at in rows) for column, its in columns.items()}
        scale = 1 if unit in AMOUNTS else length / 1000 / len(rows)
        its = {a: round(float(sums[c] * factor / len(rows)), 6) for a, (c, factor) in axes.items()}
        periods.append(Period(length, Fraction(sums[name] * UNITS[unit] * scale), its))
    return periods, said | {"not used": _unused(table, columns)}


def cut(periods: Sequence[Period], from_s: float, to_s: float | None) -> list[Period]:
    """Return the part between two times; None is the end."""
    begin, at, kept = Fraction(from_s) * 1000, Fraction(0), []
    for each in periods:
        end = at + each.length_ms
        last = end if to_s is None else min(end, Fraction(to_s) * 1000)
        if (inside := last - max(at, begin)) > 0:
            kept.append(Period(inside, each.bits * inside / each.length_ms, each.axes))
        at = end
    return kept


def path_axes(periods: Sequence[Period]) -> dict[str, str | float]:
    """Return the axes of the path's RTT and loss over a run; none without columns."""
    at, before, changes = Fraction(0), dict[str, float](), list[dict[str, float]]()
    found: dict[str, str | float] = {}
    for length, _, axes in periods:
        if at <= RUN_BEGINS_MS < at + length:
            found |= axes
        elif at > RUN_BEGINS_MS and axes != before:
            new = {name: its for name, its in axes.items() if its != before[name]}
            changes.append({"at_s": float((at - RUN_BEGINS_MS) / 1000)} | new)
        at, before = at + length, dict(axes)
    if not before:
        return {}
    if len(changes) > CHANGES_MAX or at <= 2 * RUN_BEGINS_MS:
        raise UsageError(
            f"RTT and loss of a trace must have at most {CHANGES_MAX} changes in more than "
            f"2 s, found {len(changes)} in {float(at) / 1e3:g} s",
            hint=TOO_LONG,
        )
    found |= {"changes": schedule.to_text(changes)} if changes else {}
    found["duration_s"] = float(at - RUN_BEGINS_MS) / 1e3
    condition = Condition.from_json({"algorithm": "cubic", "trace": DRAWN_TRACE, **found})
    if problems := condition.problems():
        raise UsageError(
            "; ".join(problems), hint="convert another part; in an outage, write a rate of 0"
        )
    return found


def _amounts(table: Table, name: str, choices: Choices) -> list[Fraction]:
    """Return the amounts of the rows; of a counter, the differences."""
    found = table.fractions(name)
    grows = all(a <= b for a, b in itertools.pairwise(found))
    if choices.amounts is None and grows and len(found) >= COUNTER_ROWS and found[0] < found[-1]:
        raise UsageError(
            f"it must be clear whether {_called(table, name)} is a counter, found amounts that "
            "never decrease",
            hint="choose it with --amounts: total (a counter), row (the amount of each row)",
        )
    if choices.amounts != "total":
        return found
    if not grows:
        raise UsageError(f"a counter must not decrease, found {_called(table, name)}")
    return [Fraction(0), *(b - a for a, b in itertools.pairwise(found))]


def _loss_unit(table: Table, name: str, choices: Choices) -> tuple[Fraction, str]:
    """Return the percent of a unit of losses, and its name; an option decides on unclear ones."""
    values = table.fractions(name)
    unit = choices.loss_unit
    if unit is None and (PERCENT_NAME.search(name) or max(values) > 1):
        unit = "percent"
    if unit is None and any(values):
        raise UsageError(
            f"the unit of {_called(table, name)} must be clear, found numbers of at most "
            f"{float(max(values)):g}",
            hint=f"choose it with --loss-unit: {', '.join(LOSS_UNITS)} (0.02 is 2 % as a fraction)",
        )
    if unit == "fraction" and max(values) > 1:
        raise UsageError(
            f"a fraction of losses must be at most 1, found {float(max(values)):g} in "
            f"{_called(table, name)}",
            hint="use --loss-unit percent",
        )
    return Fraction(LOSS_UNITS[unit or "percent"]), unit or ""


def _called(table: Table, name: str) -> str:
    return name if table.header else f"column {name}"


def _fraction(text: str, name: str, line: int) -> Fraction:
    found = number(text.strip(), f"{name} in row {line}")
    if found < 0:
        raise UsageError(f"{name} in row {line} must not be negative, found {shown(text)}")
    return Fraction(repr(found))


def _table(text: str, where: str) -> Table:
    if text.lstrip()[:1] in ("[", "{"):
        table = _from_json(parse_json(text, where), where)
    else:
        lines = [line.strip(" ") for line in text.splitlines() if line.strip() and line[0] != "#"]
        if not lines:
            raise UsageError(f"{where} must have rows, found none")
        delimiter = next((each for each in "\t;," if each in lines[0]), " ")
        split = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
        rows = [[cell.strip() for cell in row] for row in split]
        if delimiter != "," and _decimal_commas(rows):
            rows = [[re.sub(r"^([+-]?\d+),(\d+)$", r"\1.\2", c) for c in row] for row in rows]
        header = not any(map(_is_number, rows[0]))
        names = [
            str(at) if not header else name if rows[0].count(name) == 1 else f"{name} (column {at})"
            for at, name in enumerate(rows[0], 1)
        ]
        table = Table(names, rows[header:], header)
    odd = [(at, len(row)) for at, row in enumerate(table.rows, 1) if len(row) != len(table.names)]
    if odd or not table.rows:
        found = f"{odd[0][1]} in row {odd[0][0]}" if odd else "no row"
        raise UsageError(f"{where} must have {len(table.names)} columns in each row, found {found}")
    return table


def _decimal_commas(rows: Iterable[Iterable[str]]) -> bool:
    """Return whether commas separate decimals: one has not three digits after it."""
    found = [cell.split(",") for row in rows for cell in row if re.fullmatch(r"[+-]?[\d,]+", cell)]
    return all(len(parts) <= 2 for parts in found) and any(
        len(parts) == 2 and len(parts[1]) not in (0, 3) for parts in found
    )


def _from_json(data: object, where: str) -> Table:
    if isinstance(data, dict):
        lists = {key: value for key, value in data.items() if isinstance(value, list)}
        tables = {key: value for key, value in data.items() if isinstance(value, dict)}
        if not lists and len(tables) == 1:
            key, value = next(iter(tables.items()))
            return _from_json(_ring(value) if key == RING else value, where)
        if len(lists) == 1:
            return _from_json(next(iter(lists.values())), where)
        if lists and len({len(value) for value in lists.values()}) == 1:
            rows = zip(*lists.values(), strict=True)
            return Table([*lists], [[*map(str, row)] for row in rows], True)
    if isinstance(data, list) and data:
        if all(isinstance(each, dict) for each in data):
            names = [*data[0]]
            return Table(names, [[str(row.get(name, "")) for name in names] for row in data], True)
        if not any(isinstance(each, dict | list) for each in data):
            return Table(["1"], [[str(each)] for each in data], False)
    raise UsageError(
        f"{where} must be a list of rates, or of objects with a rate, found other JSON"
    )


def _ring(data: Mapping[str, object]) -> dict[str, object]:
    """Return the history of a Starlink terminal with its oldest sample first."""
    count = int(number(str(data.get(RING_COUNT, "")), f"{RING_COUNT} of {RING}"))

    def ordered(its: list[object]) -> list[object]:
        at = count % len(its) if its else 0
        return its[at:] + its[:at] if count >= len(its) else its[:count]

    return {key: ordered(its) if isinstance(its, list) else its for key, its in data.items()}


def _is_number(text: str) -> bool:
    try:
        number(text)
    except UsageError:
        return False
    return True


def _chosen(table: Table, name: str, option: str) -> str:
    if name not in table.names and name.isdecimal() and 0 < int(name) <= len(table.names):
        return table.names[int(name) - 1]
    if name not in table.names:
        raise UsageError(
            f"{option} must be one of {', '.join(map(shown, table.names))}, found {shown(name)}"
        )
    return name


def _is_log(table: Table) -> bool:
    """Return whether rows are those of the 3G logs of Oslo and the 4G logs of Ghent.

    Their columns are a time since 1970, a time since the start, latitude, longitude, bytes and ms.
    """
    if table.header or len(table.names) != 6:
        return False
    return all(map(_is_number, table.rows[0])) and float(table.rows[0][0]) > EPOCH_S


def _rate_column(table: Table, choices: Choices) -> str:
    if choices.column is not None:
        return _chosen(table, choices.column, "--column")
    if _is_log(table):
        return "5"
    if not table.header:
        if len(table.names) == 1:
            return "1"
        if len(table.names) == 2 and (choices.time_column or _increases(table.column("1"))):
            return next(name for name in "21" if name != choices.time_column)
        raise UsageError(
            f"the column of the rates must be clear, found {len(table.names)} without names",
            hint="choose it by its number from 1, with --column N",
        )
    others = (TIME_NAME.match, LENGTH_NAME.search, DELAY_NAME.search, LOSS_NAME.search)
    found = [
        name
        for name in table.names
        if (_unit_in(name) or RATE_NAME.search(name)) and not any(other(name) for other in others)
    ]
    if len(found) != 1:
        names = ", ".join(map(shown, found or table.names))
        raise UsageError(
            f"the column of the rates must be clear, found {names}", hint="choose it with --column"
        )
    return found[0]


def _increases(texts: Sequence[str]) -> bool:
    if not all(map(_is_number, texts)):
        return False
    return all(float(a) < float(b) for a, b in itertools.pairwise(texts))


def _unit_in(name: str) -> str | None:
    if UNCLEAR.search(name):
        return None
    return next((unit for pattern, unit in NAMED if re.search(pattern, name, re.I)), None)


def _unit(table: Table, name: str, choices: Choices) -> tuple[str, str]:
    """Return the unit of the rates, and why."""
    if choices.unit is not None:
        return choices.unit, "--unit"
    if _is_log(table) and name == "5":
        return "bytes", "the form of the 3G logs of Oslo and the 4G logs of Ghent"
    if table.header and (unit := _unit_in(name)):
        return unit, "the column's name"
    values = [float(text) for text in table.column(name) if _is_number(text)]
    mean = statistics.fmean(values) if values else 0.0
    raise UsageError(
        f"the unit of {_called(table, name)} must be clear, found numbers with a mean of {mean:g}",
        hint=f"choose it with --unit: {', '.join(UNITS)} (bytes, kbytes and bits are per row)",
    )


def _lengths(
    table: Table, rate: str, amounts: bool, choices: Choices
) -> tuple[list[Fraction], list[list[int]], str]:
    """Return the lengths of the periods in ms, the rows of each, and where they are from."""
    single = [[at] for at in range(len(table.rows))]
    if choices.interval_ms is not None:
        ms = Fraction(choices.interval_ms)
        return [ms] * len(single), single, f"{choices.interval_ms:g} ms per row: --interval-ms"
    lengths = "6" if _is_log(table) else _one(table, LENGTH_NAME.search, rate)
    if lengths is not None and choices.time_column is None:
        factor, why = (1, "ms") if lengths == "6" else _time_unit(lengths, [])
        found = [each * factor for each in table.fractions(lengths)]
        rows = [at for at, length in enumerate(found) if length > 0]
        how = f"length of each row from {_called(table, lengths)} in {why}"
        return [found[at] for at in rows], [[at] for at in rows], how
    name = choices.time_column and _chosen(table, choices.time_column, "--time-column")
    if name is None:
        name = _one(table, TIME_NAME.match, rate)
    if name is None and len(table.names) == 2 and not table.header:
        name = next(each for each in table.names if each != rate)
    if name is None or len(table.rows) < 2:
        raise UsageError(
            "the length of a row must be clear, found no column of times",
            hint="set it with --interval-ms, such as 1000, or choose the column of the times with "
            "--time-column",
        )
    return _from_times(table, name, amounts)


def _one(table: Table, matches: Callable[[str], object], rate: str) -> str | None:
    if not table.header:
        return None
    return next((name for name in table.names if name != rate and matches(name)), None)


def _from_times(
    table: Table, name: str, amounts: bool
) -> tuple[list[Fraction], list[list[int]], str]:
    """Return the lengths between rows; rows of one time are one period.

    A rate holds from its row to the next one, the last for the median length. An amount was carried
    since the row before.
    """
    times = [_time(text, name, row) for row, text in enumerate(table.column(name), 1)]
    if len(zones := {zone for text in table.column(name) for zone in ZONE.findall(text)}) > 1:
        raise UsageError(f"{_called(table, name)} must have one time zone, found "
                         f"{', '.join(each.strip() for each in sorted(zones))}")  # fmt: skip
    clock = all(map(CLOCK.fullmatch, table.column(name)))
    times = _over_midnights(times) if clock else times
    periods: list[list[int]] = []
    for at, time in enumerate(times):
        if at and time < times[at - 1]:
            raise UsageError(
                f"times must not decrease, found {shown(table.column(name)[at])} in row {at + 1} "
                f"of {_called(table, name)}",
                hint="if all rows have one length, set it with --interval-ms",
            )
        if at and time == times[at - 1]:
            periods[-1].append(at)
        else:
            periods.append([at])
    factor, why = (
        (Fraction(1000), "hours, minutes and seconds")
        if clock
        else _time_unit(name if table.header else "", times)
    )
    steps = [
        (times[later[0]] - times[earlier[0]]) * factor
        for earlier, later in itertools.pairwise(periods)
    ]
    if not steps:
        raise UsageError(f"{_called(table, name)} must have different times, found one")
    median = statistics.median_low(steps)
    how = f"{_called(table, name)} in {why}, {float(median):g} ms between rows (median)"
    if max(steps) > median:
        how += f", {float(max(steps)):g} ms at most"
    return ([median, *steps] if amounts else [*steps, median]), periods, how


def _time(text: str, name: str, row: int) -> Fraction:
    """Return a time as a number, in s if it is a date or a time of the day."""
    if _is_number(text):
        return Fraction(repr(number(text)))
    if clock := CLOCK.fullmatch(text):
        hours, minutes, seconds = clock.groups()
        return Fraction(3600 * int(hours) + 60 * int(minutes)) + Fraction(seconds.replace(",", "."))
    for form in DATES:
        with contextlib.suppress(ValueError):
            date, iso = ZONE.sub("", text), form == DATES[0]
            its = datetime.fromisoformat(date) if iso else datetime.strptime(date, form)
            return Fraction((its.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds())
    raise UsageError(f"{name} in row {row} must be a number or a date, found {shown(text)}")


def _over_midnights(times: Sequence[Fraction]) -> list[Fraction]:
    """Return times of the day as times since the first midnight; half a day back is a new day."""
    days, found = 0, list[Fraction]()
    for at, time in enumerate(times):
        days += bool(at) and times[at - 1] - time > DAY_S / 2
        found.append(time + days * DAY_S)
    return found


def _named_unit(name: str, units: Iterable[str] = TIME_UNITS) -> tuple[Fraction, str] | None:
    """Return the milliseconds of the unit in a column's name, and the unit; None without one."""
    for unit in units:
        pattern, ms = TIME_UNITS[unit]
        if re.search(rf"(^|_|\b)({pattern})\b", name, re.IGNORECASE):
            return Fraction(ms), f"{unit} (its name)"
    return None


def _time_unit(name: str, times: Sequence[Fraction]) -> tuple[Fraction, str]:
    """Return the milliseconds of a unit of times, and its name with the reason."""
    if named := _named_unit(name):
        return named
    if times and times[0] > EPOCH_MS:
        return Fraction(1), "ms since 1970"
    if times and times[0] > EPOCH_S:
        return Fraction(1000), "s since 1970"
    steps = [b - a for a, b in itertools.pairwise(times) if b > a]
    step = statistics.median_low(steps) if steps else Fraction(0)
    if 0 < step <= STEP_MAX_S:
        return Fraction(1000), f"s (its steps of {float(step):g})"
    if step >= STEP_MIN_MS:
        return Fraction(1), f"ms (its steps of {float(step):g})"
    raise UsageError(
        f"the unit of the times must be clear, found steps of {float(step):g}",
        hint="set the length of a row with --interval-ms",
    )


def _unused(table: Table, used: Container[str]) -> str:
    """Return what is said of columns with delays or losses, which a trace does not have."""
    found = []
    for pattern, how in (
        (DELAY_NAME, "--rtt-column, --delay-column or --rtt-ms"),
        (LOSS_NAME, "--loss-column or --loss-percent"),
    ):
        for name in table.names if table.header else ():
            values = [float(text) for text in table.column(name) if _is_number(text)]
            other = pattern is DELAY_NAME and LOSS_NAME.search(name)  # `ping_drop_rate`
            if pattern.search(name) and not other and values and name not in used:
                found.append(f"{name}, mean {statistics.fmean(values):.4g}: use {how}")
    return "; ".join(found)


def _opportunities(text: str) -> str:
    """Return the trace in a log of mahimahi's mm-link: a line `TIME # BYTES` per opportunity."""
    base = re.search(r"^# base timestamp: (\d+)$", text, re.MULTILINE)
    begin_ms = int(base[1]) if base else 0
    times = [int(ms) - begin_ms for ms in re.findall(r"^(\d+) # \d+$", text, re.MULTILINE)]
    if not times:
        raise UsageError("a log of mm-link must have opportunities (`TIME # BYTES`), found none")
    return tracelink.write(times)


def times_of(periods: Sequence[Period]) -> list[int]:
    """Return the times in ms at which 1500 bytes may leave: each at the end of its transmission.

    The last time is the trace's end, where it repeats; it has an opportunity in any case.
    """
    packet = OPPORTUNITY_BYTES * 8
    count = float(sum(each.bits for each in periods) / packet)
    if count > MAX_TRACE_BYTES / 2:  # a line has at least two bytes
        length_s = float(sum(each.length_ms for each in periods) / 1000)
        raise UsageError(
            f"a trace must have at most {MAX_TRACE_BYTES} bytes, found {count:.3g} packets "
            f"in {length_s:.6g} s",
            hint=TOO_LONG,
        )
    times: list[int] = []
    at, carried = Fraction(0), Fraction(0)
    for length, bits, _ in periods:
        first, last = math.floor(carried / packet) + 1, math.floor((carried + bits) / packet)
        if last >= first:
            begin = float(at + (first * packet - carried) * length / bits)
            step = float(packet * length / bits)
            # The tolerance is for whole milliseconds, which a float may exceed.
            times += [math.ceil(begin + n * step - 1e-6) for n in range(last - first + 1)]
        at, carried = at + length, carried + bits
    end = math.ceil(at)
    if not carried:
        raise UsageError("a trace must have a rate above 0, found none")
    return times if times and times[-1] >= end else [*times, end]


def require_packets(periods: Sequence[Period]) -> None:
    """Refuse rates for so few packets that the line at a trace's end changes their mean."""
    count = int(sum(each.bits for each in periods) // (OPPORTUNITY_BYTES * 8))
    if count < PACKETS_MIN:
        length_s = float(sum(each.length_ms for each in periods) / 1000)
        raise UsageError(
            f"a trace must carry at least {PACKETS_MIN} packets of {OPPORTUNITY_BYTES} bytes, "
            f"found rates for {count} in {length_s:g} s",
            hint="check the unit; a constant low rate is --rate-mbit",
        )


def longest_outage_s(periods: Sequence[Period]) -> tuple[float, float]:
    """Return length and start of the longest time without any rate, the last of several."""
    at, longest = Fraction(0), (Fraction(0), Fraction(0))
    for empty, group in itertools.groupby(periods, key=lambda period: not period.bits):
        length = sum((each.length_ms for each in group), Fraction(0))
        longest = max(longest, (length, at)) if empty else longest
        at += length
    return float(longest[0] / 1000), float(longest[1] / 1000)


def summary(periods: Sequence[Period], said: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines that describe what was read."""
    length_ms, mbit = sum(each.length_ms for each in periods), [each.mbit for each in periods]
    mean = float(sum(each.bits for each in periods) / length_ms / 1000)
    yield f"  length     {float(length_ms) / 1e3:g} s in {len(mbit)} rows"
    yield f"  Mbit/s     mean {mean:.4g}, min {min(mbit):.4g}, max {max(mbit):.4g}"
    longest_s, begin_s = longest_outage_s(periods)
    where = f", from {begin_s:g} s" if longest_s else ""
    yield f"  outage     longest {longest_s:g} s{where}"
    yield from (f"  {key:<10} {text}" for key, text in said.items() if text)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `trace import`."""
    parser = commands.add_parser("trace")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    command = actions.add_parser("import", help="convert a trace of another project")
    command.add_argument("file", type=Path, help="rates or amounts over time: CSV, TSV, JSON, log")
    command.add_argument("--out", type=out_file, help="new file; default: FILE's name and .trace")
    command.add_argument("--unit", choices=UNITS, help="unit of the rates; bytes are per row")
    for name, what in (
        ("column", "column of the rates; or its number"),
        ("time-column", "column of the times; or its number"),
        ("rtt-column", "column of base RTTs in ms"),
        ("delay-column", "column of one-way delays in ms"),
        ("loss-column", "column of losses"),
    ):
        command.add_argument(f"--{name}", metavar="NAME", help=what)
    command.add_argument("--loss-unit", choices=LOSS_UNITS, help="unit of the losses")
    command.add_argument("--amounts", choices=("row", "total"),
                         help="of bytes, kbytes and bits: of a row, or a counter")  # fmt: skip
    for name, limits, what in (
        ("interval-ms", {"above": 0.0}, "length of each row"),
        ("from-s", {"least": 0.0}, "begin of the part to convert"),
        ("to-s", {"above": 0.0}, "end of the part to convert"),
    ):
        command.add_argument(f"--{name}", type=units.number_option(name, **limits), help=what)
    command.set_defaults(run=_import)


def _import(options: argparse.Namespace) -> int:
    out: Path = options.out or Path(f"{options.file.stem}.trace")
    if out.exists():
        raise UsageError(f"--out must name a new file, found that {out} exists")
    choices = Choices(**{each.name: getattr(options, each.name) for each in fields(Choices)})
    text = read_text(options.file, RESULT_BYTES).replace("\r\n", "\n")
    path, times, rtt_ms = dict[str, str | float](), list[int](), "40"
    log = re.search(r"^# mahimahi mm-link.*$", text, re.MULTILINE)
    text = _opportunities(text) if log else text
    if choices == Choices():
        with contextlib.suppress(LosslabError):  # a packet-delivery trace already
            times = tracelink.parse(text, str(options.file))
            lines = ["  packet-delivery trace: each line is a time in ms, for 1500 bytes"]
            lines += [f"  from the opportunities in a log: {log[0][2:]}"] if log else []
    if times:
        begin_ms = round((options.from_s or 0.0) * 1e3)
        end_ms = times[-1] if options.to_s is None else min(times[-1], round(options.to_s * 1e3))
        # As in a converted trace, the last line is the end.
        part = [ms - begin_ms for ms in times if begin_ms <= ms < end_ms]
        times = [*part, *[end_ms - begin_ms] * max(1, times.count(end_ms))]
        if times[-1] <= 0:
            raise UsageError(EMPTY_PART)
    else:
        periods, said = read(text, str(options.file), choices)
        periods = cut(periods, options.from_s or 0.0, options.to_s)
        if not periods:
            raise UsageError(EMPTY_PART)
        times, lines = times_of(periods), [*summary(periods, said)]
        # The file's own mean is a better proposal than a common RTT.
        mean = re.search(r"\brtt_ms, mean ([\d.]+)", said.get("not used", ""))
        rtt_ms = mean[1] if mean else rtt_ms
        require_packets(periods)
        path = path_axes(periods)
    text = tracelink.write(times)
    if len(text) > MAX_TRACE_BYTES:
        raise UsageError(
            f"a trace must have at most {MAX_TRACE_BYTES} bytes, found {len(text)}", hint=TOO_LONG
        )
    with input_errors():
        described = tracelink.describe(tracelink.parse(text, str(options.file)))
    write_text(out, text)
    print("\n".join([f"Read {options.file}", *lines]))
    print(
        f"Wrote {out}: {len(times):,} opportunities of 1500 bytes in {times[-1] / 1e3:g} s, mean "
        f"{described['trace_mbit']:.4g} Mbit/s, longest gap {described['trace_gap_max_ms']:g} ms"
    )
    where = str(out) if out.parent != Path() else f"./{out}"
    named = " ".join(f"--{n.replace('_', '-')} {short(its)}" for n, its in path.items())
    print(f"Next\n  losslab measure --algorithm cubic --trace {shlex.quote(where)} "
          f"{named or f'--rtt-ms {rtt_ms}'} --out run")  # fmt: skip
    return 0
