"""One qdisc: the tc command that makes it, and whether what tc reads back is what was asked."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from losslab.emulation.topology import Interface

MTU_BYTES = 1500
FRAME_BYTES = 1514  # MTU and Ethernet header: what a qdisc counts per packet

# netem keeps probabilities as 32-bit numbers (tc_netem_corr.loss_corr, linux/pkt_sched.h).
NETEM_PROBABILITY_STEP = 2.0**-32

# A limit that netem cannot reach: packets of 64 bytes at 10 Gbit/s for 10 s of delay stay below.
NEVER_FULL_PACKETS = 200_000_000


@dataclass(frozen=True)
class Shaper:
    """One qdisc: where it sits, the tc arguments that make it, the options that must read back."""

    where: Interface
    parent: str
    handle: str
    kind: str
    arguments: str
    expected: dict[str, Any]
    # Further lines that follow it: classes and filters of a qdisc that has them.
    more: tuple[str, ...] = ()
    # Of its classes the options that must read back, by class.
    classes: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    # What to say, with a hint, where the kernel does not know its kind.
    needs: ClassVar[tuple[str, str] | None] = None

    def complete(self) -> None:
        """Do what tc cannot, in the network namespace of its host."""

    def read_into(self, state: dict[str, Any]) -> None:
        """Read what tc does not say into the state of its host, in its network namespace."""

    def deviations(self, state: Mapping[str, Any]) -> list[str]:
        """Say how what `read_into` found differs from what was asked."""
        return []

    def command(self) -> str:
        """Write the `tc -batch` lines that make it."""
        return "\n".join([self._line("add"), *self.more])

    def changing(self) -> str:
        """Write the line that makes one that is there like this, and leaves what waits in it."""
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
) -> Shaper:
    """Make a delay line, which may lose packets and which its limit may make a queue.

    Each packet is drawn for itself; `more` follows the delay, in tc's words, each with what must
    read back.
    """
    delay_ns = round(delay_ms * 1e6)
    arguments = f"limit {limit_packets} delay {delay_ns}ns"
    expected: dict[str, Any] = {"limit": limit_packets, "delay.delay": delay_ns / 1e9}
    for words, its in more:
        arguments += f" {words}"
        expected |= its
    if loss_percent > 0:
        arguments += f" loss random {loss_percent:g}%"
        expected["loss-random.loss"] = loss_percent / 100
    return Shaper(
        where=where,
        parent=parent,
        handle=handle,
        kind="netem",
        arguments=f"{arguments} seed {seed}",
        expected=expected | {"seed": seed},
    )


def _option(options: dict[str, Any], dotted: str) -> Any:
    """Fetch `a.b` from nested options; None where it is absent."""
    value: Any = options
    for key in dotted.split("."):
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value


def takes_seed(release: str) -> bool:
    """Tell whether a kernel's netem draws from a seed of its own.

    Before Linux 6.6 (net/sched/sch_netem.c, TCA_NETEM_PRNG_SEED) it draws from the kernel's
    generator, which in a guest has the replicate's seed, and ignores the one that it is told.
    """
    major, minor = release.split(".")[:2]
    return (int(major), int(minor.partition("-")[0])) >= (6, 6)


def differences(
    wanted: list[Shaper],
    found: Mapping[str, list[dict[str, Any]]],
    classes: Mapping[str, list[dict[str, Any]]] | None = None,
    release: str | None = None,
) -> list[str]:
    """Compare what was asked with `tc -json qdisc show` of each host.

    `found` has per host the output of `tc -json qdisc show`, `classes` per interface that of
    `tc -json class show`; `release` is the kernel's, by default this one's. A sentence says what is
    missing, differs, or was not asked for.
    """
    reasons = []
    shaping_kinds = {"netem", "tbf", "htb", "clsact"}
    for shaper in wanted:
        where = f"{shaper.where.name} on {shaper.where.host}"
        candidates = [
            q
            for q in found.get(shaper.where.host, [])
            if q.get("dev") == shaper.where.name and q.get("handle") == shaper.handle
        ]
        if not candidates or candidates[0].get("kind") != shaper.kind:
            kinds = ", ".join(q.get("kind", "?") for q in candidates) or "none"
            reasons.append(f"qdisc {shaper.kind} must be on {where}, found {kinds}")
            continue
        options = candidates[0].get("options", {})
        for name, value in shaper.expected.items():
            got = _option(options, name)
            if name == "seed" and got is None and not takes_seed(release or platform.release()):
                continue
            same = got == value or (
                isinstance(got, int | float)
                and isinstance(value, float)
                and math.isclose(got, value, rel_tol=1e-6, abs_tol=NETEM_PROBABILITY_STEP)
            )
            if not same:
                reasons.append(
                    f"qdisc {shaper.kind} on {where} must have {name} {value}, found {got}"
                )
        for handle, expected in shaper.classes.items():
            its = (classes or {}).get(shaper.where.name, [])
            has: dict[str, Any] = next((c for c in its if c.get("handle") == handle), {})
            got = {name: has.get(name) for name in expected}
            if got != expected:
                reasons.append(f"class {handle} on {where} must have {expected}, found {got}")
    asked = {(s.where.host, s.where.name, s.kind) for s in wanted}
    for host, qdiscs in found.items():
        for q in qdiscs:
            if q.get("kind") in shaping_kinds and (host, q.get("dev"), q["kind"]) not in asked:
                reasons.append(f"qdisc {q['kind']} on {q.get('dev')} of {host} was not asked for")
    return reasons
