"""A small model of tc and the kernel: what `tc -json` prints after a plan's commands.

It parses the text of commands, and raises `RefusedError` where tc or the kernel refuses or warns.
It shares no code with losslab's own conversions. tests/e2e/test_read_back.py compares it with the
image's tc. Sources: iproute2 6.15 (tc/, lib/utils_math.c, lib/json_writer.c) and Linux 6.12
(net/sched/).
"""

import math
import re

from losslab.emulation import qdiscs
from losslab.emulation.qdiscs import Filter
from losslab.emulation.topology import HOSTS

U32 = 0xFFFF_FFFF
TICKS_PER_US = 15.625
RATES = {"bit": 1, "mbit": 10**6, "gbit": 10**9}


class RefusedError(Exception):
    """tc or the kernel refuses a command, or warns."""


def g(value):
    """Return a number as jsonw_float prints it."""
    return float(f"{value:g}")


def u32(text):
    value = int(text)
    if not 0 <= value <= U32:
        raise RefusedError(f"{text} does not fit in 32 bits")
    return value


def share(text):
    value = float(text.removesuffix("%")) / 100
    if not 0 <= value <= 1:
        raise RefusedError(f"{text} is not a percentage")
    return round(value * U32)


def ns(text):
    assert text.endswith("ns")
    return int(text[:-2])


def rate(text):
    number, unit = re.fullmatch(r"([0-9.e+-]+?)([kmg]?bit)", text).groups()
    found = int(float(number) * RATES[unit] / 8)
    if found < 1:
        raise RefusedError(f"the rate {text} is 0 bytes/s")
    return found


def ticks(rate_bytes, size):
    found = math.ceil(TICKS_PER_US * (1e6 * (size / rate_bytes)))
    if found >= U32:
        raise RefusedError(f"a bucket of {size} bytes at {rate_bytes} bytes/s does not fit")
    return found


def _netem(words):  # noqa: PLR0912 -- one branch for each of its options
    names = ("delay", "jitter", "correlation", "loss", "duplicate", "reorder")
    options, values = {}, dict.fromkeys(names, 0)
    gap, gemodel = 0, None
    while words:
        word = words.pop(0)
        if word == "limit":
            options["limit"] = u32(words.pop(0))
        elif word == "delay":
            values["delay"] = ns(words.pop(0))
            if words and words[0][0].isdigit():
                values["jitter"] = ns(words.pop(0))
            if words and words[0].endswith("%"):
                values["correlation"] = share(words.pop(0))
        elif word == "distribution":
            assert words.pop(0) == "normal"
            if not values["jitter"]:
                raise RefusedError("distribution specified but no latency and jitter values")
        elif word == "loss":
            model = words.pop(0)
            if model == "random":
                values["loss"] = share(words.pop(0))
            else:
                assert model == "gemodel"
                gemodel = share(words.pop(0)), share(words.pop(0))
        elif word in ("duplicate", "reorder"):
            values[word] = share(words.pop(0))
        elif word == "gap":
            gap = u32(words.pop(0))
        elif word == "slot":
            slot_s = g(ns(words.pop(0)) / 1e9)
            options["slot"] = dict.fromkeys(("min-delay", "max-delay"), slot_s)
            options["slot"] |= {"packets": 0, "bytes": 0}
        elif word == "rate":
            options["rate"] = {"rate": rate(words.pop(0)), "packetoverhead": 0}
            options["rate"] |= {"cellsize": 0, "celloverhead": 0}
        else:
            assert word == "seed", word
            options["seed"] = int(words.pop(0))
    if values["reorder"] and not values["delay"]:
        raise RefusedError("reordering not possible without specifying some delay")
    if gap and not values["reorder"]:
        raise RefusedError("gap specified without reorder probability")
    if values["delay"]:
        options["delay"] = {name: g(values[name] / 1e9) for name in ("delay", "jitter")}
        options["delay"]["correlation"] = g(values["correlation"] / U32)
    for name, key in (
        ("loss", "loss-random"), ("duplicate", "duplicate"), ("reorder", "reorder"),
    ):  # fmt: skip
        if values[name]:
            options[key] = {name: g(values[name] / U32), "correlation": 0}
    if gemodel:
        enter, leave = gemodel
        options["loss-gemodel"] = {"p": g(enter / U32), "r": g(leave / U32), "1-h": 1, "1-k": 0}
    return options | {"gap": gap, "ecn": False}


def _red(its):
    limit, low, high, packet = (u32(its[name]) for name in ("limit", "min", "max", "avpkt"))
    burst = u32(its["burst"])
    rate(its["bandwidth"])
    average, weight = burst + 1 - low / packet, 0.5
    if average < 1:
        raise RefusedError("burst is too small")
    power = 1
    while average > (1 - (1 - weight) ** burst) / weight:
        power, weight = power + 1, weight / 2
        if power == 32:
            raise RefusedError("failed to calculate EWMA constant")
    if power >= 10:
        raise RefusedError("WARNING. Burst seems to be too large")
    # red_check_params, net/red.h
    if max(low.bit_length(), high.bit_length()) + power >= 32 or high < low:
        raise RefusedError("Invalid argument")
    chance = float(its["probability"]) / (high - low)
    if not any(chance * 2**power > 1 for power in range(32)):
        raise RefusedError("failed to calculate probability")
    return {"limit": limit, "min": low, "max": high, "ecn": "ecn" in its}


def options_of(kind, words):
    """Return the options of a qdisc as tc prints them."""
    if kind == "netem":
        return _netem(words)
    # The sixteen values of a priomap are compared with nothing.
    words = words[: words.index("priomap")] if "priomap" in words else words
    flags = {"ecn", "unlimited"}
    its, words = {w: "" for w in words if w in flags}, [w for w in words if w not in flags]
    its |= dict(zip(words[::2], words[1::2], strict=True))
    if kind == "red":
        return _red(its)
    if kind == "tbf":
        ticks(rate(its["rate"]), u32(its["burst"]))
        u32(its["limit"])
        return {"rate": rate(its["rate"])}
    if kind == "htb":
        return {"default": f"0x{its['default']}"}
    if kind == "cake":
        return {"bandwidth": "unlimited", "memlimit": u32(its["memlimit"])}
    assert kind in (
        "pfifo", "bfifo", "codel", "fq_codel", "pie", "fq", "drr", "dualpi2", "clsact", "link",
        "prio",
    ), kind  # fmt: skip
    limits = ("bands", "limit", "flow_limit", "memory_limit")
    found = {name: u32(its[name]) for name in limits if name in its}
    if "memory_limit" in found:  # fq_codel_change, net/sched/sch_fq_codel.c
        found["memory_limit"] = min(found["memory_limit"], 2**31)
    return found | ({"ecn": True} if "ecn" in its else {})


def class_of(words):
    """Return a class of HTB or DRR as tc prints it."""
    kind, its = words[0], dict(zip(words[1::2], words[2::2], strict=True))
    if kind == "drr":
        return {"quantum": u32(its["quantum"])}
    found = {"rate": rate(its["rate"]), "ceil": rate(its["ceil"])}
    for value in found.values():
        ticks(value, value // 10**9 + 1600)
    if "quantum" in its:
        u32(its["quantum"])
    elif not 1000 <= found["rate"] // 10 <= 200_000:
        raise RefusedError("quantum of class is big or small. Consider r2q change.")
    return found


def action_of(words):
    """Return a filter's actions as `qdiscs.read` returns them."""
    if "police" in words:
        its = {name: words[words.index(name) + 1] for name in ("rate", "burst")}
        speed = rate(its["rate"])
        burst = u32(its["burst"])
        kept = qdiscs.POLICE.pack(0, 2, 0, ticks(speed, burst), 2040, speed)
        return {"kind": "police"} | qdiscs._options("police", {qdiscs.TCA_POLICE_TBF: kept}, burst)
    every = int(words[-1])
    assert 1 <= every < 2**16
    return {"kind": "gact", "action": 2, "otherwise": 0, "one_of": every, "random": 2}


def shown(planned):
    """Return tc's qdiscs by host, its classes by interface, and the filters, of planned qdiscs."""
    qdiscs, classes, filters = {host: [] for host in (*HOSTS, "r4")}, {}, {}
    for qdisc in planned:
        host = qdisc.where.host
        for line in qdisc.command().splitlines():
            words = line.split()
            assert words[1] == "add" and words[3] == qdisc.where.name
            if words[0] == "qdisc":
                handle = words[words.index("handle") + 1]
                kind, *rest = words[words.index("handle") + 2 :]
                qdiscs[host].append(
                    {
                        "dev": words[3], "handle": handle, "kind": kind,
                        "options": options_of(kind, rest),
                    }
                )  # fmt: skip
            elif words[0] == "class":
                at = words.index("classid") + 1
                its = class_of(words[at + 1 :]) | {"handle": words[at]}
                classes.setdefault(words[3], []).append(its)
            elif isinstance(qdisc, Filter):
                filters[words[3]] = [action_of(words)]
    return qdiscs, classes, filters
