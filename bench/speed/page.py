"""Results of `bench.speed`, as a file for the report and a page of the documentation."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "report" / "speed.csv"
PAGE = ROOT / "docs" / "reference" / "speed.md"
COLUMNS = ("part", "row", "quantity", "value")
Row = tuple[str, str, str, str]

HEAD = """\
# Speed

This page shows how long losslab needs for a replicate, and for its parts, on one machine.
`python -m bench.speed --write` measured it and wrote this page. All numbers are medians. A
core-second is one second of CPU time, of a guest's kernel and processes together.
"""
# Title and introduction of each part.
PARTS = {
    "machine": (
        "Machine",
        "`busy_with_others` is the share of the CPUs that other programs used before the "
        "measurement.",
    ),
    "fixed": (
        "Fixed cost of a replicate",
        "These numbers are for a replicate with almost no traffic: a guest's boot, once for all "
        "cells, its set-up for a cell, and each fork by phase. Times are wall time unless the name "
        "says core.",
    ),
    "containers": (
        "Fixed cost in containers",
        "The same, with Docker's engine and five containers in the guest.",
    ),
    "rates": (
        "One second of a flow",
        "One flow passes three links in each direction, with a base RTT of 20 ms and a buffer of "
        "one bandwidth-delay product. The table shows the emulated seconds per core-second, and "
        "packet transmissions per emulated second and per core-second: each interface on the way "
        "transmits a packet once. Simulators are compared by this rate.",
    ),
    "flows": ("Several flows", "The same at 100 Mbit/s with BBR, without loss."),
    "many-flows": (
        "Many flows",
        "A replicate of 10 s with this number of CUBIC flows over 100 Mbit/s, and the maximum "
        "memory of its guest.",
    ),
    "durations": ("Duration", "A replicate of one BBR flow at 100 Mbit/s."),
    "pair": ("Two cells in parallel", "Wall time of one cell alone and of two at the same time."),
    "ns-3": (
        "ns-3",
        "The same path in ns-3, compiled with Debian's package (`bench/speed/path.cc`). The "
        "goodput is that of ns-3's own TCP model. A run that did not end within five minutes has "
        "no numbers.",
    ),
    "statistics": ("R", "Summary and ratios of many replicates."),
    "snakemake": ("Snakemake", "Cost per cell of a campaign whose cells take no time themselves."),
    "own-algorithm": (
        "A new algorithm",
        "Wall time on a machine after `make setup`: `losslab new algorithm`, its first "
        "`losslab measure` (10 s of virtual time), which compiles the algorithm into the kernel, "
        "and the next one.",
    ),
    "setup": ("`make setup`", "With an empty cache, except for downloads."),
}


def rows(found: dict[str, Any]) -> list[Row]:
    """Return results as rows of part, row, quantity and value; None is an empty value."""
    parts = {"machine": found["machine"] | {"runs": found["runs"]}} | found["parts"]
    return [
        (part, str(number), quantity, "" if value is None else str(value))
        for part, content in parts.items()
        for number, entry in enumerate(content if isinstance(content, list) else [content], 1)
        for quantity, value in _flat(entry).items()
    ]


def _flat(entry: dict[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in entry.items():
        flat |= (
            _flat(value, f"{before}{key}: ") if isinstance(value, dict) else {before + key: value}
        )
    return flat


def read(path: Path = FILE) -> list[Row]:
    """Read the recorded file."""
    with path.open(newline="") as file:
        return [(*row,) for row in csv.reader(file)][1:]  # type: ignore[misc]


def write(found: Sequence[Row]) -> None:
    """Write the file that the report reads, and the page."""
    with FILE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(found)
    PAGE.write_text(page(found))


def page(found: Iterable[Row]) -> str:
    """Return the documentation page."""
    return HEAD + "\n" + tables(found)


def tables(found: Iterable[Row]) -> str:
    """Return a table for each part: one row as quantities, several rows as lines."""
    parts: dict[str, dict[str, dict[str, str]]] = {}
    for part, row, quantity, value in found:
        parts.setdefault(part, {}).setdefault(row, {})[quantity] = value
    texts = []
    for part, entries in parts.items():
        title, words = PARTS[part]
        lines = list(entries.values())
        if len(lines) == 1:
            head, body = ["quantity", "value"], [[k, v] for k, v in lines[0].items()]
        else:
            head, body = list(lines[0]), [list(line.values()) for line in lines]
        table = [head, ["---"] * len(head), *body]
        text = "\n".join("| " + " | ".join(cell or "–" for cell in line) + " |" for line in table)
        texts.append(f"## {title}\n\n{words}\n\n{text}\n")
    return "\n".join(texts)
