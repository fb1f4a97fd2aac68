"""Qdiscs: tc commands that create them, and the comparison with what tc and the kernel read back.

Values as tc and the kernel convert, store and print them: iproute2 6.15 (`tc/q_netem.c`,
`tc/tc_util.c`, `tc/tc_core.c`, `lib/json_writer.c`), and Linux 6.12 (`net/sched/sch_htb.c`).

The link is the guest's own qdisc (net/sched/sch_link.c of containers/kernel/source).

tc does not print a policer's rate as JSON. The image's tc does not know DualPI2 (RFC 9332, Linux
6.17): it can create one only with default options. Both are therefore set and read over netlink.
Layouts: linux/pkt_cls.h, linux/pkt_sched.h, linux/tc_act/tc_gact.h, linux/gen_stats.h,
linux/rtnetlink.h.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import platform
import re
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from losslab.emulation.probes import (
    NLM_F_ACK,
    RTM_GETQDISC,
    RTM_NEWQDISC,
    TCA_STATS2,
    TCA_STATS_BASIC,
    TCA_STATS_QUEUE,
    ask,
    attribute,
    attributes,
    dump,
)
from losslab.emulation.topology import Interface
from losslab.errors import LosslabError

UINT32_MAX = 2**32 - 1
# Unit of a bucket's size, which tc converts to a transmission time (PSCHED_SHIFT, net/pkt_sched.h).
TICK_NS = 64
# The largest bucket, in seconds of its rate: 2^32 ticks are 274.9 s.
BUCKET_MAX_S = 274
# netem's options that are times. tc prints both or neither.
DELAY, JITTER = "delay.delay", "delay.jitter"
CORRELATION = "delay.correlation"
SLOT = ("slot.min-delay", "slot.max-delay")
# Options that tc leaves out if they are 0 (netem_print_opt, tc/q_netem.c).
OMITTED = (DELAY, "loss-random.loss", "duplicate.duplicate", "reorder.reorder")
# Limits of HTB's default quantum, a tenth of the rate (htb_change_class, r2q): tc prints a warning
# if the kernel has to replace it.
HTB_RATE_PER_QUANTUM, HTB_QUANTUM_MIN, HTB_QUANTUM_MAX = 10, 1000, 200_000


def percent(share: float) -> str:
    """Return a probability as an argument of tc, in percent with ten digits."""
    return f"{100 * share:.10g}%"


def chance(share: float) -> int:
    """Return the 32-bit integer that tc makes of `percent(share)` (parse_percent, set_percent)."""
    return round(float(percent(share).removesuffix("%")) / 100 * UINT32_MAX)


def printed(option: str, value: Any) -> Any:
    """Return what tc prints as JSON for a planned option; None if it leaves the option out.

    Options that are floats are times in s, which netem stores in ns, or probabilities.
    tc prints them with six digits (jsonw_float).
    """
    if not isinstance(value, float):
        return value
    stored = (
        round(value * 1e9) / 1e9 if option in (DELAY, JITTER, *SLOT) else chance(value) / UINT32_MAX
    )
    if stored == 0 and option in OMITTED:
        return None
    return float(f"{stored:g}")


def bucket_bytes(rate_bytes: int, ticks: int) -> float:
    """Return the size of a bucket in bytes from its size in ticks."""
    return ticks * TICK_NS * rate_bytes / 1e9


def htb_quantum(rate_bytes: int, smallest: int) -> int | None:
    """Return the quantum that a class of HTB must set; None if the kernel's default is good.

    It is the largest that the kernel would choose, or the smallest that holds a packet.
    """
    default = rate_bytes // HTB_RATE_PER_QUANTUM
    if default < HTB_QUANTUM_MIN:
        return smallest
    return HTB_QUANTUM_MAX if default > HTB_QUANTUM_MAX else None


# The token bucket of the reverse path, below its netem, and its queue.
REVERSE_HANDLE, REVERSE_QUEUE_HANDLE = "20:", "30:"

# A limit above the packets in flight of a 10 Gbit/s link with 10 s of delay and 64-byte packets.
NEVER_FULL_PACKETS = 200_000_000


@dataclass(frozen=True)
class Qdisc:
    """A qdisc: interface, tc arguments, and the options that must be read back.

    `expected` has the values of the plan. `printed` says what tc prints of them.
    """

    where: Interface
    parent: str
    handle: str
    kind: str
    arguments: str
    expected: dict[str, Any]
    # Further `tc -batch` lines, with its classes and filters.
    more: tuple[str, ...] = ()
    # Options that must be read back, by class.
    classes: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    # Error message and hint if the kernel does not have this kind.
    needs: ClassVar[tuple[str, str] | None] = None

    def complete(self) -> None:
        """Set options that tc cannot set, in the host's network namespace."""

    def read_into(self, state: dict[str, Any]) -> None:
        """Read options that tc does not print into the host's state, in its network namespace."""

    def deviations(self, state: Mapping[str, Any]) -> list[str]:
        """List the deviations of the options that `read_into` found."""
        return []

    def command(self) -> str:
        """Return the `tc -batch` lines that create the qdisc."""
        return "\n".join([self._line("add"), *self.more])

    def change_command(self) -> str:
        """Return the line that changes an existing qdisc to this one and keeps its packets."""
        return self._line("change")

    def _line(self, verb: str) -> str:
        return (
            f"qdisc {verb} dev {self.where.name} {self.parent} handle {self.handle} "
            f"{self.kind} {self.arguments}"
        ).rstrip()


def netem(
    where: Interface,
    delay_ms: float,
    loss_percent: float,
    seed: int,
    limit_packets: int = NEVER_FULL_PACKETS,
    parent: str = "root",
    handle: str = "1:",
    more: Sequence[tuple[str, Mapping[str, Any]]] = (),
) -> Qdisc:
    """Build a netem with delay and independent random loss.

    `more` has tc arguments after the delay, each with the options that must be read back.
    """
    delay_ns = round(delay_ms * 1e6)
    arguments = f"limit {limit_packets} delay {delay_ns}ns"
    expected: dict[str, Any] = {"limit": limit_packets, DELAY: delay_ns / 1e9}
    for option, options_read_back in more:
        arguments += f" {option}"
        expected |= options_read_back
    if loss_percent > 0:
        arguments += f" loss random {percent(loss_percent / 100)}"
        expected["loss-random.loss"] = loss_percent / 100
    return Qdisc(
        where=where,
        parent=parent,
        handle=handle,
        kind="netem",
        arguments=f"{arguments} seed {seed}",
        expected=expected | {"seed": seed},
    )


def token_bucket(
    where: Interface, rate_mbit: float, burst_bytes: int, parent: str = "root", handle: str = "1:"
) -> Qdisc:
    """Build a token bucket; its `limit` is that of an inner FIFO, which another queue replaces."""
    rate = math.floor(rate_mbit * 1e6 / 8)  # bytes/s
    arguments = f"rate {rate * 8}bit burst {burst_bytes} limit {burst_bytes}"
    return Qdisc(where, parent, handle, "tbf", arguments, {"rate": rate})


# The file that sets links and reads them back, and the time before which a list does not begin.
LINK_FILE, NOT_YET_NS = "/proc/link", 2**62
# A rate with which packets take no time, and the flag of steps that lose packets.
UNLIMITED, LOSES = 2**64 - 1, 1


@dataclass(frozen=True)
class LinkStep:
    """Rate of a link from a time on, until the next step."""

    at_ns: int
    rate: int  # bit/s; 0: a pause
    flags: int = 0  # LOSES: what is sent is lost


@dataclass(frozen=True)
class Link(Qdisc):
    """Exact link: it sends one packet at a time, and each takes its bytes over the rate.

    Its child is the queue. A list of several steps begins when `begin` says so. A link without
    steps sends nothing until it follows a trace.
    """

    steps: tuple[LinkStep, ...] = ()
    record: bool = False
    needs = (
        "shaper link needs a kernel that losslab builds with net/sched/sch_link.c",
        "measure in a guest (`--where guest`), or without a trace use `--shaper tbf`",
    )

    def __post_init__(self) -> None:
        """Refuse a list that the kernel would refuse."""
        if not self.steps:
            return
        times = [step.at_ns for step in self.steps]
        if times[:1] != [0] or times != sorted(set(times)):
            raise LosslabError(
                "steps of a link must be in ascending order of time, from 0, found "
                + ", ".join(f"{at_ns / 1e9:g} s" for at_ns in times[:9])
            )
        if self.steps[-1].rate == 0:
            raise LosslabError(
                "a link's last rate must be above 0, found a pause without an end from "
                f"{times[-1] / 1e9:g} s"
            )

    def begin(self, begin_ns: int) -> None:
        """Set the list, whose 0 is at `begin_ns` of CLOCK_MONOTONIC, in this network namespace."""
        lines = [f"{step.at_ns} {step.rate} {step.flags}" for step in self.steps]
        self._write(f"{begin_ns} steps", lines)

    def follow(self, begin_ns: int, lines: Sequence[str]) -> None:
        """Follow a trace from `begin_ns` on: opportunities in ms, as lines of a file."""
        self._write(f"{begin_ns} trace", lines)
        self.require_trace(lines)

    def require_trace(self, lines: Sequence[str]) -> None:
        """Require that the link follows a trace."""
        first, *opportunities = self.read()
        if " trace " not in first or opportunities != lines:
            raise LosslabError(
                f"link on {self.where.name} must follow a trace of {len(lines)} opportunities, "
                f"found {first!r} and {len(opportunities)}"
            )

    def _write(self, what: str, lines: Sequence[str]) -> None:
        text = "\n".join([f"{self._place} {what} {int(self.record)}", *lines, ""])
        with _opened(LINK_FILE, os.O_WRONLY) as file:
            os.write(file, text.encode())

    def complete(self) -> None:
        """Set the first rate."""
        if self.steps:
            self.begin(NOT_YET_NS)

    def read(self, what: str = "") -> list[str]:
        """Return the lines of the link's settings, or of its `record`, in this namespace."""
        with _opened(LINK_FILE, os.O_RDWR) as file:
            os.write(file, f"{self._place} {what}".rstrip().encode() + b"\n")
            parts = iter(lambda: os.read(file, 2**20), b"")
            return b"".join(parts).decode().splitlines()

    def read_into(self, state: dict[str, Any]) -> None:
        """Read the steps, with the packets, bytes and losses of each, into the host's state."""
        if not self.steps:
            return
        _, *lines = self.read()
        steps = [[int(word) for word in line.split()] for line in lines]
        state.setdefault("rates", {})[self._place] = steps

    def counts(self, state: Mapping[str, Any]) -> list[LinkCount]:
        """Return the packets that each step sent, from the host's state."""
        return [LinkCount(*numbers[3:]) for numbers in state["rates"][self._place]]

    def deviations(self, state: Mapping[str, Any]) -> list[str]:
        """List a deviation if the steps are not the planned ones."""
        if not self.steps:
            return []
        expected = [[step.at_ns, step.rate, step.flags] for step in self.steps]
        present = [numbers[:3] for numbers in state["rates"][self._place]]
        if present == expected:
            return []
        where = f"qdisc link on {self.where.name} of {self.where.host}"
        return [f"{where} must have steps {expected}, found {present}"]

    @property
    def _place(self) -> str:
        return f"{self.where.name} {self.handle}"


@dataclass(frozen=True)
class LinkCount:
    """Packets that a link sent in a step, whose last bit was sent in it; some are then lost."""

    packets: int
    octets: int
    lost: int


@contextlib.contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def rate_of(rate_mbit: float) -> int:
    """Return a rate in bit/s, as a link has it."""
    return round(rate_mbit * 1e6)


def link(
    where: Interface, steps: Sequence[LinkStep], parent: str = "root", handle: str = "1:"
) -> Link:
    """Build an exact link."""
    return Link(where, parent, handle, "link", "", {}, steps=tuple(steps))


def _option(options: dict[str, Any], dotted: str) -> Any:
    """Return `a.b` from nested options; None if it is absent."""
    value: Any = options
    for key in dotted.split("."):
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value


def differences(
    planned: list[Qdisc],
    found: Mapping[str, list[dict[str, Any]]],
    classes: Mapping[str, list[dict[str, Any]]] | None = None,
    release: str | None = None,
) -> list[str]:
    """List how the qdiscs that tc shows differ from the plan.

    `found` has the output of `tc -json qdisc show` by host, `classes` that of `class show` by
    interface. The kernel's release is by default the running one's.
    """
    violations = []
    major, minor = (release or platform.release()).split(".")[:2]
    # Before Linux 6.6 (net/sched/sch_netem.c, TCA_NETEM_PRNG_SEED), netem ignores the seed and
    # draws from the kernel's random generator, which has the replicate's seed in a guest.
    seedless = (int(major), int(minor.partition("-")[0])) < (6, 6)
    shaping_kinds = {"netem", "tbf", "link", "htb", "clsact"}
    for qdisc in planned:
        where = f"{qdisc.where.name} on {qdisc.where.host}"
        candidates = [
            q
            for q in found.get(qdisc.where.host, [])
            if q.get("dev") == qdisc.where.name and q.get("handle") == qdisc.handle
        ]
        if not candidates or candidates[0].get("kind") != qdisc.kind:
            kinds = ", ".join(q.get("kind", "?") for q in candidates) or "none"
            violations.append(f"qdisc {qdisc.kind} must be on {where}, found {kinds}")
            continue
        options = candidates[0].get("options", {})
        for name, value in qdisc.expected.items():
            got = _option(options, name)
            if name == "seed" and got is None and seedless:
                continue
            must = printed(name, value)
            if got != must:
                if must is None:  # tc would leave out this value
                    must = value
                violations.append(
                    f"qdisc {qdisc.kind} on {where} must have {name} {must}, found {got}"
                )
        for handle, expected in qdisc.classes.items():
            shown = (classes or {}).get(qdisc.where.name, [])
            options = next((c for c in shown if c.get("handle") == handle), {})
            got = {name: options.get(name) for name in expected}
            if got != expected:
                violations.append(f"class {handle} on {where} must have {expected}, found {got}")
    places = {(q.where.host, q.where.name, q.kind) for q in planned}
    for host, qdiscs in found.items():
        for q in qdiscs:
            if q.get("kind") in shaping_kinds and (host, q.get("dev"), q["kind"]) not in places:
                violations.append(
                    f"qdisc {q['kind']} on {q.get('dev')} of {host} is not in the plan"
                )
    return violations


# Handle of the clsact qdisc, whose `drops` include all packets that filters drop.
FILTERS = "ffff:"
RTM_NEWTFILTER, RTM_GETTFILTER = 44, 46
EGRESS = 0xFFFF_FFF3  # TC_H_CLSACT with TC_H_MIN_EGRESS
TCA_KIND, TCA_OPTIONS = 1, 2
# Attribute with a classifier's actions.
ACTIONS = {b"matchall": 2, b"flower": 3}
TCA_ACT_KIND, TCA_ACT_OPTIONS, TCA_ACT_STATS = 1, 2, 4
TCA_POLICE_TBF, TCA_GACT_PARMS, TCA_GACT_PROB = 1, 2, 3
# struct tc_police: index, action, limit, burst, mtu, last field of the rate.
POLICE = struct.Struct("=IiIII8xI")
GACT = struct.Struct("=IIi")  # index, capabilities, action
GACT_PROB = struct.Struct("=HHi")  # kind, one of, action
OK, DROP, DETERMINISTIC = 0, 2, 2  # TC_ACT_OK, TC_ACT_SHOT, PGACT_DETERM
DUALPI2 = "dualpi2"
NLA_F_NESTED, TCA_STATS_APP, TCA_DUALPI2_LIMIT = 0x8000, 4, 1
# struct tc_dualpi2_xstats up to the marks: probability; delays of the C and L queues in us; packets
# into each; maximum queue length; marks; marks by the L queue's step threshold.
DUALPI2_STATS = struct.Struct("=8I")
DUALPI2_NAMES = (
    "prob", "delay_c_us", "delay_l_us", "packets_in_c", "packets_in_l", "maxq", "ecn_mark",
    "step_marks",
)  # fmt: skip


@dataclass(frozen=True)
class Filter(Qdisc):
    """Egress filter of an interface, with the action that must be read back."""

    action: Mapping[str, int | str] | None = None

    @classmethod
    def on(cls, where: Interface, arguments: str, action: Mapping[str, int | str]) -> Filter:
        """Build a filter on an interface from tc arguments."""
        line = f"filter add dev {where.name} egress {arguments}"
        return cls(where, "", FILTERS, "clsact", "", {}, (line,), action=action)

    def read_into(self, state: dict[str, Any]) -> None:
        """Read the actions of the interface's filters into the state of its host."""
        burst = int((self.action or {}).get("burst", 0))
        state.setdefault("filters", {})[self.where.name] = read(self.where.name, burst)

    def deviations(self, state: Mapping[str, Any]) -> list[str]:
        """List the deviations of the action that was read back from the planned one."""
        expected = dict(self.action or {})
        actions = state["filters"][self.where.name]
        present = [{name: action.get(name) for name in expected} for action in actions]
        if present == [expected]:
            return []
        where = f"{self.where.name} on {self.where.host}"
        return [f"filter on {where} must be {expected}, found {present}"]


def read(name: str, burst: int = 0) -> list[dict[str, Any]]:
    """Read the actions of the egress filters of an interface in this network namespace.

    `burst` is that of its policer in bytes, which the kernel keeps as a time in whole ticks.
    """
    body = struct.pack("=BxxxiIII", socket.AF_UNSPEC, socket.if_nametoindex(name), 0, EGRESS, 0)
    return [
        action
        for kind, payload in dump(RTM_GETTFILTER, body)
        if kind == RTM_NEWTFILTER
        for action in _actions(attributes(payload[20:]), burst)
    ]


def _actions(parts: Mapping[int, bytes], burst: int) -> Iterator[dict[str, Any]]:
    """Yield the actions of a filter; the kernel also lists filters without actions."""
    options = attributes(parts.get(TCA_OPTIONS, b""))
    place = ACTIONS.get(parts[TCA_KIND].rstrip(b"\0"))
    for _, action in sorted(attributes(options.get(place or 0, b"")).items()):
        fields = attributes(action)
        kind = fields[TCA_ACT_KIND].rstrip(b"\0").decode()
        stats = attributes(fields[TCA_ACT_STATS])
        octets, packets = struct.unpack_from("=QI", stats[TCA_STATS_BASIC])
        _, _, drops = struct.unpack_from("=III", stats[TCA_STATS_QUEUE])
        counts = {"bytes": octets, "packets": packets, "drops": drops}
        yield {"kind": kind} | _options(kind, attributes(fields[TCA_ACT_OPTIONS]), burst) | counts


def _options(kind: str, options: Mapping[int, bytes], burst: int) -> dict[str, int]:
    if kind == "police":
        _, action, _, ticks, _, rate = POLICE.unpack_from(options[TCA_POLICE_TBF])
        burst_bytes = bucket_bytes(rate, ticks)
        same = abs(burst_bytes - burst) <= max(1.0, bucket_bytes(rate, 1))
        return {"action": action, "rate": rate, "burst": burst if same else round(burst_bytes)}
    if kind == "gact":
        _, _, action = GACT.unpack_from(options[TCA_GACT_PARMS])
        if TCA_GACT_PROB not in options:
            return {"action": action}
        random, one_of, otherwise = GACT_PROB.unpack_from(options[TCA_GACT_PROB])
        return {"action": action, "random": random, "one_of": one_of, "otherwise": otherwise}
    return {}


# Units of tc's times in s, of its sizes in bytes, and of its rates in bytes/s (tc(8), UNITS).
TIMES_S = {
    "s": 1.0, "sec": 1.0, "secs": 1.0, "ms": 1e-3, "msec": 1e-3, "msecs": 1e-3, "us": 1e-6,
    "usec": 1e-6, "usecs": 1e-6, "ns": 1e-9, "nsec": 1e-9, "nsecs": 1e-9,
}  # fmt: skip
SIZES = {
    "b": 1.0, "k": 2.0**10, "kb": 2.0**10, "m": 2.0**20, "mb": 2.0**20, "g": 2.0**30, "gb": 2.0**30,
    "kbit": 2.0**7, "mbit": 2.0**17, "gbit": 2.0**27,
}  # fmt: skip
RATES = {
    "bit": 1 / 8, "kbit": 125.0, "mbit": 125e3, "gbit": 125e6, "tbit": 125e9, "bps": 1.0,
    "kbps": 1e3, "mbps": 1e6, "gbps": 1e9,
}  # fmt: skip
NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)([a-z%]*)")
# Rounding of a time to whole ticks of tc, in the unit that tc prints, and as a share.
ROUNDING, ROUNDING_SHARE = 1.0, 1e-3
ROUNDED = 10.0  # times in s are shorter, and are not rounded
JIFFY_US = 4000  # PIE's tupdate is in whole jiffies


def same_option(text: str, value: Any) -> bool:
    """Return whether an option that tc shows may be what the user has written.

    tc shows times in s, us or ns, depending on the qdisc. A value that is no number is not judged.
    """
    match = NUMBER.fullmatch(text.lower())
    if match is None or isinstance(value, bool) or not isinstance(value, int | float):
        return True
    number, unit = float(match[1]), match[2]
    if not unit:
        rounding = ROUNDING if number * ROUNDING_SHARE >= ROUNDING else 0.0
        return bool(abs(value - number) <= rounding)
    meant = [number * table[unit] for table in (SIZES, RATES) if unit in table]
    meant += [number / 100] if unit == "%" else []
    meant += [number * TIMES_S[unit] * factor for factor in (1, 1e6, 1e9) if unit in TIMES_S]
    if unit in TIMES_S:
        meant.append(JIFFY_US * math.ceil(number * TIMES_S[unit] * 1e6 / JIFFY_US))
    roundings = (max(one * ROUNDING_SHARE, ROUNDING if one > ROUNDED else 0.0) for one in meant)
    near = (abs(value - one) <= room for one, room in zip(meant, roundings, strict=True))
    return not meant or any(near)


@dataclass(frozen=True)
class OwnQueue(Qdisc):
    """A queue with tc arguments of the user, whose options are compared with what tc shows."""

    def deviations(self, state: Mapping[str, Any]) -> list[str]:
        """List the options that tc shows with other values than those of the arguments."""
        shown: dict[str, Any] = next(
            (q.get("options", {}) for q in state["qdiscs"]
             if q.get("dev") == self.where.name and q.get("handle") == self.handle), {},
        )  # fmt: skip
        deviations, words = [], [*self.arguments.split(), ""]
        for name, text in itertools.pairwise(words):
            value = shown.get(name)
            if isinstance(value, Mapping):  # such as a delay with its jitter
                value = value.get(name)
            off = name.startswith("no") and shown.get(name.removeprefix("no")) is True
            if off or value is False or not same_option(text, value):
                found = "on" if off else "off" if value is False else value
                deviations.append(
                    f"qdisc {self.kind} on {self.where.name} of {self.where.host} must have "
                    f"{name if off or value is False else f'{name} {text}'}, found {found}"
                )
        return deviations


@dataclass(frozen=True)
class DualPi2(Qdisc):
    """A DualPI2 qdisc with a limit in packets."""

    limit: int = 0
    needs = (
        "queue dualpi2 needs a kernel with DualPI2 (6.17 or later)",
        "use the kernel 7.2 or another queue",
    )

    def _message(self) -> bytes:
        handle = int(self.handle.rstrip(":"), 16) << 16
        major, minor = (int(part, 16) for part in self.parent.split()[-1].split(":"))
        index = socket.if_nametoindex(self.where.name)
        return struct.pack("=BxxxiIII", socket.AF_UNSPEC, index, handle, major << 16 | minor, 0)

    def complete(self) -> None:
        """Set the limit, in this network namespace."""
        limit = attribute(TCA_DUALPI2_LIMIT, struct.pack("=I", self.limit))
        body = self._message() + attribute(TCA_KIND, DUALPI2.encode() + b"\0")
        try:
            ask(RTM_NEWQDISC, NLM_F_ACK, body + attribute(TCA_OPTIONS | NLA_F_NESTED, limit))
        except OSError as error:
            raise LosslabError(
                f"{DUALPI2} on {self.where.name} must take a limit of {self.limit} packets, found "
                f"{os.strerror(error.errno or 0)}"
            ) from error

    def read_into(self, state: dict[str, Any]) -> None:
        """Read limit and counters in this network namespace; empty if there is no such qdisc."""
        message, state[DUALPI2] = self._message(), {}
        for kind, payload in dump(RTM_GETQDISC, message):
            if kind == RTM_NEWQDISC and payload[4:16] == message[4:16]:
                parts = attributes(payload[20:])
                if parts[TCA_KIND].rstrip(b"\0").decode() == DUALPI2:
                    state[DUALPI2] = dualpi2_state(parts)

    def deviations(self, state: Mapping[str, Any]) -> list[str]:
        """List a deviation if the limit is not the planned one."""
        limit = state[DUALPI2].get("limit")
        where = f"{self.where.name} on {self.where.host}"
        expected = f"qdisc {DUALPI2} on {where} must have limit {self.limit}"
        return [] if limit == self.limit else [f"{expected}, found {limit}"]


def dualpi2_state(parts: Mapping[int, bytes]) -> dict[str, int]:
    """Return the limit and the counters in a qdisc's attributes."""
    (limit,) = struct.unpack_from("=I", attributes(parts[TCA_OPTIONS])[TCA_DUALPI2_LIMIT])
    stats = DUALPI2_STATS.unpack_from(attributes(parts[TCA_STATS2])[TCA_STATS_APP])
    return {"limit": limit} | dict(zip(DUALPI2_NAMES, stats, strict=True))
