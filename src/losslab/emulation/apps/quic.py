"""Bulk transfer over QUIC: an HTTP/3 download from ngtcp2's server to its client.

The server runs on the sender and controls congestion. The client runs on the receiver and requests
more data than the path can carry. Both get SIGINT at the configured end.
"""

from __future__ import annotations

import bisect
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation import qlog
from losslab.emulation.app import App
from losslab.emulation.goodput import INTERVAL_S, Goodput, write_intervals
from losslab.emulation.programs import Flow, Timed, Timeline
from losslab.emulation.topology import SENDER_ADDRESS, at_version, host_in_url
from losslab.errors import LosslabError
from losslab.study import packetsizes
from losslab.study.packetsizes import QUIC_BYTES

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan
    from losslab.study.condition import Condition

# Congestion controls of ngtcp2.
ALGORITHMS = ("cubic", "reno", "bbr")
PORT = 4433
# Length of the download (more than an hour at 10 Gbit/s) and the client's flow-control windows:
# neither may limit a flow.
OBJECT_BYTES = 1 << 43
WINDOW = "1G"
KILOBYTE = 1000
# By default, the processor draws the first packet number (std::random_device), without a seed.
FIRST_NUMBER = "--initial-pkt-num=0"
# In the job's folder.
RAW = "/mnt/out/raw"
SENDER_LOGS, CLIENT_LOG = "quic-sender", "quic-receiver.sqlog"
SENDER_LOG = "quic-sender.sqlog"
SENDER_KEYS = ("congestion_window", "ssthresh", "bytes_in_flight", "smoothed_rtt")
SENDER_COLUMNS = "t_s,cwnd_bytes,ssthresh_bytes,flight_bytes,srtt_ms"
KEY, CERTIFICATE = "/tmp/quic.key", "/tmp/quic.crt"


def _arrivals(path: Path, start_s: float) -> tuple[list[tuple[float, int]], int | None]:
    """Return (arrival in s, new bytes) of packets with new bytes of the stream, and its length.

    The length counts HTTP/3's frames; it is None before the stream's end has arrived.
    """
    arrivals, length = list[tuple[float, int]](), None
    received: list[tuple[int, int]] = []  # ranges [begin, end) in order, with a gap after each
    for event in qlog.events(path):
        if event.name != qlog.RECEIVED:
            continue
        new = 0
        for frame in event.data.get("frames", []):
            if frame["frame_type"] == "stream" and frame["stream_id"] == 0:
                end = frame["offset"] + frame["length"]
                new += _add(received, frame["offset"], end)
                length = end if frame.get("fin") else length
        if new:
            arrivals.append((start_s + event.ms / 1e3, new))
    return arrivals, length


def _add(received: list[tuple[int, int]], begin: int, end: int) -> int:
    """Add a range to the received ones; return how many of its bytes are new."""
    first = bisect.bisect_left(received, begin, key=lambda span: span[1])
    last = bisect.bisect_right(received, end, key=lambda span: span[0])
    touched = received[first:last]
    merged = (min([begin, *(a for a, _ in touched)]), max([end, *(b for _, b in touched)]))
    received[first:last] = [merged]
    return merged[1] - merged[0] - sum(b - a for a, b in touched)


def _rates(arrivals: list[tuple[float, int]], end_s: float) -> Iterator[tuple[float, float]]:
    counts = [0] * round(end_s / INTERVAL_S)
    for t_s, octets in arrivals:
        if 0 <= t_s < len(counts) * INTERVAL_S:
            counts[min(int(t_s / INTERVAL_S), len(counts) - 1)] += octets
    for number, octets in enumerate(counts, 1):
        yield number * INTERVAL_S, octets * 8 / 1e6 / INTERVAL_S


def _sender(path: Path, start_s: float, interval_s: float) -> tuple[int, list[str]]:
    """Return the number of packets declared lost, and samples of the sender's state as lines."""
    lost, rows, due_s = 0, list[str](), 0.0
    state: dict[str, float] = {}
    for event in qlog.events(path):
        lost += event.name == qlog.LOST
        if event.name != qlog.METRICS:
            continue
        state |= event.data
        t_s = start_s + event.ms / 1e3
        if t_s >= due_s:
            due_s = t_s + interval_s
            rows.append(f"{t_s:.3f}," + ",".join(str(state.get(key, "")) for key in SENDER_KEYS))
    return lost, rows


class Quic(App):
    """Bulk download over HTTP/3."""

    order = 6
    meaning = "bulk over HTTP/3, with ngtcp2's own `cubic`, `reno` or `bbr`"
    image, seeds_as = "quic", "iperf3"
    udp_offloads, own_ecn, with_ipv6 = True, True, True
    start_s, per_gb_s = 0.3, 300.0  # ngtcp2 makes system calls for each packet

    def conflicts(self, condition: Condition) -> Iterator[str]:
        if not self.used(condition):
            return
        if condition.algorithm not in ALGORITHMS:
            yield (
                f"with the app quic, algorithm must be one of ngtcp2's: {', '.join(ALGORITHMS)}; "
                f"found {condition.algorithm}"
            )
        if condition.path != "symmetric":
            yield (
                f"path must be symmetric with the app quic, found {condition.path}: its client "
                "would use its address on r3's link, and no data would pass the bottleneck"
            )
        octets = packetsizes.of(condition).datagram_bytes
        if octets < QUIC_BYTES:
            more = condition.mtu_bytes - octets
            yield (
                f"mtu_bytes must be at least {QUIC_BYTES + more} with the app quic, found "
                f"{condition.mtu_bytes}: QUIC needs datagrams of {QUIC_BYTES} bytes"
            )

    def flows(self, condition: Condition, video: Path | None = None) -> list[Flow]:
        certificate = (
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 "
            f"-subj /CN=losslab -keyout {KEY} -out {CERTIFICATE}"
        )
        octets = round(condition.size_kb * KILOBYTE)
        server = at_version(SENDER_ADDRESS, condition.ip_version)
        serve = (
            f"exec gtlsserver --quiet --cc={condition.algorithm} --qlog-dir={RAW}/{SENDER_LOGS} "
            f"{FIRST_NUMBER} --max-dyn-length={OBJECT_BYTES} {server} {PORT} "
            f"{KEY} {CERTIFICATE}"
        )
        host = host_in_url(SENDER_ADDRESS, condition.ip_version)
        download = [
            "gtlsclient", "--quiet", "--no-http-dump", FIRST_NUMBER,
            *(["--exit-on-all-streams-close"] if octets else []),
            f"--qlog-file={RAW}/{CLIENT_LOG}",
            f"--max-data={WINDOW}", f"--max-stream-data-bidi-local={WINDOW}",
            f"--max-window={WINDOW}", f"--max-stream-window={WINDOW}",
            server, str(PORT), f"https://{host}:{PORT}/{octets or OBJECT_BYTES}",
        ]  # fmt: skip
        serving = ["sh", "-c", f"mkdir {RAW}/{SENDER_LOGS} && {certificate} && {serve}"]
        listener, caller = (
            Timed(host, command, f"{host}.log", until_s=condition.duration_s, ending=signal.SIGINT)
            for host, command in (("sender", serving), ("receiver", download))
        )
        return [
            Flow(
                name="quic",
                algorithm=condition.algorithm,
                port=PORT,
                listener=listener,
                caller=caller,
                protocol="udp",
                bulk=False,
            )
        ]

    def collect(self, plan: Plan, folder: Path, timeline: Timeline) -> dict[str, Any]:
        """Write intervals.csv and quic.csv, keep both ends' qlogs, and return the summary.

        Goodput counts the bytes of the stream that arrived between the warm-up and the configured
        end, each byte once. `retransmits` counts the packets that the sender declared lost; it
        sends their bytes again.
        """
        client, log = folder / CLIENT_LOG, folder / SENDER_LOG
        if (folder / SENDER_LOGS).is_dir():
            for path in (folder / SENDER_LOGS).glob("*.sqlog"):
                shutil.move(path, log)
            (folder / SENDER_LOGS).rmdir()
        if not client.is_file() or not log.is_file():
            raise LosslabError(
                f"client and server must write a qlog each, found {int(client.is_file())} and "
                f"{int(log.is_file())}; see receiver.log and sender.log"
            )
        start_s = timeline.started_s["quic"]
        arrivals, length = _arrivals(client, start_s)
        size = int(plan.flows[0].caller.command[-1].rpartition("/")[2])
        finite = size != OBJECT_BYTES
        begin_s, end_s = start_s if finite else plan.warmup_s, plan.duration_s
        octets = sum(count for t_s, count in arrivals if begin_s <= t_s < end_s)
        if octets == 0:
            raise LosslabError("data must arrive after the warm-up, found none")
        sized: dict[str, float | None] = {}
        if finite:
            sized = {"completion_s": None, "first_byte_s": arrivals[0][0] - start_s}
        if finite and octets == length:
            end_s = arrivals[-1][0]
            sized["completion_s"] = end_s - start_s
        write_intervals(_rates(arrivals, plan.duration_s), folder / "intervals.csv")
        lost, rows = _sender(log, start_s + plan.path_spec.rtt_ms / 2e3, plan.sample_interval_s)
        (folder / "quic.csv").write_text("\n".join([SENDER_COLUMNS, *rows]) + "\n")
        return {
            "goodput_mbit": octets * 8 / 1e6 / (end_s - begin_s),
            "bytes_received": sum(count for _, count in arrivals),
            "retransmits": lost,
        } | sized

    def goodputs(self, summary: Mapping[str, Any], plan: Plan) -> list[Goodput]:
        if "completion_s" not in summary:
            return super().goodputs(summary, plan)
        seconds = summary["completion_s"] or plan.duration_s
        return [Goodput(summary["goodput_mbit"], seconds, in_window=False)]


FEATURE = Quic()
