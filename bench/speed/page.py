"""What `bench.speed` found, as a file for the report and as a page of the documentation."""

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

What a replicate costs on one machine, as `python -m bench.speed --write` measured it and wrote this
page: medians. Core-seconds are seconds of a processor, of a guest's kernel and processes together.
"""
# Each part with what its numbers are.
PARTS = {
    "machine": ("The machine", "`busy_with_others` is the part of it that others used before."),
    "fixed": (
        "A replicate's fixed cost",
        "Of a replicate that sends next to nothing: the boot of the guest that waits, once for a "
        "cell; then each copy of it, by phase. Times of the clock unless they say otherwise.",
    ),
    "containers": ("The same in containers", "Docker's engine and five containers in the guest."),
    "rates": (
        "A second of a flow",
        "One flow over three links and back, 20 ms, a buffer of a bandwidth-delay product: how "
        "many emulated seconds a core-second is enough for, and what a packet costs at each "
        "interface that sends it.",
    ),
    "flows": ("Flows", "The same at 100 Mbit/s, BBR without loss, with more flows."),
    "many-flows": (
        "Many flows",
        "A replicate of ten seconds with so many CUBIC flows over 100 Mbit/s, and its guest's most "
        "memory.",
    ),
    "durations": ("Duration", "A replicate of one BBR flow at 100 Mbit/s."),
    "pair": ("Two at once", "A cell alone, and two at the same time, by the clock."),
    "ns-3": (
        "ns-3",
        "The same path in ns-3, compiled against Debian's package (`bench/speed/path.cc`). Its "
        "goodput is its own model's. A row without numbers had not ended after five minutes.",
    ),
    "statistics": ("R", "Summary and ratios of many replicates."),
    "snakemake": ("Snakemake", "Per cell of a campaign whose cells take no time themselves."),
    "setup": ("`make setup`", "With nothing in the cache but what was downloaded."),
}


def rows(found: dict[str, Any]) -> list[Row]:
    """Flatten what was found into rows of part, row, quantity, value; None is an empty value."""
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
    """Read the committed file."""
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
    """Write the page of the documentation."""
    return HEAD + "\n" + tables(found)


def tables(found: Iterable[Row]) -> str:
    """Write a table for each part: of one row by quantity, of several a line each."""
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
