"""Disturbances of real-time measurements: busy CPUs, steal time, late timers and a wrong rate.

In real time a flow that waits for a CPU is slower than its path. Virtual time excludes such
disturbances. Run as a program, this module measures how late timers are.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import math
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from losslab.emulation.goodput import median, quantile
from losslab.emulation.probes import QueueSample

if TYPE_CHECKING:
    from losslab.emulation.outcome import Measured, Part
    from losslab.emulation.plan import PathSpec

# How long CPU time is measured before a cell, to detect other load.
QUIET_S = 1.0
# Maximum share of all CPUs that other programs use before the cell starts. On two CPUs it is a
# fifth of one CPU, which does not slow down a flow of 1 Gbit/s.
BUSY_BEFORE_MAX = 0.10
# Maximum steal time of a CPU.
STEAL_MAX = 0.01
# Maximum mean CPU utilisation during the cell: with more, programs or routers wait for the CPU.
BUSY_MAX = 0.90
# Maximum share of soft interrupts on a CPU. They forward packets; with more, the routers limit the
# rate instead of the link.
SOFTIRQ_MAX = 0.60
# The limits come from 40 runs in an emulated machine, compared with virtual time: 0.5 to 20 Mbit/s,
# RTTs of 40 and 80 ms, CPUs 14 to 65 % busy with varying other load, no steal time. Goodput was
# 0.47 to 1.06 of virtual time's, the loaded RTT 0.92 to 2.05. In the 5 runs within all limits,
# goodput was 0.98 to 1.03 and the RTT 0.99 to 1.09. Of the 35 others, 26 differed by more than 5 %
# in goodput or 10 % in RTT.
#
# Tolerance of the link's rate: a flow that fills the link deviates as much.
RATE_TOLERANCE = 0.01
# Maximum lateness as a share of the RTT: of pings (95th percentile) and timers (99th percentile).
LATE_SHARE_OF_RTT = 0.1
# Minimum of that limit, for short RTTs: a ping and its sample of the queue are not simultaneous.
LATE_LIMIT_MIN_MS = 1.0
# Half of the shortest retransmission timeout (TCP_RTO_MIN, net/tcp.h): a longer standstill may
# cause spurious timeouts.
STANDSTILL_MAX_MS = 100.0
# Interval of the timers that are measured. They use about 0.1 % of a CPU.
WAKE_INTERVAL_S = 0.01
PR_SET_TIMERSLACK = 29  # linux/prctl.h; the default of 50 us would add to every lateness
READY = "ready\n"
# Minimum time for an estimate of the bottleneck's rate: the times of samples are tens of
# microseconds off.
RATE_SPAN_S = 0.5


TICK_KINDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
CpuTimes = dict[str, dict[str, int]]


def parse_cpu_times(text: str) -> CpuTimes:
    """Parse the text of /proc/stat (proc(5)): ticks of each CPU since boot, by kind."""
    lines = [line.split() for line in text.splitlines()]
    return {
        name: dict(zip(TICK_KINDS, map(int, values), strict=False))
        for name, *values in lines
        if name.startswith("cpu") and name != "cpu"
    }


def read_cpu_times() -> CpuTimes:
    """Read the CPU statistics."""
    return parse_cpu_times(Path("/proc/stat").read_text())


def shares(begin: CpuTimes, end: CpuTimes) -> list[dict[str, float]]:
    """Return the shares of each CPU's time by kind; `busy` is all but idle and iowait."""
    found = []
    for name, after in end.items():
        before = begin.get(name, dict.fromkeys(TICK_KINDS, 0))
        spent = {kind: after[kind] - before[kind] for kind in TICK_KINDS}
        total = sum(spent.values())
        cpu = {kind: count / total if total else 0.0 for kind, count in spent.items()}
        found.append(cpu | {"busy": 1.0 - (cpu["idle"] + cpu["iowait"]) if total else 0.0})
    return found


@dataclass(frozen=True)
class Findings:
    """Disturbances by the machine; None if there are no data."""

    # Shares of CPU time, 0 to 1.
    busy_before: float  # all CPUs, just before the cell
    steal: float  # CPU with the largest share
    busy: float  # CPU with the largest share
    softirq: float  # CPU with the largest share
    # Lateness of timers.
    late_median_ms: float | None
    late_p99_ms: float | None
    late_max_ms: float | None
    # RTT of pings during the traffic, minus the idle path's RTT and the queueing delay.
    rtt_excess_median_ms: float | None
    rtt_excess_p95_ms: float | None
    # Rate of the link while packets wait, divided by its configured rate.
    rate_share: float | None

    def violations(self, path_spec: PathSpec) -> list[str]:
        """List the violations of a replicate that had these disturbances."""
        limits = (
            ("CPU time of other programs before the cell", self.busy_before, BUSY_BEFORE_MAX),
            ("steal time of a CPU", self.steal, STEAL_MAX),
            ("utilisation of a CPU", self.busy, BUSY_MAX),
            ("soft interrupts of a CPU", self.softirq, SOFTIRQ_MAX),
        )
        violations = [
            f"{quantity} must be at most {100 * limit:.0f} %, found {100 * value:.1f} %"
            for quantity, value, limit in limits
            if value > limit
        ]
        if self.rate_share is not None and abs(self.rate_share - 1) > RATE_TOLERANCE:
            violations.append(
                f"the bottleneck must keep its rate within {100 * RATE_TOLERANCE:g} % while "
                f"packets wait, found {100 * self.rate_share:.1f} % of it"
            )
        late_ms = lateness_max_ms(path_spec)
        late = (
            (
                "the RTT beyond base RTT and queueing delay (95th percentile)",
                self.rtt_excess_p95_ms,
                late_ms + frame_ms(path_spec) / 2,
            ),
            ("the lateness of timers (99th percentile)", self.late_p99_ms, late_ms),
            ("the lateness of timers (maximum)", self.late_max_ms, STANDSTILL_MAX_MS),
        )
        return violations + [
            f"{quantity} must be at most {limit:.3g} ms, found {value:.3g} ms"
            for quantity, value, limit in late
            if value is not None and value > limit
        ]


def frame_ms(path_spec: PathSpec) -> float:
    """Return the transmission time of a full packet at the bottleneck, in ms."""
    return path_spec.sizes.frame_bytes * 8 / 1e3 / path_spec.rate_mbit


def lateness_max_ms(path_spec: PathSpec) -> float:
    """Return the maximum lateness of most pings and timers, in ms.

    It is a share of the RTT; without emulated delay, the transmission time of a packet.
    """
    share_ms = frame_ms(path_spec) if path_spec.bare else LATE_SHARE_OF_RTT * path_spec.rtt_ms
    return max(share_ms, LATE_LIMIT_MIN_MS)


class Watch:
    """Measures CPU statistics and timers during the block.

    The block lasts from the finished setup to the end of the traffic. Starting and stopping hosts
    may load the machine.
    """

    def __init__(self) -> None:
        self._busy_before = quiet_busy(QUIET_S)
        self._timers = subprocess.Popen(
            [sys.executable, "-m", "losslab.tools.realtime.watch"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._timers.stdout is not None
        self._timers.stdout.readline()
        self._begin = self._end = read_cpu_times()
        self._late_ms: list[float] = []

    def __enter__(self) -> Watch:
        assert self._timers.stdin is not None
        self._timers.stdin.write(READY)
        self._timers.stdin.flush()
        self._begin = read_cpu_times()
        return self

    def __exit__(self, *_: object) -> None:
        self._end = read_cpu_times()
        out = self._timers.communicate()[0]
        self._late_ms = json.loads(out)

    def contribute(self, measured: Measured) -> Part:
        """Return the metrics and violations of a replicate."""
        from losslab.emulation.outcome import Part  # slow, and not needed to measure timers

        path, run = measured.plan.path_spec, measured.run
        found = self.findings(path, measured.evidence.rtt_ms, run.replies, run.queue)
        metrics = {f"machine_{name}": value for name, value in asdict(found).items()}
        return Part(metrics, found.violations(path))

    def findings(
        self,
        path_spec: PathSpec,
        idle_rtt_ms: float | None,
        replies: Sequence[tuple[float, float]],
        queue: Sequence[QueueSample],
    ) -> Findings:
        """Return the disturbances; for the arguments see `rtt_excess_ms` and `rate_share`."""
        cpu_shares = shares(self._begin, self._end)
        late = sorted(self._late_ms)
        excess = sorted(rtt_excess_ms(path_spec, idle_rtt_ms, replies, queue))
        return Findings(
            busy_before=self._busy_before,
            steal=max(kinds["steal"] for kinds in cpu_shares),
            busy=max(kinds["busy"] for kinds in cpu_shares),
            softirq=max(kinds["softirq"] for kinds in cpu_shares),
            late_median_ms=median(late),
            late_p99_ms=quantile(late, 0.99),
            late_max_ms=quantile(late, 1.0),
            rtt_excess_median_ms=median(excess),
            rtt_excess_p95_ms=quantile(excess, 0.95),
            rate_share=rate_share(path_spec, queue),
        )


def rtt_excess_ms(
    path_spec: PathSpec,
    idle_rtt_ms: float | None,
    replies: Sequence[tuple[float, float]],
    queue: Sequence[QueueSample],
) -> list[float]:
    """List the RTTs of pings beyond the idle path's RTT and the queueing delay, in ms.

    Replies are (s, RTT in ms), and `queue` has a sample of the bottleneck at the time of each. The
    list is empty if the queue is not a FIFO, because then its length does not determine the delay.
    """
    if not path_spec.in_order or idle_rtt_ms is None:
        return []
    waiting = {sample.t_s: sample.backlog_bytes for sample in queue}
    ms_per_byte, frame = 8 / 1e3 / path_spec.rate_mbit, path_spec.sizes.frame_bytes
    # While there is a queue, the token bucket holds between none and a whole frame, half a frame on
    # average.
    return [
        rtt_ms - idle_rtt_ms - max(0.0, waiting[t_s] - frame / 2) * ms_per_byte
        for t_s, rtt_ms in replies
        if t_s in waiting
    ]


def rate_share(path_spec: PathSpec, queue: Sequence[QueueSample]) -> float | None:
    """Return the bottleneck's rate while packets wait, divided by its configured rate.

    Only intervals count in which the link is busy throughout, because more bytes wait at their
    beginning than it can send. None if they are shorter than RATE_SPAN_S in total, or if the rate
    changes during the run.
    """
    if path_spec.by_trace or path_spec.effect.mean_rate_mbit is not None:
        return None
    bytes_per_s = path_spec.rate_mbit * 1e6 / 8
    sent = seconds = 0.0
    for first, second in itertools.pairwise(queue):
        span_s = second.t_s - first.t_s
        if first.backlog_bytes > span_s * bytes_per_s:
            sent += second.sent_bytes - first.sent_bytes
            seconds += span_s
    return sent / (seconds * bytes_per_s) if seconds >= RATE_SPAN_S else None


def quiet_busy(seconds: float) -> float:
    """Measure the share of all CPUs that programs use now."""
    begin = read_cpu_times()
    time.sleep(seconds)
    return statistics.fmean(kinds["busy"] for kinds in shares(begin, read_cpu_times()))


def main() -> int:
    """Measure timers from the first line of input to its end; print each lateness in ms."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)
    print(READY, end="", flush=True)
    sys.stdin.readline()
    begin, late_ms = time.monotonic(), []
    while not select.select([sys.stdin], [], [], 0)[0]:
        due = begin + math.ceil((time.monotonic() - begin) / WAKE_INTERVAL_S) * WAKE_INTERVAL_S
        time.sleep(max(0.0, due - time.monotonic()))
        late_ms.append((time.monotonic() - due) * 1e3)
    json.dump([round(late, 4) for late in late_ms], sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
