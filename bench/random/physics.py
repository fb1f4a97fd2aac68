"""Bounds of physics: what no path of the stated rates, delays and buffers can do.

Nothing here imports losslab or follows from how it emulates a link. A byte needs its transmission
time at the bottleneck's rate, and half a round trip to its receiver. The only allowance for a
mechanism is `bucket_bytes`.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise

from bench.random.judge import CLOCK_S, ETHERNET, Finished, Invariant, Row

# An aggregate of packets, which a token bucket sends as one (GSO_LEGACY_MAX_SIZE of Linux).
AGGREGATE = 65_550
TOKEN_BUCKETS = ("tbf", "htb-netem")
# Metrics in Mbit/s that describe the link, not the traffic.
OF_LINKS = ("trace_mbit", "trace_back_mbit", "link_capacity_mbit")
# Metrics of one direction of the first bottleneck; others are of several flows.
OF_ONE_LINK = ("goodput", "received", "throughput", "competitor", "bulk", "link")
UDP_APPS = ("datagram", "quic", "command")
# Clocks of virtual time have microseconds in tables.
EXACT_S = 2e-6


def bucket_bytes(run: Finished) -> float:
    """Return the bytes that the bottleneck may send without any transmission time.

    A link has none. The shapers `tbf` and `htb-netem` are token buckets by definition: they send a
    full bucket at once. This is the bucket that tc shows in the run's records. HTB also borrows:
    it sends a packet as long as any token is left.
    """
    if run.asked["shaper"] not in TOKEN_BUCKETS:
        return 0.0
    largest = AGGREGATE if run.asked["offloads"] == "on" else run.frame
    buckets = [0.0]
    for host in run.manifest["observed"]["state"].values():
        buckets += [q["options"]["burst"] for q in host["qdiscs"] if q["kind"] == "tbf"]
        classes = [each for of in host["classes"].values() for each in of]
        buckets += [c["burst"] + largest for c in classes if c.get("class") == "htb"]
    return max(buckets)


def refills(run: Finished, seconds: float) -> float:
    """Return how often a token bucket may be full: at first, and after a change or a pause."""
    pauses = dict(pair.split("=") for pair in run.asked["pauses"].split(",") if "=" in pair)
    paused = 2 * float(pauses.get("per_s", 0)) * seconds
    return len(run.phases) + paused + 5 * math.sqrt(paused)


def capacity_bytes(run: Finished, begin: float, end: float) -> float:
    """Return the bytes that the bottleneck may send between two times."""
    ends = [phase["at_s"] for phase in run.phases[1:]] + [math.inf]
    mbit = sum(
        phase["rate_mbit"] * max(0.0, min(end, to) - max(begin, phase["at_s"]))
        for phase, to in zip(run.phases, ends, strict=True)
    )
    return mbit * 1e6 / 8 + bucket_bytes(run) * refills(run, end - begin)


def sent_s(run: Finished, payload: float, rate_mbit: float | None = None) -> float:
    """Return the least time in which a bottleneck sends a payload in full packets."""
    if rate_mbit is None:
        rate_mbit = max(phase["rate_mbit"] for phase in run.phases)
    udp = run.asked["app"] in UDP_APPS
    room, headers = (run.datagram, run.udp_headers) if udp else (run.segment, run.tcp_headers)
    # Aggregates have one header for many segments.
    packets = math.ceil(payload / room) if run.asked["offloads"] == "off" else 1
    octets = payload + packets * headers - bucket_bytes(run) * len(run.phases)
    return max(0.0, octets * 8e-6 / rate_mbit)


def base_s(run: Finished, round_trips: float = 1.0, forward_trips: int = 1) -> float:
    """Return the smallest time of some round trips, of which some one-way trips are forward.

    netem sends reordered packets of the forward path early.
    """
    early_ms = run.asked["reorder_ms"] if run.asked["reorder_percent"] else 0.0
    least_ms = round_trips * min(phase["rtt_ms"] for phase in run.phases)
    return max(0.0, least_ms - forward_trips * early_ms) / 1e3


def opening_s(run: Finished) -> float:
    """Return the smallest time until a first byte arrives: SYN, SYN-ACK and data."""
    return base_s(run, 1.5, 2)


def _windows(run: Finished) -> dict[str, tuple[float, float]]:
    """Return the times of metrics in Mbit/s: by name, those with an own one, and "" for others."""
    its, (begin, end) = run.asked, run.window
    windows = {}
    if len(run.sampled_s) > 1:
        windows[""] = run.sampled_s[0], min(run.sampled_s[-1], run.summary.get("ended_s", math.inf))
    if its["app"] == "datagram":
        windows[""] = begin, end
    windows["link_throughput_mbit"] = (0.0, end)
    if (its["size_kb"] or its["app"] == "ffmpeg") and (done := run.summary.get("completion_s")):
        windows |= dict.fromkeys(("goodput_mbit", "throughput_mbit"), (0.0, done))
        if its["flows"] == "none" and not run.competes:
            windows["total_goodput_mbit"] = (0.0, done)
    bulk = [row for row in run.rows("flows.csv") if not row["size_bytes"]]
    if bulk:
        together = (max([begin, *(float(row["start_s"]) for row in bulk)]),
                    min([end, *(float(row["end_s"]) for row in bulk)]))  # fmt: skip
        inside = [t for t in run.sampled_s if together[0] - CLOCK_S <= t <= together[1] + CLOCK_S]
        window = (inside[0], inside[-1]) if len(inside) > 1 else (0.0, 0.0)
        names = ("min", "median", "max")
        windows |= {f"flow_goodput_{name}_mbit": window for name in names}
    return windows


def rates_are_below_the_links(run: Finished) -> Iterator[str]:
    """No metric in Mbit/s may be above what its links carry in the same time."""
    its, windows = run.asked, _windows(run)
    rtts_s = [phase["rtt_ms"] / 1e3 for phase in run.phases]
    # What is counted in a window passed the bottleneck in the same window, delayed by a constant:
    # with a delay that varies, it may have passed earlier, and where acknowledgements are lost or
    # wait, at any time since the start.
    jitter_s = its["jitter_ms"] / 1e3 * (2 if its["jitter_direction"] == "both" else 1)
    early_s = jitter_s + max(rtts_s) - min(rtts_s) + CLOCK_S
    early_s += its["reorder_ms"] / 1e3 * bool(its["reorder_percent"])
    lost = its["loss_direction"] != "data" and its["loss_percent"] > 0
    lost = lost or its["ack_thinning"] > 1 or its["ack_batch_ms"] > 0 or its["trace_back"] != "none"
    late = lost or any(word in its["changes"] for word in ("outage_s", "loss_percent"))
    late = late or "ack" in its["drop_list"] or its["reverse_rate_mbit"] > 0
    payload = (run.datagram if its["app"] in UDP_APPS else run.segment) / run.frame
    ip = (run.frame - ETHERNET) / run.frame
    for name, value in run.summary.items():
        if not name.endswith("_mbit") or value is None or name in OF_LINKS:
            continue
        first, last = windows.get(name) or windows.get("", (0.0, 0.0))
        if last - first < CLOCK_S:
            continue
        begin = 0.0 if late else max(0.0, first - early_s)
        octets = capacity_bytes(run, begin, last) + 2 * run.frame
        if not name.startswith(OF_ONE_LINK):  # flows of the second bottleneck, and uploads
            more = its["second_rate_mbit"] + its["reverse_rate_mbit"]
            octets += more * 1e6 / 8 * (last - begin) + bucket_bytes(run)
        if "throughput" in name and its["app"] != "ffmpeg":  # duplicated behind the bottleneck
            octets *= ip * (1 + 2 * its["duplicate_percent"] / 100)
        else:
            octets *= payload
        most = octets * 8e-6 / (last - first)
        if value > most:
            yield f"{name} must be at most {most:.6g} on this link, found {value:.6g}"


def transfers_need_their_time(run: Finished) -> Iterator[str]:
    """A flow connects in a round trip, and its bytes need transmission and half a round trip."""
    its, app = run.summary, run.asked["app"]
    if app == "web":
        page = run.report("web-client.log").get("size_download", 0)
        least = {"connect_s": base_s(run), "first_byte_s": base_s(run, 2, 2) + sent_s(run, 1),
                 "download_s": base_s(run, 2, 2) + sent_s(run, page)}  # fmt: skip
    elif app in ("stream", "quic") and run.asked["size_kb"]:
        size = 1e3 * run.asked["size_kb"]
        # An app with a rate of its own writes less than a segment at a time, as QUIC may.
        whole = app == "stream" and not run.asked["app_rate_mbit"]
        small = min(size, run.segment if whole else 1)
        least = {"first_byte_s": opening_s(run) + sent_s(run, small),
                 "completion_s": opening_s(run) + sent_s(run, size)}  # fmt: skip
    else:
        return
    for name, seconds in least.items():
        if its.get(name) is not None and its[name] < seconds * 0.999 - EXACT_S:
            yield f"{name} must be at least {seconds:.6g} s on this path, found {its[name]:.6g}"


def responses_need_their_time(run: Finished) -> Iterator[str]:
    """A response needs a round trip and its transmission; medians lie between their neighbours."""
    rows = [row for row in run.rows("requests.csv") if row["response_ms"]]
    for row in rows:
        size = int(row["bytes"])
        for name, octets in (("first_byte_ms", min(size, run.segment)), ("response_ms", size)):
            least = 1e3 * (base_s(run) + sent_s(run, octets))
            if float(row[name]) < least * 0.999 - 1e3 * EXACT_S:
                yield f"{name} must be at least {least:.6g} of {octets} bytes, found {row[name]}"
    end_ms = 1e3 * (run.window[1] + EXACT_S)
    rows = [
        row for row in rows
        if float(row["sent_s"]) >= run.window[0] - EXACT_S
        if 1e3 * float(row["sent_s"]) + float(row["response_ms"]) <= end_ms
    ]  # fmt: skip
    for name in ("first_byte", "response"):
        metric = "response_median_ms" if name == "response" else "response_first_byte_median_ms"
        yield from is_median(run, metric, [float(row[f"{name}_ms"]) for row in rows])


def is_median(run: Finished, metric: str, values: Sequence[float]) -> Iterator[str]:
    """A median lies between its neighbours."""
    found = run.summary.get(metric)
    if found is None or not values:
        return
    low, high = statistics.median_low(values), statistics.median_high(values)
    if not low * (1 - 1e-6) - 1e-6 <= found <= high * (1 + 1e-6) + 1e-6:
        yield f"{metric} must be from {low:.9g} to {high:.9g}, found {found:.9g}"


def _groups(run: Finished) -> list[dict[str, str]]:
    """Return the options of each group of background flows."""
    texts = run.asked["flows"].split("+") if run.asked["flows"] != "none" else []
    return [dict(part.split("=", 1) for part in text.split(",") if "=" in part) for text in texts]


def _group(run: Finished, row: Row) -> dict[str, str]:
    groups, number = _groups(run), re.match(r"(\d+)-", row["name"])
    return groups[int(number[1]) - 1] if number and int(number[1]) <= len(groups) else {}


def short_flows_need_their_time(run: Finished) -> Iterator[str]:
    """Background flows of a size need 1.5 RTT and their transmission, as those in front."""
    times = []
    for row in run.rows("flows.csv"):
        if not row.get("fct_s"):
            continue
        group, size, found = _group(run, row), int(row["size_bytes"]), float(row["fct_s"])
        rates = [max(phase["rate_mbit"] for phase in run.phases)]
        if group.get("direction") == "back":
            rates = [run.asked["reverse_rate_mbit"] or math.inf]
        elif group.get("over", "first") != "first":
            rates += [run.asked["second_rate_mbit"] or math.inf]
        rate = min(rates) if group.get("over") == "both" else max(rates)
        least = opening_s(run) + sent_s(run, size, rate)
        if found < least * 0.999 - EXACT_S:
            yield f"flow {row['name']} of {size} bytes needs {least:.6g} s, found {found:.6g}"
        if float(row["start_s"]) >= run.window[0]:
            times.append(found)
    yield from is_median(run, "fct_median_s", times)


def round_trips_are_possible(run: Finished) -> Iterator[str]:
    """An RTT is at least the propagation delay, and at most the length of the run.

    The run lasts until its last sample: a queue that was full at the end is still sent.
    """
    low = 1e3 * base_s(run) * 0.999 - 0.01
    last_s = max((float(row["t_s"]) for row in run.rows("queue.csv")), default=0.0)
    high = 1e3 * max(run.asked["duration_s"], last_s)
    high += max(phase["rtt_ms"] for phase in run.phases)
    for table, column in (("ping.csv", "rtt_ms"), ("ping_idle.csv", "rtt_ms"),
                          ("tcp.csv", "srtt_ms")):  # fmt: skip
        values = [float(row[column]) for row in run.rows(table) if float(row[column]) > 0]
        # TCP takes some RTTs from time stamps, in whole milliseconds.
        lower = low - (table == "tcp.csv")
        if values and not lower <= min(values) <= max(values) <= high:
            ends = f"{min(values):g} to {max(values):g}"
            yield f"RTTs of {table} must be from {lower:g} to {high:g} ms, found {ends}"
    for name, value in run.summary.items():
        of_rtts = re.match("s?rtt_", name) and not re.search("_std_|_mdev_", name)
        if of_rtts and value is not None and not low - 1 <= value <= high:
            yield f"{name} must be from {low - 1:g} to {high:g}, found {value:g}"


def queue_fits_its_buffer(run: Finished) -> Iterator[str]:
    """The backlog must fit the buffer, besides the packet that is sent; drops only grow."""
    its, rows = run.asked, run.rows("queue.csv")
    # CAKE limits the memory, which varies by packet.
    buffer = its["buffer_packets"] * {"two-fifos": 2, "cake": 1.25}.get(its["queue"], 1) + 1
    packets = max((int(row["backlog_packets"]) for row in rows), default=0)
    octets = max((int(row["backlog_bytes"]) for row in rows), default=0)
    in_bytes = its["queue"] in ("bfifo", "red", "red-step", "cake")
    if its["queue"] != "own" and (octets / run.frame if in_bytes else packets) > buffer:
        yield f"the queue must fit its {buffer:g} packets, found {packets} packets, {octets} bytes"
    most = run.summary.get("queue_max_packets") or 0
    if most > packets:
        yield f"queue_max_packets must be at most the {packets} of queue.csv, found {most}"
    drops = [int(row["drops"]) for row in rows]
    if any(a > b for a, b in pairwise(drops)):
        yield "drops of queue.csv must not decrease"


def sums_equal_totals(run: Finished) -> Iterator[str]:
    """A total is the sum of its parts."""
    its, begin_s = run.summary, run.window[0]
    parts = ("goodput_mbit", "competitor_goodput_mbit", "flows_goodput_mbit")
    if "total_goodput_mbit" in its and "goodput_mbit" in its:
        own_mbit, *others_mbit = (its.get(name) or 0.0 for name in parts)
        total_mbit, seconds = its["total_goodput_mbit"] or 0.0, run.window[1] - begin_s
        if run.asked["app"] == "command" and run.asked["flows"] != "none":
            # The rate of programs is of the time until they end, and their part of the total not.
            own_mbit *= (its["ended_s"] - begin_s) / seconds
        total = own_mbit + sum(others_mbit)
        tolerance = 1e-6
        if run.asked["app"] in ("command", "quic"):  # without TCP's samples, to the clock
            tolerance += CLOCK_S / seconds
        sized = run.asked["app"] in ("quic", "stream") and run.asked["flows"] != "none"
        if sized and (size_kb := run.asked["size_kb"]):
            # Its own rate is of the transfer's time, and its part of the total of the time with
            # samples, which begins when its connection opens.
            inside = [t for t in run.sampled_s if begin_s - CLOCK_S <= t <= run.window[1] + CLOCK_S]
            sampled_s = inside[-1] - inside[0] if len(inside) > 1 else seconds
            others = total - own_mbit
            least, most = others, others + 8e-3 * size_kb / sampled_s
        else:
            least = most = total
        if not least * (1 - tolerance) - 1e-9 <= total_mbit <= most * (1 + tolerance) + 1e-9:
            yield f"total_goodput_mbit must be {least:.9g} to {most:.9g}, found {total_mbit:.9g}"
    rows = [row for row in run.rows("flows.csv") if row["size_bytes"]]
    rows = [row for row in rows if _group(run, row).get("direction") != "back"]
    after = [row for row in rows if float(row["start_s"]) >= begin_s]
    done = [row for row in after if row["fct_s"]]
    counts = {"short_flows": len(after), "short_unfinished": len(after) - len(done)}
    for name, count in counts.items():
        if rows and its.get(name) is not None and its[name] != count:
            yield f"{name} must be {count} by flows.csv, found {its[name]}"
    if its.get("loss_measured_percent") is not None and its.get("loss_offered_packets"):
        share = 100 * its["loss_packets"] / its["loss_offered_packets"]
        if abs(share - its["loss_measured_percent"]) > 1e-6:
            yield f"loss_measured_percent must be {share:g}, found {its['loss_measured_percent']:g}"


OF_PHYSICS: Sequence[Invariant] = (
    rates_are_below_the_links, transfers_need_their_time, responses_need_their_time,
    short_flows_need_their_time, round_trips_are_possible, queue_fits_its_buffer,
    sums_equal_totals,
)  # fmt: skip
