"""One experimental condition and the seeds of its replicates. Pure data, standard library only.

This module is imported by the guest, whose Python has no third-party packages.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import asdict, dataclass, fields
from typing import Any

from losslab.emulation.schemes import make_scheme
from losslab.errors import LosslabError

PATHS = ("symmetric", "asymmetric")
APPS = ("iperf3", "ffmpeg", "web", "datagram")
LOSS_DIRECTIONS = ("data", "both")
OFFLOADS = ("off", "on")
NO_COMPETITOR = "none"
NO_TRACE = "none"
# The trace that is drawn anew for each replicate.
DRAWN_TRACE = "cellular"
TRACE_NAME = re.compile("[a-z0-9-]+")
# What a trace-driven link can do with packets that wait.
TRACE_QUEUES = ("fifo", "bfifo", "codel")
NO_SCHEME = "none"
VIDEOS = ("720p", "128x64")
QUEUES = ("fifo", "bfifo", "two-fifos", "red", "pie", "codel", "fq_codel", "cake")
# A fetch starts this long after the warm-up at the earliest, and this long before the end at the
# latest: the slowest must end while the bulk flow still runs.
FETCH_AFTER_S = 5.0
FETCH_BEFORE_END_S = 20.0
# Where no delay is emulated, a packet's time on the link takes its place: 0.24 ms at this rate,
# several times what a machine needs to hand it from host to host.
BARE_RATE_MAX_MBIT = 50.0


@dataclass(frozen=True)
class Condition:
    """A point of a study's design: everything that decides what is measured, but the seed."""

    algorithm: str
    loss_percent: float
    path: str
    app: str
    # 0: a bare path, with its bottleneck and without netem and fq.
    rtt_ms: float
    rate_mbit: float
    buffer_packets: int
    offloads: str = "off"
    loss_direction: str = "data"
    # The algorithm of a second bulk flow over the same bottleneck.
    competitor: str = NO_COMPETITOR
    # What the bottleneck does with packets that wait.
    queue: str = "fifo"
    # The part of the RTT that netem adds on the sender's own interface, at netem's default limit,
    # with the loss: as many a tutorial does it, and no other condition.
    sender_delay_ms: float = 0.0
    # What drives the bottleneck in place of its rate: a file of config/traces, or `cellular`.
    trace: str = NO_TRACE
    # The congestion control of the app datagram: a name of `schemes` and its parameters.
    scheme: str = NO_SCHEME
    # The stream of the app ffmpeg.
    video: str = "720p"
    duration_s: float = 10.0
    warmup_s: float = 1.0

    def __post_init__(self) -> None:
        """Give every value its field's type: 20 and 20.0 are one condition.

        Raises:
            LosslabError: a value that is of another type, or no finite number.
        """
        for field in fields(self):
            value = _typed(field.name, str(field.type), getattr(self, field.name))
            object.__setattr__(self, field.name, value)

    def problems(self) -> list[str]:
        """Say what is wrong with the values; empty when the condition can be measured."""
        wrong = []
        if not 0 <= self.loss_percent < 100:
            wrong.append(f"loss_percent must be in [0, 100), found {self.loss_percent:g}")
        if not 0 <= self.rtt_ms <= 10_000:
            wrong.append(f"rtt_ms must be in [0, 10000], found {self.rtt_ms:g}")
        wrong += self._problems_of_bare_path()
        if not 0 <= self.sender_delay_ms <= self.rtt_ms:
            wrong.append(
                f"sender_delay_ms must be in [0, rtt_ms], [0, {self.rtt_ms:g}] here, found "
                f"{self.sender_delay_ms:g}"
            )
        if not 0.01 <= self.rate_mbit <= 10_000:
            wrong.append(f"rate_mbit must be in [0.01, 10000], found {self.rate_mbit:g}")
        if not 1 <= self.buffer_packets <= 10_000_000:
            wrong.append(f"buffer_packets must be at least 1, found {self.buffer_packets}")
        if not 0 < self.duration_s <= 3600:
            wrong.append(f"duration_s must be in (0, 3600], found {self.duration_s:g}")
        if not 0 <= self.warmup_s < self.duration_s:
            wrong.append(
                f"warmup_s must be at least 0 and below duration_s {self.duration_s:g}, "
                f"found {self.warmup_s:g}"
            )
        if self.competitor != NO_COMPETITOR and self.app not in ("iperf3", "web"):
            wrong.append(f"competitor needs the app iperf3 or web, found {self.app}")
        if self.video != "720p" and self.app != "ffmpeg":
            wrong.append(f"video {self.video} needs the app ffmpeg, found {self.app}")
        wrong += self._problems_of_trace_and_scheme()
        fetch_s = FETCH_AFTER_S + FETCH_BEFORE_END_S
        if self.app == "web" and self.duration_s < self.warmup_s + fetch_s:
            wrong.append(
                f"duration_s must leave {fetch_s:g} s after the warm-up for the app web, found "
                f"{self.duration_s - self.warmup_s:g}"
            )
        for name, value, allowed in (
            ("path", self.path, PATHS),
            ("app", self.app, APPS),
            ("offloads", self.offloads, OFFLOADS),
            ("queue", self.queue, QUEUES),
            ("video", self.video, VIDEOS),
            ("loss_direction", self.loss_direction, LOSS_DIRECTIONS),
        ):
            if value not in allowed:
                wrong.append(f"{name} must be one of {', '.join(allowed)}, found {value!r}")
        return wrong

    @property
    def bare(self) -> bool:
        """Tell whether the path is its bottleneck and nothing else: no netem, no fq."""
        return self.rtt_ms == 0

    def _problems_of_bare_path(self) -> list[str]:
        if not self.bare:
            return []
        wrong = []
        if self.rate_mbit > BARE_RATE_MAX_MBIT:
            wrong.append(
                f"rate_mbit must be at most {BARE_RATE_MAX_MBIT:g} with rtt_ms 0, found "
                f"{self.rate_mbit:g}: without any delay a fast path is knife-edge and small "
                "changes decide the result"
            )
        if self.loss_percent:
            wrong.append(
                "loss_percent must be 0 with rtt_ms 0, a path without netem, found "
                f"{self.loss_percent:g}"
            )
        if self.trace != NO_TRACE:
            wrong.append(f"trace must be {NO_TRACE} with rtt_ms 0, found {self.trace}")
        return wrong

    def _problems_of_trace_and_scheme(self) -> list[str]:
        wrong = []
        if not TRACE_NAME.fullmatch(self.trace):
            wrong.append(f"trace must match {TRACE_NAME.pattern}, found {self.trace!r}")
        if self.trace != NO_TRACE and self.queue not in TRACE_QUEUES:
            wrong.append(
                f"queue must be one of {', '.join(TRACE_QUEUES)} with a trace, found {self.queue}"
            )
        if (self.scheme != NO_SCHEME) != (self.app == "datagram"):
            wrong.append(
                f"scheme and the app datagram need each other, found scheme {self.scheme} and app "
                f"{self.app}"
            )
        elif self.scheme != NO_SCHEME:
            try:
                make_scheme(self.scheme)
            except LosslabError as error:
                wrong.append(str(error))
        return wrong

    def slug(self) -> str:
        """Name the cell from its axes, with letters that are safe in a path."""
        parts = [
            self.algorithm,
            f"loss{self.loss_percent:g}",
            self.path,
            self.app,
            f"rtt{self.rtt_ms:g}",
            f"offloads-{self.offloads}",
        ]
        if self.loss_direction != "data":
            parts.append(f"loss-{self.loss_direction}")
        if self.rate_mbit != 1000:
            parts.append(f"rate{self.rate_mbit:g}")
        if self.buffer_packets != 1000:
            parts.append(f"buffer{self.buffer_packets}")
        if self.queue != "fifo":
            parts.append(self.queue.replace("_", "-"))
        if self.trace != NO_TRACE:
            parts.append(f"trace-{self.trace}")
        if self.scheme != NO_SCHEME:
            parts.append(self.scheme.replace("=", "").replace(",", "-").replace("_", "-"))
        if self.sender_delay_ms:
            parts.append(f"sender-delay{self.sender_delay_ms:g}")
        if self.video != "720p":
            parts.append(self.video)
        if self.competitor != NO_COMPETITOR:
            parts.append(f"vs-{self.competitor}")
        return "_".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON-ready data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Condition:
        """Build a condition from `to_json`'s data; a missing or unknown key is a KeyError.

        Raises:
            LosslabError: a value of another type than its field's.
        """
        known = {field.name for field in fields(cls)}
        unknown = set(data) - known
        if unknown:
            raise KeyError(f"unknown condition keys: {', '.join(sorted(unknown))}")
        return cls(**data)


def _typed(name: str, kind: str, value: object) -> object:
    """Return a field's value as its type (`float`, `int` or `str`); refuse what is not one."""
    if kind == "str":
        if isinstance(value, str):
            return value
        raise LosslabError(f"{name} must be a word, found {value!r}")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise LosslabError(f"{name} must be a finite number, found {value!r}")
    if kind == "int" and value != int(value):
        raise LosslabError(f"{name} must be a whole number, found {value!r}")
    return int(value) if kind == "int" else float(value)


# Axis to the value that stands for doing without it.
LATER_AXES: dict[str, Any] = {
    "competitor": False,
    "queue": "fifo",
    "sender_delay_ms": 0.0,
    "video": "720p",
    "trace": NO_TRACE,
}


# How studies and campaigns write a whole number, which is what seeds are made of: `rtt_ms: 20`, and
# lengths of time `20.0`.
TIMES = ("duration_s", "warmup_s")


def _as_written(value: Any) -> Any:
    """Return a number without a fraction as a whole one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def replicate_seed(condition: Condition, replicate: int) -> int:
    """Derive a replicate's seed from its condition without the algorithm or scheme.

    Algorithms thus meet the same losses, phases and start jitter, so that comparisons are paired,
    while different conditions stay independent. Which algorithm a competitor has does not count
    either, only that there is one. Over a trace, the app and the link's queue do not count: schemes
    and the kernel's algorithms meet the same traces.
    """
    data = condition.to_json()
    if condition.trace != NO_TRACE:
        data |= {"app": "datagram", "queue": "fifo"}
    shared = {k: v for k, v in data.items() if k not in ("algorithm", "scheme")}
    shared["competitor"] = condition.competitor != NO_COMPETITOR
    shared = {k: v if k in TIMES else _as_written(v) for k, v in shared.items()}
    # Axes that came later leave the seeds of conditions that do without them as they were.
    shared = {k: v for k, v in shared.items() if k not in LATER_AXES or v != LATER_AXES[k]}
    text = json.dumps([shared, replicate], sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") & 0x7FFF_FFFF


def derived_seed(seed: int, purpose: str) -> int:
    """Derive the seed of one random source (`netem-data`, `kernel`, ...) from a replicate's."""
    digest = hashlib.sha256(f"{seed}:{purpose}".encode()).digest()
    return 1 + int.from_bytes(digest[:4], "big") % 0x7FFF_FFFE
