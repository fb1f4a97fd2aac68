"""Plot past and futures of a replicate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from losslab.campaign.futures import Future
from losslab.campaign.symptoms import samples
from losslab.ui import plot

COLUMNS = ("run", "future", "cut_s", "panel", "t_s", "value")
# Panels: title, column of tcp.csv and its factor.
PANELS = (
    ("Delivered data (MB)", "delivered_bytes", 1e-6),
    ("Congestion window (packets)", "cwnd_packets", 1.0),
)


def figure(futures: Sequence[Future], at_s: float, paths: Sequence[Path]) -> None:
    """Plot futures of one past, the untouched first, to files of the suffixes' formats.

    Raises LosslabError if the replicate has no TCP connection.
    """
    rows = [row for number, each in enumerate(futures) for row in _rows(number, each, at_s)]
    plot.draw("futures.R", COLUMNS, rows, paths)


def _rows(number: int, future: Future, at_s: float) -> Iterator[dict[str, Any]]:
    for row in samples(future.folder):
        for title, column, factor in PANELS:
            yield {
                "run": number, "future": future.change.label, "cut_s": at_s, "panel": title,
                "t_s": float(row["t_s"]), "value": factor * float(row[column]),
            }  # fmt: skip
