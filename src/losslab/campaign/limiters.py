"""Limits of a flow, the warnings about them, and the queueing delay, from a run's samples.

A flow is limited by the path, its congestion window, its pacing, a buffer or its application.

The kernel counts the time in which the receiver's window or the send buffer limited a flow (`enum
tcp_chrono`, include/linux/tcp.h; `tcp_chrono_start`, net/ipv4/tcp_output.c). It does not count the
other limits, so they follow from the samples of tcp.csv and queue.csv.

`warnings` has the warnings of one run, and `of_cells` those of many. Every command that prints
numbers of runs prints them.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.campaign.results import MeasuredCell, Replicate
from losslab.emulation import mechanism
from losslab.emulation.goodput import quantile
from losslab.emulation.link.tracelink import LOG, percentile_95
from losslab.emulation.mechanism import loss_percent
from losslab.emulation.programs import COMPETITOR_PREFIX
from losslab.emulation.shaping import SINGLE_QUEUES
from losslab.reading import read_samples
from losslab.study import packetsizes
from losslab.study.axes import NONE
from losslab.study.condition import AXES, NO_TRACE, Condition
from losslab.study.packetsizes import PacketSizes
from losslab.study.schedule import Phase

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from losslab.reading import Numbers, Samples

    Flags = npt.NDArray[np.bool_]

# A limit counts as reached from this share on: packets that are lost are not delivered, and BBR
# sends at 3/4 to 5/4 of its rate.
REACHED = 0.8
# A pacing rate above this share of a window per RTT follows from the window.
BELOW_WINDOW = 0.95
# Pacing sends single packets: its rate is measured over at least the time of so many of them.
PACED_PACKETS = 8
# The path's rate counts as used from this share on: samples divide packets between intervals.
USED = 0.9
PATH, WINDOW, PACING = "path", "congestion window", "pacing"
RECEIVER, BUFFER = "receive window", "send buffer"
APPLICATION, SENDER = "sending application", "sender"
# Limit by a pacing rate that an algorithm estimated while the receive window limited it.
ESTIMATE = "pacing by an estimate made under the receive window"
# Share of the time, in percent, from which a limit by the receive window or the send buffer is
# worth a warning, though another limit has a larger share.
NOTED_PERCENT = 5
LARGE = "large"  # choice of the axis `receive_buffer` that never limits
# Cells that a warning about many runs names.
NAMED_MAX = 6
# Apps with a single data flow, which has the whole queue, however the queue separates flows.
ONE_FLOW = ("iperf3", "ffmpeg", "datagram", "quic", "stream")


@dataclass(frozen=True)
class _Flights:
    """Data that a flow had in flight at samples: what is delivered within the next RTT."""

    t_s: Numbers
    rtt_s: Numbers
    octets: Numbers
    cwnd_packets: Numbers
    pacing_mbit: Numbers
    sizes: PacketSizes

    @property
    def limited_by_window(self) -> Flags:
        """Whether the window limits each flight."""
        return self.octets >= REACHED * self.cwnd_packets * self.sizes.segment_bytes

    @property
    def limited_by_pacing(self) -> Flags:
        """Whether the pacing rate, on the link and with headers, limits each flight."""
        mbit = self.octets / self.sizes.payload_share * 8 / 1e6 / self.rtt_s
        paced = REACHED * self.pacing_mbit
        return (paced > 0) & (paced <= mbit) & ~self.limited_by_window

    def held_by_pacing(self, times: Numbers, delivered: Numbers) -> Flags:
        """Return for each sample whether the pacing rate alone holds its flight back.

        The flow sends at that rate, measured over an RTT or over 8 packets, whichever is longer. It
        is less than a congestion window per RTT. The rate of a congestion control that does not
        pace by itself follows from the window: 1.2 or 2 windows per RTT (`tcp_update_pacing_rate`,
        net/ipv4/tcp_input.c).
        """
        import numpy as np

        if not times.size:  # the flow has no connection
            return np.zeros(0, dtype=bool)
        rate = np.maximum(self.pacing_mbit, 1e-9) * 1e6 / 8 * self.sizes.payload_share
        span_s = np.maximum(self.rtt_s, PACED_PACKETS * self.sizes.segment_bytes / rate)
        end_s = np.minimum(self.t_s + span_s, times[-1])
        begin_s = np.maximum(end_s - span_s, times[0])
        octets = _at(times, delivered, end_s) - _at(times, delivered, begin_s)
        reached = octets >= REACHED * rate * np.maximum(end_s - begin_s, 1e-9)
        window_octets = self.cwnd_packets * self.sizes.segment_bytes
        below_window = self.pacing_mbit * 1e6 / 8 * self.rtt_s < BELOW_WINDOW * window_octets
        held: Flags = (self.pacing_mbit > 0) & reached & below_window
        return held


def _flights(tcp: Samples, source_port: int, condition: Condition) -> _Flights:
    """Return a flow's flights at samples after the warm-up that an RTT follows."""
    import numpy as np

    flow = {name: values[tcp["flow"] == source_port] for name, values in tcp.items()}
    times, rtt_s, delivered = flow["t_s"], flow["srtt_ms"] / 1e3, flow["delivered_bytes"]
    after = np.searchsorted(times, times + rtt_s)
    inside = (condition.warmup_s <= times) & (times <= condition.duration_s)
    kept = inside & (after != np.arange(len(times))) & (after != len(times))
    octets = _at(times, delivered, (times + rtt_s)[kept]) - delivered[kept]
    cwnd, pacing = flow["cwnd_packets"][kept], flow["pacing_mbit"][kept]
    return _Flights(times[kept], rtt_s[kept], octets, cwnd, pacing, packetsizes.of(condition))


def _at(times: Numbers, values: Numbers, t_s: Numbers) -> Numbers:
    """Interpolate between samples; constant outside of them."""
    import numpy as np

    after = np.searchsorted(times, t_s)
    before, last = np.maximum(after - 1, 0), np.minimum(after, len(times) - 1)
    span = np.where(before < last, times[last] - times[before], 1.0)
    share = (t_s - times[before]) / span
    return np.where(
        before < last, values[before] + share * (values[last] - values[before]), values[last]
    )


def of_samples(tcp: Samples, source_port: int, condition: Condition) -> dict[str, float]:
    """Return the shares of samples, in percent, at which cwnd or pacing limited a flow.

    What is in flight at a sample is delivered within the next RTT. The window limits if that is at
    least 80 % of it, and pacing limits if not the window does and the data of that RTT have at
    least 80 % of the pacing rate. In the remaining samples, the application has no data, the
    receiver's window limits, or the sender waits for a timeout or recovers from losses.

    Also returns the median of the pacing rate, and the share of samples with a window below the
    path's bandwidth-delay product; nothing without samples. `tcp` has the samples of tcp.csv.
    """
    frame_bytes = packetsizes.of(condition).frame_bytes
    bdp_packets = condition.rate_mbit * condition.rtt_ms * 1e3 / 8 / frame_bytes
    flights = _flights(tcp, source_port, condition) if len(tcp.get("t_s", ())) else None
    if flights is None or not (count := len(flights.t_s)):
        return {}
    return {
        "cwnd_limited_percent": 100 * int(flights.limited_by_window.sum()) / count,
        "pacing_limited_percent": 100 * int(flights.limited_by_pacing.sum()) / count,
        "pacing_median_mbit": statistics.median(flights.pacing_mbit.tolist()),
        "below_bdp_percent": 100 * int((flights.cwnd_packets < bdp_packets).sum()) / count,
    }


@dataclass(frozen=True)
class Limits:
    """Shares of the time in which each cause limited a run's first flow."""

    # In percent of its time, largest first; empty if it is not known.
    shares: Mapping[str, float]
    # Share of the busy time, in percent, in which the receive window limited the flow.
    receiver_percent: float = 0.0

    @property
    def largest(self) -> str | None:
        """The limit of most of the time."""
        return next(iter(self.shares), None)

    @property
    def estimate_percent(self) -> float:
        """Return the share of time at a pacing rate that the receive window may have lowered.

        An algorithm that paces by the rate at which it delivered measured that rate also while the
        receive window limited it, and keeps it longer than the window limits. 0 if not pacing holds
        the flow back most of the time, or the receive window never did.
        """
        return self.shares[PACING] if self.largest == PACING and self.receiver_percent > 0 else 0.0


def of_run(folder: Path, manifest: Mapping[str, Any]) -> Limits:
    """Return what limited a run's first flow.

    Not known without samples, and with a second bottleneck, whose queue is not sampled. Over UDP,
    losslab does not see the socket: all that the path did not limit, the sender did, by its own
    congestion control or its application.
    """
    tables = [folder / name for name in ("tcp.csv", "queue.csv")]
    if "plan" not in manifest or not all(table.is_file() for table in tables):
        return Limits({})
    condition = Condition.from_json(manifest["cell"])
    if condition.second_rate_mbit > 0:
        return Limits({})
    tcp, queue = map(read_samples, tables)
    if condition.shaper == "htb-netem":
        queue = {}  # its backlog includes the packets on the netem link
    flows = [start["flow"] for start in manifest["plan"]["starts"]]
    flow = next(each for each in flows if not each["name"].startswith(COMPETITOR_PREFIX))
    octets = tcp["delivered_bytes"]
    # Without a known port, the flow is the connection with the most data.
    port = flow["source_port"] or (int(tcp["flow"][octets.argmax()]) if octets.any() else None)
    phases = phases_of(condition, manifest["seed"])
    if flow["protocol"] == "udp" or port is None:
        goodputs = Replicate(folder).samples("intervals.csv")
        return Limits(of_queue(queue, goodputs, condition, phases))
    evidence: dict[str, Any] = next(iter(manifest["observed"]["flows"]), {})
    kernel = {
        RECEIVER: evidence.get("window_limited_share", 0.0),
        BUFFER: evidence.get("buffer_limited_share", 0.0),
    }
    shares = of_time(tcp, queue, port, kernel, flow["bulk"], condition, phases)
    return Limits(shares, 100 * kernel[RECEIVER])


def causes(limits: Limits, condition: Condition) -> dict[str, float]:
    """Return what a user should know of a run's limits, in percent of the flow's time.

    That is its largest limit unless it is the path, a buffer that limits at least 5 % of the time,
    and the receive window behind the pacing.
    """
    known: dict[str, float] = {}
    largest = limits.largest
    # The app `stream` may be there to limit its flow.
    intended = condition.app == "stream" and largest == APPLICATION
    if limits.estimate_percent:
        known[ESTIMATE] = limits.estimate_percent
    elif largest is not None and largest != PATH and not intended:
        known[largest] = limits.shares[largest]
    for name in (RECEIVER, BUFFER):
        if (percent := limits.shares.get(name, 0.0)) >= NOTED_PERCENT:
            known[name] = percent
    return known


def advice(cause: str, condition: Condition) -> str:
    """Return what changes a limit by a buffer, or what it means for the goodput."""
    if cause == BUFFER:
        return "set a larger net.ipv4.tcp_wmem with --sysctl"
    if cause not in (RECEIVER, ESTIMATE):
        return "the goodput is not the path's capacity"
    given = [
        f"--{name.replace('_', '-')}"
        for name in ("window_bytes", "sysctl", "initrwnd_packets")
        if getattr(condition, name) != AXES[name].default
    ]
    if given:
        return f"try it without {' and '.join(given)}"
    if condition.receive_buffer == LARGE:
        return "the receiver does not read fast enough"
    return f"try --receive-buffer {LARGE}"


def warnings(limits: Limits, condition: Condition) -> Iterator[str]:
    """Yield the warnings about what limited a run's first flow."""
    for cause, percent in causes(limits, condition).items():
        sentence = f"the {cause} limited this flow {percent:.0f} % of the time"
        if cause == ESTIMATE:
            sentence = (
                f"pacing limited this flow {percent:.0f} % of the time, and its rate may follow "
                f"from an estimate made while the receive window limited the flow "
                f"({limits.receiver_percent:.1f} % of the time)"
            )
        elif cause == limits.largest:
            sentence += ", not the path"
        yield f"{sentence}: {advice(cause, condition)}"


def of_runs(
    runs: Iterable[Replicate], name: Callable[[Condition], str] = lambda _: ""
) -> list[str]:
    """Return the warnings about what limited the first flows of many runs, a line per cause.

    Invalid runs do not count. Each line has the number of runs, the shares of time, the cells by
    their `name`, and what to do.
    """
    valid = [run for run in runs if run.manifest["valid"]]
    percents: dict[tuple[str, str], list[float]] = defaultdict(list)
    cells: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for run in valid:
        condition = Condition.from_json(run.manifest["cell"])
        for cause, percent in causes(of_run(run.folder, run.manifest), condition).items():
            key = cause, advice(cause, condition)
            percents[key].append(percent)
            cells[key][name(condition)] = None
    lines = []
    for (cause, remedy), shares in percents.items():
        low, high = min(shares), max(shares)
        span = f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"
        names = [cell for cell in cells[cause, remedy] if cell]
        more = len(names) - NAMED_MAX
        where = "; ".join(names[:NAMED_MAX]) + (f"; and {more} more cells" if more > 0 else "")
        lines.append(
            f"in {len(shares)} of {len(valid)} runs, the {cause} limited the first flow {span} % "
            f"of the time{f' ({where})' if where else ''}: {remedy}"
        )
    return lines


def of_cells(
    cells: Iterable[MeasuredCell], name: Callable[[Condition], str] = lambda _: ""
) -> list[str]:
    """Return the warnings of `of_runs` about the runs of measured cells."""
    return of_runs((run for cell in cells for run in cell.replicates), name)


def of_time(
    tcp: Samples,
    queue: Samples,
    source_port: int,
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
    2. Pacing limits if the flow sends at 80 % of a pacing rate that is below a window per RTT.
    3. The congestion window limits if at least 80 % of it is in flight.
    4. The rest is the congestion window's if the sender always has data (`bulk`): it waits for
       acknowledgements or a timeout. Otherwise the sender had no data.

    The kernel counts the send buffer only from a transmission that empties its queue
    (`tcp_cwnd_validate`, net/ipv4/tcp_output.c). If it counts at least 5 %, what is left of the
    rest is the send buffer's, too, where nothing was sent again within an RTT.

    Of what the path does not limit, the receiver's window and the send buffer have as much as the
    kernel says (`kernel`, shares of the busy time): first of the rest, then of pacing, which many
    algorithms set to the rate that a buffer let through, then of the congestion window.
    """
    samples = column(queue, "backlog_packets")
    waits = [t_s for t_s, _ in samples]
    flights = _flights(tcp, source_port, condition)
    times, totals = _totals(tcp)
    octets = _at(times, totals, flights.t_s + flights.rtt_s) - _at(times, totals, flights.t_s)
    used_mbit = octets / flights.sizes.payload_share * 8 / 1e6 / flights.rtt_s
    of_flow = tcp["flow"] == source_port
    paced = flights.held_by_pacing(tcp["t_s"][of_flow], tcp["delivered_bytes"][of_flow])
    resent = _resent(tcp, of_flow, flights)
    empty, waiting = "empty", "waiting"
    names = (PATH, WINDOW, PACING, RECEIVER, BUFFER, APPLICATION, empty, waiting)
    counts = dict.fromkeys(names, 0.0)
    for t_s, rtt_s, mbit, window, pacing, again in zip(
        flights.t_s, flights.rtt_s, used_mbit, flights.limited_by_window, paced, resent, strict=True
    ):
        first, last = bisect_left(waits, t_s), bisect_left(waits, t_s + rtt_s)
        during = [packets for _, packets in samples[first : last + 1]]
        if (during and all(during)) or mbit >= USED * _capacity_mbit(t_s, condition, phases):
            counts[PATH] += 1
        elif window or pacing:
            counts[PACING if pacing else WINDOW] += 1
        else:
            counts[waiting if again else empty] += 1
    for name, share in kernel.items():
        left = share * len(flights.t_s)
        for other in (empty, waiting, PACING, WINDOW):
            taken = min(left, counts[other])
            counts[other] -= taken
            counts[name] += taken
            left -= taken
    rest = WINDOW if bulk else APPLICATION
    by_buffer = bulk and 100 * kernel.get(BUFFER, 0.0) >= NOTED_PERCENT
    counts[BUFFER if by_buffer else rest] += counts.pop(empty)
    counts[rest] += counts.pop(waiting)
    return _percent(counts)


def _resent(tcp: Samples, of_flow: Flags, flights: _Flights) -> Flags:
    """Return for each flight whether its flow sent data again within an RTT before or after."""
    times, resent = tcp["t_s"][of_flow], tcp["retransmits"][of_flow]
    before = _at(times, resent, flights.t_s - flights.rtt_s)
    again: Flags = _at(times, resent, flights.t_s + flights.rtt_s) > before
    return again


def of_queue(
    queue: Samples, goodputs: Samples, condition: Condition, phases: Sequence[Phase]
) -> dict[str, float]:
    """Return the share of samples at which the bottleneck is busy, in percent, and the rest.

    Packets wait in its queue then, or the goodput of that interval (`goodputs`, if the app has
    any) has 90 % of its rate.
    """
    ends, share = goodputs.get("t_s", ()), packetsizes.of(condition).payload_share
    busy = []
    for t_s, backlog in column(queue, "backlog_packets"):
        if not condition.warmup_s <= t_s <= condition.duration_s:
            continue
        used, capacity = 0.0, _capacity_mbit(t_s, condition, phases)
        if (number := bisect_left(ends, t_s)) < len(ends):
            used = float(goodputs["goodput_mbit"][number]) / share
        busy.append(backlog > 0 or used >= USED * capacity)
    return _percent({PATH: sum(busy), SENDER: len(busy) - sum(busy)})


def _percent(counts: Mapping[str, float]) -> dict[str, float]:
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    return {name: 100 * count / total for name, count in ordered if count > 0}


def column(samples: Samples, name: str) -> list[tuple[float, float]]:
    """Return the time of each sample in s, and its value of a column; empty without samples."""
    columns = (samples[each].tolist() for each in ("t_s", name) if samples)
    return list(zip(*columns, strict=True))


def _totals(tcp: Samples) -> tuple[Numbers, Numbers]:
    """Return the times of samples, and what all flows together had delivered by then."""
    import numpy as np

    totals: dict[float, float] = {}
    delivered: dict[float, float] = {}
    total = 0.0
    samples = (tcp[name].tolist() for name in ("t_s", "flow", "delivered_bytes"))
    for at, flow, octets in zip(*samples, strict=True):
        now = max(delivered.get(flow, 0.0), octets)
        total += now - delivered.get(flow, 0.0)
        delivered[flow] = now
        totals[at] = total
    return np.array([*totals]), np.array([*totals.values()], float)


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
    for used in mechanism.of(condition):
        if (change_plan := used.plan(condition, seed).get("changes")) is not None:
            phases: list[Phase] = change_plan.phases
            return phases
    return [Phase(0.0, condition.duration_s, {"rate_mbit": condition.rate_mbit})]


def delay_ms(t_s: float, backlog_bytes: float, phases: Sequence[Phase]) -> float:
    """Return the time until a bottleneck has sent what waits at `t_s`, at the rates of `phases`.

    The last rate holds after the last phase, too.
    """
    now_s, bits = t_s, 8.0 * backlog_bytes
    for phase in phases[:-1]:
        rate, left_s = phase.values["rate_mbit"] * 1e6, phase.end_s - now_s
        if left_s <= 0:
            continue
        if bits <= rate * left_s:
            return 1e3 * (now_s + (bits / rate if bits else 0.0) - t_s)
        now_s, bits = phase.end_s, bits - rate * left_s
    return 1e3 * (now_s + bits / (phases[-1].values["rate_mbit"] * 1e6) - t_s)


def queueing_delay(folder: Path, manifest: Mapping[str, Any]) -> QueueingDelay | None:
    """Return the queueing delay of a run; None if it cannot be known.

    The backlog of the bottleneck does not determine it if packets of several flows wait in queues
    of their own, if the backlog includes packets on the netem link (htb-netem), or if packets wait
    at a second bottleneck, too.
    """
    condition = Condition.from_json(manifest["cell"])
    if condition.trace != NO_TRACE:
        log, begin_ms = folder / LOG, manifest.get("observed", {}).get("link_begin_ms")
        if begin_ms is None or not log.is_file():
            return None
        end_ms = begin_ms + 1e3 * condition.duration_s
        events = (line.split() for line in log.read_text().splitlines())
        waits = [
            int(delay)
            for at_ms, kind, _, *rest in events
            for delay in rest[:1]
            if kind == "-" and begin_ms <= int(at_ms) <= end_ms
        ]
        return QueueingDelay(statistics.fmean(waits), percentile_95(waits)) if waits else None
    alone = condition.app in ONE_FLOW and condition.competitor == NONE and condition.flows == NONE
    one_queue = condition.queue in SINGLE_QUEUES or alone
    if condition.shaper == "htb-netem" or condition.second_rate_mbit != 0 or not one_queue:
        return None
    phases = phases_of(condition, manifest["seed"])
    delays = sorted(
        delay_ms(t_s, octets, phases)
        for t_s, octets in column(Replicate(folder).samples("queue.csv"), "backlog_bytes")
        if condition.warmup_s <= t_s <= condition.duration_s
    )
    p95_ms = quantile(delays, 0.95)
    return None if p95_ms is None else QueueingDelay(statistics.fmean(delays), p95_ms)
