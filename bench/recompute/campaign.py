"""A campaign's runs, from a record (recorded/full) or from a folder of results."""

from __future__ import annotations

import csv
import json
import lzma
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
# Share of the 5 % error that is spent on intervals of cells that end early (docs/explanation).
EARLY_SHARE = 0.2
# Settings of runs, which are no axes of a cell.
SETTINGS = ("duration_s", "warmup_s", "kernel")
# Bytes of a full segment on the wire, and of its payload.
FRAME_BYTES, PAYLOAD_BYTES = 1514, 1448
# Bytes on the wire of a SYN and of the first acknowledgement.
HANDSHAKE_BYTES = 74 + 66


@dataclass(frozen=True)
class Run:
    """A valid run: its number and seed, and its metrics with those that follow from them."""

    number: int
    seed: int
    metrics: dict[str, float | None]
    # Returns the goodput of each second in Mbit/s.
    read_seconds: Callable[[], list[float]]


@dataclass(frozen=True)
class Cell:
    """A cell with its valid runs. `error` is that of its intervals: 5 % unless it may end early."""

    study: str
    block: str
    name: str
    condition: dict[str, Any]
    replicates: int
    runs: list[Run]
    error: float = 0.05

    def having(self, metric: str) -> list[Run]:
        """Return the runs that have a metric."""
        return [run for run in self.runs if run.metrics.get(metric) is not None]

    def values(self, metric: str) -> list[float]:
        """Return the values of the runs that have a metric."""
        return [float(run.metrics[metric] or 0) for run in self.having(metric)]

    @cached_property
    def seconds_mbit(self) -> list[float]:
        """The goodputs of all seconds of all runs, in Mbit/s."""
        return [mbit for run in self.runs for mbit in run.read_seconds()]


@dataclass
class Campaign:
    """The cells of a campaign by study and name, and the tables that the project wrote."""

    folder: Path
    results: bool
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)
    # Cells of a record's files that its index lacks. losslab does not read them.
    not_in_index: list[tuple[str, str]] = field(default_factory=list)

    @cached_property
    def studies(self) -> list[str]:
        """Return the studies that have cells."""
        return sorted({study for study, _ in self.cells})

    def select(self, study: str, where: Mapping[str, Any]) -> list[Cell]:
        """Return a study's cells that have a selector's values, each one or a list."""
        return [
            cell
            for cell in self._of_study[study]
            if all(
                (cell.block if key == "block" else cell.condition.get(key))
                in (value if isinstance(value, list) else [value])
                for key, value in where.items()
            )
        ]

    @cached_property
    def _of_study(self) -> dict[str, list[Cell]]:
        found: dict[str, list[Cell]] = {path.name: [] for path in (ROOT / "studies").iterdir()}
        for cell in self.cells.values():
            found[cell.study].append(cell)
        return found

    @cached_property
    def verdicts(self) -> dict[tuple[str, str], dict[str, str]]:
        """Return the rows of claims.csv by study and claim."""
        return {(row["study"], row["claim"]): row for row in rows(self.folder / "claims.csv")}


def read(folder: Path) -> Campaign:
    """Read a record, or a folder of results."""
    if (folder / "plan.json").is_file():
        campaign = Campaign(folder, results=True)
        _read_results(campaign)
    elif any(folder.glob("*.jsonl.xz")):
        campaign = Campaign(folder, results=False)
        _read_record(campaign)
    else:
        raise SystemExit(
            f"recompute: error: {folder} must have plan.json (results of a campaign) or "
            "STUDY.jsonl.xz (a record), found neither"
        )
    return campaign


def _read_record(campaign: Campaign) -> None:
    index = {(row["study"], row["cell"]) for row in rows(campaign.folder / "cells.tsv", "\t")}
    for path in sorted(campaign.folder.glob("*.jsonl.xz")):
        with lzma.open(path, "rt") as lines:
            for line in lines:
                record = json.loads(line)
                content = record["content"]
                name = content["study"], content["cell"]
                if name not in index:
                    campaign.not_in_index.append(name)
                    continue
                error = _recorded_error(content["study"], content)
                seconds_of = partial(_recorded_seconds, record["intervals"])
                campaign.cells[name] = _cell(content, error, seconds_of)


def _recorded_seconds(intervals: Sequence[Sequence[tuple[int, float]]], run: int) -> list[float]:
    # A record has the end and the goodput of each second.
    return [mbit for _, mbit in intervals[run]]


def _read_results(campaign: Campaign) -> None:
    # A folder of results may have cells of an earlier plan.
    for planned in json.loads((campaign.folder / "plan.json").read_text())["cells"]:
        name = planned["study"], planned["cell"]
        place = campaign.folder.joinpath("cells", *name)
        if not (place / "cell.json").is_file():
            empty = {key: planned[key] for key in ("study", "block", "cell", "condition")}
            campaign.cells[name] = _cell(empty | {"replicates": []}, 0.05, lambda _: [])
            continue
        content = json.loads((place / "cell.json").read_text())
        rule = planned["stopping"]
        error = _error(rule["minimum"], rule["maximum"], len(content["replicates"]))
        seconds_of = partial(_measured_seconds, place, content["condition"])
        campaign.cells[name] = _cell(content, error, seconds_of)


def _measured_seconds(place: Path, condition: Mapping[str, Any], run: int) -> list[float]:
    path = place / str(run) / "intervals.csv"
    return seconds(path, condition["warmup_s"], condition["duration_s"])


def _cell(
    content: Mapping[str, Any], error: float, seconds_of: Callable[[int], list[float]]
) -> Cell:
    return Cell(
        content["study"], content["block"], content["cell"], content["condition"],
        len(content["replicates"]),
        [
            Run(
                number, run["seed"], derived(run["summary"], content["condition"]),
                partial(seconds_of, number),
            )
            for number, run in enumerate(content["replicates"])
            if run["valid"]
        ],
        error,
    )  # fmt: skip


def seconds(path: Path, warmup_s: float, duration_s: float) -> list[float]:
    """Return the goodput of each whole second from the warm-up to the end, in Mbit/s.

    The middle of an interval decides its second.
    """
    if not path.is_file():
        return []
    found: dict[int, list[float]] = {}
    before = 0.0
    for row in rows(path):
        end = float(row["t_s"])
        middle, before = (before + end) / 2, end
        if warmup_s <= middle < duration_s and row["goodput_mbit"]:
            found.setdefault(math.ceil(middle), []).append(float(row["goodput_mbit"]))
    return [sum(values) / len(values) for _, values in sorted(found.items())]


def derived(summary: Mapping[str, Any], condition: Mapping[str, Any]) -> dict[str, float | None]:
    """Return a run's metrics and those that follow from them and from the condition.

    The measured RTT is named rtt_measured_ms, as in the project's tables.
    """
    metrics = dict(summary)
    metrics["rtt_measured_ms"] = metrics.pop("rtt_ms", None)
    rate, rtt_s = condition["rate_mbit"], condition["rtt_ms"] / 1e3
    byte_s = 8 / (rate * 1e6)
    if (measured := metrics["rtt_measured_ms"]) is not None and condition["rtt_ms"]:
        # On the exact link, a ping of 98 bytes takes its own time.
        exact = condition["shaper"] == "link" and condition["trace"] == "none"
        ping_s = (98 + 20 * (condition["ip_version"] == 6)) * byte_s if exact else 0
        metrics["rtt_error_percent"] = 100 * abs(measured / 1e3 / (rtt_s + ping_s) - 1)
    if (total := metrics.get("total_goodput_mbit")) is not None:
        metrics["utilisation_percent"] = 100 * total / (rate * PAYLOAD_BYTES / FRAME_BYTES)
    if (queue := metrics.get("queue_mean_packets")) is not None and rtt_s:
        metrics["queue_mean_bdp"] = queue * FRAME_BYTES * byte_s / rtt_s
    expected = model_mbit(condition["algorithm"], condition["loss_percent"] / 100, rtt_s)
    if expected and (goodput := metrics.get("goodput_mbit")) is not None:
        metrics["model_ratio"] = goodput / expected
    if condition["app"] == "stream":
        late_s = _late_s(metrics, condition, byte_s)
        metrics["transfer_excess_packets"] = (
            None if late_s is None else late_s / byte_s / FRAME_BYTES
        )
    return metrics


def _late_s(
    metrics: Mapping[str, Any], condition: Mapping[str, Any], byte_s: float
) -> float | None:
    """Return the time in s that a transfer or a response takes beyond RTT, handshake and size."""
    size: float = condition["size_kb"]
    response: float = condition["response_kb"]
    rtt_s: float = condition["rtt_ms"] / 1e3
    payload = 1e3 * (size or response)
    wire = payload + math.ceil(payload / PAYLOAD_BYTES - 1e-9) * (FRAME_BYTES - PAYLOAD_BYTES)
    if size and metrics.get("completion_s") is not None:
        return float(metrics["completion_s"]) - 1.5 * rtt_s - (HANDSHAKE_BYTES + wire) * byte_s
    if not size and response and metrics.get("response_median_ms") is not None:
        return float(metrics["response_median_ms"]) / 1e3 - rtt_s - wire * byte_s
    return None


def model_mbit(algorithm: str, p: float, rtt_s: float) -> float | None:
    """Return the goodput of a model at a loss probability, in Mbit/s; None without a model.

    Reno and gaimd: Yang and Lam, ICNP 2000, with a timeout of the RTT and 200 ms. CUBIC: RFC 9438,
    equation 5, times 1.13 for random losses (docs/explanation).
    """
    if p <= 0 or not rtt_s:
        return None
    if algorithm == "cubic":
        window: float = (0.4 * (3 + 0.7) / (4 * (1 - 0.7))) ** 0.25 * (rtt_s / p) ** 0.75
        return float(1.13 * window / rtt_s * PAYLOAD_BYTES * 8 / 1e6)
    kept = {"reno": 1 / 2, "gaimd": 7 / 8}.get(algorithm)
    if kept is None:
        return None
    recovery_s = rtt_s * math.sqrt(2 * (1 - kept) * p / (1 + kept))
    timeouts = min(1, 3 * math.sqrt((1 - kept**2) * p / 2)) * p * (1 + 32 * p**2)
    return PAYLOAD_BYTES * 8 / 1e6 / (recovery_s + (rtt_s + 0.2) * timeouts)


def _error(least: int, most: int, replicates: int) -> float:
    """Return the error of a cell's interval, which is divided among the looks at its runs.

    A cell may end after each run from the campaign's minimum on. The looks before the last share a
    fifth of the error.
    """
    if most <= least:
        return 0.05
    return 0.05 * (EARLY_SHARE / (most - least) if replicates < most else 1 - EARLY_SHARE)


def _recorded_error(study: str, content: Mapping[str, Any]) -> float:
    config = _config()
    blocks = config["studies"].get(study) or _own_runs(study)
    entries = blocks[content["block"]]
    # A block may have other numbers of runs for some of its cells.
    block = next(
        entry
        for entry in (entries if isinstance(entries, list) else [entries])
        if all(
            content["condition"][axis] in (values if isinstance(values, list) else [values])
            for axis, values in entry.get("only", {}).items()
        )
    )
    most = block.get("max_replicates", block["replicates"])
    least = block["replicates"] if "max_replicates" in block else config["stop_early"]["replicates"]
    return _error(least, most, len(content["replicates"]))


def axes_between(a: Cell, b: Cell) -> list[str]:
    """Return the axes in which two cells differ."""
    return [
        axis
        for axis, value in a.condition.items()
        if axis not in SETTINGS and b.condition.get(axis) != value
    ]


@cache
def _config() -> dict[str, Any]:
    content: dict[str, Any] = load_yaml(ROOT / "config/config.yaml")
    return content


@cache
def _own_runs(study: str) -> dict[str, Any]:
    """Return the settings of runs in a study's own file, or in that of its suite."""
    content = load_yaml(ROOT / "studies" / study / "study.yaml")
    if "suite" in content:
        scenarios = load_yaml(ROOT / "suites" / content["suite"] / "suite.yaml")["scenarios"]
        return {name: scenario["full"] for name, scenario in scenarios.items()}
    runs: dict[str, Any] = content["runs"]
    return runs


@cache
def claims_of(study: str) -> dict[str, dict[str, Any]]:
    """Return a study's claims by their name."""
    path = ROOT / "studies" / study / "claims.yaml"
    return {claim["id"]: claim for claim in load_yaml(path)["claims"]}


class _Loader(yaml.SafeLoader):
    """YAML 1.2, in which `on` and `off` are text and 1e3 is a number."""


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:bool"]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(true|false)$"), list("tf"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9.]+[eE][-+]?[0-9]+$"), list("-+.0123456789")
)


def load_yaml(path: Path) -> Any:
    """Return the content of a file in YAML 1.2."""
    return yaml.load(path.read_text(), _Loader)


def rows(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    """Return the rows of a table."""
    if not path.is_file():
        raise SystemExit(
            f"recompute: error: {path} is missing. Make the report of these results first."
        )
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines, delimiter=delimiter))


def number(text: str | None) -> float | None:
    """Return the number in a table's field; None if it has none."""
    return None if text is None or text in ("", "NA") else float(text)


@dataclass
class Comparison:
    """A comparison with a written table: the number of values, and a sentence per difference."""

    compared: int = 0
    problems: list[str] = field(default_factory=list)

    def number(
        self, name: str, found: float | None, written: str | None, tolerance: float = 1e-6
    ) -> None:
        """Compare a number with the text of a table's field."""
        self.compared += 1
        other = number(written)
        if found is not None and math.isnan(found):
            found = None
        if found is None and other is None:
            return
        if found is None or other is None or not _close(found, other, tolerance):
            self.problems.append(f"{name} is {_shown(found)}, written is {_shown(other)}")

    def word(self, name: str, found: str, written: str) -> None:
        """Compare a word; the table may have NA for none."""
        self.compared += 1
        if found != ("" if written == "NA" else written):
            self.problems.append(f"{name} is {found or 'none'}, written is {written or 'none'}")


def _close(found: float, written: float, tolerance: float) -> bool:
    return found == written or math.isclose(found, written, rel_tol=tolerance, abs_tol=1e-9)


def _shown(value: float | None) -> str:
    return "missing" if value is None else f"{value:.6g}"
