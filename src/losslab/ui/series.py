"""Time series of a replicate: goodput, windows, RTT and queue."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from losslab.campaign import state
from losslab.campaign.results import CELL_FILE, MANIFEST_FILE, Replicate, read_cell
from losslab.campaign.tables import MAX_BACKGROUND_FLOWS, flow_names
from losslab.emulation.link.tracelink import LOG as LINK_LOG
from losslab.reading import TABLE_BYTES, UsageError, read_bytes
from losslab.study.axes import NONE, Value
from losslab.study.condition import AXES, Condition

if TYPE_CHECKING:
    import pandas as pd

    from losslab.reading import Numbers, Samples

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
# Panels, names and columns of the lines of each flow.
LINES = (
    ("cwnd", "cwnd", "cwnd_packets"),
    ("cwnd", "ssthresh", "ssthresh_packets"),
    ("rtt", "smoothed by TCP", "srtt_ms"),
    ("retransmits", "retransmissions", "retransmits"),
)


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
    t_s: Numbers  # time since the start of the traffic, increasing
    values: Numbers  # in the panel's unit; NaN is a gap
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
    algorithms = {flow: str(its["algorithm"].iloc[-1]) for flow, its in flows.items()}
    windows = [each for each in run.series if each.panel == "cwnd"]
    lines = [replace(each, algorithm=algorithms.get(each.flow, "")) for each in windows]
    panels = {"cwnd": PANELS["cwnd"]}
    for flow, flow_rows in flows.items():
        for name in state.variables(flow_rows, algorithms[flow]):
            if flow_rows[name].dtype != object and flow_rows[name].nunique() > 1:
                panels[name] = Panel(name, "")
                lines.append(Series(name, name, flow, *_steps(flow_rows, name), algorithms[flow]))
    bands = tuple(state.phases(next(iter(flows.values()))))
    return replace(run, series=tuple(lines), panels=panels, bands=bands)


def _steps(rows: pd.DataFrame, name: str) -> tuple[Numbers, Numbers]:
    """Return times and values of a variable: before and after each change, and at the end."""
    import numpy as np

    t_s, values = rows["t_s"].tolist(), rows[name].astype(float).tolist()
    ends = (0, len(values) - 1)
    kept = [n for n, its in enumerate(values) if n in ends or repr(its) != repr(values[n - 1])]
    points = [(t_s[n], each) for n in kept for each in (*values[n - 1 : n], values[n])]
    return np.array([t for t, _ in points]), np.array([each for _, each in points])


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
        below = next(folder.rglob(MANIFEST_FILE), None)
        raise UsageError(
            f"{folder} must be a run, or a cell with its runs, found no {MANIFEST_FILE} there",
            hint="name a folder of `losslab measure --out` or of results/cells/STUDY/"
            + (f", such as {below.parent.parent}" if below else ""),
        )
    return sorted(within, key=lambda path: (len(path.name), path.name))


def _series(replicate: Replicate) -> Iterator[Series]:
    manifest = replicate.manifest
    flows = _flows(replicate)
    begin_ms = manifest.get("observed", {}).get("link_begin_ms") or 0.0
    yield from _goodput(replicate, flows, begin_ms)
    for panel, name, column in LINES:
        for flow, samples in flows.items():
            yield from _line(panel, name, flow, samples, column)
    # Pings bypass a trace-driven link.
    if manifest["cell"].get("trace", NONE) == NONE:
        yield from _line("rtt", "ping", "", replicate.samples("ping.csv"), "rtt_ms")
    queue = replicate.samples("queue.csv")
    yield from _line("queue", "queue", "", queue, "backlog_packets")
    yield from _line("retransmits", "dropped at the bottleneck", "", queue, "drops")


def _flows(replicate: Replicate) -> dict[str, Samples]:
    """Return the samples of each flow that has a name."""
    names, tcp = flow_names(replicate.folder), replicate.samples("tcp.csv")
    found = {}
    for port in dict.fromkeys(tcp["flow"].tolist() if tcp else ()):
        if name := names.get(str(int(port))):
            found[name] = {key: values[tcp["flow"] == port] for key, values in tcp.items()}
    return found


def _goodput(
    replicate: Replicate, flows: Mapping[str, Samples], begin_ms: float
) -> Iterator[Series]:
    """Yield goodput counted by the receiver, or else by the sender's TCP."""
    import numpy as np

    counted = [
        line
        for flow, file in INTERVALS.items()
        for line in _line("goodput", "received", flow, replicate.samples(file), "goodput_mbit")
    ]
    if frames := replicate.samples("frames.csv"):
        arrived = ~np.isnan(frames["arrival_s"])
        counted += _rate(
            "received", "video", frames["arrival_s"][arrived], frames["bytes"][arrived]
        )
    if (log := replicate.folder / LINK_LOG).is_file():
        sent = re.findall(rb"^(\d+) - (\d+) ", read_bytes(log, TABLE_BYTES), re.MULTILINE)
        ms, octets = np.array(sent, float).reshape(-1, 2).T  # on the link's own clock
        counted += _rate("carried by the link", "", (ms - begin_ms) / 1000, octets)
    known = {series.flow for series in counted}
    yield from counted
    for flow, samples in flows.items():
        if flow not in known:
            total = np.maximum.accumulate(np.nan_to_num(samples["delivered_bytes"]))
            yield from _rate(ACKNOWLEDGED, flow, samples["t_s"], np.diff(total, prepend=0))


def _line(panel: str, name: str, flow: str, samples: Samples, column: str) -> Iterator[Series]:
    """Yield a column as a line if it has values; ValueError if one is implausibly large."""
    import numpy as np

    if not samples or np.isnan(values := samples[column]).all():
        return
    if (largest := np.nanmax(np.abs(values))) > MAX_VALUE:
        raise ValueError(f"a number must be at most {MAX_VALUE:g}, found {largest:g}")
    yield Series(panel, name, flow, samples["t_s"], values)


def _rate(name: str, flow: str, t_s: Numbers, octets: Numbers) -> Iterator[Series]:
    """Yield the rate of packets in bins, if there are any; one without packets has a rate of 0."""
    import numpy as np

    if not len(t_s):
        return
    if not t_s.max() <= MAX_TIME_S:
        raise ValueError(f"a time must be at most {MAX_TIME_S:g} s, found {t_s.max():g}")
    places = (np.maximum(t_s, 0.0) / BIN_S).astype(int)
    first = places.min()
    rates = np.bincount(places - first, octets) * 8 / BITS_PER_MBIT / BIN_S
    yield Series("goodput", name, flow, (first + 1 + np.arange(len(rates))) * BIN_S, rates)


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
        # `cubic` says what it is, `on` does not.
        plain = axis.always_named and value not in ("on", "off")
        return value if plain else f"{name.replace('_', ' ')} {value}"
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
