"""The experimental condition: one value for each axis of a study's design, and its seeds.

The command line, the schemas, the tables and the documentation take each axis from its field here.
The guest imports this module, and its Python has no third-party packages: use only the standard
library.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from losslab.errors import LosslabError
from losslab.study import hostsettings
from losslab.study import parameters as parameterlanguage
from losslab.study.axes import (
    DIGEST_DIGITS,
    MIN_MS,
    MIN_PERCENT,
    NONE,
    OWN,
    Seed,
    axis,
    declared,
    derived_seed,
    limited,
)
from losslab.study.features import OF_FEATURE, all_features, modules, with_features
from losslab.study.packetsizes import (
    DEFAULT,
    MAX_MTU_BYTES,
    MIN_MTU_BYTES,
    MIN_MTU_IPV6_BYTES,
    frame_bytes,
)

NO_TRACE = NONE
DEFAULT_KERNEL = DEFAULT_IMAGE = "default"
# Digits of digests in the names of a study's cells, which its measured cells already have. A study
# refuses two cells with one name.
SLUG_DIGITS = 8
# The family of seeds that limits and set-ups may have been tuned on.
FIRST_FAMILY = 1
MAX_QUOTED = 60  # characters of an unknown key in an error
# Queues that the shaper htb-netem can emulate.
ONE_INTERFACE_QUEUES = ("fifo", "two-fifos")
# Largest buffers, with the default MTU, of queues whose limits are bytes in 32 bits (get_size,
# lib/utils_math.c): of full-size frames, or of memory (`shaping.queued_bytes`). fq_codel's limit
# has 31 bits (fq_codel_change, net/sched/sch_fq_codel.c). tc warns of RED's burst for larger
# buffers than RED's (red_parse_opt, tc/q_red.c), whatever a packet's size.
BUFFER_MAX_PACKETS = {
    "bfifo": 2_836_834, "red-step": 2_836_834, "cake": 1_864_135, "fq_codel": 932_067,
    "red": 8_186,
}  # fmt: skip
# Transmission time of a full packet of the default MTU at the smallest rate. Times of queues and
# token buckets have 32 bits (tc_core.c).
FRAME_MAX_S = 1.25
# Limits of the receive window that the kernel keeps: the largest window of each scale (RFC 7323).
WINDOWS = tuple(65535 << scale for scale in range(15))
# On a bare path, the serialization delay replaces the propagation delay. At this rate it is
# 0.24 ms, several times the time in which a machine forwards a packet between two hosts.
BARE_RATE_MAX_MBIT = 50.0


@dataclass(frozen=True)
@with_features
class Condition:
    """One point of a study's design: with a seed, it determines a measurement.

    Each field is an axis, in the order of tables and reports. Its declaration has its default, its
    allowed values, and its part in names and seeds. That of a feature's axis is in the feature's
    module (`study/features.py`).
    """

    algorithm: str = axis(
        None,
        help="congestion control of the kernel, a name of `algorithms.tsv`, also with parameters: "
        "`cubic,hystart=0`; `own`: the programs of the app `command` choose their own",
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
        choices={name: app.meaning for name, app in modules("apps").items()},
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
    competitor: str = OF_FEATURE
    queue: str = axis(
        "fifo",
        help="queue discipline of the bottleneck",
        choices={
            "fifo": "", "bfifo": "a limit in bytes: `buffer_packets` full-size packets",
            "two-fifos": "per-class FIFOs: one for bulk flows, one for other traffic",
            "red": "", "pie": "", "codel": "", "fq_codel": "",
            "cake": "", "red-step": "marks or drops each arrival while `mark_packets` are queued",
            "dualpi2": "needs kernel 7.2", "own": "the tc arguments of the axis `qdisc`",
        },
    )  # fmt: skip
    sender_delay_ms: float = axis(
        0.0,
        help="part of the RTT that netem adds on the sender's own interface, with the loss and "
        "netem's default limit: a common mistake in tutorials, to measure its effect",
        span="[0, 10000]", smallest=MIN_MS, unit="ms", named="sender-delay{}",
    )  # fmt: skip
    trace: str = OF_FEATURE
    trace_back: str = OF_FEATURE
    scheme: str = OF_FEATURE
    video: str = OF_FEATURE
    receive_buffer: str = axis(
        "linux",
        help="receive buffer",
        choices={
            "linux": "Linux's autotuning, from 128 KiB to 6 MiB",
            "linux-2mib": "the same up to 2 MiB, the limit of a host with little memory",
            "large": "maximum size from the start",
            "kernel": "the kernel's own, which depends on its version and the memory",
        },
        named="receive-{}", seed=Seed.NEVER,
    )  # fmt: skip
    shaper: str = axis(
        "link",
        help="qdiscs that emulate rate, buffer and delay",
        choices={
            "link": "an exact link with a queue, and netem links behind it: each packet takes its "
            "bytes over the rate; only in a guest",
            "tbf": "a token bucket with a queue, and netem links behind it; after each pause it "
            "sends two packets at once",
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
        help="kernel of the hosts, a name of `kernels.toml` (quoted in a study: YAML reads 7.2 as "
        "a number); `default`: the one that `algorithms.tsv` has for the algorithm, or else 6.12",
        pattern="[a-z0-9.-]+", named="kernel-{}", seed=Seed.NEVER,
    )  # fmt: skip
    parameters: str = axis(
        NONE,
        help="parameters of the kernel's congestion controls, `ALGORITHM.PARAMETER=VALUE` joined "
        "by `+`, for all flows of the algorithm",
        pattern=parameterlanguage.PATTERN, commas=True, seed=Seed.NEVER,
        form=f"ALGORITHM.PARAMETER=VALUE joined by +, such as {parameterlanguage.EXAMPLE}",
    )  # fmt: skip
    flows: str = OF_FEATURE
    second_rate_mbit: float = OF_FEATURE
    write_kib: int = OF_FEATURE
    start_spread_s: float = OF_FEATURE
    changes: str = OF_FEATURE
    pauses: str = OF_FEATURE
    loss_burst_packets: float = OF_FEATURE
    jitter_ms: float = OF_FEATURE
    jitter_order: str = OF_FEATURE
    jitter_direction: str = OF_FEATURE
    jitter_distribution: str = OF_FEATURE
    jitter_correlation_percent: float = OF_FEATURE
    reorder_percent: float = OF_FEATURE
    reorder_ms: float = OF_FEATURE
    duplicate_percent: float = OF_FEATURE
    ack_thinning: int = OF_FEATURE
    ack_batch_ms: float = OF_FEATURE
    data_batch_ms: float = OF_FEATURE
    reverse_rate_mbit: float = OF_FEATURE
    reverse_buffer_packets: int = OF_FEATURE
    reverse_queue: str = OF_FEATURE
    policer_mbit: float = OF_FEATURE
    policer_burst_packets: int = OF_FEATURE
    ecn: str = OF_FEATURE
    mark_packets: int = OF_FEATURE
    drop_list: str = OF_FEATURE
    trace_start_s: float = OF_FEATURE
    qdisc: str = axis(
        NONE,
        help="kind and tc options of the queue `own`, applied as they are: `sfq limit 100`; the "
        "run is invalid if tc then shows another value",
        pattern="[a-z][a-z0-9_]*( [a-z0-9_.%-]+)*", named="qdisc-{}", digested=True,
    )  # fmt: skip
    sysctl: str = axis(
        NONE,
        help="sysctls of the hosts' network namespaces, `HOST:NAME=VALUE` joined by `+`; HOST is "
        "`sender`, `receiver` or `both`, as in `both:net.ipv4.tcp_sack=0`; the value `kernel` is "
        "the kernel's own",
        named="sysctl-{}", digested=True, canonical=hostsettings.canonical, repeated="+",
        seed=Seed.NEVER,
    )  # fmt: skip
    initcwnd_packets: int = axis(
        0,
        help="initial congestion window of the hosts' connections, the `initcwnd` of their routes; "
        "0: the kernel's own, 10",
        span="[0, 65535]", unit="packets", named="initcwnd{}", seed=Seed.NEVER,
    )  # fmt: skip
    initrwnd_packets: int = axis(
        0,
        help="initial receive window of the hosts' connections, the `initrwnd` of their routes; "
        "0: the kernel's own",
        span="[0, 65535]", unit="packets", named="initrwnd{}", seed=Seed.NEVER,
    )  # fmt: skip
    window_bytes: int = axis(
        0,
        help="limit of the receive window, the `window` of the hosts' routes: 65535, or it doubled "
        "up to 14 times, because a window has 16 bits and a scale; 0: no limit",
        span="[0, 1073725440]", unit="bytes", named="window{}", seed=Seed.NEVER,
    )  # fmt: skip
    mtu_bytes: int = axis(
        DEFAULT.mtu_bytes,
        help="MTU of every interface of the path: a full packet without its Ethernet header of 14 "
        "bytes; buffers in packets are of full packets",
        span=f"[{MIN_MTU_BYTES}, {MAX_MTU_BYTES}]", unit="bytes", named="mtu{}",
    )  # fmt: skip
    ip_version: int = axis(
        DEFAULT.ip_version,
        help="version of IP, 4 or 6, of the flows and pings; 6 excludes the apps `web` and "
        "`command`, background flows and a second bottleneck",
        span="[4, 6]", named="ipv{}", seed=Seed.NEVER,
    )  # fmt: skip
    sender_command: str = OF_FEATURE
    receiver_command: str = OF_FEATURE
    listens: str = OF_FEATURE
    bring: str = OF_FEATURE
    size_kb: float = OF_FEATURE
    app_rate_mbit: float = OF_FEATURE
    app_pattern: str = OF_FEATURE
    response_kb: float = OF_FEATURE
    request_bytes: int = OF_FEATURE
    think_ms: float = OF_FEATURE
    requests: int = OF_FEATURE
    env: str = OF_FEATURE
    testcase: str = OF_FEATURE
    until: str = OF_FEATURE
    competitor_sender_command: str = OF_FEATURE
    competitor_receiver_command: str = OF_FEATURE
    competitor_listens: str = OF_FEATURE
    image: str = axis(
        DEFAULT_IMAGE,
        help="root image of the hosts, a folder of `containers/` with `packages.txt`; `default`: "
        "`quic` or `ffmpeg` for these apps, `host` for all others",
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

    def __post_init__(self) -> None:
        """Convert every value to its axis's type: 20 and 20.0 are one condition.

        Parameters of an algorithm in place of its name become those of `parameters`.
        """
        for name, declaration in AXES.items():
            object.__setattr__(self, name, declaration.typed(getattr(self, name)))
        for name, value in parameterlanguage.resolved(vars(self)).items():
            object.__setattr__(self, name, value)

    def problems(self) -> list[str]:
        """List what is wrong with the values; empty if the condition can be measured."""
        found = [(its, its.problems(getattr(self, name))) for name, its in AXES.items()]
        problems = [problem for _, each in found for problem in each]
        # Constraints follow from an impossible number, and explain a text.
        numbers = any(each and its.kind != "str" for its, each in found)
        return problems if numbers else [*problems, *conflicts(self)]

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
        parts = [
            AXES[name].in_name(value, digits)
            for name in names
            if (value := getattr(self, name)) != AXES[name].default or AXES[name].always_named
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
        data = {name: value for name, value in data.items() if (name, value) not in REMOVED}
        if unknown := sorted(set(data) - set(AXES)):
            raise LosslabError(f"unknown condition keys: {', '.join(unknown)[:MAX_QUOTED]!r}")
        if missing := [name for name in AXES if AXES[name].default is None and name not in data]:
            raise LosslabError(f"a condition must set {', '.join(missing)}, found none")
        return cls(**data)


AXES = declared(Condition)
# Removed axes, which earlier records and runs have at their default.
REMOVED = (("receiver_root", NONE), ("sender_root", NONE))
QUEUES = tuple(AXES["queue"].choices)
# The order of the parts in a cell's name; other axes follow in the order of their fields.
_FIRST = (
    "algorithm", "loss_percent", "path", "app", "rtt_ms", "offloads", "loss_direction",
    "rate_mbit", "buffer_packets", "queue", "trace", "scheme", "sender_delay_ms", "video",
    "competitor", "receive_buffer", "shaper", "sender_queue",
    "trace_back",
)  # fmt: skip
IN_NAMES = {name: place for place, name in enumerate(_FIRST)}


def conflicts(condition: Condition) -> Iterator[str]:
    """Yield the constraints that a condition violates."""
    if condition.app not in modules("apps"):
        return
    one_interface = condition.shaper == "htb-netem"
    if condition.bare and condition.rate_mbit > BARE_RATE_MAX_MBIT:
        yield (
            f"rate_mbit must be at most {BARE_RATE_MAX_MBIT:g} with rtt_ms 0, found "
            f"{condition.rate_mbit:g}: without delay, small changes decide the results of a fast "
            "path"
        )
    if condition.bare and condition.loss_percent > 0:
        yield (
            "loss_percent must be 0 with rtt_ms 0, a path without netem, found "
            f"{condition.loss_percent:g}"
        )
    yield from _buffer_conflicts(condition)
    if condition.sender_delay_ms > condition.rtt_ms:
        yield (
            f"sender_delay_ms must be at most rtt_ms ({condition.rtt_ms:g}), found "
            f"{condition.sender_delay_ms:g}"
        )
    if condition.warmup_s >= condition.duration_s:
        yield (
            f"warmup_s must be below duration_s ({condition.duration_s:g}), found "
            f"{condition.warmup_s:g}"
        )
    if (condition.queue == OWN) != (condition.qdisc != NONE):
        yield (
            "qdisc must be set with the queue own, and with no other, found "
            f"{condition.qdisc!r} with {condition.queue}"
        )
    kind, *words = condition.qdisc.split() or [NONE]
    if kind == "red" and "bandwidth" not in words:
        yield f"qdisc red must set bandwidth, as in bandwidth 20mbit, found {condition.qdisc!r}"
    excluded = (condition.loss_percent, condition.sender_delay_ms, condition.trace != NONE)
    if one_interface and (condition.bare or any(excluded)):
        yield (
            "shaper htb-netem sets rate, delay and buffer on one interface: it needs an rtt_ms "
            "above 0 and excludes loss_percent, sender_delay_ms and trace"
        )
    if one_interface and condition.queue not in ONE_INTERFACE_QUEUES:
        yield (
            f"queue must be one of {', '.join(ONE_INTERFACE_QUEUES)} with the shaper htb-netem, "
            f"found {condition.queue}"
        )
    if condition.sender_queue != "fq" and (condition.bare or condition.sender_delay_ms > 0):
        yield (
            "sender_queue must be fq with rtt_ms 0 or sender_delay_ms, which leave no qdisc to "
            f"choose on the sender's interface, found {condition.sender_queue}"
        )
    yield from _window_conflicts(condition.window_bytes)
    with_kernel = {name: getattr(condition, name) for name in hostsettings.WITH_KERNEL}
    yield from (wrong := [*hostsettings.problems(condition.sysctl, with_kernel)])
    if wrong:
        return  # what follows reads the sysctls
    yield from _mtu_conflicts(condition)
    yield from _ip_conflicts(condition)
    yield from _mechanism_conflicts(condition)
    for feature in all_features():
        yield from feature.conflicts(condition)


def _window_conflicts(window_bytes: int) -> Iterator[str]:
    """Refuse windows that the kernel would enlarge.

    A window has 16 bits and a scale, a power of two, which follows from the route's `window`
    (tcp_select_initial_window, net/ipv4/tcp_output.c). As the receive buffer grows, the kernel
    raises the limit to the largest window of that scale (tcp_rcv_space_adjust,
    net/ipv4/tcp_input.c).
    """
    if window_bytes in (0, *WINDOWS) or not 0 < window_bytes <= WINDOWS[-1]:
        return
    near = [max((w for w in WINDOWS if w < window_bytes), default=WINDOWS[0])]
    near += [w for w in WINDOWS if w > window_bytes][: 1 if near[0] < window_bytes else 0]
    yield (
        f"window_bytes must be 65535, or it doubled up to 14 times, found {window_bytes}: a window "
        f"has 16 bits and a scale, so the kernel can give {' or '.join(map(str, near))}"
    )


def _buffer_conflicts(condition: Condition) -> Iterator[str]:
    """Refuse buffers that the limits of their queues cannot hold, on either path."""
    for prefix in ("", "reverse_") if condition.reverse_rate_mbit else ("",):
        name, queue = f"{prefix}buffer_packets", getattr(condition, f"{prefix}queue")
        packets = getattr(condition, name) or condition.buffer_packets
        # The memory of a packet grows by less than its share of larger frames.
        larger = queue != "red" and condition.mtu_bytes > DEFAULT.mtu_bytes
        share = DEFAULT.frame_bytes / frame_bytes(condition.mtu_bytes) if larger else 1.0
        largest = BUFFER_MAX_PACKETS.get(queue, math.inf) * share
        if packets > largest:
            most = f"at most {math.floor(largest)} with the queue {queue}"
            yield f"{name} must be {most}, found {packets}"


def _mtu_conflicts(condition: Condition) -> Iterator[str]:
    frame = frame_bytes(condition.mtu_bytes)
    if frame <= DEFAULT.frame_bytes:
        return
    for name in ("rate_mbit", "second_rate_mbit", "reverse_rate_mbit", "policer_mbit"):
        rate, least = getattr(condition, name), frame * 8 / 1e6 / FRAME_MAX_S
        if 0 < rate < least:
            yield (
                f"{name} must be at least {least:.3g} with mtu_bytes {condition.mtu_bytes}, found "
                f"{rate:g}: a full packet must not take more than {FRAME_MAX_S:g} s"
            )


def _ip_conflicts(condition: Condition) -> Iterator[str]:
    if condition.ip_version == 4:
        return
    if condition.ip_version == 5:
        yield "ip_version must be 4 or 6, found 5"
    if condition.mtu_bytes < MIN_MTU_IPV6_BYTES:
        yield (
            f"mtu_bytes must be at least {MIN_MTU_IPV6_BYTES} with ip_version 6, found "
            f"{condition.mtu_bytes} (RFC 8200)"
        )
    able = [name for name, app in modules("apps").items() if app.with_ipv6]
    if condition.app not in able:
        yield (
            f"app must be one of {', '.join(able)} with ip_version 6, found {condition.app}, "
            "whose programs have IPv4 addresses"
        )
    others = ("flows", "second_rate_mbit")
    if used := [name for name in others if getattr(condition, name) != AXES[name].default]:
        yield (
            f"{', '.join(used)} must be at the default with ip_version 6: background flows and a "
            "second bottleneck have IPv4 addresses"
        )


def _mechanism_conflicts(condition: Condition) -> Iterator[str]:
    used = [each for each in modules("mechanisms").values() if each.on(condition)]
    axes = ", ".join(next(iter(each.axes)) for each in used if each.needs_netem_links)
    on_routers = (
        condition.rtt_ms > 0 and condition.sender_delay_ms == 0 and condition.shaper != "htb-netem"
    )
    if axes and not on_routers:
        yield (
            f"{axes} must be at their defaults with rtt_ms 0, sender_delay_ms or the shaper "
            "htb-netem, with which the routers have no netem links"
        )
    if axes and condition.offloads == "on":
        yield f"offloads must be off with {axes}, to count packets and not aggregates"
    if condition.loss_direction == "back" and condition.sender_delay_ms > 0:
        yield (
            "loss_direction must not be back with sender_delay_ms, with which the sender drops "
            "data packets"
        )


def replicate_seed(condition: Condition, replicate: int) -> int:
    """Derive a replicate's seed from its condition, without the algorithm and the scheme.

    All algorithms see the same losses, phases and start jitter, so comparisons are paired.
    Different conditions are independent. The seed depends on whether there is a competitor, not on
    its algorithm. An app may share the seeds of another. Over a trace, the seed does not depend on
    the app and the link's queue, so schemes and the kernel's algorithms see the same traces.
    """
    values = condition.to_json()
    values["app"] = modules("apps")[condition.app].seeds_as or condition.app
    if condition.trace != NONE:
        # The content of a user's file, NAME@DIGEST, decides, and not its name.
        trace = condition.trace.rpartition("@")[2]
        values |= {"app": "datagram", "queue": "fifo", "trace": trace}
    parts = {name: axis.in_seed(values[name]) for name, axis in AXES.items()}
    shared = {name: value for name, value in parts.items() if value is not None}
    text = json.dumps([shared, replicate], sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") & 0x7FFF_FFFF


def seed_of(condition: Condition, replicate: int, family: int = FIRST_FAMILY) -> int:
    """Derive a replicate's seed in a family; all algorithms share it, as in `replicate_seed`.

    Limits and set-ups may have been tuned on the first family's results. A campaign with another
    family (`seed_family`) measures the same cells with seeds that nothing was tuned on.
    """
    seed = replicate_seed(condition, replicate)
    return seed if family == FIRST_FAMILY else derived_seed(seed, f"family {family}")
