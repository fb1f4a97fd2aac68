"""Bulk transfer: iperf3 sends as fast as TCP permits; goodput counts acknowledged data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation import goodput
from losslab.emulation.app import App
from losslab.emulation.goodput import INTERVAL_S, Deliveries, Goodput
from losslab.emulation.programs import COMPETITOR_PREFIX, START_JITTER_S, Flow, Program, Timeline
from losslab.emulation.topology import BULK_PORT, RECEIVER_ADDRESS, at_version
from losslab.errors import LosslabError
from losslab.study.axes import MIN_MS, NONE, Seed, axis

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan
    from losslab.study.condition import Condition

# Fixed ports, so that hashes of the flow's addresses do not vary.
PORT = BULK_PORT  # iperf3's default; the competitor uses the next one
SOURCE_PORT = 40_001
# Bytes per read of the receiver: few compared with its window, which unread bytes reduce.
READ_BYTES = 16 * 1024
# KiB per write of the sender; the larger value, iperf3's default, from `FAST_MBIT` on.
WRITE_KIB, FAST_WRITE_KIB, FAST_MBIT = 16, 128, 100.0


def flow(condition: Condition, prefix: str, algorithm: str, number: int) -> Flow:
    """Return bulk flow `number`; the names of the flow and its logs start with `prefix`."""
    port, source_port = PORT + number, SOURCE_PORT + number
    receiver = at_version(RECEIVER_ADDRESS, condition.ip_version)
    server = [
        "iperf3", "--server", "--one-off", "--json", "--bind", receiver, "--port", str(port),
        "--interval", f"{INTERVAL_S:g}",
    ]  # fmt: skip
    client = [
        "iperf3", "--client", receiver, "--port", str(port), "--cport", str(source_port),
        # With periodic reports, the client reads the clock without a pause until the server's last
        # reply. Each read takes 256 ns of virtual time but microseconds of wall time: minutes in
        # total.
        # iperf3 takes whole seconds, and 0 is for ever (atoi, iperf_api.c).
        "--time", str(math.ceil(condition.duration_s)), "--interval", "0",
        "--congestion", algorithm, "--length", str(1024 * write_kib(condition)), "--json",
    ]  # fmt: skip
    return Flow(
        name=f"{prefix}iperf3",
        algorithm=algorithm,
        port=port,
        source_port=source_port,
        listener=Program("receiver", server, f"{prefix}receiver.log"),
        caller=Program("sender", client, f"{prefix}sender.log"),
        receive_block_bytes=READ_BYTES,
    )


def write_kib(condition: Condition) -> int:
    """Return the KiB that the sender writes at a time.

    iperf3 counts whole blocks only; one of its default 128 KiB is most of an interval on a slow
    link. On a fast link, each block costs two switches between the guest's kernel and the program.
    """
    fast = condition.rate_mbit >= FAST_MBIT and condition.trace == NONE
    return condition.write_kib or (FAST_WRITE_KIB if fast else WRITE_KIB)


def load(path: Path) -> dict[str, Any]:
    """Load a report of iperf3; LosslabError if iperf3 reports an error."""
    result = goodput.read_report(path)
    if "error" in result:
        raise LosslabError(
            f"iperf3 must end without error, found in {path.name}: {result['error']}"
        )
    return result


class Iperf3(App):
    """Bulk flow, optionally with a competitor."""

    order = 1
    meaning = "bulk"
    with_competitor = with_ipv6 = True
    start_s = 0.0
    ports = {SOURCE_PORT: "first", SOURCE_PORT + 1: "competitor"}
    per_second = True
    # Control connection, parameters, request to create streams, and data connection.
    setup_rtts = 4
    axes = {
        "write_kib": axis(
            0,
            help=f"size of iperf3's writes; 0: {WRITE_KIB} below {FAST_MBIT:g} Mbit/s and with "
            f"traces, for finer intervals on slow links, and {FAST_WRITE_KIB}, iperf3's default, "
            "from there on, for fewer system calls",
            span="[0, 1024]", unit="KiB", named="write{}", seed=Seed.NEVER,
        ),
        "start_spread_s": axis(
            0.0,
            help="which of two bulk flows starts first is drawn for each replicate, and so is how "
            "long after it the other starts, up to so many seconds; 0: the competitor starts up to "
            "0.1 s after the flow under test",
            span="[0, 3600]", unit="s", smallest=MIN_MS / 1000, named="spread{}",
        ),
    }  # fmt: skip

    def conflicts(self, condition: Condition) -> Iterator[str]:
        kib, app = condition.write_kib, condition.app
        if kib and not self.used(condition) and condition.competitor == NONE:
            yield f"write_kib {kib} needs an iperf3 flow, found the app {app} and no competitor"
        spread_s = condition.start_spread_s
        if spread_s and not (self.used(condition) and condition.competitor != NONE):
            yield f"start_spread_s {spread_s:g} needs the app iperf3 and a competitor"
        if spread_s > max(condition.warmup_s, START_JITTER_S):
            yield (
                "start_spread_s must be at most warmup_s, so that both flows run while goodput is "
                f"measured, or {START_JITTER_S:g} without a warm-up, found {spread_s:g}"
            )

    def flows(self, condition: Condition, video: Path | None = None) -> list[Flow]:
        flows = [flow(condition, "", condition.algorithm, 0)]
        if condition.competitor != NONE:
            flows.append(flow(condition, COMPETITOR_PREFIX, condition.competitor, 1))
        return flows

    def collect(self, plan: Plan, folder: Path, timeline: Timeline) -> dict[str, Any]:
        """Write intervals.csv (and competitor-intervals.csv) and return the summary.

        Goodput counts data acknowledged between the warm-up and the configured end on the
        replicate's clock; a competitor's flow runs during all of that time, too. `received_mbit`
        counts what arrived in order in that time (`Deliveries.received_mbit`). iperf3 sends for
        whole seconds from its start; of a fractional duration, or if flows start seconds apart,
        retransmissions count until the configured end.
        """
        summaries = list[dict[str, Any]]()
        rows, window = goodput.read_rows(folder / "tcp.csv"), (plan.warmup_s, plan.duration_s)
        for flow in plan.flows:
            receiver, sender = (load(folder / end.log) for end in (flow.listener, flow.caller))
            delivered = Deliveries.read(folder / "tcp.csv", flow.source_port, plan.data_ports)
            prefix = flow.name.removesuffix("iperf3")
            goodput.write_intervals(delivered.intervals(), folder / f"{prefix}intervals.csv")
            retransmits = (
                sender["end"]["sum_sent"]["retransmits"]
                if plan.ends_on_time
                else goodput.retransmits_until(rows, flow.source_port, plan.duration_s)
            )
            summaries.append({
                "goodput_mbit": delivered.mbit(*window),
                "received_mbit": delivered.received_mbit(rows, flow.source_port, *window),
                "retransmits": retransmits,
                "bytes_received": sum(each["sum"]["bytes"] for each in receiver["intervals"]),
            })  # fmt: skip
        goodputs = [of_flow["goodput_mbit"] for of_flow in summaries]
        summary = summaries[0] | {"total_goodput_mbit": sum(goodputs)}
        for of_competitor in summaries[1:]:
            names = ("goodput_mbit", "received_mbit", "retransmits")
            summary |= {f"competitor_{name}": of_competitor[name] for name in names}
            summary["jain_index"] = goodput.jain_index(goodputs)
        return summary

    def goodputs(self, summary: Mapping[str, Any], plan: Plan) -> list[Goodput]:
        seconds = plan.duration_s - plan.warmup_s
        return [Goodput(summary[name], seconds) for name in ("goodput_mbit", "total_goodput_mbit")]


FEATURE = Iperf3()
