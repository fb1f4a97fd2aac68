"""Table of a replicate's futures and the effects of their changes."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

from losslab.campaign import futures
from losslab.campaign.futures import Future
from losslab.campaign.tables import write_csv
from losslab.errors import LosslabError
from losslab.study import metrics
from losslab.study.intervals import Interval, difference_interval

COLUMNS = (
    "future", "draws", "metric", "value", "effect", "effect_low", "effect_high", "drops_after_cut",
    "retransmits",
)  # fmt: skip
HEAD = ("future", "n", "{}", "effect", "95 % CI", "drops", "retransmits")


@dataclass(frozen=True)
class Row:
    """A change's futures, compared with the same futures without it."""

    change: str
    values: list[float]
    effects: list[float]  # empty for futures without a change
    drops: float  # mean number of packets dropped after the cut
    retransmits: float | None

    @property
    def interval(self) -> Interval | None:
        """Return the confidence interval of the mean effect; None for few draws."""
        return difference_interval(self.effects)


def compare(
    untouched: Future, found: Sequence[Sequence[Future]], metric: str, at_s: float
) -> Iterator[Row]:
    """Yield the table's rows: the untouched future, and each change's."""
    yield _row([untouched], [], metric, at_s)
    for its in found:
        drawn = its[0].draw is not None
        compared = found[0] if drawn else [untouched]
        yield _row(its, [] if its[0].change is futures.REDRAWN else compared, metric, at_s)


def _row(its: Sequence[Future], bases: Sequence[Future], metric: str, at_s: float) -> Row:
    values, before = ([_value(each, metric) for each in group] for group in (its, bases))
    drops = [sum(drop.t_s > at_s for drop in each.drops) for each in its]
    again = [metrics.value(each.manifest["summary"], "retransmits") for each in its]
    counted = [each for each in again if each is not None]
    return Row(
        its[0].change.label, values, [a - b for a, b in zip(values, before, strict=False)],
        statistics.fmean(drops), statistics.fmean(counted) if counted else None,
    )  # fmt: skip


def _value(future: Future, metric: str) -> float:
    value = metrics.value(future.manifest["summary"], metric)
    if value is None or not future.manifest["valid"]:
        reasons = "; ".join(future.manifest["reasons"]) or f"no {metric}"
        raise LosslabError(f"the future {future.folder} must be valid, found: {reasons}")
    return value


def as_json(row: Row) -> dict[str, Any]:
    """Return a row as JSON-ready data."""
    return {
        "future": row.change, "draws": len(row.values), "value": statistics.fmean(row.values),
        "values": row.values, "effect": statistics.fmean(row.effects) if row.effects else None,
        "effect_interval": row.interval, "drops_after_cut": row.drops,
        "retransmits": row.retransmits,
    }  # fmt: skip


def write(rows: Sequence[Row], metric: str, path: Path) -> None:
    """Write rows as CSV with `COLUMNS`."""
    lines = []
    for row in rows:
        low, high = row.interval or ("", "")
        effect = statistics.fmean(row.effects) if row.effects else ""
        values = (row.change, len(row.values), metric, statistics.fmean(row.values), effect, low,
                  high, row.drops, row.retransmits)  # fmt: skip
        lines.append(dict(zip(COLUMNS, values, strict=True)))
    write_csv(path, COLUMNS, lines)


def text(rows: Sequence[Row], metric: str) -> str:
    """Return rows as a table for the terminal."""
    cells = [
        (
            row.change,
            len(row.values),
            f"{statistics.fmean(row.values):.4g}",
            f"{statistics.fmean(row.effects):+.4g}" if row.effects else "",
            "{:+.4g} to {:+.4g}".format(*row.interval) if row.interval else "",
            f"{row.drops:.4g}",
            "" if row.retransmits is None else f"{row.retransmits:.4g}",
        )
        for row in rows
    ]
    head = [each.format(metrics.declared()[metric].title) for each in HEAD]
    return str(tabulate(cells, head, tablefmt="plain", disable_numparse=True))
