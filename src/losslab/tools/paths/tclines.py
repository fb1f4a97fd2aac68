"""Lines of tc in shell scripts and Mininet programs: words, units, and qdiscs by interface.

Nothing of a file is executed: words that only a shell or Python knows stay unknown. Units are those
of iproute2 6.15 (lib/utils_math.c, lib/utils.c); the qdiscs of Mininet's links are those of its
class TCIntf (mininet/link.py).
"""

from __future__ import annotations

import ast
import operator
import re
import shlex
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from losslab.reading import CONTROL
from losslab.tools.paths import others
from losslab.tools.paths.sources import Command, Link, Source

# Units by their suffix in lower case: of rates in bit/s, of sizes in bytes, of times in s.
RATES = {
    f"{prefix}{unit}": scale * bits
    for unit, bits in (("bit", 1), ("bps", 8))
    for prefix, scale in (
        ("", 1), ("k", 1e3), ("m", 1e6), ("g", 1e9), ("t", 1e12),
        ("ki", 2**10), ("mi", 2**20), ("gi", 2**30), ("ti", 2**40),
    )
} | {"": 1}  # fmt: skip
SIZES = {
    f"{prefix}{unit}": scale / bits
    for prefix, scale in (("k", 2**10), ("m", 2**20), ("g", 2**30))
    for unit, bits in (("", 1), ("b", 1), ("bit", 8))
} | {"": 1, "b": 1}
TIMES = {
    name: scale
    for scale, names in ((1, "s sec secs"), (1e-3, "ms msec msecs"), (1e-6, "us usec usecs"),
                         (1e-9, "ns nsec nsecs"))
    for name in names.split()
}  # fmt: skip
PERCENT = {"": 1, "%": 1}
COUNTS = {"": 1, "p": 1}  # `tc qdisc show` prints packets with a p
NUMBER = re.compile(
    r"([-+]?(?:\d{1,30}\.?\d{0,30}|\.\d{1,30})(?:e[-+]?\d{1,2})?)([a-z%]*)", re.IGNORECASE
)

# Options by kind. All words up to the next option are an option's values.
OPTIONS = {
    "netem": "limit delay loss corrupt duplicate reorder gap distribution rate slot ecn seed",
    "tbf": "rate burst limit latency mtu peakrate mpu overhead linklayer",
    "htb": "default r2q direct_qlen offload rate ceil burst cburst quantum prio mtu mpu overhead",
    "pfifo": "limit",
    "bfifo": "limit",
    "codel": "limit target interval ecn noecn ce_threshold",
    "fq_codel": "limit flows target interval quantum ecn noecn memory_limit ce_threshold "
    "drop_batch",
    "pie": "limit target tupdate alpha beta ecn noecn bytemode nobytemode",
    "cake": "bandwidth unlimited autorate-ingress rtt besteffort diffserv3 diffserv4 diffserv8 "
    "precedence flowblind srchost dsthost hosts flows dual-srchost dual-dsthost triple-isolate "
    "nat nonat wash nowash ack-filter no-ack-filter split-gso no-split-gso memlimit overhead mpu "
    "ingress egress atm noatm ptm docsis ethernet conservative raw metro internet lan",
    "red": "limit min max avpkt burst probability bandwidth ecn harddrop adaptive",
    "fq": "limit flow_limit quantum initial_quantum maxrate buckets pacing nopacing "
    "low_rate_threshold refill_delay orphan_mask",
    "dualpi2": "limit target tupdate alpha beta coupling_factor step_thresh memlimit split_gso",
    "police": "rate burst mtu peakrate conform-exceed drop pipe continue flowid action",
}
ALIASES = {
    "netem": {"latency": "delay", "drop": "loss"},
    "tbf": {"buffer": "burst", "maxburst": "burst", "minburst": "mtu"},
    "htb": {"buffer": "burst", "maxburst": "burst", "cbuffer": "cburst", "cmaxburst": "cburst"},
    "police": {"buffer": "burst", "maxburst": "burst"},
}
# Options that a change of netem keeps unless it sets them.
NETEM_KEEPS = ("rate", "corrupt", "slot")
LATER = "a later line replaces it; a path that changes has the axis changes"
UNKNOWN = "has no value in these lines; add --var NAME=VALUE, or --run"
# In a word that only a shell or Python knows.
UNCLEAR = re.compile(r"[${}()*/<>`\[\]]|%[sdf(]|\.(?=[a-z])|^[a-z_]\w*$", re.IGNORECASE)
LOOPS = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp)
LOOPED = "in a loop, which is not executed: add --run"
NO_COMMAND = "not a command of a shell: write it as one, or add --run"
ADDED = ("add", "change", "replace")
OBJECTS = ("qdisc", "class", "filter")
# Words before the kind of a qdisc that are followed by a value.
PLACES = ("dev", "parent", "handle", "classid", "refcnt")

# `$NAME`, `${NAME:-default}`, and `$((...))` of numbers and names without brackets.
EXPANSION = re.compile(
    r"\$\(\((?P<sum>[^()]*)\)\)"
    r"|\$\{(?P<braced>\w+)(?::?(?P<how>[-=?+])(?P<default>[^}]*))?\}|\$(?P<plain>\w+)"
)
ASSIGNMENT = re.compile(r"(\w+)([-+*/%]?)=(.*)", re.DOTALL)
# In a program's text, too: f"tc ..." is one word of a shell, `ftc ...`.
COMMAND = re.compile(r"\b[fr]{0,2}tc\b\W+(qdisc|class|filter)\W+(add|change|replace)\b")
REDIRECTION = re.compile(r"(?<!\S)[&\d]?>>?\s*&?\S+")
PROMPT = re.compile(r"^\s*(?:\S+@\S+[#$]|[$>%])\s+")
OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
LINE_MAX = 4000  # longer lines are left out
# A line of `tc qdisc show` or `tc class show`: object, kind, handle, interface, place, options.
SHOWN = re.compile(
    r"(?m)^[ \t]*(qdisc|class) (\w+) ([0-9a-f]*:[0-9a-f]*) (?:dev (\S+) )?(root|parent \S+)(.*)$"
)
# Kinds that an interface has without any setting.
IDLE_KINDS = ("noqueue", "pfifo_fast", "mq", "ingress", "clsact")
PRINTS = ("echo", "printf", "print", "logger", "log", "cat", "#")
# Options of docker, kubectl and ssh that are followed by a value.
WITH_VALUE = ("-u", "--user", "-e", "--env", "-w", "--workdir", "-p", "-i", "-o", "-l", "-n", "-c")
# Calls of Mininet with a link's parameters, and parameters that do not change its qdiscs.
LINK_CALLS = ("addLink", "TCLink", "TCIntf", "custom", "partial")
LINK_PARAMETERS = {"bw", "delay", "jitter", "loss", "max_queue_size"}
OF_NAMES = (
    "cls", "link", "intf", "intfName1", "intfName2", "port1", "port2", "addr1", "addr2", "fast",
    "use_htb", "disable_gro",
)  # fmt: skip


def value(text: str, units: Mapping[str, float]) -> float:
    """Return a number in the unit of `units`; ValueError says why there is none."""
    match = NUMBER.fullmatch(text)
    if UNCLEAR.search(text):
        raise ValueError(f"{text} {UNKNOWN}")
    if match is None or match[2].lower() not in units:
        raise ValueError(f"{text} must be a number with a unit of tc ({', '.join(units)})")
    if match[1].startswith("-"):
        raise ValueError(f"{text} must not be negative")
    return float(match[1]) * units[match[2].lower()]


@dataclass
class Node:
    """A qdisc, class or filter: its place, and its options with their words."""

    egress: str  # interface, with the name of its namespace or container
    kind: str
    parent: str = ""
    handle: str = ""  # `1:`, or `1:10` of a class
    options: dict[str, list[str]] = field(default_factory=dict)
    outside: list[str] = field(default_factory=list)  # words that belong to no option
    is_class: bool = False
    asked: str = ""  # kind and options in the words of the lines
    begun: set[str] = field(default_factory=set)  # options whose first word was taken
    unknown: dict[str, str] = field(default_factory=dict)  # options that cannot be read, as words

    @property
    def text(self) -> str:
        """Return the qdisc or class as words."""
        words = [word for name, its in self.options.items() for word in (name, *its)]
        return " ".join([f"{self.egress}: {self.kind}", *words])


@dataclass
class Lines:
    """Settings that the lines make."""

    nodes: dict[tuple[str, str], Node] = field(default_factory=dict)  # by egress and place
    filters: list[tuple[str, list[str]]] = field(default_factory=list)  # egress and words
    left: list[tuple[str, str]] = field(default_factory=list)  # words and reason
    # Interface and place of the qdiscs that a line deletes.
    deleted: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    commands: int = 0  # of tc

    @classmethod
    def of(cls, source: Source) -> Lines:
        """Return the settings that the commands of a file make."""
        made = cls(left=[*source.left], notes=[*source.notes], links=source.links,
                   hosts=source.hosts)  # fmt: skip
        for command in source.commands:
            made.add(command)
        made.notes += [
            f"a line deletes {place if place == 'root' else f'the qdisc at {place}'} of {egress} "
            "later: read as it was before"
            for egress, place in made.deleted
        ]
        return made

    def add(self, command: Command) -> None:
        """Add a command of tc."""
        words, host = command.words, command.host
        self.commands += 1
        what = next((o for o in OBJECTS if o.startswith(words[0])), "")
        given = "".join(words[1:2]) or "list"
        verb = next((v for v in (*ADDED, "delete") if v.startswith(given)), "")
        place, kind, rest = _place(words[2:])
        egress = f"{host}:{place['dev']}" if host and "dev" in place else place.get("dev", "")
        if what == "qdisc" and verb == "delete":
            self._delete(egress, words, place)
        if not what or verb not in ADDED or (what == "qdisc" and kind in ("ingress", "clsact")):
            return
        if command.refused:
            self.left.append((f"{egress}: {kind} {' '.join(rest)}", command.refused))
            return
        if not egress or place["dev"] in PLACES:
            self.left.append((" ".join(words), "tc needs an interface: dev NAME"))
            return
        for at in [at for at in self.deleted if at[0] == egress and verb == "add"]:
            if at[1] == "root" or _major_minor(place.get("parent", "root")) == at[1]:
                self.deleted.remove(at)
                gone = [key for key, node in self.nodes.items() if node.egress == egress
                        and at[1] in ("root", node.parent)]  # fmt: skip
                self.left += [(self.nodes.pop(key).text, LATER) for key in gone]
        if what == "filter":
            self.filters.append((egress, list(words[2:])))
            return
        handle = _major_minor(place.get("classid" if what == "class" else "handle", ""))
        by_handle = [
            n.parent for n in self.nodes.values() if (n.egress, n.handle) == (egress, handle)
        ] if handle else []  # fmt: skip
        named = "parent" in place or "root" in words or not by_handle
        parent = _major_minor(place.get("parent", "root")) if named else by_handle[0]
        if what == "class" and kind == "htb":
            parent = self._parent_class(egress, handle, parent)
        key = (egress, handle if what == "class" else f"below {parent}")
        made = options(kind, rest)
        node = Node(egress, kind, parent, handle, made, place["outside"].split(), what == "class")
        node.asked = " ".join([kind, *rest]).lower()
        before = self.nodes.get(key)
        if before and verb == "add":
            self.left.append((node.text, "tc refuses a second add at one place"))
            return
        if by_handle and parent != by_handle[0]:
            self.left.append((node.text, f"Linux refuses a second qdisc with the handle {handle}"))
            return
        if before and before.kind == kind == "netem":  # netem_change, net/sched/sch_netem.c
            node.options = {n: w for n, w in before.options.items() if n in NETEM_KEEPS} | made
        if before and before.text != node.text:
            self.left.append((before.text, LATER))
        self.nodes[key] = node

    def _parent_class(self, egress: str, handle: str, parent: str) -> str:
        """Return the parent of a class of HTB: the qdisc, if there is no such class.

        htb_change_class, net/sched/sch_htb.c
        """
        major, _, minor = parent.partition(":")
        if not minor or (egress, parent) in self.nodes:
            return parent
        self.notes.append(f"{egress}: the class {handle} has no parent class, because {parent} "
                          "does not exist")  # fmt: skip
        return f"{major}:"

    def _delete(self, egress: str, words: Sequence[str], place: Mapping[str, str]) -> None:
        """Note that the qdiscs at a place are deleted; a later add there replaces them."""
        handle = _major_minor(place.get("handle", ""))
        by_handle = [n.parent for n in self.nodes.values()
                     if handle and (n.egress, n.handle) == (egress, handle)]  # fmt: skip
        parent = "root" if "root" in words else _major_minor(place.get("parent", ""))
        at = (egress, parent or "".join(by_handle[:1]))
        if at not in self.deleted and any(node.egress == egress for node in self.nodes.values()):
            self.deleted.append(at)


def _major_minor(text: str) -> str:
    major, _, minor = text.partition(":")
    return f"{major}:{minor if minor != '0' else ''}" if ":" in text else text


def _place(words: Sequence[str]) -> tuple[dict[str, str], str, list[str]]:
    """Split words into the place, the kind, and its options."""
    found, outside, at = {"outside": ""}, [], 0
    while at < len(words):
        word = words[at]
        if word in PLACES and at + 1 < len(words):
            found[word] = words[at + 1]
            at += 1
        elif word == "stab":
            end = next((i for i in range(at, len(words)) if words[i] in OPTIONS), len(words))
            outside, at = list(words[at:end]), end - 1
        elif word not in ("root", "egress"):
            found["outside"] = " ".join(outside)
            return found, word, list(words[at + 1 :])
        at += 1
    return found, "", []


def options(kind: str, words: Sequence[str]) -> dict[str, list[str]]:
    """Return the options of a qdisc with their words; as in tc, names may be abbreviated."""
    aliases = ALIASES.get(kind, {})
    names = {name: name for name in OPTIONS.get(kind, "").split()} | aliases
    found: dict[str, list[str]] = {}
    current = ""
    for word in words:
        near = [name for name in names if len(word) > 2 and name.startswith(word)]
        name = names.get(word) or (names[near[0]] if near else "")
        if name and not (current == "distribution" and not found[current]):
            current = name
            found[current] = []
        elif current:
            found[current].append(word)
        else:
            found[word] = []
    return found


def read(text: str, given: Mapping[str, str]) -> Source:
    """Read a shell script, a Mininet program, a Compose file, or what `tc` shows.

    `given` has values of the script's variables, which override its own.
    """
    text = CONTROL.sub(" ", text)  # names of interfaces stand in messages
    source = Source()
    if shown_ := SHOWN.findall(text):
        _add_shown(source, shown_)
        return source
    for call in _mininet(text, source):
        add_link(source, *call)
    parts = [("", text)]
    if re.search(r"(?m)^services:", text):  # the services of Compose have interfaces of their own
        _, *named = re.split(r"(?m)^  ([\w.-]+):[ \t]*$", text)
        parts = [("", _), *zip(named[::2], named[1::2], strict=True)]
    for host, part in parts:
        _lists(source, part, host)
        _shell(source, part, dict(given), given, host)
    if not source.commands and not source.left:  # `# tc ...`: root's prompt, not a comment
        _shell(source, re.sub(r"(?m)^\s*#+ ?", "", text), dict(given), given)
    return source


def _add_shown(source: Source, lines: Sequence[Sequence[str]]) -> None:
    """Add the qdiscs and classes that `tc qdisc show` and `tc class show` print."""
    device = ""
    for what, kind, handle, named, place, words in lines:
        device = named or device or "eth0"
        options_ = re.sub(r"\b(refcnt|seed|direct_packets_stat|leaf|prio) \S+", "", words).split()
        if kind not in IDLE_KINDS:
            name = "classid" if what == "class" else "handle"
            start = [what, "add", "dev", device, *place.split(), name, handle, kind]
            source.commands.append(Command([*start, *options_]))


def _lists(source: Source, text: str, host: str) -> None:
    """Add the commands that a file has as lists of words, as Compose and programs do."""
    found = re.findall(r"\[[^\[\]]*\btc\b[^\[\]]*\]", text)
    blocks = re.findall(r"(?m)^[ \t]*- [\"']?(?:/?\w*/)*tc[\"']?[ \t]*\n(?:[ \t]*- .*\n?)+", text)
    lists = [re.findall(r"(?m)^[ \t]*- (.*?)[ \t]*$", block) for block in blocks]
    for each in found:
        try:
            words = ast.literal_eval(each)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            lists.append(words)
    for words in lists:
        command = [word.strip("\"'") for word in words]
        if " " not in command[-1] or command[0].endswith("tc"):
            _command(source, command, {}, {}, host)


def _shell(
    source: Source,
    text: str,
    variables: dict[str, str],
    given: Mapping[str, str],
    host: str = "",
) -> None:
    for line in re.sub(r"\\\s*\n", " ", text).splitlines():
        raw = _expanded(line, variables) if len(line) <= LINE_MAX else line
        if len(raw) > LINE_MAX:
            if "tc" in raw:
                reason = f"a line of over {LINE_MAX} characters"
                source.left.append((f"{raw[:60]} ...", reason))
            continue
        bare = REDIRECTION.sub(" ", PROMPT.sub("", raw))
        lexer = shlex.shlex(bare, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = [*lexer, ";"]
        except ValueError as error:
            if re.search(r"\btc +(qdisc|class|filter)", bare):
                source.left.append((bare.strip(), f"not a line of a shell: {error}"))
            continue
        command: list[str] = []
        before = len(source.commands), len(source.notes)
        for word in words:
            if word and not set(word) <= set("();<>|&"):
                command.append(word)
            else:
                _command(source, command, variables, given, host)
                command = []
        is_assignment = len(words) == 2 and ASSIGNMENT.fullmatch(words[0])
        unread = not is_assignment and before == (len(source.commands), len(source.notes))
        if unread and COMMAND.search(" ".join(words)) and not _is_list(line):
            source.left.append((bare.strip(), NO_COMMAND))


def _is_list(line: str) -> bool:
    """Return whether a line has a command as a list, which is read as one."""
    try:
        found = re.findall(r"\[[^\[\]]*\btc\b[^\[\]]*\]", line)
        return bool(found) and isinstance(ast.literal_eval(found[0]), list)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False


def _command(  # noqa: PLR0912 (a form each)
    source: Source,
    words: list[str],
    variables: dict[str, str],
    given: Mapping[str, str],
    host: str = "",
) -> None:
    while words and (words[0] in ("export", "local", "readonly", "declare", "let", "-r", "-x")):
        words = words[1:]
    while words and (match := ASSIGNMENT.fullmatch(words[0])):
        if match[1] not in given:
            variables[match[1]] = match[3]
            if match[2] or re.search(r"\$|`", match[3]):  # it is computed
                del variables[match[1]]
        words = words[1:]
    if words[1:2] and ASSIGNMENT.fullmatch(f"x{words[1]}") and words[0] not in given:
        variables.pop(words[0], None)  # `(( x = y ))`
    first = PurePath(words[0]).name if words else ""
    if first in PRINTS:
        if COMMAND.search(" ".join(words)):
            source.notes.append(f"a line prints this and does not run it: {' '.join(words[1:])}")
        return
    if others.read_command(source, first, words):
        return
    for at, word in enumerate(words):
        program = PurePath(word).name.lstrip("$").lower()
        inside = _host(words[:at]) or host
        if " " in word:  # a command in quotes, as of `sh -c`
            _shell(source, word, variables, given, inside)
        elif word.startswith("tc,") and "--link" in words:
            pairs = [pair.partition("=") for pair in word.split(",")[1:]]
            add_link(source, ("h1", "s1"), {name: text for name, _, text in pairs})
        elif program == "tc" or (at == 0 and word in OBJECTS and len(words) > 2):
            rest = words[at + (program == "tc") :]
            while rest and rest[0].startswith("-"):
                if rest[0] in ("-n", "-netns"):
                    inside, rest = "".join(rest[1:2]), rest[1:]
                rest = rest[1:]
            if rest:
                source.commands.append(Command(rest, inside))
            return


def _host(before: Sequence[str]) -> str:
    """Return the namespace, container or machine that words before a command name."""
    for entry in ("exec", "ssh"):
        if entry in before:
            rest = iter(before[before.index(entry) + 1 :])
            for word in rest:
                if word in WITH_VALUE:
                    next(rest, None)
                elif not word.startswith("-"):
                    return word.rpartition("@")[2]
    return ""


def _expanded(line: str, variables: dict[str, str]) -> str:
    def expand(match: re.Match[str]) -> str:
        if match["sum"] is not None:
            return _sum(match["sum"], variables)
        name = match["braced"] or match["plain"]
        if match["how"] == "=":
            variables.setdefault(name, match["default"])
        if match["how"] == "+":
            return _expanded(match["default"], variables) if name in variables else ""
        default = match["default"] if match["how"] in ("-", "=") else f"${name}"
        return variables.get(name, default)

    return EXPANSION.sub(expand, line)


def _sum(text: str, variables: Mapping[str, str]) -> str:
    """Return the value of a shell's arithmetic; if it is not known, its text, which is none."""
    numbers = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", lambda its: variables.get(its[1], its[0]), text)

    def of(node: ast.expr) -> int:
        if isinstance(node, ast.BinOp):
            return OPERATIONS[type(node.op)](of(node.left), of(node.right))
        return int(ast.unparse(node))

    try:
        return str(of(ast.parse(numbers.strip(), mode="eval").body))
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, RecursionError, MemoryError):
        return f"$(({text.replace(' ', '')}))"


def _parsed(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _mininet(text: str, source: Source) -> list[tuple[tuple[str, ...], dict[str, str]]]:
    """Return the ends and the parameters of each link in a Mininet program; none in other text.

    An interface that `config` sets is one end. The nodes that `addHost` makes are hosts.
    """
    lines = text.splitlines() if "addLink" in text else []  # of Python 2, too
    body = _parsed(textwrap.dedent(text)) or [
        each for line in lines for each in _parsed(line.strip())
    ]
    nodes = [node for statement in body for node in ast.walk(statement)]
    named = dict[str, ast.expr]()
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = [*zip(target.elts, node.value.elts, strict=False)]
                for name, its in pairs:
                    key = ast.unparse(name)
                    # A name with two values has none that a reader knows.
                    named[key] = ast.Name(f"{key}") if key in named else its
    source.hosts |= {
        name for name, its in named.items()
        if isinstance(its, ast.Call) and ast.unparse(its.func).endswith("addHost")
    }  # fmt: skip
    looped = {
        id(node) for loop in nodes if isinstance(loop, LOOPS) for node in ast.walk(loop)
    }  # fmt: skip
    found: list[tuple[tuple[str, ...], dict[str, str]]] = []
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda each: each.lineno):
        owner, _, function = ast.unparse(call.func).rpartition(".")
        parameters = {n: v for n, v in _keywords(call, named) if n not in OF_NAMES}
        if function == "config" and parameters.keys() & LINK_PARAMETERS:
            found.append(((owner,), parameters))
        elif function in LINK_CALLS and id(call) in looped:
            source.left.append((ast.unparse(call), LOOPED))
        elif function in LINK_CALLS:
            ends = [*(ast.unparse(each).strip("'\"") for each in call.args), "one end", "other end"]
            if parameters or function == "addLink":
                found.append(((ends[0], ends[1]), parameters))
    return found


def _keywords(call: ast.Call, named: Mapping[str, ast.expr]) -> Iterator[tuple[str, str]]:
    """Yield the keyword arguments of a call; `**name` is a `dict(...)` that the program assigns."""
    for keyword in call.keywords:
        its = keyword.value
        its = named.get(its.id, its) if isinstance(its, ast.Name) else its
        if keyword.arg is not None:
            text = str(its.value) if isinstance(its, ast.Constant) else ast.unparse(its)
            yield keyword.arg, text.replace(" ", "")
        elif isinstance(its, ast.Call):
            yield from _keywords(its, {})


def _plain(text: str) -> float | None:
    """Return a number without a unit, or None if the text is none."""
    number = NUMBER.fullmatch(text)
    return float(number[1]) if number and not number[2] else None


def add_link(source: Source, ends: tuple[str, ...], parameters: Mapping[str, str]) -> None:
    """Add the qdiscs that Mininet's TCLink sets on one or both ends of a link."""
    its = {name: text for name, text in parameters.items() if text not in ("None", "False")}
    if _plain(its.get("loss", "")) == 0:
        del its["loss"]  # as Mininet does
    bw, parent, commands = its.pop("bw", None), "root", list[str]()
    if bw is not None and its.pop("use_tbf", ""):
        rate = _plain(bw) or 1.0
        latency = its.pop("latency_ms", f"{120 / max(rate, 1e-9):.9f}")
        commands.append(f"root handle 5: tbf rate {bw}Mbit burst 15000 latency {latency}ms")
        parent = "parent 5:1"
    elif bw is not None:
        commands += ["root handle 5:0 htb default 1",
                     f"parent 5:0 classid 5:1 htb rate {bw}Mbit burst 15k"]  # fmt: skip
        parent = "parent 5:1"
    parts = (("delay {}", "delay"), ("{}", "jitter"), ("loss {}", "loss"),
             ("limit {}", "max_queue_size"))  # fmt: skip
    netem = [text.format(its.pop(name)) for text, name in parts if name in its]
    if netem:
        commands.append(f"{parent} handle 10: netem {' '.join(netem)}")
    names = ends
    if len(ends) == 2:
        names = (f"{ends[0]}-{ends[1]}", f"{ends[1]}-{ends[0]}" + " back" * (ends[0] == ends[1]))
        source.links.append(Link((ends[0], ends[1]), (names[0], names[1])))
    for name in names:
        for command in commands:
            what = "class" if "classid" in command else "qdisc"
            source.commands.append(Command([what, "add", "dev", name, *command.split()]))
    source.left += [(f"{names[0]}: {name}={text}", "no axis") for name, text in its.items()]
