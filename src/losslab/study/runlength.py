"""How long a run must be: the one rule from which default lengths and warnings follow.

A run begins with an empty path and slow start. Its mean goodput is an answer only if the start no
longer decides it, and if it covers enough of a regular cycle. `bias` says how far the mean over a
run's measured window may be from the mean of an endless run, by a fluid model of the congestion
window with the growth of the standards:

- CUBIC: RFC 9438, section 4 (C = 0.4, beta = 0.7, Reno-friendly region, fast convergence).
- Reno, and algorithms without a model of their own: RFC 5681, one segment per RTT, half at a loss.
- A random loss comes after 1/p packets; the first one, which ends slow start, also after 0.05/p
  or 3/p: the 5 and 95 % quantiles of the geometric distribution. Without random loss, the window is
  reduced when it exceeds the path's bandwidth-delay product and buffer.
- Linux's CUBIC may leave slow start by HyStart at a bandwidth-delay product (RFC 9406).

Flows that share a full bottleneck converge by a factor of beta at each common loss (Chiu and Jain,
Computer Networks and ISDN Systems 17, 1989). BBR flows share by measuring the RTT anew in
PROBE_RTT, every 10 s (BBRv1: Cardwell et al., ACM Queue 14(5), 2016) or 5 s (BBRv3:
draft-ietf-ccwg-bbr, ProbeRTTInterval).

PROBE_RTT also takes a BBR flow alone 2 % of its time, in regular pauses. Its runs hardly vary, so
their interval is far narrower than what a pause more or less makes: the measured window must hold
about as many pauses as an endless run.

The model has no timeouts, no bursts of losses within an RTT, and no queue of other kinds than a
FIFO. What it misses, the halves of measured runs show (`campaign/halves.py`).
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from losslab.study import background, packetsizes
from losslab.study.axes import NONE
from losslab.study.condition import NO_TRACE, Condition

# A mean may be this far from that of an endless run; differences below it do not matter (`decide`).
TOLERANCE = 0.05
LENGTH_AXES = ("duration_s", "warmup_s")
DEFAULT_S, DEFAULT_WARMUP_S = 10.0, 1.0
# Lengths that the rule chooses from, each with a fifth as warm-up.
LENGTHS_S = tuple(DEFAULT_S * 2**power for power in range(1, 9))
# Longest run that is chosen without being asked for: eight times the default.
LONGEST_DEFAULT_S = 80.0
WARMUP_SHARE = 0.2
# RFC 9438: C in segments per s^3, and beta. RFC 5681: beta.
CUBIC_C, CUBIC_BETA, RENO_BETA = 0.4, 0.7, 0.5
CUBIC_ALPHA = 3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA)
INITIAL_PACKETS = 10.0  # RFC 6928
# Quantiles of the packets until the first random loss, in units of 1/p.
FIRST_LOSSES = (0.05, 1.0, 3.0)
# Queue that a queue management keeps; the targets of RFC 8289 and RFC 8033 are 5 and 15 ms.
MANAGED_S = 0.02
FIFOS = ("fifo", "bfifo", "two-fifos", "own")
PROBE_RTT_S = {"bbr": 10.0, "bbr3": 5.0}
# Share of the window that PROBE_RTT takes away: all but 4 packets in BBRv1 (bbr_cwnd_min_target,
# net/ipv4/tcp_bbr.c), half a bandwidth-delay product in BBRv3 (the draft's ProbeRTTCwndGain).
PROBE_RTT_DEPTH = {"bbr": 1.0, "bbr3": 0.5}
# PROBE_RTT holds for 200 ms (ProbeRTTDuration) or a round from when the flow has drained, an RTT
# after it began.
PROBE_RTT_LASTS_S = 0.2
# RTTs until the last sample of an empty path, which start-up ends by filling the queue. Six paths
# of 12 to 72 ms had 4.1 to 5.
RTTS_OF_START = 4.0
# Shortest length of a BBR flow's run: in the window of 11 s is one pause of BBRv1, or two of BBRv3.
PROBING_S = 12.0
# PROBE_RTT cycles until BBR flows share: the estimates of the bandwidth and the RTT follow each
# other, so the first cycle only empties the queue.
BBR_CYCLES = 2
# Share of its final rate by which a flow differs at the start: of two flows, one has twice as much.
UNEQUAL_START = 1 / 3
EPOCHS_MAX, STEPS = 200, 60
# The model's losses are regular, so its cycles end in one of several series, by the start. Their
# rates differ by up to 7 %: CUBIC's fast convergence is in none of the cycles, or in each second
# one. Random losses make a mixture of them, so a run may end in any of the series.
SERIES_SHARE = 0.1


@dataclass(frozen=True)
class RunLength:
    """Length of a run that the rule asks for."""

    duration_s: float
    warmup_s: float
    # What needs so long, as a clause; empty for the default length.
    reason: str = ""
    # False: even the longest of the rule's lengths is too short.
    enough: bool = True

    def __str__(self) -> str:
        """Return the length as text."""
        more = "" if self.enough else "more than "
        return f"{more}{self.duration_s:g} s with {self.warmup_s:g} s of warm-up"


@dataclass(frozen=True)
class _Path:
    """One flow's part of a path: its share of the rate and the buffer."""

    packets_per_s: float
    rtt_s: float
    limit_packets: float  # window that fills the path and the buffer
    loss: float  # random loss events per packet

    @property
    def bdp_packets(self) -> float:
        return self.packets_per_s * self.rtt_s

    def rtt_at(self, window: float) -> float:
        """Return the RTT with a window, in s."""
        return max(self.rtt_s, window / self.packets_per_s)


def applies(condition: Condition) -> bool:
    """Return whether the rule has a model: a bulk flow, on a path and with flows that stay."""
    c = condition
    timed = any(
        group.start_s or group.end_s is not None or group.every_s
        for group in background.parse(c.flows)
    )
    changing = c.trace != NO_TRACE or c.changes != NONE
    return c.app in ("iperf3", "quic") and c.rtt_ms > 0 and not changing and not timed


def needed(condition: Condition) -> RunLength:
    """Return the shortest of the rule's lengths whose mean is within 5 % of an endless run's."""
    for duration_s, warmup_s in _lengths(condition):
        if bias(condition, warmup_s, duration_s) <= TOLERANCE:
            reason = _reason(condition) if duration_s > DEFAULT_S else ""
            return RunLength(duration_s, warmup_s, reason)
    duration_s, warmup_s = LENGTHS_S[-1], LENGTHS_S[-1] * WARMUP_SHARE
    return RunLength(duration_s, warmup_s, _reason(condition), enough=False)


def _lengths(condition: Condition) -> Iterator[tuple[float, float]]:
    """Yield the lengths that the rule chooses from, with their warm-ups."""
    probes = _name(condition) in PROBE_RTT_S and applies(condition)
    yield PROBING_S if probes else DEFAULT_S, DEFAULT_WARMUP_S
    yield from ((duration_s, duration_s * WARMUP_SHARE) for duration_s in LENGTHS_S)


def chosen(conditions: Iterable[Condition]) -> RunLength:
    """Return the default length for conditions that are compared: the longest that one needs.

    At most 80 s, eight times the default.
    """
    longest = max(map(needed, conditions), key=lambda length: length.duration_s)
    if longest.duration_s <= LONGEST_DEFAULT_S:
        return longest
    warmup_s = LONGEST_DEFAULT_S * WARMUP_SHARE
    return replace(longest, duration_s=LONGEST_DEFAULT_S, warmup_s=warmup_s, enough=False)


def with_length(
    conditions: Sequence[Condition], duration_given: bool, warmup_given: bool
) -> tuple[list[Condition], str]:
    """Return conditions with the rule's length unless the user gave one, and a note on it.

    A warm-up that the user gave stays. All get the same length, so that they are compared over the
    same time.
    """
    if duration_given:
        return [*conditions], ""
    length = chosen(conditions)
    if not length.reason:
        return [*conditions], ""
    values: dict[str, Any] = {"duration_s": length.duration_s}
    if not warmup_given:
        values["warmup_s"] = length.warmup_s
    longer = [replace(each, **values) for each in conditions]
    return longer, (
        f"runs of {length.duration_s:g} s with {longer[0].warmup_s:g} s of warm-up instead of "
        f"{DEFAULT_S:g} s and {DEFAULT_WARMUP_S:g} s: {length.reason}; --duration-s sets another"
        + ("" if length.enough else f". The rule needs more than {LONGEST_DEFAULT_S:g} s")
    )


def too_short(condition: Condition) -> str:
    """Return what is wrong with the length of a condition's runs; "" if nothing is."""
    c = condition
    wrong = bias(c, c.warmup_s, c.duration_s)
    if wrong <= TOLERANCE:
        return ""
    length = needed(c)
    size = f"{100 * wrong:.0f} %" if wrong < 1 else f"a factor of {1 + wrong:.1f}"
    why = f": {length.reason}" if length.reason else ""
    return (
        f"the start may decide this number, by up to {size}{why}; measure {length}, found "
        f"{c.duration_s:g} s with {c.warmup_s:g} s"
    )


def bias(condition: Condition, warmup_s: float, duration_s: float) -> float:
    """Return how far the mean from the warm-up to the end may be from an endless run's.

    That is a share of the endless run's mean goodput; 0 for conditions without a model.
    """
    if not applies(condition):
        return 0.0
    return max(
        _bias_of_window(condition, warmup_s, duration_s),
        _bias_of_shares(condition, warmup_s, duration_s),
        _bias_of_probes(condition, warmup_s, duration_s),
    )


def _bias_of_window(condition: Condition, warmup_s: float, duration_s: float) -> float:
    """Return the part of the bias that the flow's own window has."""
    largest, seconds = 0.0, duration_s - warmup_s
    for flow in _fluids(condition):
        for start in flow.starts:
            mean = (start.packets(duration_s) - start.packets(warmup_s)) / seconds
            endless = [flow.rate]
            if abs(start.settled / flow.rate - 1) < SERIES_SHARE:
                endless.append(start.settled)
            largest = max(largest, min(abs(mean / rate - 1) for rate in endless))
    return largest


def _bias_of_shares(condition: Condition, warmup_s: float, duration_s: float) -> float:
    """Return the part of the bias that the other flows have: the shares converge exponentially."""
    largest = 0.0
    for constant_s in _sharing_s(condition):
        rest = math.exp(-warmup_s / constant_s) - math.exp(-duration_s / constant_s)
        largest = max(largest, UNEQUAL_START * constant_s / (duration_s - warmup_s) * rest)
    return largest


def _bias_of_probes(condition: Condition, warmup_s: float, duration_s: float) -> float:
    """Return the part of the bias that PROBE_RTT has: pauses that the window lacks or has too many.

    Without a model of the path, the default length stays.
    """
    name = _name(condition)
    if name not in PROBE_RTT_S or not applies(condition):
        return 0.0
    interval_s, rtt_s = PROBE_RTT_S[name], _path(condition).rtt_s
    lasts_s = max(PROBE_RTT_LASTS_S, rtt_s) + rtt_s
    period_s, begin_s, paused_s = interval_s + lasts_s, interval_s + RTTS_OF_START * rtt_s, 0.0
    while begin_s < duration_s:
        paused_s += max(0.0, min(begin_s + lasts_s, duration_s) - max(begin_s, warmup_s))
        begin_s += period_s
    difference = paused_s / (duration_s - warmup_s) - lasts_s / period_s
    return PROBE_RTT_DEPTH[name] * abs(difference)


def _name(condition: Condition) -> str:
    """Return the name of the algorithm of the flow under test, without its parameters."""
    return condition.algorithm.partition(",")[0]


def _reason(condition: Condition) -> str:
    """Return what needs longer runs than the default, as a clause."""
    default = DEFAULT_WARMUP_S, DEFAULT_S
    if _bias_of_probes(condition, *default) == bias(condition, *default):
        interval_s = PROBE_RTT_S[_name(condition)]
        return f"BBR pauses every {interval_s:g} s to measure the RTT (PROBE_RTT), also in the runs"
    if _bias_of_shares(condition, *default) > _bias_of_window(condition, *default):
        constant_s = max(_sharing_s(condition))
        return f"the flows' shares converge with a time constant of {constant_s:.2g} s here"
    name = _name(condition)
    title = {"cubic": "CUBIC", "reno": "Reno"}.get(name, name)
    cycle_s = max(flow.cycle_s for flow in _fluids(condition))
    return f"a cycle of {title}'s window takes {cycle_s:.2g} s here, and several forget the start"


# The fluid model


@dataclass(frozen=True)
class _Fluid:
    """Packets that a flow delivered until some times."""

    times_s: tuple[float, ...]
    totals: tuple[float, ...]
    rate: float  # packets per second after the last of the times
    cycle_s: float  # length of the last cycle
    settled: float = math.inf  # mean rate if the cycles, or each second one, became equal

    def packets(self, t_s: float) -> float:
        """Return the packets that were delivered until a time."""
        at = bisect_left(self.times_s, t_s)
        if at == len(self.times_s):
            return self.totals[-1] + (t_s - self.times_s[-1]) * self.rate
        begin_s, end_s = self.times_s[at - 1] if at else 0.0, self.times_s[at]
        before, after = self.totals[at - 1] if at else 0.0, self.totals[at]
        share = (t_s - begin_s) / (end_s - begin_s) if end_s > begin_s else 1.0
        return before + share * (after - before)


@dataclass(frozen=True)
class _Flow:
    """A flow after each possible end of slow start, and its endless run."""

    starts: tuple[_Fluid, ...]
    rate: float
    cycle_s: float


def _fluids(condition: Condition) -> list[_Flow]:
    """Return the model of the flow under test; none for algorithms that do not follow the loss."""
    name = _name(condition)
    if name in PROBE_RTT_S or name in ("ignores_loss", "never_grows"):
        return []
    return [_modelled(name == "cubic", _path(condition))]


def _flows(condition: Condition) -> list[str]:
    """Return the algorithms of the flows at the bottleneck, that of the flow under test first."""
    own = condition.algorithm
    others = [condition.competitor] if condition.competitor != NONE else []
    for group in background.parse(condition.flows):
        if not group.bulk:
            continue
        others += [own if group.algorithm == background.SAME else group.algorithm] * group.count
    return [own, *others]


def _path(condition: Condition) -> _Path:
    c, count = condition, len(_flows(condition))
    rate_mbit = min(c.rate_mbit, c.second_rate_mbit or c.rate_mbit)
    per_s = rate_mbit * 1e6 / 8 / packetsizes.of(c).frame_bytes
    rtt_s = (c.rtt_ms + c.sender_delay_ms) / 1e3
    buffer = float(c.buffer_packets)
    if c.queue not in FIFOS:
        buffer = min(buffer, MANAGED_S * per_s)
    limit = max(4.0, (per_s * rtt_s + buffer) / count)
    loss = 0.0 if c.loss_direction == "back" else c.loss_percent / 100
    return _Path(per_s / count, rtt_s, limit, loss / max(1.0, c.loss_burst_packets))


def _sharing_s(condition: Condition) -> Iterator[float]:
    """Yield time constants in s with which the shares of a full bottleneck converge."""
    flows = {name.partition(",")[0] for name in _flows(condition)}
    if len(_flows(condition)) == 1:
        return
    for name in flows & {*PROBE_RTT_S}:
        yield BBR_CYCLES * PROBE_RTT_S[name] / math.log(1 / TOLERANCE)
    path = _path(condition)
    for name in flows - {*PROBE_RTT_S}:
        cubic = name == "cubic"
        window = _steady_window(cubic, path)
        if path.loss and window < path.bdp_packets:
            continue  # the loss sets each window, not the others
        beta = CUBIC_BETA if cubic else RENO_BETA
        yield _cycle_s(cubic, path.limit_packets, path) / math.log(1 / beta)


def _steady_window(cubic: bool, path: _Path) -> float:
    """Return the mean window at a random loss: RFC 9438, sections 4.3 and 5.1, equation 5."""
    if not path.loss:
        return path.limit_packets
    reno = math.sqrt(1.5 / path.loss)
    if not cubic:
        return reno
    factor = math.pow(CUBIC_C * (3 + CUBIC_BETA) / (4 * (1 - CUBIC_BETA)), 0.25)
    return max(reno, factor * math.pow(path.rtt_s / path.loss, 0.75))


def _cycle_s(cubic: bool, window: float, path: _Path) -> float:
    """Return the time in s in which a reduced window regains its size."""
    rtt_s = path.rtt_at(window)
    if not cubic:
        return (1 - RENO_BETA) * window * rtt_s
    regained_s = math.cbrt(window * (1 - CUBIC_BETA) / CUBIC_C)
    return min(regained_s, (1 - CUBIC_BETA) * window / CUBIC_ALPHA * rtt_s)


@functools.lru_cache(maxsize=4096)
def _modelled(cubic: bool, path: _Path) -> _Flow:
    """Return the model of a flow that starts in each of the ways."""
    if path.loss:
        firsts = [(share / path.loss, math.inf) for share in FIRST_LOSSES]
    else:
        firsts = [(math.inf, path.limit_packets)]
    if cubic:
        # HyStart ends slow start, without a loss.
        firsts.append((math.inf, max(INITIAL_PACKETS, path.bdp_packets)))
    starts = tuple(_run(cubic, path, *first) for first in firsts)
    # The endless run is the one that was modelled longest.
    last = max(starts, key=lambda start: start.times_s[-1])
    return _Flow(starts, last.rate, last.cycle_s)


def _run(cubic: bool, path: _Path, first_loss: float, leaves_at: float) -> _Fluid:
    """Model a flow from its start until its cycles repeat, or until the rule's longest run."""
    times, totals = [0.0], [0.0]
    window, sent = INITIAL_PACKETS, 0.0

    def step(seconds: float) -> float:
        packets = window / path.rtt_at(window) * seconds
        times.append(times[-1] + seconds)
        totals.append(totals[-1] + packets)
        return packets

    while sent < first_loss and window < min(leaves_at, path.limit_packets):
        sent += step(path.rtt_at(window))
        window *= 2
    overflows = window >= path.limit_packets
    window = min(window, path.limit_packets, max(leaves_at, INITIAL_PACKETS))
    lost = sent >= first_loss or overflows
    beta = CUBIC_BETA if cubic else RENO_BETA
    highest = window
    window = max(2.0, beta * window) if lost else window
    previous, same = (0.0, 0.0), 0
    rates: list[float] = []
    until_loss = 1 / path.loss if path.loss else math.inf
    for _ in range(EPOCHS_MAX):
        begin_s, begin, sent = times[-1], totals[-1], 0.0
        friendly = window
        regained_s = math.cbrt(max(0.0, highest - window) / CUBIC_C)
        epoch_s = _cycle_s(cubic, max(highest, window), path)
        by_loss_s = until_loss * path.rtt_at(window) / window
        step_s = max(path.rtt_at(window), min(epoch_s, by_loss_s) / STEPS)
        while sent < until_loss and window < path.limit_packets and times[-1] < LENGTHS_S[-1]:
            seconds = max(step_s, path.rtt_at(window))
            if until_loss < math.inf:
                # No further than to the loss.
                seconds = min(seconds, (until_loss - sent) * path.rtt_at(window) / window + 1e-9)
            sent += step(seconds)
            rtts = seconds / path.rtt_at(window)
            if cubic:
                alpha = CUBIC_ALPHA if friendly < highest else 1.0
                friendly += alpha * rtts
                target = CUBIC_C * (times[-1] - begin_s - regained_s) ** 3 + highest
                window = max(friendly, min(target, window * 1.5**rtts))
            else:
                window += rtts
        window = min(window, path.limit_packets)
        cycle_s = times[-1] - begin_s
        rate = (totals[-1] - begin) / cycle_s if cycle_s else path.packets_per_s
        rates.append(rate)
        converged = all(
            abs(now / then - 1) < 0.01 if then else False
            for now, then in zip((rate, window), previous, strict=True)
        )
        same = same + 1 if converged else 0
        if same == 2 or times[-1] >= LENGTHS_S[-1]:
            break
        previous = rate, window
        fast = cubic and window < highest
        highest = window * (1 + CUBIC_BETA) / 2 if fast else window
        window = max(2.0, beta * window)
    return _Fluid(tuple(times), tuple(totals), rate, cycle_s, _settled(rates, same == 2))


def _settled(rates: Sequence[float], converged: bool) -> float:
    """Return the mean rate of the last two cycles if they repeat; else infinity."""
    alternate = len(rates) == EPOCHS_MAX and abs(rates[-1] / rates[-3] - 1) < 0.01
    return (rates[-1] + rates[-2]) / 2 if alternate or converged else math.inf
