"""Limits of a flow, and the queueing delay at the bottleneck, from a run's samples.

A flow is limited by the path, its congestion window, its pacing, a buffer or its application.

The kernel counts the time in which the receiver's window or the send buffer limited a flow (`enum
tcp_chrono`, include/linux/tcp.h; `tcp_chrono_start`, net/ipv4/tcp_output.c). It does not count the
other limits, so they follow from the samples of tcp.csv and queue.csv.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.emulation import mechanism
from losslab.emulation.goodput import quantile, read_rows
from losslab.emulation.link.forward import LOG
from losslab.emulation.link.tracelink import percentile_95
from losslab.emulation.mechanism import loss_percent
from losslab.emulation.programs import COMPETITOR_PREFIX
from losslab.emulation.shaping import SINGLE_QUEUES
from losslab.study import packetsizes
from losslab.study.axes import NONE
from losslab.study.condition import NO_TRACE, Condition
from losslab.study.packetsizes import PacketSizes
from losslab.study.schedule import Phase

# A limit counts as reached from this share on: packets that are lost are not delivered, and BBR
# sends at 3/4 to 5/4 of its rate.
REACHED = 0.8
# The path's rate counts as used from this share on: samples divide packets between intervals.
USED = 0.9
PATH, WINDOW, PACING = "path", "congestion window", "pacing"
RECEIVER, BUFFER = "receive window", "send buffer"
APPLICATION, SENDER = "sending application", "sender"
# Apps with a single data flow, which has the whole queue, however the queue separates flows.
ONE_FLOW = ("iperf3", "ffmpeg", "datagram", "quic", "stream")

Row = Mapping[str, str]


@dataclass(frozen=True)
class _Flight:
    """Data that a flow had in flight at a sample: what is delivered within the next RTT."""

    t_s: float
    rtt_s: float
    octets: float
    row: Row
    sizes: PacketSizes

    def mbit(self, octets: float) -> float:
        """Return the rate on the link, with headers, of data that leaves within the RTT."""
        return octets / self.sizes.payload_share * 8 / 1e6 / self.rtt_s

    @property
    def limit(self) -> str | None:
        """The window or the pacing rate, if the flight reaches it."""
        if self.octets >= REACHED * int(self.row["cwnd_packets"]) * self.sizes.segment_bytes:
            return WINDOW
        pacing_mbit = REACHED * float(self.row["pacing_mbit"])
        return PACING if 0 < pacing_mbit <= self.mbit(self.octets) else None


def _flights(rows: Sequence[Row], port: str, condition: Condition) -> list[_Flight]:
    """Return a flow's flight at each sample from the warm-up to the end that an RTT follows."""
    own = [row for row in rows if row["flow"] == port]
    sizes, found = packetsizes.of(condition), []
    times = [float(row["t_s"]) for row in own]
    delivered = [float(row["delivered_bytes"]) for row in own]
    for index, (t_s, row) in enumerate(zip(times, own, strict=True)):
        rtt_s = float(row["srtt_ms"]) / 1e3
        inside = condition.warmup_s <= t_s <= condition.duration_s
        if inside and bisect_left(times, t_s + rtt_s) not in (index, len(own)):
            octets = _at(times, delivered, t_s + rtt_s) - delivered[index]
            found.append(_Flight(t_s, rtt_s, octets, row, sizes))
    return found


def _at(times: Sequence[float], values: Sequence[float], t_s: float) -> float:
    """Interpolate between samples; constant outside of them."""
    after = bisect_left(times, t_s)
    if after in (0, len(times)):
        return values[min(after, len(times) - 1)]
    share = (t_s - times[after - 1]) / (times[after] - times[after - 1])
    return values[after - 1] + share * (values[after] - values[after - 1])


def of_samples(rows: Sequence[Row], source_port: str, condition: Condition) -> dict[str, float]:
    """Return the shares of samples, in percent, at which cwnd or pacing limited a flow.

    The window limits if at least 80 % of it is in flight, and pacing limits if not the window does
    and the data of that RTT have at least 80 % of the pacing rate. In the remaining samples, the
    application has no data, the receiver's window limits, or the sender waits for a timeout or
    recovers from losses.

    Also returns the median of the pacing rate, and the share of samples with a window below the
    path's bandwidth-delay product; nothing without samples. `rows` are those of tcp.csv.
    """
    flights = _flights(rows, source_port, condition)
    if not flights:
        return {}
    frame_bytes = packetsizes.of(condition).frame_bytes
    bdp_packets = condition.rate_mbit * condition.rtt_ms * 1e3 / 8 / frame_bytes
    limits = [each.limit for each in flights]
    below = sum(int(each.row["cwnd_packets"]) < bdp_packets for each in flights)
    return {
        "cwnd_limited_percent": 100 * limits.count(WINDOW) / len(flights),
        "pacing_limited_percent": 100 * limits.count(PACING) / len(flights),
        "pacing_median_mbit": statistics.median(float(e.row["pacing_mbit"]) for e in flights),
        "below_bdp_percent": 100 * below / len(flights),
    }


def of_run(folder: Path, manifest: Mapping[str, Any]) -> dict[str, float]:
    """Return what limited a run's first flow, in percent of its time, largest first.

    Empty without samples, and with a second bottleneck, whose queue is not sampled. Over UDP,
    losslab does not see the socket: all that the path did not limit, the sender did, by its own
    congestion control or its application.
    """
    tables = [folder / name for name in ("tcp.csv", "queue.csv")]
    condition = Condition.from_json(manifest["cell"])
    there = "plan" in manifest and all(table.is_file() for table in tables)
    if not there or condition.second_rate_mbit > 0:
        return {}
    rows, queue = map(read_rows, tables)
    if condition.shaper != "tbf":
        queue = []  # its backlog includes the packets on the netem link
    flows = [start["flow"] for start in manifest["plan"]["starts"]]
    flow = next(each for each in flows if not each["name"].startswith(COMPETITOR_PREFIX))
    port = flow["source_port"]
    if port is None:  # the connection with the most data
        most = max(rows, key=lambda row: int(row["delivered_bytes"]), default=None)
        port = most["flow"] if most is not None and int(most["delivered_bytes"]) else None
    phases = phases_of(condition, manifest["seed"])
    if flow["protocol"] == "udp" or port is None:
        intervals = folder / "intervals.csv"
        goodputs = read_rows(intervals) if intervals.is_file() else []
        return of_queue(queue, goodputs, condition, phases)
    seen: dict[str, Any] = next(iter(manifest["observed"]["flows"]), {})
    kernel = {
        RECEIVER: seen.get("window_limited_share", 0.0),
        BUFFER: seen.get("buffer_limited_share", 0.0),
    }
    return of_time(rows, queue, str(port), kernel, flow["bulk"], condition, phases)


def of_time(
    rows: Sequence[Row],
    queue: Sequence[Row],
    source_port: str,
    kernel: Mapping[str, float],
    bulk: bool,
    condition: Condition,
    phases: Sequence[Phase],
) -> dict[str, float]:
    """Return the shares of its time, in percent, in which each limit held a TCP flow back.

    The time is that of the samples between the warm-up and the end with an RTT after them. Of each
    sample it is decided, in this order:

    1. The path limits if its bottleneck is busy for that RTT: packets wait in its queue at each
       sample, or all flows together use at least 90 % of its rate (of the policer's, if that is
       lower; less by the random loss behind it).
    2. The congestion window and pacing limit as in `of_samples`.
    3. In the rest, the receiver's window and the send buffer limit for as long as the kernel says
       (`kernel`, shares of the busy time). What is left is the congestion window's if the sender
       always has data (`bulk`): it waits for acknowledgements or a timeout. Otherwise the sender
       had no data.
    """
    waits, backlog = [float(row["t_s"]) for row in queue], [row["backlog_packets"] for row in queue]
    times, totals = _totals(rows)
    counts = dict.fromkeys((PATH, WINDOW, PACING, RECEIVER, BUFFER, APPLICATION), 0.0)
    rest, flights = 0.0, _flights(rows, source_port, condition)
    for each in flights:
        end_s = each.t_s + each.rtt_s
        during = backlog[bisect_left(waits, each.t_s) : bisect_left(waits, end_s) + 1]
        used_mbit = each.mbit(_at(times, totals, end_s) - _at(times, totals, each.t_s))
        full = used_mbit >= USED * _capacity_mbit(each.t_s, condition, phases)
        if full or (during and all(map(int, during))):
            counts[PATH] += 1
        elif (limit := each.limit) is not None:
            counts[limit] += 1
        else:
            rest += 1
    for name, share in kernel.items():
        counts[name] = min(share * len(flights), rest)
        rest -= counts[name]
    counts[WINDOW if bulk else APPLICATION] += rest
    return _percent(counts)


def of_queue(
    queue: Sequence[Row], goodputs: Sequence[Row], condition: Condition, phases: Sequence[Phase]
) -> dict[str, float]:
    """Return the share of samples at which the bottleneck is busy, in percent, and the rest.

    Packets wait in its queue then, or the goodput of that interval (`goodputs`, if the app has
    any) has 90 % of its rate.
    """
    ends, share = [float(row["t_s"]) for row in goodputs], packetsizes.of(condition).payload_share
    busy = []
    for t_s, row in ((float(row["t_s"]), row) for row in queue):
        if condition.warmup_s <= t_s <= condition.duration_s:
            at, used_mbit = bisect_left(ends, t_s), 0.0
            if at < len(ends):
                used_mbit = float(goodputs[at]["goodput_mbit"]) / share
            full = used_mbit >= USED * _capacity_mbit(t_s, condition, phases)
            busy.append(full or int(row["backlog_packets"]) > 0)
    return _percent({PATH: sum(busy), SENDER: len(busy) - sum(busy)})


def _percent(counts: Mapping[str, float]) -> dict[str, float]:
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    return {name: 100 * count / total for name, count in ordered if count > 0}


def _totals(rows: Sequence[Row]) -> tuple[list[float], list[float]]:
    """Return the times of samples, and what all flows together had delivered by then."""
    totals: dict[float, float] = {}
    delivered: dict[str, int] = {}
    total = 0
    for row in rows:
        before = delivered.get(row["flow"], 0)
        delivered[row["flow"]] = max(before, int(row["delivered_bytes"]))
        total += delivered[row["flow"]] - before
        totals[float(row["t_s"])] = total
    return list(totals), list(totals.values())


def _capacity_mbit(t_s: float, condition: Condition, phases: Sequence[Phase]) -> float:
    """Return the rate that the path delivers at a time; a trace's is not known."""
    if condition.trace != NO_TRACE:
        return float("inf")
    current = [phase for phase in phases if phase.begin_s <= t_s] or phases
    rate_mbit = current[-1].values["rate_mbit"]
    loss = loss_percent(condition, "data")
    return min(rate_mbit, condition.policer_mbit or rate_mbit) * (1 - loss / 100)


@dataclass(frozen=True)
class QueueingDelay:
    """Queueing delay in ms.

    Behind a trace-driven link, it is that of each packet that the link sent. Otherwise it is the
    delay of a packet that arrives at the time of a sample, between the warm-up and the end.
    """

    mean_ms: float
    p95_ms: float


def phases_of(condition: Condition, seed: int) -> Sequence[Phase]:
    """List the phases of a run's path schedule; a single one without a schedule."""
    for each in mechanism.of(condition):
        if (change_plan := each.plan(condition, seed).get("changes")) is not None:
            found: list[Phase] = change_plan.phases
            return found
    return [Phase(0.0, condition.duration_s, {"rate_mbit": condition.rate_mbit})]


def delay_ms(t_s: float, backlog_bytes: float, its: Sequence[Phase]) -> float:
    """Return the time until a bottleneck has sent what waits at `t_s`, at the rates of its phases.

    The last rate holds after the last phase, too.
    """
    now_s, bits = t_s, 8.0 * backlog_bytes
    for phase in its[:-1]:
        rate, left_s = phase.values["rate_mbit"] * 1e6, phase.end_s - now_s
        if left_s <= 0:
            continue
        if bits <= rate * left_s:
            return 1e3 * (now_s + bits / rate - t_s)
        now_s, bits = phase.end_s, bits - rate * left_s
    return 1e3 * (now_s + bits / (its[-1].values["rate_mbit"] * 1e6) - t_s)


def queueing_delay(folder: Path, manifest: Mapping[str, Any]) -> QueueingDelay | None:
    """Return the queueing delay of a run; None if it cannot be known.

    The backlog of the bottleneck does not determine it if packets of several flows wait in queues
    of their own, if the backlog includes packets on the netem link (htb-netem), or if packets wait
    at a second bottleneck, too.
    """
    its = Condition.from_json(manifest["cell"])
    if its.trace != NO_TRACE:
        return _behind_trace(folder / LOG, manifest, its)
    alone = its.app in ONE_FLOW and its.competitor == NONE and its.flows == NONE
    one_queue = its.queue in SINGLE_QUEUES or alone
    known = its.shaper == "tbf" and its.second_rate_mbit == 0 and one_queue
    table = folder / "queue.csv"
    if not known or not table.is_file():
        return None
    phases = phases_of(its, manifest["seed"])
    delays = sorted(
        delay_ms(t_s, int(row["backlog_bytes"]), phases)
        for row in read_rows(table)
        if its.warmup_s <= (t_s := float(row["t_s"])) <= its.duration_s
    )
    p95_ms = quantile(delays, 0.95)
    return None if p95_ms is None else QueueingDelay(statistics.fmean(delays), p95_ms)


def _behind_trace(
    log: Path, manifest: Mapping[str, Any], condition: Condition
) -> QueueingDelay | None:
    begin_ms = manifest.get("observed", {}).get("link_begin_ms")
    if begin_ms is None or not log.is_file():
        return None
    end_ms = begin_ms + 1e3 * condition.duration_s
    events = (line.split() for line in log.read_text().splitlines())
    delays = [
        int(each[3])
        for each in events
        if len(each) > 3 and each[1] == "-" and begin_ms <= int(each[0]) <= end_ms
    ]
    return QueueingDelay(statistics.fmean(delays), percentile_95(delays)) if delays else None
