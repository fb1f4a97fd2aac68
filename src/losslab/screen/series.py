"""A replicate's samples over time: goodput, windows, RTT and queue."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from losslab.campaign import integrity
from losslab.campaign.collect import flow_names
from losslab.campaign.folder import MANIFEST_FILE
from losslab.campaign.rerun import load_manifest
from losslab.emulation.link.forward import LOG as LINK_LOG
from losslab.reading import UsageError, read_rows, read_text
from losslab.reading.files import TABLE_BYTES
from losslab.study.axes import Value
from losslab.study.condition import AXES, NO_SCHEME, Condition

# Video arrives in frames, 30 a second, and slow links carry as few packets; in shorter bins their
# rate is a comb.
BIN_S = 0.5
BITS_PER_MBIT = 1e6
# Beyond these nothing of a run can be: its samples take an hour at the most.
LARGEST, LATEST_S = 1e15, 10_000.0
# What the receivers of bulk flows counted.
ACKNOWLEDGED = "acknowledged"
INTERVALS = {"first": "intervals.csv", "competitor": "competitor-intervals.csv"}

# A reason may quote all that a program said.
REASON_LENGTH = 160

Row = dict[str, str]


class Panel(NamedTuple):
    """One quantity on the common time axis."""

    label: str
    unit: str

    @property
    def title(self) -> str:
        """Return the quantity with its unit."""
        return f"{self.label} ({self.unit})"


PANELS = {
    "goodput": Panel("Goodput", "Mbit/s"),
    "cwnd": Panel("Congestion window", "packets"),
    "rtt": Panel("Round-trip time", "ms"),
    "queue": Panel("Queue at the bottleneck", "packets"),
    "retransmits": Panel("Retransmitted, dropped", "packets"),
}


@dataclass(frozen=True)
class Series:
    """One line of a panel."""

    panel: str  # a key of PANELS
    name: str  # cwnd, ssthresh, ping, ...
    flow: str  # of several; empty for the path's own
    t_s: tuple[float, ...]  # since the traffic began, rising
    values: tuple[float | None, ...]  # in the panel's unit; None is a gap

    @property
    def label(self) -> str:
        """Return its name, with the flow if that is not the first."""
        return self.name if self.flow in ("", "first") else f"{self.name}, {self.flow}"


@dataclass(frozen=True)
class Run:
    """A replicate on disk."""

    folder: Path
    manifest: dict[str, Any]
    series: tuple[Series, ...]

    @property
    def condition(self) -> Condition:
        """Return what was measured."""
        return Condition.from_json(self.manifest["cell"])

    @property
    def control(self) -> str:
        """Return its congestion control: the kernel's algorithm, or a scheme."""
        its = self.condition
        return its.algorithm if its.scheme == NO_SCHEME else its.scheme.split(",")[0]

    @property
    def reasons(self) -> list[str]:
        """Return why it is invalid, each in a line."""
        return [textwrap.shorten(why, REASON_LENGTH) for why in self.manifest["reasons"]]


def load(folder: Path) -> Run:
    """Read a replicate; a LosslabError says what is missing, changed or not as expected."""
    integrity.require(folder)
    manifest = load_manifest(folder)
    try:
        found = tuple(_series(folder, manifest))
    except (KeyError, OverflowError, TypeError, UsageError, ValueError) as error:
        raise UsageError(
            f"the tables in {folder} must be as losslab writes them, found: {error!r}",
            hint="measure it anew with this version of losslab",
        ) from error
    return Run(folder, manifest, found)


def replicates(folder: Path) -> list[Path]:
    """List the replicates of a run's folder, or of a cell's by number; refuse others."""
    folder = folder.parent if folder.name == MANIFEST_FILE else folder
    if (folder / MANIFEST_FILE).is_file():
        return [folder]
    within = [path.parent for path in folder.glob(f"*/{MANIFEST_FILE}")]
    if not within:
        raise UsageError(
            f"{folder} must be a run, or a cell with its runs, found no {MANIFEST_FILE} there",
            hint="name a folder of `losslab measure --out` or of results/cells/STUDY/",
        )
    return sorted(within, key=lambda path: (len(path.name), path.name))


def _series(folder: Path, manifest: dict[str, Any]) -> Iterator[Series]:
    flows: dict[str, list[Row]] = {}
    names = flow_names(folder)
    for row in _table(folder, "tcp.csv"):
        if row["flow"] in names:
            flows.setdefault(names[row["flow"]], []).append(row)
    begin_ms = manifest.get("observed", {}).get("link_begin_ms") or 0.0
    yield from _goodput(folder, flows, begin_ms)
    columns = (
        ("cwnd", "cwnd", "cwnd_packets"),
        ("cwnd", "ssthresh", "ssthresh_packets"),
        ("rtt", "smoothed by TCP", "srtt_ms"),
        ("retransmits", "retransmissions", "retransmits"),
    )
    for panel, name, column in columns:
        for flow, rows in flows.items():
            yield from _line(panel, name, flow, rows, column)
    yield from _line("rtt", "ping", "", _table(folder, "ping.csv"), "rtt_ms")
    queue = _table(folder, "queue.csv")
    yield from _line("queue", "queue", "", queue, "backlog_packets")
    yield from _line("retransmits", "dropped at the bottleneck", "", queue, "drops")


def _goodput(folder: Path, flows: dict[str, list[Row]], begin_ms: float) -> Iterator[Series]:
    """Give what the receiver got; of flows that it did not count, what the sender's TCP says."""
    counted = [
        line
        for flow, file in INTERVALS.items()
        for line in _line("goodput", "received", flow, _table(folder, file), "goodput_mbit")
    ]
    frames = [row for row in _table(folder, "frames.csv") if row["arrival_s"]]
    if frames:
        arrived = ((_finite(row["arrival_s"]), int(row["bytes"])) for row in frames)
        counted.append(_binned("received", "video", arrived))
    if (folder / LINK_LOG).is_file():
        counted.append(_binned("carried by the link", "", _carried(folder / LINK_LOG, begin_ms)))
    yield from counted
    have = {series.flow for series in counted}
    for flow, rows in flows.items():
        if flow in have:
            continue
        if "delivered_bytes" in rows[0]:
            yield _binned(ACKNOWLEDGED, flow, _acknowledged(rows))
        else:
            yield from _line("goodput", "delivery rate of TCP", flow, rows, "delivery_mbit")


def _carried(log: Path, begin_ms: float) -> Iterator[tuple[float, int]]:
    """List what leaves a trace-driven link; its log has milliseconds of a clock of its own."""
    for line in read_text(log, TABLE_BYTES).splitlines():
        words = line.split()
        if len(words) == 4 and words[1] == "-":  # when, -, bytes, how long they waited
            yield (float(words[0]) - begin_ms) / 1000, int(words[2])


def _acknowledged(rows: Sequence[Row]) -> Iterator[tuple[float, int]]:
    """List by how much a flow's count of acknowledged bytes grows."""
    before = 0
    for row in rows:
        count = int(row["delivered_bytes"] or before)
        yield _finite(row["t_s"]), max(count - before, 0)
        before = count


def _table(folder: Path, name: str) -> list[Row]:
    path = folder / name
    return read_rows(path) if path.is_file() else []


def _line(panel: str, name: str, flow: str, rows: Sequence[Row], column: str) -> Iterator[Series]:
    """Give a column as a line, if there is anything in it."""
    values = tuple(_finite(row[column]) if row[column] else None for row in rows)
    if any(value is not None for value in values):
        yield Series(panel, name, flow, tuple(_finite(row["t_s"]) for row in rows), values)


def _finite(text: str) -> float:
    """Read a number of a table; a ValueError where it is none, or none that can be drawn."""
    value = float(text)
    if not abs(value) <= LARGEST:
        raise ValueError(f"a number must be at most {LARGEST:g}, found {text}")
    return value


def _binned(name: str, flow: str, amounts: Iterable[tuple[float, int]]) -> Series:
    """Turn the bytes of packets into a rate; a bin without any is a rate of 0."""
    came: dict[int, int] = {}
    for t_s, size in amounts:
        if not t_s <= LATEST_S:
            raise ValueError(f"a time must be at most {LATEST_S:g} s, found {t_s:g}")
        number = int(max(t_s, 0.0) / BIN_S)
        came[number] = came.get(number, 0) + size
    bins = range(min(came, default=0), max(came, default=-1) + 1)
    ends = tuple((number + 1) * BIN_S for number in bins)
    rates = tuple(came.get(number, 0) * 8 / BITS_PER_MBIT / BIN_S for number in bins)
    return Series("goodput", name, flow, ends, rates)


def labels(runs: Sequence[Run], but: Sequence[str] = ()) -> list[str]:
    """Name runs by the axes in which they differ, except those in `but`; empty if in none."""
    conditions = [run.condition.to_json() for run in runs]
    different = [
        name for name in AXES if name not in but and len({each[name] for each in conditions}) > 1
    ]
    return [", ".join(_value(name, each[name]) for name in different) for each in conditions]


def _value(name: str, value: Value) -> str:
    """Write an axis and its value: `rate 5 Mbit/s`."""
    its = AXES[name]
    if isinstance(value, str):
        return value if its.always_named else f"{name.replace('_', ' ')} {value}"
    what = re.sub("_(percent|ms|mbit|packets|s)$", "", name).replace("_", " ")
    what = what.upper() if what == "rtt" else what
    return f"{what} {value:g} {its.unit.removesuffix(' of packets')}".rstrip()


def seeds_apart(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    """Tell runs of one name apart by the seed, or else by the folder."""
    names = list(names)
    for apart in ([f"seed {run.manifest['seed']}" for run in runs], [str(r.folder) for r in runs]):
        names = [
            ", ".join(filter(None, [name, more])) if names.count(name) > 1 else name
            for name, more in zip(names, apart, strict=True)
        ]
    return names
