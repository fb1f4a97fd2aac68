"""Queues of trace-driven links, because no qdisc can wait for a trace. Pure data."""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from losslab.errors import LosslabError
from losslab.study.packetsizes import DEFAULT, ETHERNET_BYTES

# RFC 8289, sections 4.3 and 4.4.
CODEL_TARGET_MS = 5.0
CODEL_INTERVAL_MS = 100.0


@dataclass(frozen=True)
class Packet:
    """Packet in the queue and its arrival time."""

    content: bytes
    arrived_ms: int


class DropTail:
    """Drop-tail FIFO, by default without limits."""

    def __init__(self, limit_packets: int | None = None, limit_bytes: int | None = None) -> None:
        self._limits = (limit_packets, limit_bytes)
        self._packets: deque[Packet] = deque()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._packets)

    def enqueue(self, packet: Packet) -> list[Packet]:
        """Add a packet; return those dropped: this one, if the queue is full."""
        limit_packets, limit_bytes = self._limits
        if limit_packets is not None and len(self._packets) + 1 > limit_packets:
            return [packet]
        if limit_bytes is not None and self.bytes + len(packet.content) > limit_bytes:
            return [packet]
        self._packets.append(packet)
        self.bytes += len(packet.content)
        return []

    def dequeue(self, now_ms: int) -> tuple[Packet | None, list[Packet]]:
        """Return the next packet, and those dropped before it."""
        return (self.pop() if self._packets else None), []

    def pop(self) -> Packet:
        """Take the head of a queue that is not empty."""
        packet = self._packets.popleft()
        self.bytes -= len(packet.content)
        return packet


class CoDel(DropTail):
    """CoDel (RFC 8289): drops at the head while the standing delay is above the target."""

    def __init__(
        self,
        limit_packets: int | None = None,
        mtu_bytes: int = DEFAULT.mtu_bytes,
        target: float = CODEL_TARGET_MS,
        interval: float = CODEL_INTERVAL_MS,
    ) -> None:
        super().__init__(limit_packets)
        self._mtu_bytes, self._target_ms, self._interval_ms = mtu_bytes, target, interval
        self._first_above_ms = 0.0
        self._drop_next_ms = 0.0
        self._count = 0
        self._last_count = 0
        self._dropping = False

    def _head(self, now_ms: int) -> tuple[Packet | None, bool]:
        """Take the head; return it, and whether its delay was above the target for an interval."""
        packet, _ = super().dequeue(now_ms)
        if packet is None:
            self._first_above_ms = 0.0
            return None, False
        sojourn_ms = now_ms - packet.arrived_ms
        if sojourn_ms < self._target_ms or self.bytes <= self._mtu_bytes:
            self._first_above_ms = 0.0
            return packet, False
        if self._first_above_ms == 0.0:
            self._first_above_ms = now_ms + self._interval_ms
            return packet, False
        return packet, now_ms >= self._first_above_ms

    def dequeue(self, now_ms: int) -> tuple[Packet | None, list[Packet]]:
        """Return the next packet, and those dropped before it."""
        dropped: list[Packet] = []
        packet, above = self._head(now_ms)
        if self._dropping:
            if not above:
                self._dropping = False
            while self._dropping and now_ms >= self._drop_next_ms and packet is not None:
                dropped.append(packet)
                self._count += 1
                packet, above = self._head(now_ms)
                if above:
                    self._drop_next_ms += self._interval_ms / sqrt(self._count)
                else:
                    self._dropping = False
        elif above and packet is not None:
            dropped.append(packet)
            packet, above = self._head(now_ms)
            self._dropping = True
            recent = now_ms - self._drop_next_ms < 16 * self._interval_ms
            delta = self._count - self._last_count
            self._count = delta if recent and delta > 1 else 1
            self._drop_next_ms = now_ms + self._interval_ms / sqrt(self._count)
            self._last_count = self._count
        return packet, dropped


class Flow(CoDel):
    """A flow's queue in FQ-CoDel, with the bytes that it may still send in its round."""

    deficit = 0.0
    active = False


class FqCoDel:
    """FQ-CoDel (RFC 8290): deficit round robin over flows with CoDel, new flows first.

    Each flow has its own queue; there are no hash collisions.
    """

    def __init__(
        self,
        limit_packets: int,
        mtu_bytes: int = DEFAULT.mtu_bytes,
        target: float = CODEL_TARGET_MS,
        interval: float = CODEL_INTERVAL_MS,
        quantum: float = 0.0,
    ) -> None:
        self._limit, self._codel = limit_packets, (mtu_bytes, target, interval)
        self._quantum = quantum or mtu_bytes
        self._flows: dict[bytes, Flow] = {}
        self._new: deque[Flow] = deque()
        self._old: deque[Flow] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._new)) + sum(map(len, self._old))

    def enqueue(self, packet: Packet) -> list[Packet]:
        """Add a packet; if that is too many, drop half of the longest queue, 64 at most."""
        flow = self._flows.setdefault(flow_of(packet.content), Flow(None, *self._codel))
        flow.enqueue(packet)
        if not flow.active:
            flow.active, flow.deficit = True, self._quantum
            self._new.append(flow)
        if len(self) <= self._limit:
            return []
        longest = max(self._flows.values(), key=lambda each: each.bytes)
        return [longest.pop() for _ in range(min(64, max(1, len(longest) // 2)))]

    def dequeue(self, now_ms: int) -> tuple[Packet | None, list[Packet]]:
        """Return the next packet, and those dropped before it."""
        dropped: list[Packet] = []
        while flows := self._new or self._old:
            flow = flows[0]
            if flow.deficit <= 0:
                flow.deficit += self._quantum
                self._old.append(flows.popleft())
                continue
            packet, dropped_by_flow = flow.dequeue(now_ms)
            dropped += dropped_by_flow
            if packet is not None:
                flow.deficit -= len(packet.content)
                return packet, dropped
            flows.popleft()
            # A new flow that is empty becomes an old one, so that it does not starve the others.
            flow.active = flows is self._new and len(self._old) > 0
            if flow.active:
                self._old.append(flow)
        return None, dropped


def flow_of(packet: bytes) -> bytes:
    """Return what all IP packets of a flow have in common: addresses, protocol and ports."""
    if packet[:1] and packet[0] >> 4 == 4:
        ports = 4 * (packet[0] & 0xF)
        return packet[9:10] + packet[12:20] + packet[ports : ports + 4]
    return packet[6:7] + packet[8:44]


class Pie(DropTail):
    """PIE (RFC 8033) with the arithmetic of Linux (net/sched/sch_pie.c, include/net/pie.h)."""

    def __init__(
        self,
        limit_packets: int,
        mtu_bytes: int,
        rng: random.Random,
        target: float = 15.0,
        tupdate: float = 15.0,
        alpha: float = 2.0,
        beta: float = 20.0,
    ) -> None:
        super().__init__(limit_packets)
        self._mtu_bytes, self._rng = mtu_bytes, rng
        self._target_ms, self._update_ms = target, tupdate
        self._gains = alpha / 16, beta / 16
        self._probability = self._sum = self._delay_ms = self._old_delay_ms = 0.0
        self._burst_ms, self._next_ms, self._sent_ms = 150.0, tupdate, 0

    def enqueue(self, packet: Packet) -> list[Packet]:
        """Add a packet, or drop it."""
        self._update(packet.arrived_ms)
        return [packet] if self._early() else super().enqueue(packet)

    def dequeue(self, now_ms: int) -> tuple[Packet | None, list[Packet]]:
        """Return the next packet, whose delay is the queue's."""
        self._update(now_ms)
        packet, _ = super().dequeue(now_ms)
        if packet is not None:
            self._delay_ms = float(now_ms - packet.arrived_ms) if self.bytes else 0.0
            self._burst_ms = max(0.0, self._burst_ms - (now_ms - self._sent_ms))
            self._sent_ms = now_ms
        return packet, []

    def _early(self) -> bool:
        calm = self._delay_ms < self._target_ms / 2 and self._probability < 0.2
        if self._burst_ms > 0 or calm or self.bytes < 2 * self._mtu_bytes:
            return False
        self._sum = self._sum + self._probability if self._probability else 0.0
        if self._sum < 0.85:
            return False
        if self._sum < 8.5 and self._rng.random() >= self._probability:
            return False
        self._sum = 0.0
        return True

    def _update(self, now_ms: int) -> None:
        """Make the updates that are due; an idle queue's probability decays."""
        while self._next_ms <= now_ms:
            self._next_ms += self._update_ms
            delay_ms, old_ms, p = self._delay_ms, self._old_delay_ms, self._probability
            scale = 1.0
            if p < 0.1:
                scale, power = 0.5, 100
                while p < 1 / power and power <= 10**6:
                    scale, power = scale / 4, power * 10
            alpha, beta = self._gains
            change = scale * (alpha * (delay_ms - self._target_ms) + beta * (delay_ms - old_ms))
            change /= 1000
            if change > 0.02 and p >= 0.1:
                change = 0.02
            p = min(1.0, max(0.0, p + change + (0.02 if delay_ms > 250 else 0.0)))
            if delay_ms == old_ms == 0 and not self.bytes:
                p -= p / 64
            self._probability, self._old_delay_ms = p, delay_ms
            if p == 0 and max(delay_ms, old_ms) < self._target_ms / 2:
                self._burst_ms, self._sum = 150.0, 0.0


class Red(DropTail):
    """RED (Floyd and Jacobson, 1993) with the arithmetic of Linux (include/net/red.h)."""

    def __init__(
        self, rng: random.Random, mbit: float, limit: float, min: float, max: float,
        burst: float, avpkt: float, probability: float = 0.02,
    ) -> None:  # fmt: skip
        super().__init__()
        self._rng, self._limit, self._min, self._max = rng, limit, min, max
        self._probability, self._packet_ms = probability, avpkt * 8 / 1e3 / mbit
        # tc_red_eval_ewma, tc/tc_red.c
        room = burst + 1 - min / avpkt
        self._weight = next(
            w for w in (2.0**-n for n in range(1, 33)) if room <= (1 - (1 - w) ** burst) / w
        )
        self._average, self._count, self._drawn = 0.0, -1, 0.0
        self._idle_ms: int | None = None

    def enqueue(self, packet: Packet) -> list[Packet]:
        """Add a packet, or drop it."""
        waiting = self.bytes + ETHERNET_BYTES * len(self)
        if self._idle_ms is None:
            self._average += (waiting - self._average) * self._weight
        else:
            idle = (packet.arrived_ms - self._idle_ms) / self._packet_ms
            self._average *= (1 - self._weight) ** idle
            self._idle_ms = None
        full = waiting + len(packet.content) + ETHERNET_BYTES > self._limit
        return [packet] if self._early() or full else super().enqueue(packet)

    def dequeue(self, now_ms: int) -> tuple[Packet | None, list[Packet]]:
        """Return the next packet; note when the queue becomes idle."""
        packet, _ = super().dequeue(now_ms)
        if packet is None and self._idle_ms is None:
            self._idle_ms = now_ms
        return packet, []

    def _early(self) -> bool:
        if not self._min <= self._average < self._max:
            self._count = -1
            return self._average >= self._max
        self._count += 1
        share = (self._average - self._min) / (self._max - self._min) * self._probability
        early = self._count > 0 and share * self._count >= self._drawn
        if early:
            self._count = 0
        if self._count == 0:
            self._drawn = self._rng.random()
        return early


# Queues of the axis `queue`, and tc options of the queues that have some.
QUEUES = ("fifo", "bfifo", "codel", "fq_codel", "pie", "red")
OPTIONS = {
    "pfifo": ("limit",), "bfifo": ("limit",), "codel": ("limit", "target", "interval"),
    "fq_codel": ("limit", "target", "interval", "quantum"),
    "pie": ("limit", "target", "tupdate", "alpha", "beta"),
    "red": ("limit", "min", "max", "burst", "avpkt", "probability", "bandwidth"),
}  # fmt: skip
UNITS = {"": 1.0, "us": 1e-3, "ms": 1.0, "s": 1e3, "mbit": 1.0}


def queue_of(
    text: str,
    packets: int = 1000,
    mtu_bytes: int = DEFAULT.mtu_bytes,
    seed: int = 0,
    mbit: float = 1.0,
) -> DropTail | FqCoDel:
    """Build a queue of `packets` from its name, or from its kind and tc options.

    RED's average decays at `mbit` while the queue is empty. Raises LosslabError.
    """
    kind, *words = text.split() or [text]
    options = _options(kind, words)
    if kind not in (*QUEUES, *OPTIONS):
        raise LosslabError(
            f"behind a trace, the queue must be one of {', '.join((*QUEUES, 'own'))}, with a qdisc "
            f"of {', '.join(OPTIONS)}, found {kind}"
        )
    limit = options.pop("limit", None)
    if kind == "bfifo":
        return DropTail(limit_bytes=int(limit or packets * mtu_bytes))
    if kind == "red":
        return _red(options, limit, mtu_bytes, seed, mbit, " ".join(words))
    limit_packets = packets if limit is None else int(limit)
    if kind == "pie":
        return Pie(limit_packets, mtu_bytes, random.Random(seed), **options)
    if kind == "codel":
        return CoDel(limit_packets, mtu_bytes, **options)
    if kind == "fq_codel":
        return FqCoDel(limit_packets, mtu_bytes, **options)
    return DropTail(limit_packets)


def _options(kind: str, words: Sequence[str]) -> dict[str, float]:
    """Parse the tc options of a kind of queue; times are in ms."""
    known = OPTIONS.get(kind, ())
    options: dict[str, float] = {}
    for name, word in zip(words[::2], [*words[1::2], ""], strict=False):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]*)", word)
        if name not in known or match is None or match[2] not in UNITS:
            raise LosslabError(
                f"behind a trace, {kind} must have options of {', '.join(known) or 'none'} with "
                f"numbers, found {f'{name} {word}'.strip()!r}",
                hint="give a unit, us, ms or s, to times",
            )
        options[name] = float(match[1]) * UNITS[match[2]]
        if not options[name]:
            raise LosslabError(f"{name} of {kind} must be above 0, found {word}")
    return options


def _red(
    options: dict[str, float],
    limit_bytes: float | None,
    mtu_bytes: int,
    seed: int,
    mbit: float,
    words: str,
) -> Red:
    """Build a RED queue; `words` are its options as in tc."""
    options.pop("bandwidth", None)  # the link's rate takes its place
    packet_bytes = options.setdefault("avpkt", mtu_bytes + ETHERNET_BYTES)
    low_bytes, high_bytes, burst = (options.get(name, 0.0) for name in ("min", "max", "burst"))
    in_order = packet_bytes <= low_bytes < high_bytes and burst >= low_bytes / packet_bytes
    if limit_bytes is None or not in_order:
        raise LosslabError(
            "red must have a limit, avpkt <= min < max, and a burst of at least min / avpkt, "
            f"found {words or 'none'}"
        )
    return Red(random.Random(seed), mbit, limit_bytes, **options)
