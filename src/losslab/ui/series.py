"""Time series of a replicate: goodput, windows, RTT and queue."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from losslab.campaign import state
from losslab.campaign.results import CELL_FILE, MANIFEST_FILE, Replicate, read_cell
from losslab.campaign.tables import MAX_BACKGROUND_FLOWS, flow_names
from losslab.emulation.link.forward import LOG as LINK_LOG
from losslab.reading import TABLE_BYTES, UsageError, read_text
from losslab.study.axes import NONE, Value
from losslab.study.condition import AXES, Condition

if TYPE_CHECKING:
    import pandas as pd

# Width of the bins of a rate. Video has 30 frames per second, and slow links carry as few packets:
# in shorter bins the rate would alternate between 0 and peaks.
BIN_S = 0.5
# Characters of an axis's value in a label.
LONGEST_LABEL = 48
BITS_PER_MBIT = 1e6
# Limits of plausible values; a run takes an hour at most.
MAX_VALUE, MAX_TIME_S = 1e15, 10_000.0
# Tables of the bytes that receivers of bulk flows counted, by flow.
ACKNOWLEDGED = "acknowledged"
INTERVALS = {"first": "intervals.csv", "competitor": "competitor-intervals.csv"}

# A violation may quote a program's whole output.
MAX_VIOLATION_LENGTH = 160
# Panels, names and columns of the lines of each flow, and the columns that are read.
LINES = (
    ("cwnd", "cwnd", "cwnd_packets"),
    ("cwnd", "ssthresh", "ssthresh_packets"),
    ("rtt", "smoothed by TCP", "srtt_ms"),
    ("retransmits", "retransmissions", "retransmits"),
)
SAMPLED = ("t_s", "delivered_bytes", *(column for _, _, column in LINES))


class Panel(NamedTuple):
    """Panel of one quantity on the common time axis."""

    label: str
    unit: str

    @property
    def title(self) -> str:
        """Quantity with its unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


PANELS = {
    "goodput": Panel("Goodput", "Mbit/s"),
    "cwnd": Panel("Congestion window", "packets"),
    "rtt": Panel("Round-trip time", "ms"),
    "queue": Panel("Queue at the bottleneck", "packets"),
    "retransmits": Panel("Retransmitted, dropped", "packets"),
}


@dataclass(frozen=True)
class Series:
    """Line of a panel."""

    panel: str  # a key of its run's panels
    name: str  # cwnd, ssthresh, ping, ...
    flow: str  # name of the flow; empty for the path itself
    t_s: tuple[float, ...]  # time since the start of the traffic, increasing
    values: tuple[float | None, ...]  # in the panel's unit; None is a gap
    algorithm: str = ""  # of the flow; empty for that of the run

    @property
    def label(self) -> str:
        """Name of the line, with the flow unless it is the first."""
        return self.name if self.flow in ("", "first") else f"{self.name}, {self.flow}"


@dataclass(frozen=True)
class Run:
    """Replicate on disk."""

    folder: Path
    manifest: dict[str, Any]
    series: tuple[Series, ...]
    panels: Mapping[str, Panel] = field(default_factory=lambda: PANELS)
    # Phases of the first flow's congestion control: begin and end in s, name.
    bands: tuple[tuple[float, float, str], ...] = ()

    @property
    def condition(self) -> Condition:
        """Measured condition."""
        return Condition.from_json(self.manifest["cell"])

    @property
    def control(self) -> str:
        """Congestion control: the kernel's algorithm, or a scheme."""
        condition = self.condition
        scheme = condition.scheme
        return condition.algorithm if scheme == NONE else scheme.split(",")[0]

    @property
    def violations(self) -> list[str]:
        """Violations that make the run invalid, each in one line."""
        violations = self.manifest["reasons"]
        return [textwrap.shorten(each, MAX_VIOLATION_LENGTH) for each in violations]


def load(folder: Path, checked: bool = False) -> Run:
    """Read a replicate; LosslabError names a missing, changed or malformed file.

    With `checked`, the caller has compared its files with their digests (`Replicate.checked`).
    """
    replicate = Replicate(folder) if checked else Replicate(folder).checked()
    try:
        found = tuple(_series(replicate))
    except (KeyError, OverflowError, TypeError, UsageError, ValueError) as error:
        raise UsageError(
            f"the tables in {folder} must be as losslab writes them, found: {error!r}",
            hint="measure it again with this version of losslab",
        ) from error
    return Run(folder, replicate.manifest, found)


def load_state(folder: Path, trusted: bool) -> Run:
    """Read the window of a replicate, and the state of its congestion controls (`state.of_run`)."""
    run = load(folder)
    rows = state.of_run(folder, run.manifest, trusted)
    ports = rows["flow"].astype(str)
    if ports.empty:
        raise UsageError(
            f"{folder} must have a flow of TCP in its sender's network namespace, found none"
        )
    busiest = ports.value_counts().index.tolist()
    names = {port: name for port, name in flow_names(folder).items() if port in busiest}
    names = names or {port: port for port in busiest[:MAX_BACKGROUND_FLOWS]}
    flows = {name: rows[ports == port] for port, name in names.items()}
    own = {flow: str(its["algorithm"].iloc[-1]) for flow, its in flows.items()}
    windows = [each for each in run.series if each.panel == "cwnd"]
    lines = [replace(each, algorithm=own.get(each.flow, "")) for each in windows]
    panels = {"cwnd": PANELS["cwnd"]}
    for flow, its in flows.items():
        for name in state.variables(its, own[flow]):
            if its[name].dtype != object and its[name].nunique() > 1:
                panels[name] = Panel(name, "")
                lines.append(Series(name, name, flow, *_steps(its, name), own[flow]))
    bands = tuple(state.phases(next(iter(flows.values()))))
    return replace(run, series=tuple(lines), panels=panels, bands=bands)


def _steps(rows: pd.DataFrame, name: str) -> tuple[tuple[float, ...], tuple[float | None, ...]]:
    """Return times and values of a variable: before and after each change, and at the end."""
    t_s, values = rows["t_s"].tolist(), rows[name].astype(float).tolist()
    found = [None if math.isnan(value) else value for value in values]
    kept = [n for n, value in enumerate(found) if n in (0, len(found) - 1) or value != found[n - 1]]
    points = [(t_s[n], each) for n in kept for each in (*found[n - 1 : n], found[n])]
    return tuple(t for t, _ in points), tuple(each for _, each in points)


def replicates(folder: Path) -> list[Path]:
    """List the replicates in the folder of a run or of a cell; refuse other folders."""
    folder = folder.parent if folder.name == MANIFEST_FILE else folder
    if (folder / MANIFEST_FILE).is_file():
        return [folder]
    within = [path.parent for path in folder.glob(f"*/{MANIFEST_FILE}")]
    if (folder / CELL_FILE).is_file():
        listed = [each.folder for each in read_cell(folder / CELL_FILE).replicates]
        within = [path for path in listed if path in within]
    if not within:
        raise UsageError(
            f"{folder} must be a run, or a cell with its runs, found no {MANIFEST_FILE} there",
            hint="name a folder of `losslab measure --out` or of results/cells/STUDY/",
        )
    return sorted(within, key=lambda path: (len(path.name), path.name))


def _series(replicate: Replicate) -> Iterator[Series]:
    manifest = replicate.manifest
    flows = _flows(replicate)
    begin_ms = manifest.get("observed", {}).get("link_begin_ms") or 0.0
    yield from _goodput(replicate, flows, begin_ms)
    for panel, name, column in LINES:
        for flow, table in flows.items():
            yield from _line(panel, name, flow, table, column)
    # Pings bypass a trace-driven link.
    if manifest["cell"].get("trace", NONE) == NONE:
        yield from _line("rtt", "ping", "", _table(replicate, "ping.csv"), "rtt_ms")
    queue = _table(replicate, "queue.csv")
    yield from _line("queue", "queue", "", queue, "backlog_packets")
    yield from _line("retransmits", "dropped at the bottleneck", "", queue, "drops")


@dataclass(frozen=True)
class Table:
    """Samples of a table."""

    columns: Mapping[str, Sequence[str]]

    @cached_property
    def t_s(self) -> tuple[float, ...]:
        """Time of each sample in s."""
        return _finite(self.columns["t_s"])


def _table(replicate: Replicate, name: str) -> Table:
    return Table(replicate.columns(name))


def _flows(replicate: Replicate) -> dict[str, Table]:
    """Return the samples of each flow that has a name."""
    names, tcp = flow_names(replicate.folder), replicate.columns("tcp.csv")
    own = [names.get(port, "") for port in tcp["flow"]] if tcp else []
    found = {}
    for name in filter(None, dict.fromkeys(own)):
        kept = [each == name for each in own]
        found[name] = Table({column: [*compress(tcp[column], kept)] for column in SAMPLED})
    return found


def _goodput(replicate: Replicate, flows: Mapping[str, Table], begin_ms: float) -> Iterator[Series]:
    """Yield goodput counted by the receiver, or else by the sender's TCP."""
    counted = [
        line
        for flow, file in INTERVALS.items()
        for line in _line("goodput", "received", flow, _table(replicate, file), "goodput_mbit")
    ]
    frames = [row for row in replicate.table("frames.csv") if row["arrival_s"]]
    if frames:
        arrivals = _finite(row["arrival_s"] for row in frames)
        sizes = (int(row["bytes"]) for row in frames)
        counted.append(_binned("received", "video", zip(arrivals, sizes, strict=True)))
    if (log := replicate.folder / LINK_LOG).is_file():
        counted.append(_binned("carried by the link", "", _carried(log, begin_ms)))
    known = {series.flow for series in counted}
    yield from counted
    for flow, table in flows.items():
        if flow not in known:
            yield _binned(ACKNOWLEDGED, flow, _acknowledged(table))


def _carried(log: Path, begin_ms: float) -> Iterator[tuple[float, int]]:
    """Yield time in s and bytes of packets that leave a trace-driven link.

    The log has times in ms on the link's own clock.
    """
    for line in read_text(log, TABLE_BYTES).splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[1] == "-":  # time, -, bytes, queueing delay
            yield (float(fields[0]) - begin_ms) / 1000, int(fields[2])


def _acknowledged(table: Table) -> Iterator[tuple[float, int]]:
    """Yield the increments of a flow's acknowledged bytes."""
    before = 0
    for t_s, text in zip(table.t_s, table.columns["delivered_bytes"], strict=True):
        count = int(text or before)
        yield t_s, max(count - before, 0)
        before = count


def _line(panel: str, name: str, flow: str, table: Table, column: str) -> Iterator[Series]:
    """Yield a column as a line if it has values."""
    texts = table.columns[column] if table.columns else ()
    if any(texts):
        found = iter(_finite(filter(None, texts)))
        values = tuple([next(found) if text else None for text in texts])
        yield Series(panel, name, flow, table.t_s, values)


def _finite(texts: Iterable[str]) -> tuple[float, ...]:
    """Return numbers from a table; ValueError if one is malformed or implausibly large."""
    numbers = tuple(map(float, texts))
    if too_large := [number for number in numbers if not abs(number) <= MAX_VALUE]:
        raise ValueError(f"a number must be at most {MAX_VALUE:g}, found {too_large[0]}")
    return numbers


def _binned(name: str, flow: str, amounts: Iterable[tuple[float, int]]) -> Series:
    """Return the rate of packets in bins; a bin without packets has a rate of 0."""
    binned: dict[int, int] = {}
    for t_s, size in amounts:
        if not t_s <= MAX_TIME_S:
            raise ValueError(f"a time must be at most {MAX_TIME_S:g} s, found {t_s:g}")
        number = int(max(t_s, 0.0) / BIN_S)
        binned[number] = binned.get(number, 0) + size
    bins = range(min(binned, default=0), max(binned, default=-1) + 1)
    ends = tuple((number + 1) * BIN_S for number in bins)
    rates = tuple(binned.get(number, 0) * 8 / BITS_PER_MBIT / BIN_S for number in bins)
    return Series("goodput", name, flow, ends, rates)


def labels(runs: Sequence[Run], without: Sequence[str] = ()) -> list[str]:
    """Return a label per run: the values of the axes in which runs differ, except `without`."""
    conditions = [run.condition.to_json() for run in runs]
    different = [
        name
        for name in AXES
        if name not in without and len({each[name] for each in conditions}) > 1
    ]
    return [", ".join(_short(axis_text(n, each[n])) for n in different) for each in conditions]


def _short(text: str) -> str:
    """Shorten a value such as a list of thirty drops, which would fill a figure."""
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"


def axis_text(name: str, value: Value) -> str:
    """Format an axis and its value: `rate 5 Mbit/s`."""
    axis = AXES[name]
    if isinstance(value, str):
        return value if axis.always_named else f"{name.replace('_', ' ')} {value}"
    title = re.sub("_(percent|ms|mbit|packets|bytes|s)$", "", name).replace("_", " ")
    title = title.upper() if title == "rtt" else title
    number = value if isinstance(value, int) else f"{value:g}"
    return f"{title} {number} {axis.unit.removesuffix(' of packets')}".rstrip()


def distinguish(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    """Add the seed, or else the folder, to names that several runs share."""
    seeds, folders = [f"seed {run.manifest['seed']}" for run in runs], [str(r.folder) for r in runs]
    for suffixes in (seeds, folders):
        names = [
            ", ".join(filter(None, [name, more])) if names.count(name) > 1 else name
            for name, more in zip(names, suffixes, strict=True)
        ]
    return list(names)
