"""The condition that lines of tc describe, and the words that no axis has."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

from losslab.emulation import mechanism, shaping
from losslab.emulation.path.jitter import NORMAL, NORMAL_SIGMAS
from losslab.emulation.qdiscs import DUALPI2
from losslab.reading import UsageError, shown
from losslab.study.axes import OWN, short
from losslab.study.condition import AXES, Condition
from losslab.study.packetsizes import DEFAULT
from losslab.tools.paths import tclines as tc
from losslab.tools.paths.tclines import COUNTS, PERCENT, RATES, SIZES, TIMES, Lines, Node

# Defaults of the kernel: of queues' options (net/sched/sch_*.c), and of a leaf of HTB, whose
# limit is the interface's txqueuelen.
QUEUE_DEFAULTS = {
    "codel": "limit 1000 target 5ms interval 100ms noecn",
    "fq_codel": "limit 10240 flows 1024 target 5ms interval 100ms quantum 1514 memory_limit 32m "
    "ecn drop_batch 64",
    "pie": "limit 1000 target 15ms tupdate 15ms alpha 2 beta 20 noecn nobytemode",
    "cake": "rtt 100ms internet diffserv3 triple-isolate nonat nowash no-ack-filter split-gso "
    "noatm raw overhead 0",
    DUALPI2: "limit 10000",
    "red": "avpkt 1000 probability 0.02",
}  # fmt: skip
LEAF_PACKETS, NETEM_PACKETS = 1000, shaping.NETEM_DEFAULT_LIMIT_PACKETS
# cake_reconfigure, net/sched/sch_cake.c
CAKE_BYTES_MIN, CAKE_PACKETS, CAKE_RTT_S = 4 * 2**20, 10_240, 0.1
IN_ORDER_BITS = 1e12  # netem's rate on losslab's own paths, only to keep packets in order
MBIT = {unit: bits / 1e6 for unit, bits in RATES.items()}
DEFAULT_MBIT = float(AXES["rate_mbit"].default or 0)
FRAME_BYTES = DEFAULT.frame_bytes  # lines of tc do not have the MTU, which is Ethernet's
BUCKET_BYTES = shaping.BURST_FRAMES * FRAME_BYTES
HZ = 250  # of most distributions' kernels until 2024
# Reasons of words without an axis, by option; of netem, `more` are its second and third values.
REASONS = {
    "corrupt": "no axis; TCP drops a damaged packet, so the same share of loss comes close",
    "slot": "batches of losslab have a constant interval and no limit",
    "seed": "losslab derives the seeds of netem from --seed",
    "gap": "losslab draws each early packet independently",
    "more": "draws of losslab are independent and have no correlation",
    "peakrate": "the bottleneck has no peak rate",
    "maxrate": "no limit of a flow's pacing rate",
}
LOSSES = ("loss_percent", "loss_burst_packets")
JITTERS = (
    "jitter_ms", "jitter_order", "jitter_distribution", "jitter_correlation_percent",
)  # fmt: skip
ONE_BRANCH = "all packets take one path"
ONLY_FORWARD = "only the forward path has it"
OF_BACK = ("ack_thinning", "ack_batch_ms")
# Words of filters for all packets, and of the one that ACK thinning has.
EVERY_PACKET = (" matchall ", " u32 0 0 ", " 0.0.0.0/0 ", " determ ")
MORE = ("loss", "duplicate", "reorder")  # a second value is a correlation
QUEUES = ("pfifo", "bfifo", "codel", "fq_codel", "pie", "cake", "red", DUALPI2)
# Queues of the kernel that only the axis qdisc has, and those whose options it can have.
OWN_QUEUES = ("fq", "sfq", "fq_pie", "pfifo_head_drop")
WITH_OPTIONS = ("codel", "fq_codel", "pie", "red")
PACKET_LIMITS = ("pfifo", DUALPI2, *shaping.LIMITED_IN_PACKETS)
DUALPI2_KERNEL = "7.2"
ROOTS, NODES_MAX = ("root", "filter"), 500
FQ, FQ_LIMIT = ("limit", "flow_limit"), str(shaping.FQ_PACKETS)
# Axes of the forward path that are set together.
QUEUE_AXES = ("queue", "buffer_packets", "mark_packets", "kernel", "qdisc")
# Axes of words whose value may not be readable.
AXIS_OF = {
    "delay": "rtt_ms", "rate": "rate_mbit", "ceil": "rate_mbit", "bandwidth": "rate_mbit",
    "limit": "buffer_packets", "latency": "buffer_packets", "memlimit": "buffer_packets",
    "loss": "loss_percent", "loss gemodel": "loss_percent", "loss state": "loss_percent",
    "duplicate": "duplicate_percent", "reorder": "reorder_percent",
}  # fmt: skip
WAYS_MAX = 16  # equally short ways between two hosts that are compared
HOSTS_MAX = 20  # hosts of a program whose pairs are compared
OF_BOTTLENECK = ("rate_mbit", "queue", "buffer_packets")  # of the reverse one: `reverse_` before
GROUPS = (
    ("duplicate_percent",), ("reorder_percent", "reorder_ms"),
    ("policer_mbit", "policer_burst_packets"), ("sender_queue",), ("data_batch_ms",),
)  # fmt: skip


@dataclass
class Direction:
    """Settings of one direction."""

    name: str
    delay_ms: float = 0.0  # the smallest
    values: dict[str, Any] = field(default_factory=dict)  # by axis
    words: dict[str, list[str]] = field(default_factory=dict)  # by axis
    # Limit of each netem, its delay, and whether packets also wait in it for the rate.
    limits: list[tuple[int, float, bool, str]] = field(default_factory=list)
    queue: Node | None = None
    buckets: list[str] = field(default_factory=list)  # words of token buckets that limit the rate
    overlaps: bool = False  # a netem below the rate delays a packet while it queues, not after it
    # Axes of which the lines have a value that cannot be read, with its words.
    unknown: dict[str, str] = field(default_factory=dict)

    def set(self, words: Sequence[str], **values: Any) -> None:
        """Set axes, with the words that do it."""
        self.values |= values
        for name in values:
            self.words.setdefault(name, []).extend(words)

    def among(self, *names: str) -> dict[str, Any]:
        """Return the axes of these names that are set."""
        return {name: self.values[name] for name in names if name in self.values}

    def said(self, *names: str) -> list[str]:
        """Return the words of these axes."""
        return list(dict.fromkeys(word for name in names for word in self.words.get(name, [])))


class Reading:
    """The condition that lines of tc describe, and what it leaves out."""

    def __init__(self, lines: Lines, roles: Mapping[str, str | None], algorithm: str) -> None:
        self.left = list(lines.left)  # words, reason
        self.taken: list[tuple[str, str]] = []  # words, axes
        self.traps: list[str] = [*lines.notes]
        self._for_all: list[tuple[str, str, str]] = []  # filters of all packets: side, class, words
        self.unknown: dict[str, str] = {}  # axes whose value cannot be read, and its words
        self.values: dict[str, Any] = {"algorithm": algorithm}
        self._lines = lines
        self._class = roles.get("class")
        sides, incoming = self._sides()
        forward, reverse, sender = self._roles(sides, roles, incoming)
        self._combine(forward, reverse, sender)
        self._forget(forward, reverse, sender)

    @property
    def condition(self) -> Condition:
        """Return the condition."""
        return Condition.from_json(self.values)

    # Words.

    def _leave(self, node: Node, text: str, reason: str) -> None:
        self.left.append((f"{node.egress}: {node.kind} {text}".rstrip(), reason))

    def _pop(self, node: Node, name: str, units: Mapping[str, float]) -> tuple[float, str] | None:
        """Take the next word of an option: its value, and the text; None if there is none."""
        words = node.options.get(name)
        if not words:
            return None
        word = words.pop(0)
        if not words:
            del node.options[name]
        try:
            number = tc.value(word, units)
        except ValueError as error:
            self._leave(node, f"{name} {word}", str(error))
            node.unknown.setdefault(name, f"{node.egress}: {node.kind} {name} {word}")
            return None
        more = "... " if name in node.begun else ""
        node.begun.add(name)
        text = f"{node.egress}: {node.kind} {name} {more}{word}"
        if units in (RATES, MBIT) and word.lower().endswith("bps"):
            self.traps.append(f"{text}: bps is bytes per second in tc, and bit bits per second")
        return number, text

    def _rest(self, node: Node, unused: Sequence[str] = ()) -> None:
        """Leave out the words that were not taken, except those without an effect here."""
        for name, words in node.options.items():
            if name in unused:
                self._unused(f"{node.egress}: {node.kind} {' '.join([name, *words])}")
            else:
                reason = REASONS.get(name, REASONS["more"] if words and name in MORE else "no axis")
                more = ["..."] if name in node.begun else []
                self._leave(node, " ".join([name, *more, *words]), reason)
        if node.outside:
            self._leave(node, " ".join(node.outside), "no axis")
        node.options, node.outside = {}, []

    def _unused(self, text: str, why: str = "") -> None:
        self.taken.append((text, "no effect" + (why and f": {why}")))

    # Interfaces and their directions.

    def _sides(self) -> tuple[dict[str, list[Node]], dict[str, str]]:
        """Return nodes by direction, and the interfaces whose packets come from another."""
        incoming, policers = dict[str, str](), []
        for egress, words in self._lines.filters:
            side = f"{egress} (incoming)" if {"ffff:", "ingress"} & {*words} else egress
            host = egress.rpartition(":")[0]
            if "mirred" in words and "dev" in words[words.index("mirred") : -1]:
                target = words[words.index("dev", words.index("mirred")) + 1]
                incoming[f"{host}:{target}" if host else target] = side
            elif "police" in words:
                rest = tc.options("police", words[words.index("police") + 1 :])
                policers.append(Node(side, "police", "filter", "", rest))
            elif "determ" in words:
                policers.append(Node(side, "gact", "filter", "", {"ok": words[-1:]}))
            text = f"{egress}: filter {' '.join(words)}"
            if not any(every in f" {' '.join(words)} " for every in EVERY_PACKET):
                self.left.append((text, ONE_BRANCH))
            elif "flowid" in words[:-1]:
                self._for_all.append((side, words[words.index("flowid") + 1], text))
        sides: dict[str, list[Node]] = {}
        for node in [*self._lines.nodes.values(), *policers]:
            sides.setdefault(incoming.get(node.egress, node.egress), []).append(node)
        return sides, incoming

    def _roles(
        self,
        sides: dict[str, list[Node]],
        roles: Mapping[str, str | None],
        incoming: dict[str, str],
    ) -> tuple[Direction, Direction | None, Direction | None]:
        """Return the forward path, the reverse path and the sender's own interface."""
        if not sides:
            unused = "; ".join(f"{shown(words)} ({why})" for words, why in self.left) or "none"
            raise UsageError(
                "the lines must set a qdisc, as `tc qdisc add dev eth0 root netem delay 50ms` or "
                f"`addLink(h1, s1, bw=10)`, found {unused}"
            )
        chosen: dict[str, list[str]] = {}
        for role in ("sender", "forward", "reverse"):
            its = [
                side
                for given in (roles.get(role) or "").split(",")
                if given
                for side in self._named(role, given, sides, incoming)
            ]
            if again := [side for side in its if any(side in other for other in chosen.values())]:
                raise UsageError(f"each role must have its own interface, found {again[0]} for two")
            its = its or [s for s in sides if s == f"${role.upper()}"]
            chosen |= {role: its} if its else {}
        if not chosen.keys() & {"forward", "reverse"} and self._lines.links:
            chosen |= self._between(sides, roles.get("between"))
        elif roles.get("between"):
            raise UsageError(
                "--between must name two hosts of a Mininet program, found other lines"
            )
        taken = {side for its in chosen.values() for side in its}
        free = sorted((s for s in sides if s not in taken), key=lambda s: "(" in s)
        if len(free) + len(taken) <= 2 or "reverse" in chosen:
            for role in ("forward", "reverse"):
                if role not in chosen and free:
                    chosen[role] = [free.pop(0)]
                    if role == "forward" and free and not incoming and not taken:
                        self.traps.append(
                            f"two interfaces: data leaves by {chosen[role][0]}, acknowledgements "
                            f"by {free[0]}; if not, add --forward {free[0]}"
                        )
        elif "forward" not in chosen:
            raise UsageError(
                f"a path has two interfaces, found {len(sides)}: {', '.join(sides)}",
                hint="choose that of the data with --forward, and that of the acknowledgements "
                "with --reverse",
            )
        reason = "a path has two interfaces: name them with --forward and --reverse"
        self.left += [(side, reason) for side in free]
        directions = {
            role: self._series([self._direction(side, sides.get(side, [])) for side in its])
            for role, its in chosen.items()
        }
        forward = directions.get("forward", Direction(""))
        if forward.name.rpartition(":")[2] == "lo" and "reverse" not in directions:
            self.traps.append("lo carries both directions: its delay and loss count twice")
            directions["reverse"] = forward
        return forward, directions.get("reverse"), directions.get("sender")

    def _named(
        self, role: str, given: str, sides: Mapping[str, list[Node]], incoming: Mapping[str, str]
    ) -> list[str]:
        """Return the interface that a name of an option means, with or without its host."""
        side = incoming.get(given, given)
        found = [side] if side in sides else [s for s in sides if s.rpartition(":")[2] == side]
        if len(found) == 1:
            return found
        known = ", ".join(found or sides)
        what = "one" if found else "an interface"
        raise UsageError(f"--{role} must be {what} of {known}, found {given}")

    def _between(self, sides: Mapping[str, list[Node]], given: str | None) -> dict[str, list[str]]:
        """Return the interfaces that packets pass between two hosts of a Mininet program."""
        near: dict[str, list[tuple[str, str, str]]] = {}
        for link in self._lines.links:
            (a, b), (out, back) = link.nodes, link.egresses
            near.setdefault(a, []).append((b, out, back))
            near.setdefault(b, []).append((a, back, out))
        hosts = [name for name in near if name in self._lines.hosts]
        if len(hosts) < 2:
            hosts = [name for name, its in near.items() if len(its) == 1] or [*near]
        if len(hosts) < 2:
            hosts = [*near]
        if given is not None:
            named = given.split(",")
            if len(named) != 2 or not {*named} <= near.keys():
                raise UsageError(f"--between must be two of {', '.join(near)}, joined by a comma, "
                                 f"found {given}")  # fmt: skip
            pairs = [(named[0], named[1])]
        else:
            pairs = [*itertools.combinations(hosts[:HOSTS_MAX], 2)]
        ways = {pair: found for pair in pairs if (found := _routes(near, *pair))}
        routes = {pair: found[0] for pair, found in ways.items()}
        if not routes:
            if given:
                raise UsageError(f"--between must name two hosts with links, found {given}")
            return {}

        def settings(side: str) -> str:
            its = [node for node in sides.get(side, ())]
            return "; ".join(node.text.partition(": ")[2] for node in its)

        def key_of(route: Sequence[tuple[str, str]]) -> tuple[str, ...]:
            return tuple(
                sorted(filter(None, map(settings, (side for hop in route for side in hop))))
            )

        readings: dict[object, tuple[str, str]] = {}
        for pair, route in routes.items():
            readings.setdefault(key_of(route), pair)
        if len(readings) > 1:
            some = "; ".join(f"{','.join(pair)}: {_brief(key)}" for key, pair in readings.items())
            raise UsageError(
                f"a path has two hosts, found {len(hosts)}, whose paths differ: {some}",
                hint="choose two with --between, such as "
                f"--between {','.join(next(iter(readings.values())))}",
            )
        pair, route = next(iter(routes.items()))
        if len({key_of(way) for way in ways[pair]}) > 1:
            some = "; ".join(",".join(out for out, _ in way) for way in ways[pair])
            raise UsageError(
                f"a path has one way from {pair[0]} to {pair[1]}, found {len(ways[pair])} with "
                f"different settings: {some}",
                hint=f"choose one: --forward {','.join(out for out, _ in route)} "
                f"--reverse {','.join(back for _, back in route[::-1])}",
            )
        if len(hosts) > 2 and given is None:
            self.traps.append(f"the path is that from {pair[0]} to {pair[1]}; other hosts have the "
                              "same")  # fmt: skip
        away = {"forward": [out for out, _ in route], "reverse": [back for _, back in route[::-1]]}
        return {role: [its for its in names if its in sides] for role, names in away.items()
                if any(its in sides for its in names)}  # fmt: skip

    def _series(self, hops: list[Direction]) -> Direction:
        """Return one direction of links in series: the smallest rate, the sum of the delays."""
        if len(hops) == 1:
            return hops[0]
        made = Direction(", ".join(hop.name for hop in hops))
        slow = min(hops, key=lambda hop: hop.values.get("rate_mbit", math.inf))
        made.queue, made.overlaps, made.buckets = slow.queue, slow.overlaps, slow.buckets
        made.delay_ms = sum(hop.delay_ms for hop in hops)
        passed = 1.0
        for hop in sorted(hops, key=lambda hop: hop is not slow):
            made.limits += [
                (*limit[:2], limit[2] and hop is slow, limit[3]) for limit in hop.limits
            ]
            passed *= 1 - hop.values.get("loss_percent", 0.0) / 100
            for name, its in hop.unknown.items():
                if name != "buffer_packets" or hop is slow or "rate_mbit" in hop.unknown:
                    made.unknown.setdefault(name, its)
            for name, value in hop.values.items():
                words = hop.words.get(name, [])
                own = name in (*OF_BOTTLENECK, *QUEUE_AXES)
                if own and hop is not slow:
                    faster = f"not the bottleneck, which is {slow.name}"
                    self.taken += [(word, f"no effect: {faster}") for word in words]
                elif name in made.values and name != "loss_percent":
                    self.left += [(word, "another link of the path has it, too") for word in words]
                else:
                    made.values[name] = value
                    made.words.setdefault(name, []).extend(words)
            made.words.setdefault("rtt_ms", []).extend(hop.words.get("rtt_ms", []))
        if passed < 1:
            made.values["loss_percent"] = _round(100 * (1 - passed))
        return made

    def _direction(self, name: str, nodes: list[Node]) -> Direction:
        d = Direction(name)
        if len(nodes) > NODES_MAX:
            raise UsageError(f"{name} must have at most {NODES_MAX} qdiscs, found {len(nodes)}")
        chain = [node for node in nodes if node.parent == "filter"]
        for root in nodes:
            if root.parent == "root" and not root.is_class:
                below = [node for node in nodes if node.parent not in ROOTS]
                chain += _chain(root, below, self._class)
        self.left += [(node.text, ONE_BRANCH) for node in nodes if node not in chain]
        # A filter of all packets into another branch.
        places = {place for node in chain for place in (node.handle, node.parent)}
        branches = {place for node in nodes for place in (node.handle, node.parent)}
        self.left += [(text, ONE_BRANCH) for side, flow, text in self._for_all
                      if side == name and flow in branches - places]  # fmt: skip
        for at, node in enumerate(chain):
            inner = at < len(chain) - 1
            if node.kind == "netem":
                self._netem(d, node)
            elif node.kind in ("tbf", "htb"):
                self._rate_limit(d, node, inner)
            elif node.kind == "fq" and node.parent == "root":
                d.set([f"{node.egress}: fq"], sender_queue="fq")
                self._rest(node, [n for n in FQ if node.options.get(n) == [FQ_LIMIT]])
            elif node.kind in OWN_QUEUES:
                d.set([node.text], queue=OWN, qdisc=node.asked)
            elif node.kind in QUEUES:
                self._queue(d, node)
            elif node.kind in ("police", "gact"):
                self._filter(d, node)
            else:
                self._rest(node)
                self._leave(node, "", "no axis for this qdisc")
        for node in chain:
            unread = {AXIS_OF[option]: words for option, words in node.unknown.items()
                      if option in AXIS_OF}  # fmt: skip
            d.unknown |= {axis: words for axis, words in unread.items() if axis not in d.values}
        return d

    # Qdiscs.

    def _netem(self, d: Direction, node: Node) -> None:
        rate, rate_text = self._pop(node, "rate", RATES) or (math.inf, "")
        delay_ms, smallest_ms = self._delay(d, node, in_order=bool(rate_text))
        self._loss(d, node)
        self._axis(d, node, "duplicate", PERCENT, "duplicate_percent")
        reorder = self._pop(node, "reorder", PERCENT)
        if reorder:
            d.set([reorder[1]], reorder_percent=reorder[0], reorder_ms=_round(smallest_ms))
            if node.options.get("gap") == ["1"]:
                del node.options["gap"]
        slots = node.options.get("slot", [])
        if len(set(slots)) == 1 and len(slots) < 3 and (slot := self._pop(node, "slot", TIMES)):
            self._pop(node, "slot", TIMES)
            d.set([slot[1]], **dict.fromkeys(("data_batch_ms", OF_BACK[1]), _round(1e3 * slot[0])))
        slow = rate < IN_ORDER_BITS
        d.overlaps = d.overlaps or "rate_mbit" in d.values
        limit, limit_text = self._pop(node, "limit", SIZES) or (NETEM_PACKETS, "")
        limit_text = limit_text or f"{node.egress}: netem limit {NETEM_PACKETS} (the default)"
        if "limit" not in node.unknown:
            d.limits.append((int(limit), delay_ms, slow or d.overlaps, limit_text))
        if slow:
            self._rate(d, rate, rate_text)
        self._rest(node)

    def _delay(self, d: Direction, node: Node, in_order: bool) -> tuple[float, float]:
        """Set the delay and its jitter; return the mean and the smallest delay in ms."""
        none = (0.0, "")
        delay_s, text = self._pop(node, "delay", TIMES) or none
        around_s, more = self._pop(node, "delay", TIMES) or none
        correlation, correlated = self._pop(node, "delay", PERCENT) or none
        delay_ms, around_ms, distribution = delay_s * 1e3, around_s * 1e3, "uniform"
        if shape := node.options.pop("distribution", []):
            text_of_shape = " ".join(["distribution", *shape])
            if shape == [NORMAL] and 0 < NORMAL_SIGMAS * around_ms <= delay_ms:
                around_ms, distribution = NORMAL_SIGMAS * around_ms, NORMAL
                more += f" {text_of_shape}"
            else:
                reason = "uniform jitter instead, with the same mean and standard deviation"
                if shape == [NORMAL] and around_ms:
                    at_once = 100 * NormalDist().cdf(-delay_ms / around_ms)
                    reason += f": netem would send {at_once:.2g} % of the packets without a delay"
                self._leave(node, text_of_shape, reason)
                around_ms = round(around_ms * math.sqrt(3), 3)
        if around_ms > delay_ms:
            self.left.append((more, "its jitter must be at most its delay"))
            around_ms = 0.0
        if around_ms:
            values = (_round(2 * around_ms), "kept" if in_order else "mixed", distribution)
            words = [more, correlated] if correlation else [more]
            d.set(words, **dict(zip(JITTERS, (*values, correlation), strict=True)))
            if not in_order:
                self.traps.append(f"{more}: netem's jitter reorders packets unless it has a rate")
            if correlation:
                self.traps.append(
                    f"{correlated}: netem keeps almost nothing of this correlation, as here"
                )
        elif correlated:
            self._unused(correlated, "there is no jitter")
        smallest_ms = delay_ms - around_ms
        d.delay_ms += smallest_ms
        if text:
            d.words.setdefault("rtt_ms", []).append(text)
        return delay_ms, smallest_ms

    def _loss(self, d: Direction, node: Node) -> None:
        words = node.options.pop("loss", [])
        model = words.pop(0) if words[:1] in (["gemodel"], ["state"], ["random"]) else "random"
        name = "loss" if model == "random" else f"loss {model}"
        node.options |= {name: words} if words else {}
        found: list[tuple[float, str]] = []
        while (model != "random" or not found) and (pair := self._pop(node, name, PERCENT)):
            found.append(pair)
        if not found:
            return
        (p, text), *more = found
        names = [text, *(each[1] for each in more)]
        numbers = [each[0] / 100 for each in more]
        share, burst, p = p / 100, 1.0, p / 100
        if model != "random" and (p or numbers):
            defaults = [1 - p, 1.0, 0.0] if model == "gemodel" else [1 - p, 0.0, 1.0, 0.0]
            r, *others = [*numbers, *defaults[len(numbers) :]]
            bad = p / (p + r) if p + r else 0.0
            share = bad
            if model == "gemodel" and others != [1.0, 0.0]:
                share = bad * others[0] + (1 - bad) * others[1]
                reason = "a burst of losslab drops every packet; the mean loss is kept"
                self.left += [(each, reason) for each in names[2:]]
            elif model == "state" and (others[0] or others[2]):
                self.left += [(each, "bursts have two states") for each in names[1:]]
            burst = 1 / r if r and not math.isclose(r, 1 - p) else 1.0
        d.set(names[:2], loss_percent=_round(100 * share, 9 if model == "random" else 6))
        if burst > 1:
            d.set(names[:2], loss_burst_packets=_round(burst, 6))

    def _rate(self, d: Direction, bits: float, text: str) -> None:
        mbit = _round(bits / 1e6)
        d.set([text], rate_mbit=min(mbit, d.values.get("rate_mbit", mbit)))

    def _rate_limit(self, d: Direction, node: Node, inner: bool) -> None:  # noqa: PLR0912
        rate, text = self._pop(node, "rate", RATES) or (0.0, "")
        if node.kind == "htb" and node.is_class and not node.parent.partition(":")[2]:
            # Without a parent there is nobody to borrow from (htb_class_mode, net/sched/sch_htb.c).
            ceiling = self._pop(node, "ceil", RATES) or (rate, "")
            if ceiling[1] and ceiling[0] != rate:
                self.left.append((ceiling[1], "a class without a parent class never exceeds rate"))
        rate, text = self._pop(node, "ceil", RATES) or (rate, text)
        for name in ("cburst", "burst"):
            burst, words = self._pop(node, name, SIZES) or (float(BUCKET_BYTES), "")
            if words and burst < rate / 8 / HZ:
                self.traps.append(
                    f"{words} is {burst:.0f} bytes, less than rate / HZ ({rate / 8 / HZ:.0f} bytes "
                    f"at {HZ} Hz): without high-resolution timers, the rate is not reached"
                )
            if words and burst < FRAME_BYTES:
                self.traps.append(f"{words}: tbf drops each packet larger than its bucket")
            if words and abs(burst - BUCKET_BYTES) > FRAME_BYTES:
                self.left.append((words, f"{burst:.0f} bytes; losslab's bucket has {BUCKET_BYTES}"))
            elif words:
                self.taken.append((words, f"losslab's bucket of {BUCKET_BYTES} bytes"))
        has_bucket = bool(words)
        if node.kind == "tbf" or node.is_class:
            d.buckets.append(f"{node.egress}: {node.kind}")
        latency, words = self._pop(node, "latency", TIMES) or (0.0, "")
        if words and not text:
            self.left.append((words, "without a rate that is known, it is no size"))
            node.unknown.setdefault("latency", words)
            words = ""
        limit, words = self._pop(node, "limit", SIZES) or (rate / 8 * latency + burst, words)
        if text:
            self._rate(d, rate, text)
        if node.kind == "tbf" and not (has_bucket and words and limit) and not node.unknown:
            self.traps.append(
                f"{node.egress}: tc refuses tbf without a burst and a limit or latency"
            )
        if node.kind == "tbf" and not inner and words:
            packets = max(1, int(limit // FRAME_BYTES))
            d.set([_sized(words, limit)], queue="bfifo", buffer_packets=packets)
        elif words:
            self._unused(words, "the qdisc below has the queue")
        elif node.is_class and not inner:
            d.set(
                [f"{node.egress}: pfifo (the default)"], queue="fifo", buffer_packets=LEAF_PACKETS
            )
        unused = [] if "peakrate" in node.options else ["mtu"]
        self._rest(node, [*unused, "default", "r2q", "quantum", "prio"])

    def _queue(self, d: Direction, node: Node) -> None:
        kind, defaults = node.kind, tc.options(node.kind, QUEUE_DEFAULTS.get(node.kind, "").split())
        bandwidth = self._pop(node, "bandwidth", RATES) if kind == "cake" else None
        if bandwidth:
            self._rate(d, *bandwidth)
        unit, units = (1, COUNTS) if kind in PACKET_LIMITS else (FRAME_BYTES, SIZES)
        name = "memlimit" if kind == "cake" else "limit"
        limit, text = self._pop(node, name, units) or (0.0, f"{node.egress}: {kind}")
        if name in node.unknown or (kind == "cake" and "bandwidth" in node.unknown):
            node.unknown.setdefault("limit", node.unknown.get(name, f"{node.egress}: {kind}"))
            d.set([f"{node.egress}: {kind}"], queue={"pfifo": "fifo"}.get(kind, kind))
            d.queue = node
            return
        if kind == "cake":
            unit = shaping.queued_bytes(DEFAULT.mtu_bytes)
            rtt_s = _peek(node, "rtt", TIMES, CAKE_RTT_S)
            of_rate = bandwidth[0] / 8 * rtt_s * 4 if bandwidth else math.inf
            limit = limit or min(max(of_rate, CAKE_BYTES_MIN), CAKE_PACKETS * FRAME_BYTES)
        elif not limit:
            limit = tc.value(defaults.get("limit", [str(LEAF_PACKETS * unit)])[0], units)
        packets = max(1, int(limit // unit))
        how = text if unit == 1 else _sized(text, limit, unit)
        d.set([how], queue={"pfifo": "fifo"}.get(kind, kind), buffer_packets=packets)
        low, high = (_peek(node, each, SIZES, 0.0) for each in ("min", "max"))
        if kind == "red" and high == low + 1:
            d.set([], queue="red-step", mark_packets=max(1, int(low // FRAME_BYTES)))
        if kind == DUALPI2:
            d.set([], kernel=DUALPI2_KERNEL)
        d.queue = node

    def _axis(
        self, d: Direction, node: Node, name: str, units: Mapping[str, float], axis: str
    ) -> None:
        """Set an axis to the next word of an option."""
        number, text = self._pop(node, name, units) or (0.0, "")
        if text:
            d.set([text], **{axis: _round(number)})

    def _filter(self, d: Direction, node: Node) -> None:
        self._axis(d, node, "ok", COUNTS, "ack_thinning")
        self._axis(d, node, "rate", MBIT, "policer_mbit")
        burst, text = self._pop(node, "burst", SIZES) or (0.0, "")
        if text:
            packets = max(2, int(burst // FRAME_BYTES))
            d.set([_sized(text, burst)], policer_burst_packets=packets)
        self._rest(node, ["drop", "flowid", "conform-exceed", "action", "mtu"])

    # Axes.

    def _settle(self, values: dict[str, Any], words: Sequence[str], why: str = "") -> None:
        """Set axes if the condition allows it, or else leave out the words."""
        if not values:
            return
        if problems := Condition.from_json(self.values | values).problems():
            self.left += [(word, problems[0]) for word in words]
            return
        self.values |= values
        axes = ", ".join(f"{name}={short(its)}" for name, its in values.items())
        self.taken.append(("; ".join(words), f"{axes}{f' ({why})' if why else ''}"))

    def _combine(self, f: Direction, r: Direction | None, s: Direction | None) -> None:
        """Set the axes from the forward path, the reverse path and the sender's interface."""
        back, sender = r or Direction(""), s or Direction("")
        loop = back is f
        if sender.values.get("queue") == "fq_codel":
            sender.words["sender_queue"] = sender.said("queue", "buffer_packets")
            sender.values = {"sender_queue": "fq_codel"}
        for name in ("rate_mbit", "queue", "buffer_packets"):
            if name in sender.values and name not in f.values:
                f.set(sender.said(name), **{name: sender.values[name]})
        self._settle(f.among("rate_mbit"), f.said("rate_mbit"))
        # If the reverse path has other jitter, which is left out, its mean delay counts.
        ours, theirs = f.among(*JITTERS), back.among(*JITTERS)
        other_ms = theirs.get("jitter_ms", 0.0) / 2 if ours and ours != theirs else 0.0
        back_ms = back.delay_ms + other_ms
        parts = [ms for ms in (f.delay_ms, back_ms, sender.delay_ms) if ms]
        words = [word for d in (f, back, sender) for word in d.said("rtt_ms")]
        how = f"one-way delays of {' + '.join(f'{ms:g}' for ms in parts)} ms"
        self._settle({"rtt_ms": _round(sum(parts))} if parts else {}, words, how)
        self._bottlenecks(f, back, sender)
        self._both(LOSSES, sender if sender.values.get("loss_percent") else f, back)
        self._both(JITTERS, f, back)
        delay_ms = _round(sender.delay_ms)
        self._settle({"sender_delay_ms": delay_ms} if delay_ms else {}, sender.said("rtt_ms"))
        groups = [(f, group) for group in GROUPS] + [(sender, ("sender_queue",))]
        for d, names in groups + [(back, (name,)) for name in OF_BACK]:
            self._settle(d.among(*names), d.said(*names))
        both = {*LOSSES, "sender_queue"}
        of_back = {*OF_BACK, "data_batch_ms", *(() if loop else OF_BOTTLENECK)}
        elsewhere = (
            (f, {*f.values} - {"ack_thinning"}, "only the reverse path has it"),
            (back, both | of_back | {*JITTERS}, ONLY_FORWARD),
            (sender, both, "losslab has it on a router, where TCP does not see it"),
        )
        for d, used, reason in elsewhere:
            self.left += [(each, reason) for each in d.said(*sorted(d.values.keys() - used))]
        for limit, _, _, text in sender.limits:
            if limit != NETEM_PACKETS:
                self.left.append((text, f"the sender's netem has a limit of {NETEM_PACKETS}"))
        self._mistakes(f, r, s)

    def _bottlenecks(self, f: Direction, back: Direction, sender: Direction) -> None:
        """Set rates below netem, buffers and queues of both directions."""
        if back is f:  # lo
            back = Direction("")
        one_interface = (
            f.overlaps and back.overlaps and f.values == back.values
            and [each[:3] for each in f.limits] == [each[:3] for each in back.limits]
            and f.values.keys() == {"rate_mbit"} and f.limits
            and not any(waits for _, _, waits, _ in f.limits[1:])
            and not f.unknown and not back.unknown
        )  # fmt: skip
        if one_interface:
            found = {"shaper": "htb-netem", "buffer_packets": f.limits[0][0]}
            self._settle(found, [f.limits[0][3], back.limits[0][3]], "rate above netem, both ends")
            return
        if buckets := list(dict.fromkeys([*f.buckets, *back.buckets, *sender.buckets])):
            self._settle({"shaper": "tbf"}, buckets, "a token bucket")
        for d in (f, back):
            self._limits(d)
            if d.queue and "ecn" in d.queue.options:
                words = f"{d.queue.egress}: {d.queue.kind} ecn"
                self._settle({"ecn": "on"}, [words], "the hosts, too")
            self._compare(d, own=d is f)
        self._settle(f.among(*QUEUE_AXES), f.said(*QUEUE_AXES))
        forward_packets = self.values.get("buffer_packets", AXES["buffer_packets"].default)
        for names in (OF_BOTTLENECK[:1], OF_BOTTLENECK[1:]):
            its = back.among(*names)
            if its.get("buffer_packets") == forward_packets:  # the default
                del its["buffer_packets"]
            self._settle({f"reverse_{n}": each for n, each in its.items()}, back.said(*names))

    def _forget(self, f: Direction, r: Direction | None, s: Direction | None) -> None:
        """Drop values that depend on words that cannot be read: unknown is not the default."""
        for d in (f, r, s):
            for name, words in d.unknown.items() if d else ():
                axis = f"reverse_{name}" if d is r and name in OF_BOTTLENECK else name
                self.unknown.setdefault(axis, words)
        for axis in self.unknown:
            self.values.pop(axis, None)
        begins = tuple(f"{axis}=" for axis in self.unknown)
        self.taken = [
            (words, ", ".join(part for part in axes.split(", ") if not part.startswith(begins)))
            for words, axes in self.taken
        ] if begins else self.taken  # fmt: skip
        self.taken = [(words, axes) for words, axes in self.taken if axes]

    def _mistakes(self, f: Direction, r: Direction | None, s: Direction | None) -> None:
        """Note common mistakes, and what the lines do not set."""
        if f.limits and (r is None or r is f) and s is None:
            once = f"{f.name} delays only the packets that leave it: the RTT grows once, not twice"
            self.traps += [once] if r is None and f.delay_ms else []
            self.traps.append(
                f"if {f.name} is the sender's own interface, add --sender {f.name}: TCP sees netem "
                "there, which is another path (sender_delay_ms)"
            )
        for name in ("rate_mbit", "rtt_ms", "buffer_packets"):
            if name not in self.values and name not in f.unknown and not (r and name in r.unknown):
                default = short(AXES[name].default or 0)
                self.traps.append(f"the lines do not set {name}, so it is {default}")

    def _both(self, names: Sequence[str], f: Direction, back: Direction) -> None:
        """Set axes of losses or jitter, which are in one direction or the same in both."""
        ours, theirs, words = f.among(*names), back.among(*names), back.said(*names)
        kind = names[0].partition("_")[0]
        if ours and ours == theirs:
            both = list(dict.fromkeys([*f.said(*names), *words]))
            self._settle(ours | {f"{kind}_direction": "both"}, both)
            if names == LOSSES:
                self.traps.append("loss in both directions also drops acknowledgements")
        elif ours:
            self._settle(ours, f.said(*names))
            reason = f"{kind} is in one direction, or the same in both"
            self.left += [(each, reason) for each in words]
        else:
            self._settle(theirs and theirs | {f"{kind}_direction": "back"}, words)

    def _limits(self, d: Direction) -> None:
        """Set the buffer from the limits of netem, which count the packets in the delay, too."""
        mbit = d.values.get("rate_mbit", DEFAULT_MBIT)
        for limit, delay_ms, waits, text in d.limits:
            if d.unknown.keys() & {"rate_mbit", "rtt_ms"}:
                self.left.append((text, "the packets in the delay are not known"))
                if (waits or "rate_mbit" in d.unknown) and "buffer_packets" not in d.values:
                    d.unknown.setdefault("buffer_packets", text)
                continue
            packets = math.ceil(mbit * 1e3 * delay_ms / 8 / FRAME_BYTES)
            flight = f"{mbit:g} Mbit/s x {delay_ms:g} ms are {packets} packets"
            if limit <= packets:
                self.left.append((text, f"netem drops packets beyond it: {flight}"))
            elif not waits or "buffer_packets" in d.values:
                self._unused(text, f"never full: {flight}")
            else:
                d.set([text], queue="fifo", buffer_packets=limit - packets)
                reason = f"counts the packets in the delay, too: {flight}"
                if d.overlaps:
                    reason += "; below a rate, netem does not delay a packet that has waited"
                self.left += [(text, reason)] if packets else []

    def _compare(self, d: Direction, own: bool) -> None:
        """Take the queue's options that losslab sets; the others need the queue `own`, or stay."""
        node = d.queue
        if node is None:
            return
        base = {n: self.values[n] for n in ("algorithm", "rate_mbit", "ecn") if n in self.values}
        trial = Condition.from_json(base | d.among("rate_mbit", *QUEUE_AXES))
        same = []
        if not trial.problems():
            (made, *_) = shaping.queue(trial, mechanism.of(trial))
            words = f"{QUEUE_DEFAULTS.get(made.kind, '')} {made.arguments}"
            ours = tc.options(made.kind, words.split())
            asked = node.options.items()
            same = [name for name, its in asked if name in ours and _same(its, ours[name])]
        if own and node.kind in WITH_OPTIONS and node.options.keys() - same:
            d.values = {n: v for n, v in d.values.items() if n not in QUEUE_AXES}
            d.set([f"{node.egress}: {node.asked}"], queue=OWN, qdisc=node.asked)
        else:
            self._rest(node, same)


def _round(number: float, digits: int = 9) -> float:
    return float(f"{number:.{digits}g}")


def _peek(node: Node, name: str, units: Mapping[str, float], default: float) -> float:
    """Return the value of an option, which is not taken; the default if there is none."""
    try:
        return tc.value((node.options.get(name) or [""])[0], units)
    except ValueError:
        return default


def _sized(text: str, octets: float, unit: int = FRAME_BYTES) -> str:
    """Return the words of a size with its number of packets."""
    return f"{text} is {octets:.0f} bytes, {octets / unit:.1f} packets of {unit} bytes"


def _same(words: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether two options have the same values, in any unit."""
    for units in (SIZES, TIMES, RATES):
        try:
            if [tc.value(e, units) for e in words] == [tc.value(e, units) for e in others]:
                return True
        except ValueError:
            continue
    return words == others


def _chain(here: Node, tree: Sequence[Node], chosen: str | None, default: str = "") -> list[Node]:
    """Return the qdiscs and classes from a node to one leaf.

    Branches with different settings are a question, which --class answers. UsageError asks it.
    """
    major = here.handle.partition(":")[0]
    if default_of := here.options.get("default"):
        default = f"{major}:{default_of[0].lower().removeprefix('0x').lstrip('0')}"
    classes = {node.handle for node in tree if node.is_class}
    below = [
        node for node in tree
        if node.parent == here.handle
        or (not here.is_class and node.parent not in classes
            and major and node.parent.partition(":")[0] == major)
    ]  # fmt: skip
    rest = [node for node in tree if node not in below]
    branches = [_chain(node, rest, chosen, default) for node in below]
    named = [branch for branch in branches if any(node.handle == chosen for node in branch)]
    readings = {_settings(branch): branch for branch in branches if _settings(branch)}
    if chosen and not named and len(readings) > 1 and not here.is_class:
        known = ", ".join(node.handle for node in tree if node.is_class)
        raise UsageError(f"--class must be one of {known} of {here.egress}, found {chosen}")
    if len(readings) > 1 and not named:
        some = "; ".join(f"{branch[0].handle or branch[0].parent}: {text}"
                         for text, branch in readings.items())  # fmt: skip
        raise UsageError(
            f"{here.egress} must have one class for all packets, found {len(readings)}: {some}",
            hint="choose the one that the flow takes with --class, such as "
            f"--class {next(iter(readings.values()))[0].handle}",
        )

    def rank(branch: Sequence[Node]) -> tuple[bool, bool, bool]:
        kinds = {node.kind for node in branch}
        is_default = any(node.handle == default for node in branch)
        return bool(kinds & {"netem", "tbf"}), is_default, bool(kinds & {*QUEUES})

    return [here, *max(named or branches, key=rank, default=[])]


def _settings(branch: Sequence[Node]) -> str:
    """Return what a branch sets: its rates, delays and losses."""
    return ", ".join(
        node.text.partition(": ")[2]
        for node in branch
        if node.kind in ("netem", "tbf", "cake") or (node.is_class and "rate" in node.options)
    )


def _routes(
    near: Mapping[str, Sequence[tuple[str, str, str]]], begin: str, end: str
) -> list[list[tuple[str, str]]]:
    """Return the interfaces of both directions on the shortest ways between two nodes."""
    routes: dict[str, list[list[tuple[str, str]]]] = {begin: [[]]}
    for node in (queue := [begin]):
        for other, out, back in near[node]:
            longer = [[*way, (out, back)] for way in routes[node]]
            if other not in routes:
                routes[other] = longer
                queue.append(other)
            elif len(routes[other][0]) == len(longer[0]) and len(routes[other]) < WAYS_MAX:
                routes[other] += longer
    return routes.get(end, [])


def _brief(key: object) -> str:
    texts = dict.fromkeys(map(str, key)) if isinstance(key, tuple) else {}
    return " and ".join(texts)[:120] or "no settings"
