"""The experimental condition: one value for each axis of a study's design.

The command line, the schemas, the tables and the documentation take each axis from its field here.
The guest imports this module, and its Python has no third-party packages: use only the standard
library.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from losslab.errors import LosslabError
from losslab.study import features
from losslab.study.axes import (
    DIGEST_DIGITS,
    MIN_MS,
    MIN_PERCENT,
    NONE,
    Seed,
    axis,
    declared,
    limited,
)
from losslab.study.conflicts import BARE_RATE_MAX_MBIT, conflicts

NO_TRACE = NONE
DEFAULT_KERNEL = DEFAULT_IMAGE = "default"
# Digits of digests in the names of a study's cells, which its measured cells already have. A study
# refuses two cells with one name.
SLUG_DIGITS = 8
MAX_QUOTED = 60  # characters of an unknown key in an error


@dataclass(frozen=True)
@features.with_features
class Condition:
    """One point of a study's design: with a seed, it determines a measurement.

    Each field declares an axis: its default, its allowed values, and its part in names and seeds.
    Features declare their axes in their own modules (`study/features.py`).
    """

    algorithm: str = axis(
        None,
        help="congestion control of the kernel, a name of `algorithms.tsv`; `own`: the programs of "
        "the app `command` choose their own",
        always_named=True, seed=Seed.NEVER,
    )  # fmt: skip
    loss_percent: float = axis(
        0.0,
        help="independent random loss on the path",
        span="[0, 100)", smallest=MIN_PERCENT, unit="% of packets",
        named="loss{}", always_named=True, seed=Seed.ALWAYS,
    )  # fmt: skip
    path: str = axis(
        "symmetric",
        help="reverse path of the acknowledgements",
        choices={"symmetric": "through the forward path's routers", "asymmetric": "through r3"},
        always_named=True, seed=Seed.ALWAYS,
    )  # fmt: skip
    app: str = axis(
        "iperf3",
        help="application that generates the traffic",
        choices={name: app.meaning for name, app in features.apps().items()},
        always_named=True, seed=Seed.ALWAYS,
    )  # fmt: skip
    rtt_ms: float = axis(
        0.44,
        help="base RTT, the two-way propagation delay; 0: a bare path with a bottleneck but no "
        f"netem and no fq, of at most {BARE_RATE_MAX_MBIT:g} Mbit/s and without loss",
        span="[0, 10000]", smallest=MIN_MS, unit="ms",
        named="rtt{}", always_named=True, seed=Seed.ALWAYS,
    )  # fmt: skip
    rate_mbit: float = axis(
        1000.0,
        help="rate of the bottleneck",
        span="[0.01, 10000]", unit="Mbit/s", named="rate{}", seed=Seed.ALWAYS,
    )  # fmt: skip
    buffer_packets: int = axis(
        1000,
        help="buffer size of the bottleneck",
        span="[1, 10000000]", unit="packets", named="buffer{}", seed=Seed.ALWAYS,
    )  # fmt: skip
    offloads: str = axis(
        "off",
        help="TSO, GSO and GRO of every interface (quoted in a study: YAML reads on as true)",
        choices={"off": "", "on": ""}, named="offloads-{}", always_named=True, seed=Seed.ALWAYS,
    )  # fmt: skip
    loss_direction: str = axis(
        "data",
        help="packets that the loss drops",
        choices={
            "data": "", "both": "data and acknowledgements", "back": "only acknowledgements",
        },
        named="loss-{}", seed=Seed.ALWAYS,
    )  # fmt: skip
    queue: str = axis(
        "fifo",
        help="queue discipline of the bottleneck",
        choices={
            "fifo": "", "bfifo": "a limit in bytes: `buffer_packets` full-size packets",
            "two-fifos": "per-class FIFOs: one for bulk flows, one for other traffic",
            "red": "", "pie": "", "codel": "", "fq_codel": "",
            "cake": "", "red-step": "marks or drops each arrival while `mark_packets` are queued",
            "dualpi2": "needs kernel 7.2",
        },
    )  # fmt: skip
    sender_delay_ms: float = axis(
        0.0,
        help="part of the RTT that netem adds on the sender's own interface, with the loss and "
        "netem's default limit: a common mistake in tutorials, to measure its effect",
        span="[0, 10000]", smallest=MIN_MS, unit="ms", named="sender-delay{}",
    )  # fmt: skip
    receive_buffer: str = axis(
        "linux",
        help="receive buffer",
        choices={
            "linux": "Linux's autotuning, from 128 KiB to 6 MiB",
            "linux-2mib": "the same up to 2 MiB, the limit of a host with little memory",
            "large": "maximum size from the start",
        },
        named="receive-{}", seed=Seed.NEVER,
    )  # fmt: skip
    shaper: str = axis(
        "tbf",
        help="qdiscs that emulate rate, buffer and delay",
        choices={
            "tbf": "a token bucket with a queue, and netem links behind it",
            "htb-netem": "one interface per direction for all three, as Mininet's links: the "
            "buffer is netem's limit, which includes the packets being delayed",
        },
    )  # fmt: skip
    sender_queue: str = axis(
        "fq",
        help="qdisc of the sender's interface",
        choices={"fq": "", "fq_codel": "the default of most distributions"},
        named="sender-{}", seed=Seed.NEVER,
    )  # fmt: skip
    kernel: str = axis(
        DEFAULT_KERNEL,
        help="kernel of the hosts, a name of `kernels.toml` (quoted in a study: YAML reads 6.1 as "
        "a number); `default`: the one that `algorithms.tsv` has for the algorithm, or else 6.12",
        pattern="[a-z0-9.-]+", named="kernel-{}", seed=Seed.NEVER,
    )  # fmt: skip
    image: str = axis(
        DEFAULT_IMAGE,
        help="root image of the hosts, a folder of `containers/` with `packages.txt`; `default`: "
        "`quic` for the app `quic`, `host` for all others",
        pattern="[a-z0-9-]+", named="image-{}", seed=Seed.NEVER,
    )  # fmt: skip
    duration_s: float = axis(
        10.0,
        help="length of a run, warm-up included",
        span="(0, 3600]", unit="s", named="duration{}", of_campaign=True, seed=Seed.ALWAYS,
    )  # fmt: skip
    warmup_s: float = axis(
        1.0,
        help="length of the warm-up at the start, excluded from statistics",
        span="[0, 3600)", unit="s", named="warmup{}", of_campaign=True, seed=Seed.ALWAYS,
    )  # fmt: skip

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return the value of a feature's axis."""

    def __post_init__(self) -> None:
        """Convert every value to its axis's type: 20 and 20.0 are one condition."""
        for name, declaration in AXES.items():
            object.__setattr__(self, name, declaration.typed(getattr(self, name)))

    def problems(self) -> list[str]:
        """List what is wrong with the values; empty if the condition can be measured."""
        problems = [
            problem
            for name, declaration in AXES.items()
            for problem in declaration.problems(getattr(self, name))
        ]
        return [*problems, *conflicts(self)]

    @property
    def bare(self) -> bool:
        """Return whether the path is bare: only a bottleneck, no netem and no fq."""
        return self.rtt_ms == 0

    def slug(self) -> str:
        """Return the cell's name in a study: its axes, without those of the campaign."""
        return self._name([name for name in AXES if not AXES[name].of_campaign], SLUG_DIGITS)

    def full_name(self) -> str:
        """Return a folder's name that identifies the condition among all conditions."""
        return self._name(AXES, DIGEST_DIGITS)

    def _name(self, axes: Iterable[str], digits: int) -> str:
        """Join the parts of some axes; all characters are safe in a file's name."""
        names = sorted(axes, key=lambda name: IN_NAMES.get(name, len(IN_NAMES)))
        values = {name: getattr(self, name) for name in names}
        parts = [
            AXES[name].in_name(value, digits)
            for name, value in values.items()
            if AXES[name].is_named(value)
        ]
        return limited("_".join(parts))

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON-ready data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Condition:
        """Build a condition from the data of `to_json`.

        Raises LosslabError if they have an unknown key, or lack an axis that has no default.
        """
        if unknown := sorted(set(data) - set(AXES)):
            raise LosslabError(f"unknown condition keys: {', '.join(unknown)[:MAX_QUOTED]!r}")
        if missing := [name for name in AXES if AXES[name].default is None and name not in data]:
            raise LosslabError(f"a condition must set {', '.join(missing)}, found none")
        return cls(**data)


AXES = declared(Condition)
QUEUES = tuple(AXES["queue"].choices)
# The order of the parts in a cell's name; other axes follow in the order of their fields.
_FIRST = (
    "algorithm", "loss_percent", "path", "app", "rtt_ms", "offloads", "loss_direction",
    "rate_mbit", "buffer_packets", "queue", "trace", "scheme", "sender_delay_ms", "video",
    "competitor", "receive_buffer", "shaper", "sender_queue",
    "trace_back",
)  # fmt: skip
IN_NAMES = {name: place for place, name in enumerate(_FIRST)}
