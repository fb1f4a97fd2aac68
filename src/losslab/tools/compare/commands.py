"""`losslab compare`: another tool's measurement beside a run, metric by metric."""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from tabulate import tabulate

from losslab.campaign.results import Replicate
from losslab.campaign.tables import FLOW_NAMES, one_second_means
from losslab.emulation.goodput import median, quantile
from losslab.reading import LARGEST, UsageError
from losslab.study import metrics
from losslab.study.intervals import MIN_RUNS
from losslab.tools.compare.measurement import Interval, Measurement, mean_mbit, read
from losslab.ui import series

# Intervals' ends are not exact, and the last second of a run may lack 0.1 s.
CLOCK_S, LACKS_S = 0.02, 0.15
# Share by which the times of the file and of the runs may differ to compare a value with a range.
LENGTH_SHARE = 0.1
# Numbers of other tools are rounded.
ROUNDED = 1e-3
HEAD = ("metric", "unit", "file", "run", "run's range", "run / file", "file is")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `compare`."""
    parser = commands.add_parser("compare")
    parser.add_argument(
        "file",
        type=Path,
        help="report of iperf3 or iperf, flent's .flent.gz, a capture (pcap, pcapng) or CSV",
    )
    parser.add_argument(
        "--run", dest="run_folder", type=Path, required=True, metavar="RUN",
        help="folder of a run, or of a cell with its runs",
    )  # fmt: skip
    parser.add_argument(
        "--series", default="", help="of flent: beginning of the flows' names, such as TCP upload"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_compare)


def _compare(options: argparse.Namespace) -> int:
    measured = read(options.file, options.series)
    replicates = [Replicate(each) for each in series.replicates(options.run_folder)]
    valid = [each for each in replicates if each.manifest["valid"]]
    if not valid:
        raise UsageError(f"{options.run_folder} must have a valid run, found none")
    if any(each.manifest["cell"] != valid[0].manifest["cell"] for each in valid):
        raise UsageError(
            f"{options.run_folder} must be a run, or a cell with its runs, found runs of different "
            "conditions",
            hint=f"name one of them, such as {valid[0].folder}",
        )
    rows, notes = compared(measured, valid)
    if options.json:
        print(json.dumps({"tool": measured.tool, "runs": len(valid), "metrics": rows,
                          "notes": notes}, indent=1, allow_nan=False))  # fmt: skip
    else:
        print(f"{options.file} ({measured.tool}) beside {options.run_folder} (runs: {len(valid)})")
        print(tabulate(map(_cells, rows), HEAD, tablefmt="plain", disable_numparse=True))
        print("\n".join(f"note: {note}" for note in notes))
    return 0


def _cells(row: dict[str, Any]) -> list[str]:
    ends = "" if row["low"] == row["high"] else f"{row['low']:.4g} to {row['high']:.4g}"
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
    shown = ("" if each is None else f"{each:.4g}" for each in (row["file"], row["run"]))
    return [row["metric"], row["unit"], *shown, ends, ratio, row["place"] or ""]


def _place(value: float | None, of_runs: Sequence[float]) -> str | None:
    """Return where a value lies: inside, below or above the range of five runs or more."""
    if value is None or len(of_runs) < MIN_RUNS:
        return None
    low, high = min(of_runs), max(of_runs)
    if low - ROUNDED * abs(low) <= value <= high + ROUNDED * abs(high):
        return "inside"
    return "below" if value < low else "above"


def _other_length(its: Measurement, intervals: Sequence[Interval], runs_s: float) -> str:
    """Return a note if the time of the file's numbers is another one than that of the runs."""
    file_s = sum(end - begin for begin, end, _ in intervals) if intervals else its.seconds
    if abs(file_s - runs_s) <= LENGTH_SHARE * runs_s:
        return ""
    return (
        f"the file has {file_s:.3g} s and each run {runs_s:.3g} s, so whether the file lies in the "
        "runs' range is not said: give the runs its length"
    )


def compared(
    measured: Measurement, runs: Sequence[Replicate]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row per metric that both have, and what is not comparable."""
    its, notes, rows = measured, [*measured.notes], list[dict[str, Any]]()
    condition = runs[0].manifest["cell"]
    warmup_s, duration_s = condition["warmup_s"], condition["duration_s"]
    summaries = [each.manifest["summary"] for each in runs]

    def add(metric: str, unit: str, value: float | None, of_runs: Sequence[float | None]) -> None:
        found = [each for each in of_runs if each is not None]
        if value is None:
            return
        if not found:
            notes.append(f"not comparable: {metric} (the run does not have it)")
            return
        mean = fmean(found)
        ratio = mean / value if value and abs(mean) / LARGEST < abs(value) else None
        rows.append({"metric": metric, "unit": unit, "file": value, "run": mean, "low": min(found),
                     "high": max(found), "ratio": ratio,
                     "place": None if other_length else _place(value, found)})  # fmt: skip

    later = [each for each in its.intervals if each[0] > warmup_s - CLOCK_S]
    whole = sum(end - begin for begin, end, _ in later) < 2 - LACKS_S
    # One interval for all numbers of the file, and for those of the run that can have it.
    begin_s = 0.0 if whole else warmup_s
    file = {} if whole else by_second(later)
    other_length = _other_length(its, [] if whole else later, duration_s - begin_s)
    notes += [other_length] if other_length and len(runs) >= MIN_RUNS else []
    if warmup_s:
        part = "are in the file's numbers" if whole else "are left out of the file's numbers"
        notes.append(f"the first {warmup_s:g} s, the run's warm-up, {part}")
    if its.algorithm and its.algorithm != condition["algorithm"]:
        notes.append(f"the congestion control is {its.algorithm} in the file, and "
                     f"{condition['algorithm']} in the run")  # fmt: skip
    if its.streams > 1:
        notes.append(f"the file adds {its.streams} streams; the run's goodput is that of all "
                     "flows, its RTT and retransmissions are those of the first")  # fmt: skip
    notes += [f"not comparable: {metric} ({why})" for metric, why in its.absent.items()]
    names = ["total_goodput_mbit"] * (its.streams > 1) + ["goodput_mbit", "throughput_mbit"]
    add("goodput", "Mbit/s", its.goodput_mbit if whole else mean_mbit(later),
        [_first(each, *names) for each in summaries])  # fmt: skip
    resent_per_s = _resent_per_s(its, later, begin_s)
    if resent_per_s is not None:
        add("retransmissions", "1/s", resent_per_s, [_resent_of(each, begin_s) for each in runs])
    add("lost datagrams", "%", its.lost_percent, [_lost_percent(each) for each in summaries])
    rtts = [sorted(_rtts(each, its.rtt_of, warmup_s)) for each in runs]
    after = sorted(ms for at, ms in its.rtts_ms if at > begin_s)
    if its.rtts_ms and not after:
        notes.append(f"not comparable: RTT (the file has none after {begin_s:g} s)")
    add("median RTT", "ms", median(after), [median(each) for each in rtts])
    add("95th percentile RTT", "ms", quantile(after, 0.95), [quantile(each, 0.95) for each in rtts])
    seconds = [
        dict(one_second_means(each.samples("intervals.csv"), warmup_s, duration_s)) for each in runs
    ]
    common = sorted(set(file).intersection(*seconds))
    mean = fmean(file[at] for at in common) if common else 0
    if len(common) < 2 or not mean:
        why = "no two seconds of both, by intervals of at most 1 s"
        return rows, [*notes, f"not comparable: goodput over time ({why})"]
    variations = [_variation([each[at] for at in common]) for each in (file, *seconds)]
    add("variation of goodput", "CV", variations[0], variations[1:])
    apart = [100 * fmean(abs(file[at] - each[at]) for at in common) / mean for each in seconds]
    rows.append({"metric": "distance over time", "unit": "% of the file's mean", "file": None,
                 "run": fmean(apart), "low": min(apart), "high": max(apart),
                 "ratio": None, "place": None})  # fmt: skip
    return rows, notes


def _first(summary: Mapping[str, Any], *names: str) -> float | None:
    values = (metrics.value(summary, name) for name in names)
    return next((value for value in values if value is not None), None)


def _resent_per_s(its: Measurement, intervals: Sequence[Interval], begin_s: float) -> float | None:
    """Return the file's retransmissions per second in the interval of its other numbers.

    A total without times is that of the whole test.
    """
    if its.retransmits is None or its.seconds <= 0:
        return None
    if not its.resent and its.retransmits:
        return its.retransmits / its.seconds
    end_s = max([its.seconds, *(end for _, end, _ in intervals)])
    count = 0.0
    for first_s, last_s, spans in its.resent:
        if last_s > begin_s:  # of a span that began before, its part
            share = (last_s - max(first_s, begin_s)) / (last_s - first_s) if last_s > first_s else 1
            count += spans * share
    return count / (end_s - begin_s) if end_s > begin_s else None


def _resent_of(run: Replicate, begin_s: float) -> float | None:
    """Return a run's retransmissions per second from a time to its end.

    From the start, they are those of the summary, later those of the first flow's samples.
    """
    total = _first(run.manifest["summary"], "retransmits")
    duration_s = float(run.manifest["cell"]["duration_s"])
    rows = [row for row in run.table("tcp.csv") if row["flow"] in FLOW_NAMES] if begin_s else []
    samples = [(float(row["t_s"]), int(row["retransmits"])) for row in rows
               if row.get("retransmits") and row["flow"] == rows[0]["flow"]]  # fmt: skip
    if samples:
        before = [count for at_s, count in samples if at_s <= begin_s]
        return (samples[-1][1] - max(before, default=0)) / (duration_s - begin_s)
    return None if total is None else total / duration_s


def _lost_percent(summary: Mapping[str, Any]) -> float | None:
    sent, got = (_first(summary, f"datagrams_{each}") for each in ("sent", "received"))
    return 100 * (1 - got / sent) if sent and got is not None else None


def _rtts(run: Replicate, kind: str, warmup_s: float) -> list[float]:
    """Return a run's RTTs after the warm-up, of pings or as the first flow's TCP smooths it."""
    rows, column = run.table("ping.csv"), "rtt_ms"
    if kind != "ping":
        rows = [row for row in run.table("tcp.csv") if row["flow"] in FLOW_NAMES and row["srtt_ms"]]
        rows, column = [row for row in rows if row["flow"] == rows[0]["flow"]], "srtt_ms"
    return [float(row[column]) for row in rows if row[column] and float(row["t_s"]) >= warmup_s]


def by_second(intervals: Sequence[Interval]) -> dict[int, float]:
    """Return the mean goodput of each whole second, by its end, from intervals of up to 1 s."""
    parts: dict[int, list[Interval]] = defaultdict(list)
    for begin, end, mbit in intervals:
        if end - begin < 1 + LACKS_S:
            for second in range(math.floor(begin), math.ceil(end)):
                parts[second + 1].append((max(begin, second), min(end, second + 1.0), mbit))
    return {
        at: mean_mbit(its)
        for at, its in sorted(parts.items())
        if sum(end - begin for begin, end, _ in its) > 1 - LACKS_S
    }


def _variation(values: Sequence[float]) -> float | None:
    """Return the coefficient of variation."""
    mean = fmean(values)
    return pstdev(values) / mean if mean else None
