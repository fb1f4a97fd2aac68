"""Lists of the packets that a path drops, and netem's record of them.

A list such as `data 12,57 ack 3` names packets by their number on a netem link, counted from the
start of the traffic. Kernel patch 0014 lets netem drop exactly these, and records every drop.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from losslab.emulation.topology import interface
from losslab.errors import LosslabError
from losslab.study.axes import NONE

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan

KERNEL_FILE = Path("/proc/netem_drops")
# Direction of a list: the direction of its netem link in `mechanism.netem_link`.
DIRECTIONS = {"data": "data", "ack": "back"}
NOTHING = "none"  # of a direction: no packet is dropped
EXAMPLE = "data 12,57 ack 3"
# Largest number in netem's lists, and the number of packets for which a request to a guest's kernel
# has room (SNAPSHOT_REQUEST_MAX, patch 0015).
MAX_NUMBER, MAX_PACKETS = 2**31 - 1, 10_000
# In a job's folder: the packets that were dropped; and of a changed future, whether its drops are
# part of its condition, and the congestion control of its flows if it is another.
TABLE, FUTURE = "drops.csv", "future.json"
COLUMNS = ("direction", "number", "listed", "outcome", "t_s", "bytes")

# Numbers of packets by direction; a direction that is absent loses packets at random.
Lists = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Drop:
    """A packet that netem dropped."""

    number: int
    size_bytes: int
    time_ns: int  # of CLOCK_MONOTONIC


@dataclass(frozen=True)
class Record:
    """Record of a netem link."""

    arrived: int  # number of the last packet
    drops: tuple[Drop, ...] = ()


def parse(text: str) -> dict[str, tuple[int, ...]]:
    """Parse lists, such as `EXAMPLE`; empty for `none`.

    Raises LosslabError if the text is not in the syntax; the message says what is wrong.
    """
    if text == NONE:
        return {}
    lists: dict[str, tuple[int, ...]] = {}
    words = text.split(" ")
    if len(words) % 2 or not text:
        raise LosslabError(f"drop_list must be as in {EXAMPLE}, found {text!r:.60}")
    for direction, numbers in zip(words[::2], words[1::2], strict=True):
        if direction not in DIRECTIONS or direction in lists:
            raise LosslabError(
                f"drop_list must name {' and '.join(DIRECTIONS)} once at most, as in {EXAMPLE}, "
                f"found {direction!r:.60}"
            )
        lists[direction] = _numbers(direction, numbers)
    if sum(map(len, lists.values())) > MAX_PACKETS:
        raise LosslabError(
            f"drop_list must list at most {MAX_PACKETS} packets, found "
            f"{sum(map(len, lists.values()))}"
        )
    return lists


def _numbers(direction: str, text: str) -> tuple[int, ...]:
    if text == NOTHING:
        return ()
    words = text.split(",")
    numbers = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 11]
    ascending = all(a < b for a, b in zip([0, *numbers], [*numbers, MAX_NUMBER + 1], strict=True))
    if len(numbers) < len(words) or not ascending:
        raise LosslabError(
            f"drop_list of {direction} must be rising packet numbers from 1, or {NOTHING}, found "
            f"{text!r:.60}"
        )
    return tuple(numbers)


def to_text(lists: Lists) -> str:
    """Return the text of lists: the inverse of `parse`."""
    parts = (f"{way} {','.join(map(str, its)) or NOTHING}" for way, its in lists.items())
    return " ".join(parts) or NONE


def device(direction: str, back_router: str) -> str:
    """Return the interface with the netem link of a direction."""
    if direction == "data":
        return interface("r2", "receiver").name
    return interface(back_router, "r1").name


def devices(plan: Plan) -> dict[str, str]:
    """Return the interfaces with netem links by direction; empty if the routers have none."""
    planned = {
        qdisc.where.name
        for host in plan.hosts.values()
        for qdisc in host.qdiscs
        if qdisc.kind == "netem" and qdisc.parent == "root"
    }
    found = {direction: device(direction, plan.back_router) for direction in DIRECTIONS}
    return {direction: name for direction, name in found.items() if name in planned}


def order(line: str) -> None:
    """Change a netem (`netem_order`, patch 0014), which takes no virtual time."""
    try:
        descriptor = os.open(KERNEL_FILE, os.O_WRONLY)
    except FileNotFoundError as error:
        raise LosslabError(
            "drop_list needs a kernel whose netem takes lists of packets, found "
            f"{os.uname().release} without {KERNEL_FILE}",
            hint="use the kernel 6.12 or 7.2, in a guest",
        ) from error
    os.write(descriptor, line.encode())
    os.close(descriptor)


def start_counting(plan: Plan) -> None:
    """Count the packets of the netem links from 1, and forget earlier drops."""
    for name in devices(plan).values():
        order(f"count {name}")


def drop_only(plan: Plan, lists: Lists) -> None:
    """Drop the listed packets and no others."""
    names = devices(plan)
    for direction, numbers in lists.items():
        order(f"only {names[direction]} {' '.join(map(str, numbers))}")


def records(plan: Plan, text: str) -> dict[str, Record]:
    """Parse the kernel's file to the records of a plan's netem links, by direction.

    Raises LosslabError if the packets of a record are not in the order in which they arrived.
    """
    directions = {name: direction for direction, name in devices(plan).items()}
    by_direction: dict[str, Record] = {}
    for block in text.split("netem ")[1:]:
        (name, arrived, _), *lines = (line.split() for line in block.splitlines())
        drops = (fields for word, *fields in lines if word == "dropped")
        if name in directions:
            dropped = tuple(Drop(*map(int, fields)) for fields in drops)
            record = Record(int(arrived), dropped)
            _require_order(name, record)
            by_direction[directions[name]] = record
    return {d: by_direction[d] for d in DIRECTIONS if d in by_direction}


def _require_order(name: str, record: Record) -> None:
    last_number, last_ns = 0, 0
    for drop in record.drops:
        if not last_number < drop.number <= record.arrived or drop.time_ns < last_ns:
            raise LosslabError(
                f"the kernel's record of the packets that {name} dropped must be in the order of "
                f"their arrival, found packet {drop.number} of {record.arrived} at "
                f"{drop.time_ns} ns after packet {last_number} at {last_ns} ns",
                hint=f"the netem of the kernel {os.uname().release} writes its record wrongly",
            )
        last_number, last_ns = drop.number, drop.time_ns


def rows(recorded: Mapping[str, Record], lists: Lists, origin_ns: int) -> Iterator[str]:
    """Yield the lines of a table with `COLUMNS`: packets dropped or listed, in ascending order.

    The outcome of a listed packet is `dropped`, `passed`, or `absent` if the link had fewer.
    """
    yield ",".join(COLUMNS)
    for direction, record in recorded.items():
        listed, dropped = set(lists.get(direction, ())), {d.number: d for d in record.drops}
        for number in sorted(listed | dropped.keys()):
            outcome = "absent" if number > record.arrived else "passed"
            when, size = "", ""
            if drop := dropped.get(number):
                outcome, size = "dropped", str(drop.size_bytes)
                when = f"{(drop.time_ns - origin_ns) / 1e9:.9f}"
            yield f"{direction},{number},{int(number in listed)},{outcome},{when},{size}"


def write(plan: Plan, lists: Lists, origin_ns: int, path: Path) -> dict[str, Record]:
    """Write the kernel's record as a table with `COLUMNS`, and return it."""
    recorded = records(plan, KERNEL_FILE.read_text())
    path.write_text("\n".join(rows(recorded, lists, origin_ns)) + "\n")
    return recorded
