"""The numbers of a measured cell that tables, provenance and the run explorer need."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.campaign import integrity, limiters
from losslab.campaign.documents import read_host
from losslab.campaign.folder import HOST_FILE, replicate_folders
from losslab.emulation.background.outcome import TABLE
from losslab.emulation.goodput import read_rows
from losslab.study import features
from losslab.study.condition import Condition

# Names of connections that carry data, by source port.
FLOW_NAMES = {
    str(port): name for app in features.apps().values() for port, name in app.ports.items()
}
# More flows would make the figures unreadable.
MAX_BACKGROUND_FLOWS = 9
FLOW_COLUMNS = (
    "flow", "t_s", "cwnd_packets", "ssthresh_packets", "srtt_ms", "pacing_mbit", "delivery_mbit",
)  # fmt: skip
QUEUE_COLUMNS = ("t_s", "backlog_packets", "backlog_bytes", "drops")

Row = dict[str, Any]
# The end of a second in s, and the mean goodput in Mbit/s.
Second = tuple[int, float]


@dataclass(frozen=True)
class Series:
    """Samples of a replicate's flows (FLOW_COLUMNS) and of the queue (QUEUE_COLUMNS)."""

    replicate: int
    flows: list[Row]
    queue: list[Row]


@dataclass(frozen=True)
class CellData:
    """A measured cell. The lists have an entry per replicate."""

    content: Row  # of its cell.json
    analysed: list[dict[str, float]]  # metrics of the analysis; empty if invalid
    intervals: list[list[Second]]  # empty if invalid, or if the app has no goodput over time
    series: Series | None = None  # of the first valid replicate, if wanted


def read(path: Path, series: bool = False, asked: Condition | None = None) -> CellData:
    """Read a cell from its cell.json and its replicates' folders, with or without time series.

    Raises DamagedError if the cell is damaged. Raises LosslabError if it is not of the condition
    `asked`.
    """
    content = integrity.read_cell(path, asked)
    condition = Condition.from_json(content["condition"])
    app = features.apps()[condition.app]
    port = str(next(iter(app.ports), ""))
    analysed: list[dict[str, float]] = []
    intervals: list[list[Second]] = []
    found: Series | None = None
    for number, replicate in enumerate(content["replicates"]):
        analysed.append({})
        intervals.append([])
        if not replicate["valid"]:
            continue
        folder = path.parent / str(number)
        samples = read_rows(folder / "tcp.csv") if (folder / "tcp.csv").is_file() else []
        analysed[-1] |= limiters.of_samples(samples, port, condition)
        if app.per_second:
            rows = read_rows(folder / "intervals.csv")
            analysed[-1] |= other_windows(rows, condition.warmup_s, condition.duration_s)
            intervals[-1] = one_second_means(rows, condition.warmup_s, condition.duration_s)
        if series and found is None:
            found = _series(number, folder, samples)
    return CellData(content, analysed, intervals, found)


def _series(number: int, folder: Path, samples: Iterable[Row]) -> Series:
    names = flow_names(folder)
    named = (row | {"flow": names[row["flow"]]} for row in samples if row["flow"] in names)
    flows = [{key: row[key] for key in FLOW_COLUMNS} for row in named]
    rows = read_rows(folder / "queue.csv")
    return Series(number, flows, [{key: row[key] for key in QUEUE_COLUMNS} for row in rows])


def read_hosts(path: Path) -> list[Row]:
    """Read the host.json of each replicate of a cell.json that has one."""
    files = (folder / HOST_FILE for folder in replicate_folders(path))
    return [read_host(file) for file in files if file.exists()]


def flow_names(folder: Path) -> dict[str, str]:
    """Return the names of a replicate's sampled flows, by source port.

    Background flows with a limited size are left out, and so are all after the first nine.
    """
    table = folder / TABLE
    rows = [row for row in read_rows(table) if not row["size_bytes"]] if table.is_file() else []
    rows.sort(key=lambda row: [int(part) for part in row["name"].split("-")])
    return FLOW_NAMES | {
        row["source_port"]: f"{row['algorithm']} {row['name']}"
        for row in rows[:MAX_BACKGROUND_FLOWS]
    }


def other_windows(
    rows: Sequence[Mapping[str, str]], warmup_s: float, duration_s: float
) -> dict[str, float]:
    """Return the mean goodput in Mbit/s over other windows than the measurement window.

    The windows show the influence of the warm-up and of the run's length: the first and second half
    of the measurement window (`early`, `late`), and the run including the warm-up (`whole`).
    """
    middle_s = (warmup_s + duration_s) / 2
    windows = {
        "early": (warmup_s, middle_s), "late": (middle_s, duration_s), "whole": (0.0, duration_s),
    }  # fmt: skip
    found = {}
    for name, (start_s, end_s) in windows.items():
        megabits = seconds = before_s = 0.0
        for row in rows:
            until_s = float(row["t_s"])
            inside_s = max(0.0, min(until_s, end_s) - max(before_s, start_s))
            megabits += inside_s * float(row["goodput_mbit"])
            seconds += inside_s
            before_s = until_s
        if seconds > 0:
            found[f"{name}_goodput_mbit"] = megabits / seconds
    return found


def one_second_means(
    rows: Sequence[dict[str, str]], warmup_s: float, duration_s: float
) -> list[Second]:
    """Average goodputs of intervals of up to 1 s over whole seconds, from the warm-up to the end.

    The last second may lack its last 0.1 s.
    """
    seconds: dict[int, list[float]] = defaultdict(list)
    before_s = 0.0
    for row in rows:
        end_s = float(row["t_s"])
        middle_s = (before_s + end_s) / 2
        before_s = end_s
        if warmup_s <= middle_s < duration_s:
            seconds[math.ceil(middle_s)].append(float(row["goodput_mbit"]))
    return [(end, sum(values) / len(values)) for end, values in sorted(seconds.items())]
