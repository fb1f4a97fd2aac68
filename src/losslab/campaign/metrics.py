"""The metrics of replicates' summaries: which are there, and which of them a cell is judged by."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from losslab.errors import LosslabError
from losslab.study.stopping import PRIMARY_METRICS

Summary = Mapping[str, Any]
# Far above any number that is measured; its square is still a float.
MAX_VALUE = 1e100
CLOSE_NAMES = 3


def value(summary: Summary, metric: str) -> float | None:
    """Return a metric; None where a summary has none, or no finite number."""
    found = summary.get(metric)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    # Compares exactly with integers of any size; false for nan.
    return float(found) if -MAX_VALUE < found < MAX_VALUE else None


def primary(summaries: Sequence[Summary]) -> str:
    """Return what replicates are judged by: the first primary metric that one of them has."""
    there = (m for m in PRIMARY_METRICS if any(value(each, m) is not None for each in summaries))
    return next(there, PRIMARY_METRICS[0])


def require_known(metric: str, summaries: Sequence[Summary]) -> None:
    """Refuse a metric that no summary has; without summaries, nothing is known.

    Raises:
        LosslabError: with the names that are most like it.
    """
    known = sorted({name for summary in summaries for name in summary})
    if metric in known or not known:
        return
    close = difflib.get_close_matches(metric, known, CLOSE_NAMES, cutoff=0.5)
    raise LosslabError(
        f"the metric must be in the summary of a valid replicate, found {metric}",
        hint=f"name one of {', '.join(close)}" if close else f"there are {', '.join(known)}",
    )
