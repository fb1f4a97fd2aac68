"""Summary of a run for a terminal: valid or why not, main metrics, files and next steps."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from losslab.campaign import limiters
from losslab.study import features, metrics
from losslab.study.axes import OWN
from losslab.study.condition import AXES, NO_TRACE, Condition
from losslab.ui.series import axis_text

# Metrics of the summary, besides those of a user's own features; a run has those of its app and
# path. manifest.json has all.
SHOWN = (
    "goodput_mbit", "throughput_mbit", "completion_s", "source_kept_percent",
    "response_median_ms", "response_p95_ms", "requests_done", "download_s",
    "time_to_first_frame_s", "frames_on_time_percent", "stall_s", "competitor_goodput_mbit",
    "bulk_goodput_mbit", "flows_goodput_mbit", "upload_goodput_mbit", "total_goodput_mbit",
    "jain_index", "starved_flows", "fct_median_s", "link_capacity_mbit",
    "link_utilisation_percent", "rtt_ms", "rtt_loaded_ms", "retransmits", "loss_measured_percent",
    "bottleneck_drops", "reverse_drops", "policer_drops", "ecn_marks", "cwnd_median_packets",
)  # fmt: skip
# Axes that describe the path even with their default values.
ALWAYS = ("algorithm", "app", "rate_mbit", "rtt_ms", "buffer_packets", "duration_s")
LABEL_WIDTH = 30
FILES = {
    "manifest.json": "all metrics, the settings read back, the checks",
    "intervals.csv": "goodput over time",
    "frames.csv": "the video's frames",
    "requests.csv": "a row per request, with its response time",
    "flows.csv": "a row per background flow",
    "tcp.csv": "cwnd, RTT and rates of each TCP connection over time",
    "queue.csv": "the bottleneck's queue over time",
    "ping.csv": "the RTT during the traffic",
    "console.log": "what the guest's kernel printed",
}


def text(manifest: Mapping[str, Any], out: Path) -> str:
    """Return the summary of the run in folder `out`; messages before it list the violations."""
    return "\n".join([
        *_head(manifest), "", *_numbers(manifest["summary"]), *_limits(manifest, out),
        *_files(manifest, out),
    ])  # fmt: skip


def _head(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the verdict, the condition, and a note on a queue that was not checked."""
    count = len(manifest["reasons"])
    yield (
        "valid: all checks passed"
        if manifest["valid"]
        else (
            f"INVALID: {count} {'check' if count == 1 else 'checks'} failed, so do not use these "
            "numbers; the reasons are above and in manifest.json"
        )
    )
    condition = Condition.from_json(manifest["cell"])
    # A trace replaces the rate.
    always = {*ALWAYS} - ({"rate_mbit"} if condition.trace != NO_TRACE else set())
    values = (
        axis_text(name, getattr(condition, name))
        for name, axis in AXES.items()
        if name in always or getattr(condition, name) != axis.default
    )
    yield "  " + ", ".join([*values, f"seed {manifest['seed']}"])
    if manifest["cell"].get("queue") == OWN:
        yield (
            f"note: the queue is `{manifest['cell']['qdisc']}` as tc reads it: its settings are in "
            "manifest.json"
        )


def _numbers(summary: Mapping[str, Any]) -> Iterator[str]:
    declared = metrics.declared()
    own = (row["name"] for each in features.added() for row in each.metrics)
    for name in (*SHOWN, *own):
        number = metrics.value(summary, name)
        # The total of a single flow is its own goodput.
        single = name == "total_goodput_mbit" and number == metrics.value(summary, "goodput_mbit")
        if number is not None and not single:
            yield _line(declared[name].label, number, declared[name].unit)


def _limits(manifest: Mapping[str, Any], out: Path) -> Iterator[str]:
    """Yield the queueing delay and what limited the first flow, if they are known."""
    if (delay := limiters.queueing_delay(out, manifest)) is not None:
        yield _line("Queueing delay (mean)", delay.mean_ms, "ms")
        yield _line("Queueing delay (95th perc.)", delay.p95_ms, "ms")
    limits = limiters.of_run(out, manifest)
    if not limits.shares:
        return
    text = ", ".join(f"{name} {percent:.0f} %" for name, percent in limits.shares.items())
    yield f"  {'Limited by (share of time)':<{LABEL_WIDTH}}{text}"
    for warning in limiters.warnings(limits, Condition.from_json(manifest["cell"])):
        yield f"warning: {warning}"


def _line(label: str, number: float, unit: str) -> str:
    # Four digits, but counts in full.
    shown = f"{number:.0f}" if abs(number) >= 1000 else f"{number:.4g}"
    return f"  {label:<{LABEL_WIDTH - 1}} {shown} {unit}".rstrip()


def _files(manifest: Mapping[str, Any], out: Path) -> Iterator[str]:
    """Yield the files of the run, and what to do with them."""
    if there := [name for name in FILES if (out / name).is_file()]:
        yield from ("", f"Files in {out}")
        yield from (f"  {name:<{LABEL_WIDTH}}{FILES[name]}" for name in there)
    folder = shlex.quote(str(out))
    yield from ("", "Next", f"  losslab plot {folder}", "      draw it")
    if manifest["valid"]:
        yield from (f"  losslab rerun {folder}", "      repeat it and compare every byte")
