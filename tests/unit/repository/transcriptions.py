"""Tables of published numbers and of their second transcription."""

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def ours(study, axes):
    """Read a study's published numbers: name and numbers of each row."""
    with (ROOT / f"config/published/{study}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        (
            tuple(row[axis] for axis in axes),
            {
                name: float(text)
                for name, text in row.items()
                if text and name not in axes and re.fullmatch(r"-?[\d.]+", text)
            },
        )
        for row in rows
    ]


def theirs(name):
    """Read a table of the second transcription."""
    with (ROOT / f"tests/expected/published/{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def number(text):
    """Return the number of "7%", "22.6 Mbps" or "100 KB"."""
    return float(re.match(r"[\d.]+", text)[0])


def mbit(text):
    """Convert "285 Kbps" and "1 Gbps" to Mbit/s."""
    factor = {"K": 1e-3, "k": 1e-3, "M": 1.0, "G": 1e3}[re.search(r"[KkMG]", text)[0]]
    return number(text) * factor


def same(found, wanted):
    """Compare rows of names and numbers in any order."""

    def order(row):
        return row[0], sorted(row[1].items())

    assert sorted(name for name, _ in found) == sorted(name for name, _ in wanted)
    pairs = zip(sorted(found, key=order), sorted(wanted, key=order), strict=True)
    for (name, numbers), (_, expected) in pairs:
        assert numbers == pytest.approx(expected), name
