"""Recomputation of a replicate's summary from its raw files, with the instrument's own functions.

It detects a manifest whose summary, plan or validity does not follow from the raw files. To detect
consistently forged raw files, the replicate must be run again.
"""

from __future__ import annotations

import functools
import json
import math
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from losslab.backends.base import GUEST
from losslab.backends.registry import BACKENDS
from losslab.campaign.futures import FUTURE
from losslab.campaign.inputs import trace_texts
from losslab.emulation import cut, hosts, outcome
from losslab.emulation.accounting import Traffic
from losslab.emulation.flows import Timeline
from losslab.emulation.goodput import read_rows
from losslab.emulation.link import traces
from losslab.emulation.plan import Plan, make_plan
from losslab.emulation.probes import queue, tcp
from losslab.emulation.traffic import Run
from losslab.errors import LosslabError
from losslab.study import features
from losslab.study.condition import Condition

# Tolerances: raw tables have six decimals, the original values had more.
RELATIVE, ABSOLUTE = 1e-5, 2e-6
# Metrics that follow from kernel counters, which only the manifest contains.
COUNTED = frozenset({
    "loss_offered_packets", "loss_packets", "loss_measured_percent", "bottleneck_drops",
    "sender_drops", "unexplained_packets", "rwnd_limited_percent", "bottleneck_loss_percent",
})  # fmt: skip
# No file has the counters of a second bottleneck before the traffic.
UNCOUNTED = "second_bottleneck_drops"
MACHINE_PREFIX = "machine_"


@dataclass
class Recomputed:
    """The outcome of a recomputation."""

    problems: list[str] = field(default_factory=list)  # parts that do not follow from raw files
    metrics: set[str] = field(default_factory=set)  # metrics recomputed from raw files
    # Metrics compared only with the manifest's own counters.
    counted: set[str] = field(default_factory=set)
    # Metrics that were not compared.
    not_recomputed: set[str] = field(default_factory=set)
    confirmed: bool = True  # whether raw files show every violation that the manifest lists


def recompute(folder: Path, manifest: Mapping[str, Any]) -> Recomputed:
    """Compare a replicate's manifest with the results of its raw files."""
    try:
        if "plan" not in manifest:
            return _without_plan(manifest)
        return _recompute(folder, manifest)
    except LosslabError as error:
        return Recomputed([f"raw files cannot be summarised: {error.message}"])
    except Exception as error:  # a forger's file may raise anything
        return Recomputed([f"raw files cannot be summarised: {type(error).__name__}: {error}"])


def _without_plan(manifest: Mapping[str, Any]) -> Recomputed:
    """Check a replicate whose job failed or whose guest was lost: it must have no results."""
    problems = ["has a summary without a plan"] if manifest["summary"] else []
    problems += ["valid without a plan"] if manifest["valid"] else []
    return Recomputed(problems, confirmed=False)


def _recompute(folder: Path, manifest: Mapping[str, Any]) -> Recomputed:
    condition = Condition.from_json(manifest["cell"])
    video = features.apps()[condition.app].input_of(manifest["observed"]["commands"])
    plan = make_plan(condition, manifest["seed"], video)
    if future := manifest.get(FUTURE):
        plan = cut.with_algorithm(plan, future["algorithm"])
    result = Recomputed()
    if not _agree(json.loads(json.dumps(plan.to_json())), manifest["plan"]):
        result.problems.append("the plan does not follow from condition and seed")
    with tempfile.TemporaryDirectory(prefix="losslab-recompute-") as name:
        # A copy, because the summary writes tables.
        copy = Path(name) / "raw"
        shutil.copytree(folder, copy)
        _write_traces(plan, condition, copy.parent)
        again, programs_failed = _summarise(plan, copy, manifest)
        for table in sorted({path.name for each in (folder, copy) for path in each.glob("*.csv")}):
            if not same_table(folder / table, copy / table):
                result.problems.append(f"{table} does not follow from the other raw files")
    if again["observed"]["commands"] != manifest["observed"]["commands"]:
        result.problems.append("the commands do not follow from the condition")
    _compare_summary(again["summary"], manifest, plan, result)
    if programs_failed:
        result.confirmed = False
    elif not _real_time(manifest):
        _compare_violations(again["reasons"], manifest, plan, result)
    return result


def _write_traces(plan: Plan, condition: Condition, folder: Path) -> None:
    texts = trace_texts(condition)
    for link in plan.parts.get("links", ()):
        if link.drawn_seed is None:
            text = texts[link.file]
        else:
            text = _drawn_trace(link.drawn_seed, link.drawn_mbit)
        (folder / link.file).write_text(text)


# Algorithms are compared on the same traces, so neighbouring cells share them.
@functools.lru_cache(maxsize=32)
def _drawn_trace(seed: int, mean_mbit: float) -> str:
    return traces.write(traces.generate(seed, mean=mean_mbit))


def _summarise(
    plan: Plan, folder: Path, manifest: Mapping[str, Any]
) -> tuple[dict[str, Any], bool]:
    """Summarise a replicate again; return the result, and whether its programs had failed.

    An app whose programs failed has no metrics. No raw file records such a failure.
    """
    try:
        again = outcome.summarise(plan, _observations(plan, folder, manifest, []), folder, None)
        if manifest["valid"] or again["summary"].keys() <= manifest["summary"].keys():
            return again, False
    except (LosslabError, OSError):
        if manifest["valid"]:
            raise
    observations = _observations(plan, folder, manifest, manifest["reasons"])
    return outcome.summarise(plan, observations, folder, None), True


def _observations(
    plan: Plan, folder: Path, manifest: Mapping[str, Any], failures: list[str]
) -> outcome.Observations:
    """Reconstruct a replicate's observations from raw files and manifest."""
    observed = manifest["observed"]
    timeline = _timeline(plan, folder, observed)
    backlog = [
        queue.QueueSample(float(row["t_s"]), *(int(row[key]) for key in list(row)[1:]))
        for row in read_rows(folder / "queue.csv")
    ]
    replies = [(t_s, rtt) for t_s, rtt in _pings(folder / "ping.csv") if t_s >= plan.warmup_s]
    run = Run(timeline, _last_samples(plan, observed), backlog, replies, failures)
    noted = {}
    if observed["link_begin_ms"] is not None:
        noted["link_begin_ns"] = timeline.origin_ns - round(1e6 * observed["link_begin_ms"])
    state, counted = observed["state"], Traffic(**observed["traffic"])
    idle = _pings(folder / "ping_idle.csv")
    return outcome.Observations(idle, state, run, noted, state, counted=counted)


def _timeline(plan: Plan, folder: Path, observed: Mapping[str, Any]) -> Timeline:
    """Return the origin of the tables' times and the start times of a replicate's flows."""
    origin_ns = features.apps()[plan.app].origin_ns(folder)
    if plan.background is not None:
        origin_ns = features.background().origin_ns(plan.background, folder)
    return Timeline(origin_ns, observed["started_s"])


def _last_samples(plan: Plan, observed: Mapping[str, Any]) -> list[tcp.TcpSample]:
    """Return samples with each flow's algorithms and its shares of window- and buffer-limited time.

    Background flows are left out: their own program reports on them.
    """
    blank = tcp.parse_tcp_info(0, "", bytes(tcp.TCP_INFO.size))
    ports = {flow.name: flow.source_port for flow in plan.flows}
    return [
        replace(
            blank, source_port=ports[flow["name"]] or 0, algorithm=algorithm, busy_s=1.0,
            rwnd_limited_s=flow["window_limited_share"],
            sndbuf_limited_s=flow["buffer_limited_share"], accurate_ecn=True,
        )
        for flow in observed["flows"]
        if flow["name"] in ports
        for algorithm in flow["found"]
    ]  # fmt: skip


def _pings(table: Path) -> list[tuple[float, float]]:
    return [(float(row["t_s"]), float(row["rtt_ms"])) for row in read_rows(table)]


def _compare_summary(
    again: Mapping[str, Any], manifest: Mapping[str, Any], plan: Plan, result: Recomputed
) -> None:
    """Compare the metrics, and record the data that each was compared with."""
    then = manifest["summary"]
    counters = COUNTED | plan.path_spec.summary(Traffic(**manifest["observed"]["traffic"])).keys()
    real_time = _real_time(manifest)
    for name in sorted(then.keys() | again.keys()):
        of_machine = real_time and name.startswith(MACHINE_PREFIX)
        if name == UNCOUNTED or (name not in again and ("changes" in plan.parts or of_machine)):
            result.not_recomputed.add(name)
        elif name not in then or name not in again or not _close(then[name], again[name]):
            result.problems.append(
                f"{name} {then.get(name, 'missing')}, but {again.get(name, 'none')} in raw files"
            )
        else:
            (result.counted if name in counters else result.metrics).add(name)


def _compare_violations(
    again: list[str], manifest: Mapping[str, Any], plan: Plan, result: Recomputed
) -> None:
    """Compare the violations with those of the state after the traffic.

    No file has the state before the traffic. The recomputation uses the later state in its place,
    and ignores its deviations from the plan for the start, which come first.
    """
    shown = again[len(hosts.deviations(plan.hosts, manifest["observed"]["state"])) :]
    if manifest["valid"] and shown:
        result.problems.append(f"valid, but its raw files show: {shown[0]}")
    result.confirmed = set(manifest["reasons"]) <= set(shown)


def _real_time(manifest: Mapping[str, Any]) -> bool:
    where = manifest["instrument"].get("where", GUEST)
    return not BACKENDS[manifest["backend"], where].needs.guest


def _close(then: Any, again: Any) -> bool:
    """Return whether two values of a metric agree within the precision of the raw files."""
    if isinstance(then, int | float) and isinstance(again, int | float):
        both_nan = math.isnan(then) and math.isnan(again)
        return both_nan or math.isclose(then, again, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return bool(then == again)


def _agree(one: Any, other: Any) -> bool:
    """Return whether JSON agrees, with numbers as in `_close`: Python 3.12 rounds sum() better."""
    if one == other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_agree(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_agree, one, other))
    return _close(one, other)


def same_table(then: Path, again: Path) -> bool:
    """Return whether two tables agree, with numbers as in `_close`."""
    if not then.is_file() or not again.is_file():
        return False
    texts = [path.read_bytes() for path in (then, again)]
    if texts[0] == texts[1]:
        return True
    tables = [[line.split(b",") for line in text.split(b"\n")] for text in texts]
    return len(tables[0]) == len(tables[1]) and all(
        len(one) == len(other) and all(map(_same_field, one, other))
        for one, other in zip(*tables, strict=True)
    )


def _same_field(then: bytes, again: bytes) -> bool:
    try:
        return then == again or _close(float(then), float(again))
    except ValueError:
        return False
