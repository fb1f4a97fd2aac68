"""Web page that curl fetches from Python's HTTP server, optionally with a bulk flow.

The server runs on the sender, so that page and bulk flow share the bottleneck. The seed draws the
fetch's start time. A long flow's queue changes slowly, so fetches at one fixed time would all meet
the same queue.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation.app import App
from losslab.emulation.apps import iperf3
from losslab.emulation.goodput import Deliveries, Goodput, read_report, read_rows
from losslab.emulation.programs import PYTHON, Flow, Program, Timeline
from losslab.emulation.topology import RECEIVER_ADDRESS, SENDER_ADDRESS
from losslab.errors import LosslabError
from losslab.study.axes import NONE

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan
    from losslab.study.condition import Condition

SERVER = "losslab.emulation.apps.page_server"
PORT = 80
# Length of http/index.html in the Stanford lab cs144_bufferbloat.
PAGE_BYTES = 177_669
FOLDER = "/tmp/www"
FETCH_LIMIT_S = 100.0
BULK_PREFIX = "bulk-"
# Minimum times from the warm-up to a fetch's start, and from there to the end: the slowest fetch
# must end while the bulk flow still runs.
FETCH_AFTER_S = 5.0
FETCH_BEFORE_END_S = 20.0


class Web(App):
    """Page fetched by curl, optionally with a bulk flow."""

    order = 3
    meaning = "a page of 177,669 bytes"
    with_competitor = True
    start_s = 0.03
    ports = {iperf3.SOURCE_PORT: "first", PORT: "web"}
    programs = (SERVER,)

    def conflicts(self, condition: Condition) -> Iterator[str]:
        after_s = condition.duration_s - condition.warmup_s
        fetch_s = FETCH_AFTER_S + FETCH_BEFORE_END_S
        if self.used(condition) and after_s < fetch_s:
            yield (
                f"duration_s must leave {fetch_s:g} s after the warm-up for the app web, found "
                f"{after_s:g}"
            )

    def expected_mbit(self, condition: Condition, rate_mbit: float) -> float | None:
        """Return 0 without a bulk flow, else None."""
        return 0.0 if condition.competitor == NONE else None

    def flows(self, condition: Condition, video: Path | None = None) -> list[Flow]:
        # On an asymmetric path, curl's default is the address on r3's link, because the route to
        # the server leaves there. Data to that address would bypass the bottleneck.
        own_address = [] if condition.path == "symmetric" else ["--interface", RECEIVER_ADDRESS]
        serve = [
            *PYTHON, SERVER, SENDER_ADDRESS, str(PORT), "--folder", FOLDER,
            "--page-bytes", str(PAGE_BYTES),
        ]  # fmt: skip
        get = [
            "curl", "--silent", "--show-error", "--output", "/dev/null", *own_address,
            "--max-time", f"{FETCH_LIMIT_S:g}", "--write-out", "%{json}\n",
            f"http://{SENDER_ADDRESS}:{PORT}/index.html",
        ]  # fmt: skip
        first_s = condition.warmup_s + FETCH_AFTER_S
        fetch = Flow(
            name="web",
            algorithm=condition.algorithm,
            port=PORT,
            source_port=PORT,
            listener=Program("sender", serve, "web-server.log", lasting=True),
            caller=Program("receiver", get, "web-client.log"),
            start_window_s=(first_s, condition.duration_s - FETCH_BEFORE_END_S),
            bulk=False,
        )
        if condition.competitor == NONE:
            return [fetch]
        return [iperf3.flow(condition, BULK_PREFIX, condition.competitor, 0), fetch]

    def collect(self, plan: Plan, folder: Path, timeline: Timeline) -> dict[str, Any]:
        """Return the summary of curl's report, the pings before the fetch and the bulk flow."""
        report = read_report(folder / "web-client.log")
        if report["http_code"] != 200 or report["size_download"] != PAGE_BYTES:
            raise LosslabError(
                f"curl must get {PAGE_BYTES} bytes with status 200, found "
                f"{report['size_download']} with {report['http_code']}"
            )
        # Pings bypass a trace-driven link, so they say nothing about its queue.
        pings = [] if plan.path_spec.by_trace else read_rows(folder / "ping.csv")
        before = [
            float(row["rtt_ms"])
            for row in pings
            if plan.warmup_s <= float(row["t_s"]) < timeline.started_s["web"]
        ]
        summary = {
            "download_s": report["time_total"],
            "connect_s": report["time_connect"],
            "first_byte_s": report["time_starttransfer"],
            "fetch_started_s": timeline.started_s["web"],
            "rtt_before_fetch_ms": statistics.fmean(before) if before else None,
            "rtt_before_fetch_min_ms": min(before, default=None),
            "rtt_before_fetch_max_ms": max(before, default=None),
            # As ping prints mdev: the population's deviation, not a sample's (ping_common.c of
            # iputils).
            "rtt_before_fetch_mdev_ms": statistics.pstdev(before) if before else None,
        }
        samples = read_rows(folder / "tcp.csv")
        rows = [row for row in samples if row["flow"] == str(PORT)]
        thresholds = [int(row["ssthresh_packets"]) for row in rows if row["ssthresh_packets"]]
        summary |= {
            "page_retransmits": int(rows[-1]["retransmits"]) if rows else None,
            # First threshold: slow start ended there, by a loss or HyStart. None if it did not end.
            "page_ssthresh_packets": thresholds[0] if thresholds else None,
        }
        if len(plan.starts) > 1:
            bulk = plan.flows[0]
            window = plan.warmup_s, plan.duration_s
            delivered = Deliveries.read(folder / "tcp.csv", bulk.source_port, plan.data_ports)
            summary["bulk_goodput_mbit"] = delivered.mbit(*window)
            summary["bulk_received_mbit"] = delivered.received_mbit(
                samples, bulk.source_port, *window
            )
        return summary

    def goodputs(self, summary: Mapping[str, Any], plan: Plan) -> list[Goodput]:
        took_s = summary["download_s"]
        goodputs = [Goodput(PAGE_BYTES * 8 / 1e6 / took_s, took_s, in_window=False)]
        if len(plan.starts) > 1:
            window_s = plan.duration_s - plan.warmup_s
            goodputs.append(Goodput(summary["bulk_goodput_mbit"], window_s))
        return goodputs


FEATURE = Web()
