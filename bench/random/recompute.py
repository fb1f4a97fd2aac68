"""Compute a result's metrics again from its raw files; nothing here imports losslab."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise

from bench.random.judge import CLOCK_S, ETHERNET, INTERVAL_S, Finished, Invariant

BULK, COMPETITOR, VIDEO, PAGE = "40001", "40002", "40011", "80"
FRAMES_PER_S = 30
# More options of TCP than time stamps, and UDP's header, which fragments do not have.
TCP_OPTIONS, UDP_HEADER = 12, 8


def _differ(name: str, found: float | None, expected: float | None, share: float) -> Iterator[str]:
    if found is None or expected is None:
        return
    if abs(found - expected) > share * abs(expected) + 1e-6:
        yield f"{name} must be {expected:.9g} by the raw files, found {found:.9g}"


def _mbits(run: Finished, port: str) -> list[float]:
    """Return the mean rate of delivered bytes from the first sample of the window, or the second.

    A connection that opens between the two has no sample before.
    """
    times = run.sampled_s
    return [
        run.delivered_between(port, begin, times[-1]) * 8 / 1e6 / (times[-1] - begin)
        for begin in times[:-1][:2]
    ]


def rates_of_tcp(run: Finished) -> Iterator[str]:
    """Compute the goodputs of iperf3, and Jain's index."""
    its, app, times = run.summary, run.asked["app"], run.sampled_s
    # A window may begin and end between two samples.
    sample = max((b - a for a, b in pairwise(times)), default=0)
    share = 1.2 * sample / max(1e-9, times[-1] - times[0])
    ports = {"iperf3": {"goodput_mbit": BULK, "competitor_goodput_mbit": COMPETITOR}}
    ports["web"] = {"bulk_goodput_mbit": BULK}
    if run.asked["size_kb"] == 0:
        ports["stream"] = {"goodput_mbit": BULK}
    for name, port in ports.get(app, {}).items():
        if name in its and (expected := _mbits(run, port)):
            nearest = min(expected, key=lambda mbit: abs(mbit - its[name]))
            yield from _differ(name, its[name], nearest, share)
    if "jain_index" in its and run.asked["flows"] == "none":
        rates = [its["goodput_mbit"], its["competitor_goodput_mbit"]]
        squares = 2 * sum(rate**2 for rate in rates)
        yield from _differ("jain_index", its["jain_index"], sum(rates) ** 2 / squares, 1e-6)


def rates_of_background_flows(run: Finished) -> Iterator[str]:
    """Bound the flows' goodput by their samples; flows between two samples have only a size."""
    flows, (begin, end) = run.rows("flows.csv"), run.window
    if not flows or len(run.sampled_s) < 2:
        return
    low = high = 0
    for flow in flows:
        sampled = run.delivered_between(flow["source_port"], begin, end + CLOCK_S)
        before = run.delivered_between(flow["source_port"], 0, begin)
        done = flow["size_bytes"] and float(flow["end_s"]) <= end
        # Selectively acknowledged data behind a gap are delivered, but not yet goodput.
        own = [row for row in run.rows("tcp.csv") if row["flow"] == flow["source_port"]]
        windows = [int(row["cwnd_packets"]) for row in own]
        low += max(0, sampled - 2 - run.segment * max(windows, default=0))
        alive = float(flow["start_s"]) < end and float(flow["end_s"]) > begin
        size = int(flow["size_bytes"] or 0)
        high += size - min(before, size) if done and alive else sampled
    seconds = run.sampled_s[-1] - run.sampled_s[0]
    slack, edge = 0.02 + 2 * INTERVAL_S / seconds, 2 * run.frame * len(flows)
    found = (run.summary.get("flows_goodput_mbit") or 0.0) * seconds * 1e6 / 8
    if not low * (1 - slack) - edge <= found <= high * (1 + slack) + edge:
        yield f"background flows delivered {low} to {high} bytes by tcp.csv, found {found:.0f}"


def round_trips(run: Finished) -> Iterator[str]:
    """Compute the RTTs of pings and TCP, and the median cwnd."""
    its, (begin, end) = run.summary, run.window
    idle = [float(row["rtt_ms"]) for row in run.rows("ping_idle.csv")]
    pings = [(float(row["t_s"]), float(row["rtt_ms"])) for row in run.rows("ping.csv")]
    # Times of pings are written in whole milliseconds.
    loaded, rounded = ([rtt for t, rtt in pings if t >= begin - edge] for edge in (0, 0.00051))
    yield from _differ("rtt_ms", its.get("rtt_ms"), min(idle, default=None), 1e-6)
    if run.asked["trace"] == "none":
        candidates = [statistics.fmean(rtts) for rtts in (loaded, rounded) if rtts]
        found = its.get("rtt_loaded_ms")
        nearest = min(candidates, key=lambda mean: abs(mean - (found or 0)), default=None)
        yield from _differ("rtt_loaded_ms", found, nearest, 1e-6)
    elif loaded and its.get("rtt_loaded_ms") == statistics.fmean(loaded):
        yield "rtt_loaded_ms is of pings that pass beside the trace's link"
    ports = {"iperf3": BULK, "stream": BULK, "ffmpeg": VIDEO}
    port = ports.get(run.asked["app"])
    rows = [r for r in run.rows("tcp.csv") if r["flow"] == port and begin <= float(r["t_s"]) <= end]
    if rows:
        means = {"srtt_mean_ms": statistics.fmean(float(row["srtt_ms"]) for row in rows)}
        means["cwnd_median_packets"] = statistics.median(int(row["cwnd_packets"]) for row in rows)
        for name, mean in means.items():
            yield from _differ(name, its.get(name), mean, 1e-6)


def queue(run: Finished) -> Iterator[str]:
    """Compute mean and maximum of the backlog."""
    its, (begin, end) = run.summary, run.window
    rows = [(float(row["t_s"]), int(row["backlog_packets"])) for row in run.rows("queue.csv")]
    # Rows have whole microseconds: a sample just behind an end of the window is written at it.
    windows = [
        [n for t_s, n in rows if begin + a <= t_s <= end + b] for a in (0, 1e-6) for b in (0, -1e-6)
    ]
    for name, of in (("queue_mean_packets", statistics.fmean), ("queue_max_packets", max)):
        found = [of(each) for each in windows if each]
        if found and its.get(name) is not None:
            nearest = min(found, key=lambda value: abs(value - its[name]))
            yield from _differ(name, its[name], nearest, 1e-6)


def retransmissions(run: Finished) -> Iterator[str]:
    """Bound iperf3's count by the kernel's: at the configured end, and in all."""
    if run.asked["app"] != "iperf3":
        return
    rows = [row for row in run.rows("tcp.csv") if float(row["t_s"]) <= run.asked["duration_s"]]
    for name, port in (("retransmits", BULK), ("competitor_retransmits", COMPETITOR)):
        if (found := run.summary.get(name)) is None:
            continue
        low = max((int(row["retransmits"]) for row in rows if row["flow"] == port), default=0)
        high = run.counter("sender", "TcpRetransSegs")
        if not low <= found <= high:
            yield f"{name} must be from {low} to the kernel's {high}, found {found}"


def intervals(run: Finished) -> Iterator[str]:
    """The mean of intervals.csv must be the goodput, except for both edges."""
    rows = [(float(r["t_s"]), float(r["goodput_mbit"])) for r in run.rows("intervals.csv")]
    begin, end = run.window
    if not rows or "goodput_mbit" not in run.summary or end - begin < 1:
        return
    end = min(end, rows[-1][0], run.summary.get("ended_s", end))  # of programs
    begin = max(begin, min(run.sampled_s, default=begin))
    # That of a flow with a size is over the time until its last byte. Programs tell their own time.
    completion_s = run.summary.get("completion_s") if run.asked["app"] != "command" else None
    if completion_s:
        begin = 0.0
    octets, before = 0.0, 0.0
    for t_s, rate in rows:
        octets += rate * max(0.0, min(t_s, end) - max(before, begin))
        before = t_s
    edge = 2.5 * INTERVAL_S * max(rate for _, rate in rows)
    seconds = completion_s or end - begin
    if abs(octets - run.summary["goodput_mbit"] * seconds) > edge + 0.02 * octets:
        mean, found = octets / (end - begin), run.summary["goodput_mbit"]
        yield f"intervals.csv has a mean of {mean:.4g} Mbit/s, goodput_mbit is {found:.4g}"


def datagrams(run: Finished) -> Iterator[str]:
    """Received datagrams are distinct and were sent; acknowledged ones were received."""
    if run.asked["app"] != "datagram":
        return
    its, seconds = run.summary, run.asked["duration_s"] - run.asked["warmup_s"]
    sent, received = its["datagrams_sent"], its["datagrams_received"]
    acked = its["goodput_mbit"] * seconds * 1e6 / 8 / run.datagram
    logged = run.report("sender.log")["sent"], run.report("receiver.log")["received"]
    if (sent, received) != logged:
        yield f"datagrams must be {logged} by the logs, found {(sent, received)}"
    if not acked - 0.5 <= received <= sent:
        yield f"acked {acked:.0f} <= received {received} <= sent {sent} datagrams must hold"
    mbit = received * run.datagram * 8e-6 / (seconds - 0.02)  # whole bins of 10 ms
    if run.rows("queue.csv") and mbit + 1e-6 < its["received_mbit"]:
        yield f"received_mbit {its['received_mbit']} exceeds {received} datagrams"


def video(run: Finished) -> Iterator[str]:
    """Compute throughput and delivered frames from the receiver's frames."""
    if run.asked["app"] != "ffmpeg":
        return
    lines = [line.split() for line in (run.folder / "receiver.log").read_text().splitlines()]
    frames = [[f.strip(",") for f in line] for line in lines if len(line) > 5 and line[1][0] != "#"]
    octets, sent = sum(int(f[5]) for f in frames), round(FRAMES_PER_S * run.asked["duration_s"])
    its, name = run.summary, "frames_delivered_percent"
    yield from _differ(name, its[name], 100 * len(frames) / sent, 1e-9)
    mbit = octets * 8e-6 / its["completion_s"]
    yield from _differ("throughput_mbit", its["throughput_mbit"], mbit, 1e-6)
    if its["frames_on_time_percent"] > its["frames_delivered_percent"] + 1e-9:
        yield "frames on time must have been delivered"
    if its["time_to_first_frame_s"] > its["completion_s"]:
        yield "the first frame must not arrive after the last"


def page(run: Finished) -> Iterator[str]:
    """A page needs a round trip to connect and one to fetch."""
    if run.asked["app"] != "web":
        return
    its, report = run.summary, run.report("web-client.log")
    yield from _differ("download_s", its["download_s"], report["time_total"], 1e-9)
    rtt_s = min(phase["rtt_ms"] for phase in run.phases) / 1e3
    ordered = its["connect_s"] <= its["first_byte_s"] <= its["download_s"]
    if its["download_s"] < 2 * rtt_s * 0.998 or not ordered:
        yield f"a page needs two RTTs, connecting first: {its['connect_s']}, {its['download_s']} s"


def programs(run: Finished) -> Iterator[str]:
    """Bound the payload of own programs by the packets and bytes of IP at the receiver's link."""
    rows, (begin, end), its = run.rows("arrivals.csv"), run.window, run.summary
    if run.asked["app"] != "command" or len(rows) < 2:
        return
    ended_s = its["ended_s"] + 1e-6  # rows have whole microseconds
    inside = [row for row in rows if begin - CLOCK_S <= float(row["t_s"]) <= ended_s]
    if len(inside) < 2:
        return
    sent, first, last = run.asked["sender_command"], inside[0], inside[-1]
    seconds = float(last["t_s"]) - float(first["t_s"])
    octets, packets = (int(last[key]) - int(first[key]) for key in ("ip_bytes", "packets"))
    mean_mbit = octets * 8 / 1e6 / seconds
    yield from _differ("throughput_mbit", its["throughput_mbit"], mean_mbit, 1e-3)
    link = run.link("receiver", "receiver-r2")["rx"]
    pings = run.pings
    arrived = link["bytes"] - ETHERNET * link["packets"] - (run.ping - ETHERNET) * pings
    if (counted := int(rows[-1]["ip_bytes"])) > arrived:
        yield f"arrivals.csv has {counted} bytes of the {arrived} that the link counted"
    # The programs that are brought send datagrams: tests/fixtures/programs and programs/quic.
    udp = "UDP" in sent or sent.startswith("./")
    tcp = run.tcp_headers - ETHERNET
    low, high = (run.ip_header, run.ip_header + UDP_HEADER) if udp else (tcp, tcp + TCP_OPTIONS)
    again = 0 if udp else run.counter("sender", "TcpRetransSegs") + run.duplicates
    least, most = octets - high * packets - again * run.segment - 300, octets - low * packets + 300
    if "goodput_mbit" not in its:
        return
    payload = its["goodput_mbit"] * seconds * 1e6 / 8
    if run.asked["offloads"] == "off" and not least <= payload <= most:
        yield f"goodput must be {least} to {most} bytes by the link, found {payload:.0f}"
    whole = int(sent.split()[2]) if sent.startswith("head -c ") else None
    if whole is None or its["ended_s"] >= end - INTERVAL_S:
        return
    if not whole <= its["bytes_received"] <= whole + 1000:  # the server's header
        yield f"bytes_received must be the {whole} sent, found {its['bytes_received']}"


# A ping may take some microseconds of virtual time more or less.
ROUNDED = 1e-4
# Metrics of which the first may not exceed the next.
ORDERED = (
    "queue_mean_packets queue_max_packets", "queue_p95_packets queue_max_packets",
    "flow_goodput_min_mbit flow_goodput_median_mbit flow_goodput_max_mbit",
    "fct_median_s fct_p95_s fct_p99_s", "short_unfinished short_flows",
    "first_byte_s completion_s", "connect_s first_byte_s", "goodput_mbit total_goodput_mbit",
    "response_first_byte_median_ms response_median_ms response_p95_ms",
    "competitor_goodput_mbit total_goodput_mbit", "loss_packets loss_offered_packets",
    "rtt_before_fetch_min_ms rtt_before_fetch_ms rtt_before_fetch_max_ms",
    "retransmits_first_second retransmits", "datagrams_received datagrams_sent",
    "ended_s duration_s", "completion_s duration_s", "settle_s duration_s",
    "rtt_ms rtt_loaded_ms", "srtt_std_ms duration_ms",
    *(f"flows_{label}_fct_median_s flows_{label}_fct_p95_s"
      for label in ("same", "cubic", "bbr", "reno", "pages", "bulk", "up")),
)  # fmt: skip


def metrics_agree(run: Finished) -> Iterator[str]:
    """Metrics of a run must not contradict each other, nor mark packets without ECN."""
    length = run.asked["duration_s"]
    its = run.summary | {"duration_s": length, "duration_ms": 1e3 * length}
    if run.asked["app"] == "ffmpeg":  # a video arrives until after the end
        its |= {"duration_s": None}
    # The rates of a sized transfer and of programs are of their own time.
    if run.asked["size_kb"] or run.asked["app"] == "command":
        its |= {"total_goodput_mbit": None}
    delayed = ("jitter_ms", "reorder_percent", "ack_batch_ms", "data_batch_ms")
    if run.asked["changes"] != "none" or any(run.asked[name] for name in delayed):
        its |= {"rtt_ms": None}
    for names in ORDERED:
        for low, high in pairwise(names.split()):
            slack = CLOCK_S if high.endswith("_s") else ROUNDED * (its.get(high) or 0)
            if None not in (a := its.get(low), b := its.get(high)) and a > b + slack + 1e-9:
                yield f"{low} must be at most {high}, found {a} and {b}"
    marks = run.counter("receiver", "IpExtInCEPkts") + run.counter("sender", "IpExtInCEPkts")
    # QUIC and programs of users decide by themselves.
    by_kernel = run.asked["app"] not in ("quic", "command") and run.asked["algorithm"] != "dctcp"
    if run.asked["ecn"] == "off" and by_kernel and marks:
        yield f"no packet may be marked without ECN, found {marks}"


RECOMPUTED: Sequence[Invariant] = (
    rates_of_tcp, rates_of_background_flows, round_trips, queue, retransmissions, intervals,
    datagrams, video, page, programs, metrics_agree,
)  # fmt: skip
