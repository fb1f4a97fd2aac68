"""Random conditions over every declared axis: typed and fitted values, and ends of spans."""

from __future__ import annotations

import functools
import math
import random
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from losslab.campaign.instrument import image_of, kernel_of
from losslab.emulation.mechanism import effect_of
from losslab.emulation.schemes import SCHEMES
from losslab.errors import LosslabError
from losslab.instrument import image, kernel, kernels
from losslab.repository import ROOT
from losslab.study import design, runlength, schedule
from losslab.study.axes import NONE, Axis, Span, plain
from losslab.study.condition import AXES, Condition

# Share of each app's conditions.
APPS = {
    "iperf3": 40, "command": 18, "datagram": 14, "quic": 12, "stream": 24, "ffmpeg": 8, "web": 8,
}  # fmt: skip
# Probability that an axis leaves its default, if neither the app nor the path's basics set it.
CHANGED = 0.1
# The shaper decides what a bound of physics can find, so it leaves its default more often.
OFTEN = {"shaper": 0.4}
# The basics are drawn for every condition, together, to limit its cost.
BASICS = ("app", "rate_mbit", "rtt_ms", "buffer_packets", "duration_s", "warmup_s")
# Share of the apps with a size whose transfer is of a few packets, and the probability of what
# disturbs such a transfer most.
SHORT, DISTURBED = 0.7, 0.35
SHORT_KB = 30.0
# Limits of a run's traffic, apart from the start of its connections, and of its length.
MIN_MBIT, MAX_MBIT, MIN_S, MAX_S = 0.3, 30.0, 0.2, 90.0
MIN_PAGE_MBIT = 5.0
# The queue behind which iperf3's control connection still works.
QUEUE_MAX_MS = 5000.0
# An unlimited window grows to 6 MiB, so it carries at most this per RTT.
WINDOW_MBIT = 50.0
DIGITS = 3  # of a value that an operator types
# Each length of a video is encoded once and kept in the cache.
VIDEO_S = (1.0, 1.5, 2.0, 3.0)
WEB_S = 25.0
SINK, PORT = "socat -u TCP-LISTEN:5000 OPEN:/dev/null", "TCP:$RECEIVER:5000"
FETCH = "curl --silent --output /dev/null --interface $RECEIVER http://$SENDER:8000/file"
# Programs of the app `command`: receiver and sender. `{}` is a number of bytes.
PROGRAMS = (
    (FETCH, "head -c {} /dev/zero >file; exec python3 -m http.server 8000"),
    (SINK, f"socat -u OPEN:/dev/zero {PORT}"),
    (SINK, f"head -c {{}} /dev/zero | socat -u - {PORT}"),
    (SINK.replace("TCP-", "TCP6-").replace("5000", "5000,ipv6only=0"),
     f"head -c {{}} /dev/zero | socat -u - {PORT}"),
    ("iperf3 -s -1", "iperf3 -c $RECEIVER -t ${DURATION_S%.*}"),
    ("socat -u TCP-LISTEN:5001 OPEN:/dev/null & socat TCP-LISTEN:5000 TCP:127.0.0.1:5001",
     f"socat -u OPEN:/dev/zero {PORT}"),
    ("./receive", "./send"),
    ("socat -u UDP-RECV:6000 OPEN:/dev/null",
     "while sleep 0.01; do head -c 4000 /dev/zero; done | socat -u -b 4000 - UDP:$RECEIVER:6000"),
)  # fmt: skip
BRING = "tests/fixtures/programs"


@functools.cache
def algorithms() -> Sequence[str]:
    """List the congestion controls of kernels that are built here."""
    names = design.load_names(ROOT).algorithms
    return tuple(name for name in names if built(Condition(algorithm=name)))


def built(condition: Condition) -> bool:
    """Return whether a condition's kernel and image are built here."""
    kernel_built = kernel.part(kernel_of(condition)).existing() is not None
    return kernel_built and image.part(image_of(condition)).existing() is not None


def number(span: Span, kind: str, rng: random.Random) -> float:
    """Draw a number of a span: logarithmically uniform, rounded as typed, or one of its ends."""
    low = span.minimum or min(1.0, span.maximum * 1e-4)
    while True:
        how = rng.choices(("fitted", "typed", "end"), (45, 47, 8))[0]
        value = math.exp(rng.uniform(math.log(low), math.log(span.maximum)))
        if how == "typed":
            value = float(f"{value:.{rng.randrange(DIGITS)}e}")
        elif how == "end":
            value = rng.choice((span.minimum, span.maximum))
        if kind == "int":
            value = round(value)
        if value in span:
            return value


def between(low: float, high: float, rng: random.Random) -> float:
    """Draw a number from `low` to `high` as `number`."""
    return number(Span(f"[{low}, {high}]", low, high), "float", rng)


def _basics(app: str, rng: random.Random) -> dict[str, Any]:
    """Draw rate, RTT, buffer and times of a run that is affordable and lasts a few RTTs."""
    spans = {name: span for name in BASICS[1:] if (span := AXES[name].span)}
    max_mbit = MAX_MBIT * rng.choice((1, 1, 1, 1, 5)) * (2 if app == "web" else 1)
    while True:
        rate, rtt = (number(spans[name], "float", rng) for name in ("rate_mbit", "rtt_ms"))
        if rng.random() < 0.6:  # of the Internet's paths
            rate, rtt = between(0.5, 100, rng), between(1, 300, rng)
        warmup = rng.choice((0.0, between(0.01, 3, rng)))
        length = rng.choice(VIDEO_S) if app == "ffmpeg" else between(MIN_S, MAX_S, rng)
        duration = length if app != "web" else warmup + WEB_S + between(0.1, 5, rng)
        mbit = min(rate, WINDOW_MBIT / max(rtt / 1e3, 1e-4)) * max(1.0, duration)
        useful_mbit = rate * (duration - warmup - 8 * rtt / 1e3)
        min_mbit = MIN_MBIT if app != "web" else MIN_PAGE_MBIT
        if mbit <= max_mbit and useful_mbit > min_mbit and MIN_S < duration - warmup < MAX_S:
            break
    buffer = number(spans["buffer_packets"], "int", rng)
    if rng.random() < 0.9:
        packets = rate * max(rtt, 1) / 12
        buffer = max(rng.choice((2, 5, 10, 50)), round(packets * between(0.2, 5, rng)))
    return dict(zip(BASICS, (app, rate, rtt, buffer, duration, warmup), strict=True))


def _changes(its: Mapping[str, Any], rng: random.Random) -> str:
    times = sorted({round(rng.uniform(0, its["duration_s"]), rng.randrange(1, 7)) for _ in "abc"})
    values: dict[str, Callable[[], float]] = {
        "rate_mbit": lambda: its["rate_mbit"] * between(0.1, 3, rng),
        "rtt_ms": lambda: max(0.01, its["rtt_ms"] * between(0.5, 3, rng)),
        "loss_percent": lambda: between(0.01, 20, rng),
        "outage_s": lambda: between(0.01, 0.3, rng),
    }
    changes = [
        {"at_s": at_s}
        | {key: values[key]() for key in rng.sample(list(values), rng.choice((1, 1, 2)))}
        for at_s in times
    ]
    return "+".join(",".join(f"{k}={plain(v)}" for k, v in each.items()) for each in changes)


def _pauses(its: Mapping[str, Any], rng: random.Random) -> str:
    low = between(0.1, 20, rng)
    keys = {"per_s": between(0.1, 5, rng), "min_ms": low, "max_ms": low * between(1.1, 10, rng)}
    return ",".join(f"{key}={plain(value)}" for key, value in keys.items())


def _flows(its: Mapping[str, Any], rng: random.Random) -> str:
    length = its["duration_s"]
    options: dict[str, Callable[[], Any]] = {
        "count": lambda: rng.choice((1, 2, 3, 8, 20)),
        "start_s": lambda: plain(rng.uniform(0, length / 2)),
        "every_s": lambda: plain(between(0.01, length / 5, rng)),
        "end_s": lambda: plain(rng.uniform(length / 2, length)),
        "rate_mbit": lambda: plain(between(0.1, its["rate_mbit"] + 0.2, rng)),
        "size_kb": lambda: plain(between(0.1, 1000, rng)),
        "rtt_ms": lambda: plain(its["rtt_ms"] * between(1, 4, rng)),
        "over": lambda: rng.choice(("both", "first", "second")),
        "direction": lambda: "back",
        "label": lambda: rng.choice(("pages", "bulk", "up")),
    }
    groups = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        keys = rng.sample(list(options), rng.randrange(4))
        pairs = {key: options[key]() for key in keys}
        if rng.random() < 0.3:
            sizes = rng.choice(("fixed", "exponential", "pareto"))
            kept = {
                key: pairs[key] for key in pairs if key not in ("count", "every_s", "rate_mbit")
            }
            size_kb = plain(between(0.1, 100, rng))
            pairs = {"arrivals_per_s": plain(between(0.5, 20, rng)), "size_kb": size_kb} | kept
            pairs["sizes"] = sizes
        names = ["same", "cubic,hystart=0", *(a for a in algorithms() if a != "dctcp")]
        groups.append(",".join([rng.choice(names), *(f"{k}={v}" for k, v in pairs.items())]))
    return "+".join(groups)


def _disturbed(its: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """Draw what disturbs a short transfer: marks, outages during it, and a trace."""
    at_s = between(1e-3, its["duration_s"] / 2, rng)
    choices = {
        "ecn": "on",
        "changes": f"at_s={plain(at_s)},outage_s={plain(between(0.01, 0.3, rng))}",
        "trace": "cellular",
    }
    return {name: value for name, value in choices.items() if rng.random() < DISTURBED}


def _source(its: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """Draw what the app `stream` sends."""
    length, mbit = its["duration_s"], its["rate_mbit"]
    times = sorted({0.0, *(round(rng.uniform(0, length), 3) for _ in "abc")} - {round(length, 3)})
    rates = ["max", *(plain(rng.choice((0.0, between(0.05, mbit, rng)))) for _ in times[1:])]
    rng.shuffle(rates)
    choices: dict[str, Any] = {
        "size_kb": between(0.1, max(1, 100 * mbit * length), rng),
        "app_rate_mbit": between(0.05, mbit, rng),
        "app_pattern": ",".join(f"{plain(t)}={r}" for t, r in zip(times, rates, strict=True)),
        "response_kb": between(0.1, max(1, 20 * mbit * length), rng),
        "request_bytes": round(between(1, 5000, rng)),
        "think_ms": between(0.1, 500 * length, rng),
        "requests": rng.randrange(1, 20),
    }
    names = rng.choice(
        (
            "size_kb", "app_rate_mbit", "app_pattern", "size_kb app_rate_mbit", "", "response_kb",
            "response_kb request_bytes think_ms", "response_kb think_ms requests",
        )
    )  # fmt: skip
    return {name: choices[name] for name in names.split()}


def _drops(its: Mapping[str, Any], rng: random.Random) -> str:
    packets = max(3, round(its["rate_mbit"] * its["duration_s"] * 1e6 / 12_112))
    ways = rng.choice((("data",), ("ack",), ("data", "ack")))
    drawn = {way: sorted(rng.sample(range(1, packets + 2), rng.randrange(1, 4))) for way in ways}
    return " ".join(f"{way} {','.join(map(str, numbers))}" for way, numbers in drawn.items())


def _scheme(its: Mapping[str, Any], rng: random.Random) -> str:
    window = f"fixed,window={rng.choice((1, 4, 20, 100))}"
    return rng.choice((*SCHEMES, "ewma,alpha=0.9,scale=1.5", "aimd,add=2", window))


LANGUAGES: Mapping[str, Callable[[Mapping[str, Any], random.Random], Any]] = {
    "changes": _changes,
    "pauses": _pauses,
    "flows": _flows,
    "drop_list": _drops,
    "qdisc": lambda its, rng: rng.choice(QDISCS),
    "scheme": _scheme,
    "ack_thinning": lambda its, rng: round(between(2, rng.choice((4, 4, 8, 8, 8, 100)), rng)),
    "ip_version": lambda its, rng: 6,
    "trace": lambda its, rng: "cellular",
    "trace_back": lambda its, rng: "cellular",
    "kernel": lambda its, rng: rng.choice(list(kernels.declared())),
    "competitor": lambda its, rng: rng.choice(algorithms()),
    "sysctl": lambda its, rng: "+".join(rng.sample(SYSCTLS, rng.choice((1, 1, 2)))),
    "parameters": lambda its, rng: rng.choice(PARAMETERS),
}
QDISCS = (
    "sfq limit 100", "fq_pie limit 50", "fq limit 90", "codel limit 40 target 1ms", "pfifo limit 9",
    "fq_codel limit 80 flows 4", "cake besteffort", "bfifo limit 30000", "pie limit 60 target 5ms",
)  # fmt: skip
PARAMETERS = (
    "cubic.hystart=0", "cubic.beta=800+cubic.fast_convergence=0", "cubic.bic_scale=30",
    "vegas.alpha=4+vegas.beta=8", "htcp.use_rtt_scaling=0", "hybla.rtt0=50",
    "dctcp.dctcp_shift_g=2",
)  # fmt: skip
SYSCTLS = (
    "sender:net.ipv4.tcp_notsent_lowat=131072", "both:net.ipv4.tcp_sack=0",
    "sender:net.ipv4.tcp_wmem=4096 16384 60000", "both:net.ipv4.tcp_autocorking=0",
    "sender:net.ipv4.tcp_slow_start_after_idle=0", "sender:net.ipv4.tcp_pacing_ss_ratio=120",
    "both:net.ipv4.tcp_wmem=kernel", "receiver:net.ipv4.tcp_comp_sack_nr=0",
    "sender:net.ipv4.tcp_limit_output_bytes=4096", "both:net.ipv4.tcp_window_scaling=0",
    "both:net.ipv4.tcp_timestamps=0", "both:net.ipv4.tcp_dsack=0", "sender:net.ipv4.tcp_recovery=0",
    "sender:net.ipv4.tcp_early_retrans=0", "sender:net.ipv4.tcp_frto=0",
    "sender:net.ipv4.tcp_reordering=20", "sender:net.ipv4.tcp_min_tso_segs=8",
    "sender:net.ipv4.tcp_min_rtt_wlen=1", "both:net.ipv4.tcp_mtu_probing=2",
    "receiver:net.ipv4.tcp_moderate_rcvbuf=0", "receiver:net.ipv4.tcp_adv_win_scale=3",
)  # fmt: skip
# A second pair of programs, which sends to the end.
COMPETITORS = ("competitor_receiver_command", "competitor_sender_command")
BESIDE = (
    "exec socat -u TCP-LISTEN:6001 OPEN:/dev/null",
    "exec socat -u OPEN:/dev/zero TCP:$RECEIVER:6001",
)
# Axes that the apps' programs set.
OF_PROGRAMS = (
    "sender_command", "receiver_command", "bring", "listens", "image", "scheme", "env", "until",
    "testcase", "competitor_sender_command", "competitor_receiver_command", "competitor_listens",
    "size_kb", "app_rate_mbit", "app_pattern", "response_kb", "request_bytes", "think_ms",
    "requests",
)  # fmt: skip


def _value(axis: Axis, its: Mapping[str, Any], rng: random.Random) -> Any:
    if axis.name in LANGUAGES:
        return LANGUAGES[axis.name](its, rng)
    if axis.choices:
        return rng.choice(list(axis.choices))
    assert axis.span is not None, f"bench.random cannot draw {axis.name}: extend LANGUAGES"
    return number(axis.span, axis.kind, rng)


def _drawn(app: str, rng: random.Random) -> dict[str, Any]:
    its = _of_app(app, rng)
    for name, axis in AXES.items():
        if name not in (*its, *OF_PROGRAMS) and rng.random() < OFTEN.get(name, CHANGED):
            its[name] = _value(axis, its, rng)
    if 0 < its.get("size_kb", 0) <= SHORT_KB or 0 < its.get("response_kb", 0) <= SHORT_KB:
        its |= _disturbed(its, rng)
    if "direction=back" in its.get("flows", ""):  # without a rate, uploads have no bottleneck
        its["reverse_rate_mbit"] = its["rate_mbit"]
    its.pop("qdisc", None)
    if its.get("queue") == "own":
        its["qdisc"] = _value(AXES["qdisc"], its, rng)
    if "trace" in its:  # it is the rate; the link behind it must be faster
        its |= {"rate_mbit": rng.choice((100.0, 1000.0)), "duration_s": min(8.0, its["duration_s"])}
    return its


def _of_app(app: str, rng: random.Random) -> dict[str, Any]:
    """Draw the basics, the algorithm and the axes of the app's programs."""
    its = _basics(app, rng)
    its["algorithm"] = rng.choice(("cubic", "bbr", rng.choice(algorithms())))
    if its["algorithm"] == "dctcp":  # it uses ECN itself
        its["ecn"] = rng.choice(("on", "on", "on", "off"))
    if app == "datagram":
        its["scheme"] = _scheme(its, rng)
    if app == "stream":
        its |= _source(its, rng)
        for name in ("size_kb", "response_kb"):
            if name in its and rng.random() < SHORT:
                its[name] = between(0.1, SHORT_KB, rng)
    if app == "quic":
        its["algorithm"] = rng.choice(("cubic", "reno", "bbr"))
        most_kb = max(4, 100 * its["rate_mbit"] * its["duration_s"])
        its["size_kb"] = rng.choice(
            (0.0, 0.0, between(0.1, SHORT_KB, rng), between(2, most_kb, rng))
        )
    if app == "command":
        its["algorithm"] = rng.choice(("cubic", "bbr", rng.choice(algorithms()), "own"))
        receiver, sender = rng.choice(PROGRAMS)
        octets = round(its["rate_mbit"] * its["duration_s"] * 1e5 * between(0.1, 3, rng))
        sender_command = sender.replace("{}", str(max(2000, octets)))
        its |= {"receiver_command": receiver, "sender_command": sender_command}
        its |= {"bring": BRING} if receiver == "./receive" else {}
        its |= {"listens": "sender"} if receiver == FETCH else {}
        if sender.startswith("head"):  # the transfer may end within any warm-up
            its["warmup_s"] = 0.0
        if rng.random() < CHANGED:
            its |= dict(zip(COMPETITORS, BESIDE, strict=True))
        others = {"env": "SIZE=1 NAME='a b'"}
        if "{}" in sender:  # the others send for as long as the run lasts
            others["until"] = "completion"
        its |= {name: value for name, value in others.items() if rng.random() < CHANGED}
    return its


def _lasts(its: Condition) -> bool:
    """Return whether a run lasts some RTTs of its path.

    They have what jitter and batches may add, and the queue if flows share it.
    """
    rtts_ms = [its.rtt_ms, *(phase.get("rtt_ms", 0.0) for phase in schedule.parse(its.changes))]
    shared = its.competitor != NONE or its.flows != NONE
    frame_kbit = 8e-3 * (its.mtu_bytes + 14)
    queue_ms = min(its.buffer_packets * frame_kbit / its.rate_mbit, QUEUE_MAX_MS) * shared
    rtt_s = (max(rtts_ms) + effect_of(its).above_ms + queue_ms) / 1e3
    return bool(its.duration_s - its.warmup_s > 8 * rtt_s + (1.0 if shared else 0.1))


def condition(rng: random.Random, refused: list[Condition]) -> Condition:
    """Draw a condition that losslab accepts; add the refused ones to a list."""
    names = design.load_names(ROOT)
    available = {
        app: share for app, share in APPS.items() if app != "quic" or image.part(app).existing()
    }
    [app] = rng.choices(list(available), list(available.values()))
    while True:
        try:
            made = Condition.from_json(_drawn(app, rng))
        except LosslabError:  # two flows of one algorithm with different parameters
            continue
        if [*made.problems(), *names.problems(made)]:
            refused.append(made)
        elif built(made) and _lasts(made):
            return made


def words(its: Condition) -> list[str]:
    """Return the options of `losslab measure` for a condition, without losing a digit."""
    found = []
    for name, axis in AXES.items():
        # Without a length, `losslab measure` chooses one.
        if (value := getattr(its, name)) != axis.default or name in runlength.LENGTH_AXES:
            text = repr(value) if isinstance(value, float) else str(value)
            found += [f"--{name.replace('_', '-')}", text]
    return found


def command(its: Condition, seed: int) -> str:
    """Return the command that measures a condition."""
    return f"losslab measure {shlex.join(words(its))} --seed {seed}"
