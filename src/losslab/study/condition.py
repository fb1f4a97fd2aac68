"""One experimental condition. Pure data, standard library only.

This module is imported by the guest, whose Python has no third-party packages. What the command
line, the schemas, the tables and their documentation have of an axis follows from its field here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from losslab.errors import LosslabError
from losslab.study import features
from losslab.study.axes import NONE, Seed, axis, declared
from losslab.study.crowd import NO_FLOWS, PATTERN

NO_COMPETITOR = NO_TRACE = NO_SCHEME = NONE
DEFAULT_KERNEL = DEFAULT_IMAGE = "default"
# What netem under htb can do with packets that wait.
ONE_INTERFACE_QUEUES = ("fifo", "two-fifos")
# Where no delay is emulated, a packet's time on the link takes its place: 0.24 ms at this rate,
# several times what a machine needs to hand it from host to host.
BARE_RATE_MAX_MBIT = 50.0


@dataclass(frozen=True)
@features.with_features
class Condition:
    """A point of a study's design: everything that decides what is measured, but the seed.

    Each axis has its default, what it is, what it may be, and its part in names and seeds. Those of
    apps and of mechanisms of the path are declared in their modules (`study/features.py`).
    """

    algorithm: str = axis(
        None,
        help="congestion control of the kernel, a name of `algorithms.tsv`",
        always_named=True, seed=Seed.NEVER,
    )  # fmt: skip
    loss_percent: float = axis(
        0.0,
        help="independent random loss on the path",
        span="[0, 100)", unit="% of packets", named="loss{}", always_named=True, seed=Seed.ALWAYS,
    )  # fmt: skip
    path: str = axis(
        "symmetric",
        help="the way of acknowledgements",
        choices={"symmetric": "back over the forward routers", "asymmetric": "over r3"},
        always_named=True, seed=Seed.ALWAYS,
    )  # fmt: skip
    app: str = axis(
        "iperf3",
        help="what makes the traffic",
        choices={name: its.meaning for name, its in features.apps().items()},
        always_named=True, seed=Seed.ALWAYS,
    )  # fmt: skip
    rtt_ms: float = axis(
        0.44,
        help=f"two-way propagation delay; 0 for a bare path, of at most {BARE_RATE_MAX_MBIT:g} "
        "Mbit/s and without loss: its bottleneck is all that is set up, no netem and no fq",
        span="[0, 10000]", unit="ms", named="rtt{}", always_named=True, seed=Seed.ALWAYS,
    )  # fmt: skip
    rate_mbit: float = axis(
        1000.0,
        help="rate of the bottleneck",
        span="[0.01, 10000]", unit="Mbit/s", named="rate{}", seed=Seed.ALWAYS,
    )  # fmt: skip
    buffer_packets: int = axis(
        1000,
        help="length of the bottleneck's buffer",
        span="[1, 10000000]", unit="packets", named="buffer{}", seed=Seed.ALWAYS,
    )  # fmt: skip
    offloads: str = axis(
        "off",
        help="TSO, GSO and GRO of every interface (quoted in a study: YAML reads on as true)",
        choices={"off": "", "on": ""}, named="offloads-{}", always_named=True, seed=Seed.ALWAYS,
    )  # fmt: skip
    loss_direction: str = axis(
        "data",
        help="where the loss strikes",
        choices={
            "data": "", "both": "data and acknowledgements", "back": "acknowledgements alone",
        },
        named="loss-{}", seed=Seed.ALWAYS,
    )  # fmt: skip
    competitor: str = axis(
        NO_COMPETITOR,
        help="algorithm of a second bulk flow over the same bottleneck, `none`, or in a study "
        "`same` for the cell's own",
        named="vs-{}", seed=Seed.WHETHER_DEFAULT,
    )  # fmt: skip
    queue: str = axis(
        "fifo",
        help="what the bottleneck does with packets that wait",
        choices={
            "fifo": "", "bfifo": "the buffer in bytes: of as many full packets",
            "two-fifos": "bulk flows apart", "red": "", "pie": "", "codel": "", "fq_codel": "",
            "cake": "", "red-step": "marks, or drops, all that comes while `mark_packets` wait",
            "dualpi2": "of kernel 7.2",
        },
    )  # fmt: skip
    sender_delay_ms: float = axis(
        0.0,
        help="the part of the RTT that netem adds on the sender's own interface, at netem's "
        "default limit and with the loss, as many a tutorial does it: a mistake to be measured",
        span="[0, 10000]", unit="ms", named="sender-delay{}",
    )  # fmt: skip
    receive_buffer: str = axis(
        "linux",
        help="the receiver's window",
        choices={
            "linux": "Linux's autotuning, from 128 KiB to 6 MiB",
            "large": "no limit from the start",
        },
        named="receive-{}", seed=Seed.NEVER,
    )  # fmt: skip
    shaper: str = axis(
        "tbf",
        help="what makes rate, buffer and delay",
        choices={
            "tbf": "a token bucket with a queue, and delay lines behind it",
            "htb-netem": "one interface each way for all three, as Mininet's links: the buffer is "
            "netem's limit, and counts what is in its delay line",
        },
    )  # fmt: skip
    sender_queue: str = axis(
        "fq",
        help="the qdisc of the sender's own interface",
        choices={"fq": "", "fq_codel": "the default of most distributions"},
        named="sender-{}", seed=Seed.NEVER,
    )  # fmt: skip
    kernel: str = axis(
        DEFAULT_KERNEL,
        help="kernel that the hosts run on, a name of `kernels.toml` (quoted in a study: YAML "
        "reads 6.1 as a number); `default`: the algorithm's own in `algorithms.tsv`, or else 6.12",
        pattern="[a-z0-9.-]+", named="kernel-{}", seed=Seed.NEVER,
    )  # fmt: skip
    flows: str = axis(
        NO_FLOWS,
        help="TCP background flows: `ALGORITHM,key=value,...` joined by `+`, or a name of the "
        "study's own `flows`; docs/how-to/flows.md has the keys",
        pattern=PATTERN, named="flows-{}", seed=Seed.NEVER,
    )  # fmt: skip
    second_rate_mbit: float = axis(
        0.0,
        help="rate of a second bottleneck behind the first, with the same buffer and queue; 0 "
        "for none; the flow under test passes both, `flows` say which with `over`",
        span="[0, 10000]", unit="Mbit/s", named="second{}",
    )  # fmt: skip
    image: str = axis(
        DEFAULT_IMAGE,
        help="what the hosts have: a folder of `containers/` with `packages.txt`; `default`: "
        "`quic` for the app of that name, `host` for all others",
        pattern="[a-z0-9-]+", named="image-{}", seed=Seed.NEVER,
    )  # fmt: skip
    duration_s: float = axis(
        10.0,
        help="length of a run, warm-up included",
        span="(0, 3600]", unit="s", of_campaign=True, seed=Seed.ALWAYS,
    )  # fmt: skip
    warmup_s: float = axis(
        1.0,
        help="seconds at the start that enter no statistic",
        span="[0, 3600)", unit="s", of_campaign=True, seed=Seed.ALWAYS,
    )  # fmt: skip

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return the value of a feature's axis."""

    def __post_init__(self) -> None:
        """Give every value its axis's type: 20 and 20.0 are one condition."""
        for name, its in AXES.items():
            object.__setattr__(self, name, its.typed(getattr(self, name)))

    def problems(self) -> list[str]:
        """Say what is wrong with the values; empty when the condition can be measured."""
        from losslab.study.conflicts import conflicts  # which needs this module whole

        values = asdict(self)
        wrong = [words for name, its in AXES.items() for words in its.problems(values[name])]
        return [*wrong, *conflicts(self)]

    @property
    def bare(self) -> bool:
        """Tell whether the path is its bottleneck and nothing else: no netem, no fq."""
        return self.rtt_ms == 0

    def slug(self) -> str:
        """Name the cell from its axes, with letters that are safe in a path."""
        names = [*IN_NAMES, *(name for name in AXES if name not in IN_NAMES)]
        parts = [AXES[name].in_name(getattr(self, name)) for name in names]
        return "_".join(part for part in parts if part is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON-ready data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Condition:
        """Build a condition from `to_json`'s data; an unknown key is a KeyError."""
        unknown = set(data) - set(AXES)
        if unknown:
            raise KeyError(f"unknown condition keys: {', '.join(sorted(unknown))}")
        missing = [name for name, its in AXES.items() if its.default is None and name not in data]
        if missing:
            raise LosslabError(f"a condition must say its {', '.join(missing)}, found none")
        return cls(**data)


AXES = declared(Condition)
QUEUES = tuple(AXES["queue"].choices)
# The order of their parts in a cell's name; later axes follow.
IN_NAMES = (
    "algorithm", "loss_percent", "path", "app", "rtt_ms", "offloads", "loss_direction",
    "rate_mbit", "buffer_packets", "queue", "trace", "scheme", "sender_delay_ms", "video",
    "competitor", "receive_buffer", "shaper", "sender_queue",
    "trace_back",
)  # fmt: skip
