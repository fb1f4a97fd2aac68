"""Bulk transfer: one iperf3 stream as fast as TCP lets it, measured at the receiver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from losslab.condition import Condition
from losslab.errors import LosslabError
from losslab.topology import RECEIVER_ADDRESS

PORT = 5201  # iperf3's default
FLOW_PORT = 40_001  # fixed, so that hashes over the flow's addresses do not vary
INTERVAL_S = 0.1
# iperf3 counts whole blocks only; its 128 KiB would be 10 Mbit/s in an interval.
BLOCK = "16K"
BULK = True


def receiver_command(condition: Condition) -> list[str]:
    """Write the server's command line: one test, then exit."""
    return [
        "iperf3", "--server", "--one-off", "--json",
        "--bind", RECEIVER_ADDRESS, "--port", str(PORT), "--interval", str(INTERVAL_S),
    ]  # fmt: skip


def sender_command(condition: Condition, video: Path | None) -> list[str]:
    """Write the client's command line."""
    return [
        "iperf3", "--client", RECEIVER_ADDRESS, "--port", str(PORT), "--cport", str(FLOW_PORT),
        "--time", f"{condition.duration_s:g}", "--interval", str(INTERVAL_S),
        "--congestion", condition.algorithm, "--length", BLOCK, "--json",
    ]  # fmt: skip


def collect(condition: Condition, folder: Path, start_ns: int) -> dict[str, Any]:
    """Turn receiver.log and sender.log into intervals.csv and the summary.

    Goodput is bytes over time at the receiver between the warm-up and the configured end.

    Raises:
        LosslabError: iperf3 reported an error or wrote no JSON.
    """
    receiver = _result(folder / "receiver.log")
    sender = _result(folder / "sender.log")
    rows = [
        (i["sum"]["end"], i["sum"]["seconds"], i["sum"]["bytes"]) for i in receiver["intervals"]
    ]
    # The last interval is a remainder of any length; one below a tenth of the usual has no rate.
    rows = [row for row in rows if row[1] > INTERVAL_S / 10]
    lines = [f"{end:.6f},{octets * 8 / seconds / 1e6:.6f}" for end, seconds, octets in rows]
    (folder / "intervals.csv").write_text("\n".join(["t_s,goodput_mbit", *lines]) + "\n")
    half = INTERVAL_S / 2  # interval ends carry the clock's rounding
    inside = [
        row
        for row in rows
        if row[0] - row[1] >= condition.warmup_s - half and row[0] <= condition.duration_s + half
    ]
    seconds = sum(row[1] for row in inside)
    if seconds <= 0:
        raise LosslabError("iperf3's receiver must report intervals after the warm-up, found none")
    return {
        "goodput_mbit": sum(row[2] for row in inside) * 8 / seconds / 1e6,
        "retransmits": sender["end"]["sum_sent"]["retransmits"],
        "bytes_received": sum(row[2] for row in rows),
    }


def _result(path: Path) -> dict[str, Any]:
    """Load iperf3's JSON; its `error` key is an error."""
    try:
        result: dict[str, Any] = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise LosslabError(f"{path.name} must be iperf3's JSON, found: {error}") from error
    if "error" in result:
        raise LosslabError(
            f"iperf3 must end without error, found in {path.name}: {result['error']}"
        )
    return result
