"""Reader of qlog, the log of QUIC stacks, and its congestion control's metrics.

Stacks write several versions of the drafts (draft-ietf-quic-qlog-main-schema, -quic-events): one
JSON document, JSON text sequences (RFC 7464), or a line of JSON for each event; events as objects,
or as rows below `event_fields`. Standard library only.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

SUFFIXES = (".qlog", ".sqlog")
SEPARATOR = "\x1e"
METRICS, LOST, STATE = "metrics_updated", "packet_lost", "congestion_state_updated"
SENT, RECEIVED = "packet_sent", "packet_received"
MAX = 1e15  # larger values are none
# What a file that is no qlog, or a truncated one, raises.
BROKEN = (AttributeError, IndexError, KeyError, OSError, RecursionError, TypeError, ValueError)


class Event(NamedTuple):
    """An event: its time in ms since the log's reference, its name without category, its data."""

    ms: float
    name: str
    data: dict[str, Any]
    vantage: str = ""  # type of the log's vantage point: `server`, `client` or ""


def events(path: Path) -> Iterator[Event]:
    """Yield the events of a log; one that is damaged has the events before that."""
    clock, vantage = 0.0, ""
    common: dict[str, Any] = {}
    names: list[str] = []
    try:
        for record in _records(path.read_text(errors="replace")):
            if isinstance(record, dict) and "name" not in record:
                vantage = str(record.get("vantage_point", {}).get("type", vantage))
                common = record.get("common_fields", common)
                names = [str(name).lower() for name in record.get("event_fields", names)]
                continue
            row = record if isinstance(record, dict) else dict(zip(names, record, strict=False))
            # The time's field is named after its format in older drafts.
            given = row.get("time", row.get("relative_time", row.get("delta_time")))
            formats = str(row.get("time_format", common.get("time_format", "")))
            delta = "delta" in formats or "previous" in formats or "delta_time" in row
            clock = float(given) + (clock if delta else 0.0)  # type: ignore[arg-type]
            name = str(row.get("name", row.get("event", row.get("event_type"))))
            short = name.rpartition(":")[2].removeprefix("recovery_")
            yield Event(clock, short, dict(row.get("data", {})), vantage)
    except BROKEN:
        return


def _records(text: str) -> Iterator[Any]:
    """Yield the parts of a log: what is common to events, and events."""
    if SEPARATOR not in text[:1]:
        try:
            whole = json.loads(text)
        except ValueError:
            whole = None  # a line for each event
        if isinstance(whole, dict) and "traces" in whole:
            for trace in whole["traces"]:
                yield {key: value for key, value in trace.items() if key != "events"}
                yield from trace["events"]
            return
    for line in text.split(SEPARATOR if SEPARATOR in text[:1] else "\n"):
        if line.strip():
            record = json.loads(line)
            yield record.get("trace", record) if isinstance(record, dict) else record


def metrics(paths: Iterable[Path], vantage: str) -> dict[str, float]:
    """Return the metrics of the sender, whose logs have a vantage point; none without its log.

    Of several connections, that which sent most packets counts.
    """
    logs = ([event for event in events(path) if event.vantage == vantage] for path in paths)
    largest = max(logs, key=lambda log: sum(event.name == SENT for event in log), default=[])
    summary = dict[str, float]()
    for name, key in (("qlog_srtt_median_ms", "smoothed_rtt"),
                      ("qlog_cwnd_median_bytes", "congestion_window")):  # fmt: skip
        logged = (event.data.get(key) for event in largest if event.name == METRICS)
        values = [v for v in logged if isinstance(v, int | float) and 0 <= v < MAX]
        if values:
            summary[name] = statistics.median(values)
    # A stack that logs its metrics may log losses; without any of both, the log says nothing.
    lost = sum(event.name == LOST for event in largest)
    if summary or lost:
        summary["qlog_lost_packets"] = lost
    return summary
