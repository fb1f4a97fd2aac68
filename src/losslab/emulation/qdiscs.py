"""Qdiscs: the tc command that creates one, and the comparison with tc's output."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from losslab.emulation.tcvalues import DELAY, percent, printed
from losslab.emulation.topology import Interface

FRAME_BYTES = 1514  # MTU and Ethernet header: size of a full packet in a qdisc

# A limit above the packets in flight of a 10 Gbit/s link with 10 s of delay and 64-byte packets.
NEVER_FULL_PACKETS = 200_000_000


@dataclass(frozen=True)
class Qdisc:
    """A qdisc: interface, tc arguments, and the options that must be read back.

    `expected` has the values of the plan. `tcvalues.printed` says what tc prints of them.
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


def _option(options: dict[str, Any], dotted: str) -> Any:
    """Return `a.b` from nested options; None if it is absent."""
    value: Any = options
    for key in dotted.split("."):
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value


def takes_seed(release: str) -> bool:
    """Return whether a kernel's netem has a seed of its own.

    Before Linux 6.6 (net/sched/sch_netem.c, TCA_NETEM_PRNG_SEED), netem ignores the seed and draws
    from the kernel's random generator, which has the replicate's seed in a guest.
    """
    major, minor = release.split(".")[:2]
    return (int(major), int(minor.partition("-")[0])) >= (6, 6)


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
    shaping_kinds = {"netem", "tbf", "htb", "clsact"}
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
            if name == "seed" and got is None and not takes_seed(release or platform.release()):
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
