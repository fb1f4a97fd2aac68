"""Command lines of programs that set tc, or that emulate a path without it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from losslab.reading import UsageError
from losslab.tools.paths.sources import Command, Source

# Defaults of pumba's `netem delay` (github.com/alexei-led/pumba).
PUMBA_DELAY = {"time": "100", "jitter": "10", "correlation": "20"}
PUMBA_UNITS = {"time": "ms", "jitter": "ms", "correlation": "%", "percent": "%"}
PUMBA_SHORT = {"-t": "time", "-j": "jitter", "-c": "correlation", "-p": "percent", "-r": "rate"}
MAHIMAHI_QUEUES = {"droptail": "fifo", "codel": "codel", "pie": "pie"}


def read_command(source: Source, program: str, words: Sequence[str]) -> bool:
    """Add the tc commands that a program's command line makes; False if it is none of these."""
    if program in ("sudo", "exec") and len(words) > 1:
        return read_command(source, words[1].rpartition("/")[2], words[1:])
    if program == "tcset":
        _tcset(source, words[1:])
    elif program in ("pumba", "docker") and "netem" in words and "pumba" in " ".join(words):
        _pumba(source, words[words.index("netem") + 1 :])
    elif program in ("mm-delay", "mm-link", "mm-loss", "mm-onoff"):
        _mahimahi(words)
    else:
        return False
    return True


def require_no_proxies(data: object) -> None:
    """Refuse the JSON of toxiproxy, whose proxies end each connection."""
    rows = data if isinstance(data, list) else [data]
    if any(isinstance(row, dict) and {"listen", "upstream"} <= row.keys() for row in rows):
        raise UsageError(
            "the file must describe a path, found the proxies of toxiproxy, which end TCP "
            "connections and delay their bytes",
            hint="no packet is delayed or lost there; for a path with the latency of a toxic, use "
            "--rtt-ms, and --rate-mbit for its bandwidth (rate is in KB/s)",
        )


def _add(source: Source, host: str, *lines: str) -> None:
    source.commands += [Command(line.split(), host) for line in lines]


def _options(
    words: Sequence[str], short: Mapping[str, str], flags: Sequence[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """Return the options with their values, and the other words."""
    options, others, rest = dict[str, str](), list[str](), iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        name = short.get(name, name.lstrip("-")) if name.startswith("-") else ""
        if not name:
            others.append(word)
        elif name in flags:
            options[name] = ""
        else:
            options[name] = value if equals else next(rest, "")
    return options, others


def _tcset(source: Source, words: Sequence[str]) -> None:
    """Add what tcconfig's tcset sets: a class of HTB with netem below (its Mbps are Mbit/s)."""
    flags = ("change", "overwrite", "add", "docker", "tc-command", "tc-script", "debug", "quiet",
             "ipv6", "is-ipv6")  # fmt: skip
    options, others = _options(words, {"-d": "device"}, flags)
    device = options.pop("device", "".join(others[:1])) or "eth0"
    direction = options.pop("direction", "outgoing")
    host = device if "docker" in options else ""
    device = "eth0" if "docker" in options else device
    parent, lines = "root", list[str]()
    if direction == "incoming":
        lines = [f"qdisc add dev {device} ingress",
                 f"filter add dev {device} parent ffff: matchall action mirred egress redirect "
                 "dev ifb0"]  # fmt: skip
        device = "ifb0"
    if rate := options.pop("rate", options.pop("bandwidth", "")):
        tc_rate = re.sub(r"(?i)bps$", "bit", rate)
        lines += [f"qdisc add dev {device} root handle 1: htb default 1",
                  f"class add dev {device} parent 1: classid 1:1 htb rate {tc_rate}"]  # fmt: skip
        parent = "parent 1:1"
    netem = []
    if delay := options.pop("delay", ""):
        around = options.pop("delay-distro", options.pop("delay-distribution", ""))
        netem.append(f"delay {delay} {around} distribution normal" if around else f"delay {delay}")
    for name, word in (("loss", "loss"), ("duplicate", "duplicate"), ("corrupt", "corrupt"),
                       ("reordering", "reorder"), ("limit", "limit")):  # fmt: skip
        if value := options.pop(name, ""):
            netem.append(f"{word} {value}")
    if netem:
        lines.append(f"qdisc add dev {device} {parent} handle 2: netem {' '.join(netem)}")
    _add(source, host, *lines)
    for name, value in options.items():
        if name not in flags:
            source.left.append((f"{device}: tcset --{name} {value}".rstrip(), "no axis"))


def _pumba(source: Source, words: Sequence[str]) -> None:
    """Add the netem that pumba sets on the interface of each container."""
    kinds = ("delay", "loss", "loss-state", "loss-gemodel", "rate", "duplicate", "corrupt")
    at = next((at for at, word in enumerate(words) if word in kinds), None)
    if at is None:
        source.left.append((f"pumba netem {' '.join(words)}", "no axis"))
        return
    common, _ = _options(words[:at], {"-i": "interface", "-t": "target"})
    kind = words[at]
    given, hosts = _options(words[at + 1 :], PUMBA_SHORT)
    text = f"pumba netem {kind}"
    if kind == "delay":
        unset = [f"--{name} {value}" for name, value in PUMBA_DELAY.items() if name not in given]
        if unset:
            source.notes.append(f"{text}: its defaults {', '.join(unset)} apply")
        values = PUMBA_DELAY | given
        netem = "delay " + " ".join(
            f"{values.pop(name)}{PUMBA_UNITS[name]}" for name in PUMBA_DELAY
        )
        if distribution := values.pop("distribution", ""):
            netem += f" distribution {distribution}"
        given = {name: value for name, value in values.items() if name not in PUMBA_DELAY}
    elif kind == "rate":
        netem = f"rate {given.pop('rate', '100kbit')}"
    elif "percent" in given:
        netem = f"{kind} {given.pop('percent')}%"
        if correlation := given.pop("correlation", ""):
            netem += f" {correlation}%"
    else:
        source.left.append((f"pumba netem {' '.join(words)}", "no axis"))
        return
    for host in hosts or [""]:
        _add(source, host, f"qdisc add dev {common.get('interface', 'eth0')} root netem {netem}")
    source.left += [(f"{text} --{name} {value}", "no axis") for name, value in given.items()]
    if common.keys() & {"target", "egress-port", "ingress-port"}:
        source.notes.append(f"{text} holds for some packets only, by address or port")


def _mahimahi(words: Sequence[str]) -> None:
    """Say which options of losslab have the path of nested shells of mahimahi."""
    found, delay_ms, at = list[str](), 0.0, 0
    words = words[: words.index("--")] if "--" in words else words
    while at < len(words):
        word, rest = words[at], words[at + 1 :]
        if word == "mm-delay" and rest:
            with_number = re.fullmatch(r"\d+(\.\d+)?", rest[0])
            delay_ms += float(rest[0]) if with_number else 0.0
            if not with_number:
                found.append(f"--rtt-ms (twice {rest[0]})")
        elif word == "mm-loss" and len(rest) > 1:
            back = " --loss-direction back" if rest[0] == "downlink" else ""
            share = re.fullmatch(r"0?\.\d+|[01]", rest[1])
            percent = f"{100 * float(rest[1]):g}" if share else f"(100 times {rest[1]})"
            found.append(f"--loss-percent {percent}{back}")
        elif word == "mm-link":
            files = [each for each in rest if not each.startswith("-")][:2]
            for name, file in zip(("--trace", "--trace-back"), files, strict=False):
                found.append(f"{name} {file}")
            found += _queue(rest)
        at += 1
    if delay_ms:
        found.insert(0, f"--rtt-ms {2 * delay_ms:g}")
    raise UsageError(
        f"the lines must set a qdisc, found a command of mahimahi, {words[0]}",
        hint=f"measure this path with `losslab measure --algorithm cubic {' '.join(found)} --out "
        "mahimahi`: data goes up; swap the traces if it comes down. mahimahi's queues have no "
        "limit by default, losslab's have 1000 packets",
    )


def _queue(words: Sequence[str]) -> list[str]:
    """Return losslab's options for the queue of mm-link's uplink."""
    options, _ = _options(words, {}, ("once", "meter-all"))
    found = []
    kind = options.get("uplink-queue", "infinite")
    if MAHIMAHI_QUEUES.get(kind, "fifo") != "fifo":
        found.append(f"--queue {kind}")
    sizes = dict(
        pair.partition("=")[::2] for pair in options.get("uplink-queue-args", "").split(",")
    )
    if packets := sizes.get("packets"):
        found.append(f"--buffer-packets {packets}")
    elif octets := sizes.get("bytes"):
        found.append(f"--buffer-packets {octets}B --queue bfifo")
    return found
