"""What disturbs a measurement in real time: busy processors, late timers, a path that is not kept.

In virtual time none of it matters; in real time a flow that waits for a processor is slow for a
reason that has nothing to do with its path. Run as a program, this watches timers.
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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from losslab.emulation.goodput import quantile
from losslab.emulation.probes.queue import QueueSample
from losslab.emulation.qdiscs import FRAME_BYTES

if TYPE_CHECKING:
    from losslab.emulation.plan import Promise

# How long the machine is watched before a cell, to see what else runs.
QUIET_S = 1.0
# Others' share of all processors before the cell starts. A tenth of two is a fifth of one, which a
# flow of 1 Gbit/s does not miss.
BUSY_BEFORE_MAX = 0.10
# Time that the machine's own host gave to others.
STEAL_MAX = 0.01
# On average over the cell, of the busiest processor: more, and a program or router waited for it.
BUSY_MAX = 0.90
# Of one processor. Packets are forwarded in soft interrupts; with more than this the routers, not
# the link, decide the rate.
SOFTIRQ_MAX = 0.60
# Limits from 40 runs in an emulated machine beside virtual time: 0.5 to 20 Mbit/s, RTTs of 40 and
# 80 ms, its processors 14 to 65 % busy, shared more or less with others, and no time stolen.
# Goodput was 0.47 to 1.06 of virtual time's, the loaded RTT 0.92 to 2.05. Of the five runs within
# all limits goodput was 0.98 to 1.03 and the RTT 0.99 to 1.09; of the 35 others, 26 were farther
# off than 5 % in goodput or 10 % in RTT.
#
# Of the link's rate: what it misses, a flow that fills it misses.
RATE_TOLERANCE = 0.01
# Of the RTT, by which pings and timers may be late: the 95th and the 99th percentile.
LATE_SHARE_OF_RTT = 0.1
# Where the RTT is shorter: between a ping and the look at the queue lies some time, too.
LATE_LEAST_MS = 1.0
# Half of the shortest retransmission timeout (TCP_RTO_MIN, net/tcp.h): nothing may stand still for
# so long that a flow takes it for loss.
STANDSTILL_MAX_MS = 100.0
# How often the watch of timers wakes. It costs a processor some thousandth of its time.
WAKE_INTERVAL_S = 0.01
PR_SET_TIMERSLACK = 29  # linux/prctl.h; the default of 50 us would be part of every lateness
READY = "ready\n"
# The shortest time from which the rate of the bottleneck is told: the samples' instants are some
# tens of microseconds off.
RATE_SPAN_S = 0.5


TICK_KINDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
Ticks = dict[str, dict[str, int]]


def parse_ticks(text: str) -> Ticks:
    """Read the text of /proc/stat (proc(5)): each processor's ticks since boot, by kind."""
    lines = [line.split() for line in text.splitlines()]
    return {
        name: dict(zip(TICK_KINDS, map(int, values), strict=False))
        for name, *values in lines
        if name.startswith("cpu") and name != "cpu"
    }


def ticks() -> Ticks:
    """Read what the processors have done until now."""
    return parse_ticks(Path("/proc/stat").read_text())


def shares(begin: Ticks, end: Ticks) -> list[dict[str, float]]:
    """Turn ticks into shares of each processor's time, with `busy`, that in which it worked."""
    found = []
    for name, after in end.items():
        before = begin.get(name, dict.fromkeys(TICK_KINDS, 0))
        spent = {kind: after[kind] - before[kind] for kind in TICK_KINDS}
        total = sum(spent.values())
        its = {kind: count / total if total else 0.0 for kind, count in spent.items()}
        found.append(its | {"busy": 1.0 - (its["idle"] + its["iowait"]) if total else 0.0})
    return found


@dataclass(frozen=True)
class Findings:
    """What the machine made of a measurement; None where nothing tells."""

    # Shares of processor time, 0 to 1.
    busy_before: float  # of all processors, just before the cell
    steal: float  # of the processor that lost most
    busy: float  # of the busiest processor
    softirq: float  # of the processor with most
    # How late a program that waits for an instant was woken.
    late_median_ms: float | None
    late_p99_ms: float | None
    late_max_ms: float | None
    # The RTT of pings in the traffic, less the idle path's and less the time that the link needs
    # for what waited before them.
    rtt_excess_median_ms: float | None
    rtt_excess_p95_ms: float | None
    # What the link sent while packets waited for it, over what its rate allows.
    rate_share: float | None

    def reasons(self, promise: Promise) -> list[str]:
        """Say why a replicate on such a machine is not a number; empty when it is one."""
        limits = (
            ("other programs must leave the processors alone", self.busy_before, BUSY_BEFORE_MAX),
            ("the machine's own host must not take its processors", self.steal, STEAL_MAX),
            ("no processor may be the bottleneck: busy", self.busy, BUSY_MAX),
            ("the routers must not be the bottleneck: soft interrupts", self.softirq, SOFTIRQ_MAX),
        )
        found = [
            f"{what} (at most {100 * limit:.0f} %), found {100 * value:.1f} %"
            for what, value, limit in limits
            if value > limit
        ]
        if self.rate_share is not None and abs(self.rate_share - 1) > RATE_TOLERANCE:
            found.append(
                f"the bottleneck must keep its rate while packets wait (within "
                f"{100 * RATE_TOLERANCE:g} %), found {100 * self.rate_share:.1f} % of it"
            )
        late_ms = lateness_max_ms(promise)
        late = (
            (
                "pings in the traffic must be late by no more than the queue explains",
                self.rtt_excess_p95_ms,
                late_ms + frame_ms(promise) / 2,
            ),
            ("timers must be on time, 99 of 100", self.late_p99_ms, late_ms),
            ("timers must be on time, the latest", self.late_max_ms, STANDSTILL_MAX_MS),
        )
        return found + [
            f"{what} (at most {limit:.3g} ms), found {value:.3g} ms"
            for what, value, limit in late
            if value is not None and value > limit
        ]


def frame_ms(promise: Promise) -> float:
    """Return how long the bottleneck needs for a full packet, in ms."""
    return FRAME_BYTES * 8 / 1e3 / promise.rate_mbit


def lateness_max_ms(promise: Promise) -> float:
    """Return by how much most pings and timers may be late, in ms.

    Without emulated delay, a packet's time on the link takes the place of the RTT's share.
    """
    share_ms = frame_ms(promise) if promise.bare else LATE_SHARE_OF_RTT * promise.rtt_ms
    return max(share_ms, LATE_LEAST_MS)


class Watch:
    """Watches the machine while the block lasts: from a path that is set up to the traffic's end.

    What comes before and after, the start of hosts and their end, may keep the machine busy.
    """

    def __init__(self) -> None:
        self._busy_before = quiet_busy(QUIET_S)
        self._timers = subprocess.Popen(
            [sys.executable, "-m", "losslab.emulation.realtime"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._timers.stdout is not None
        self._timers.stdout.readline()
        self._begin = self._end = ticks()
        self._late_ms: list[float] = []

    def __enter__(self) -> Watch:
        assert self._timers.stdin is not None
        self._timers.stdin.write(READY)
        self._timers.stdin.flush()
        self._begin = ticks()
        return self

    def __exit__(self, *_: object) -> None:
        self._end = ticks()
        out = self._timers.communicate()[0]
        self._late_ms = json.loads(out)

    def findings(
        self,
        promise: Promise,
        idle_rtt_ms: float | None,
        replies: Sequence[tuple[float, float]],
        queue: Sequence[QueueSample],
    ) -> Findings:
        """Sum up what was seen in the block; arguments as of `rtt_excess_ms` and `rate_share`."""
        found = shares(self._begin, self._end)
        late = sorted(self._late_ms)
        excess = sorted(rtt_excess_ms(promise, idle_rtt_ms, replies, queue))
        return Findings(
            busy_before=self._busy_before,
            steal=max(kinds["steal"] for kinds in found),
            busy=max(kinds["busy"] for kinds in found),
            softirq=max(kinds["softirq"] for kinds in found),
            late_median_ms=quantile(late, 0.5),
            late_p99_ms=quantile(late, 0.99),
            late_max_ms=quantile(late, 1.0),
            rtt_excess_median_ms=quantile(excess, 0.5),
            rtt_excess_p95_ms=quantile(excess, 0.95),
            rate_share=rate_share(promise, queue),
        )


def rtt_excess_ms(
    promise: Promise,
    idle_rtt_ms: float | None,
    replies: Sequence[tuple[float, float]],
    queue: Sequence[QueueSample],
) -> list[float]:
    """List how much later pings came back than the path explains, in ms.

    Pings are (s, RTT in ms), with a sample of the bottleneck at the instant of each. Only a FIFO's
    length says how long packets wait.
    """
    if not promise.in_order or idle_rtt_ms is None:
        return []
    waiting = {sample.t_s: sample.backlog_bytes for sample in queue}
    ms_per_byte = 8 / 1e3 / promise.rate_mbit
    # The bucket is refilled as time passes: when there is a queue it has half a frame on average,
    # and between none and a whole one.
    return [
        rtt_ms - idle_rtt_ms - max(0.0, waiting[t_s] - FRAME_BYTES / 2) * ms_per_byte
        for t_s, rtt_ms in replies
        if t_s in waiting
    ]


def rate_share(promise: Promise, queue: Sequence[QueueSample]) -> float | None:
    """Divide what the bottleneck sent while packets waited by what its rate allows.

    Only spans count at whose beginning more waits than the link can send until their end; None when
    there is less than RATE_SPAN_S of them, or the rate is not one.
    """
    if promise.by_trace or promise.mean_rate_mbit is not None:
        return None
    bytes_per_s = promise.rate_mbit * 1e6 / 8
    sent = seconds = 0.0
    for first, second in itertools.pairwise(queue):
        span_s = second.t_s - first.t_s
        if first.backlog_bytes > span_s * bytes_per_s:
            sent += second.sent_bytes - first.sent_bytes
            seconds += span_s
    return sent / (seconds * bytes_per_s) if seconds >= RATE_SPAN_S else None


def quiet_busy(seconds: float) -> float:
    """Watch the machine for a moment; return the share of all processors that others use."""
    begin = ticks()
    time.sleep(seconds)
    return statistics.fmean(kinds["busy"] for kinds in shares(begin, ticks()))


def main() -> int:
    """Wait for a line, then wake until input ends; print how late each wake-up was, in ms."""
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
