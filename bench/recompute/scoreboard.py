"""The scoreboards: each published number that a campaign measured, as the ratio of ours to it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.recompute import intervals, verdicts
from bench.recompute.campaign import Campaign, Cell, Comparison, rows
from bench.recompute.published import Number

GRADES = {"within_5": 1.05, "within_25": 1.25, "within_2": 2.0}
# Columns that identify a number.
KEYS = ("source", "place", "cell", "metric", "over", "statistic")
GRADE_WORDS = ("within 5 %", "within 25 %", "within a factor of 2", "beyond")
Row = Mapping[str, str]


@dataclass(frozen=True)
class Score:
    """A fact of a source: ours over its number, for each of the numbers that state it.

    A ratio is None if the source's number is zero. Ends are None without an interval.
    """

    number: Number
    cell: Cell
    published: float
    measured: float
    ratio: float | None
    low: float | None
    high: float | None
    null: float | None
    numbers: int = 1

    @property
    def counts(self) -> bool:
        """Return whether nothing was fitted or configured to the number."""
        return not self.number.apart and self.ratio is not None

    @property
    def distance(self) -> float:
        """Return the ratio as a factor of at least one."""
        return distance(self.ratio or math.nan)

    @property
    def metric(self) -> str:
        """Return the metric as the table by source and metric names it."""
        over, statistic = self.number.over, self.number.statistic
        of_seconds = f", {statistic} of seconds" if statistic else ""
        return self.number.metric + (f" over {over}" if over else "") + of_seconds


def distance(ratio: float) -> float:
    """Return a ratio as a factor of at least one."""
    return max(ratio, 1 / ratio) if ratio > 0 else math.inf


def scores_of(campaign: Campaign, numbers: Iterable[Number]) -> list[Score]:
    """Return the facts of which the campaign has a cell; numbers of one fact are their mean."""
    alone: list[Score] = []
    facts: dict[tuple[str, str], list[Score]] = {}
    for each in numbers:
        if (score := _score(campaign, each)) is None:
            continue
        if each.fact:
            facts.setdefault((each.source, each.fact), []).append(score)
        else:
            alone.append(score)
    return alone + [_joined(scores) for scores in facts.values()]


def _score(campaign: Campaign, of: Number) -> Score | None:
    for block in of.blocks:
        claim: dict[str, Any] = {
            "kind": "value", "metric": of.metric, "where": {"block": block, **of.axes},
        }  # fmt: skip
        if of.over:
            claim |= {"kind": "smallest_ratio", "against": {"algorithm": of.over}}
        if (estimate := verdicts.measured(campaign, of.study, claim)) is None:
            continue
        [cell] = campaign.select(of.study, claim["where"])
        measured, ends = estimate.value, (estimate.low, estimate.high)
        if of.statistic:
            measured, ends = (
                intervals.statistics_of(cell.seconds_mbit)[of.statistic],
                (math.nan, math.nan),
            )
        elif verdicts.is_deterministic(campaign, of.study, claim):
            ends = (math.nan, math.nan)
        low, high, value = (
            None if math.isnan(end) or of.published <= 0 else end / of.published
            for end in (*ends, measured)
        )
        null = None if of.null is None or of.published <= 0 else of.null / of.published
        return Score(of, cell, of.published, measured, value, low, high, null)
    return None


def _joined(scores: Sequence[Score]) -> Score:
    """Join numbers that state one fact; a ratio without an interval is its own interval."""
    if len(scores) == 1:
        return scores[0]

    def mean(values: Iterable[float | None]) -> float:
        return statistics.geometric_mean([value or 0 for value in values])

    return Score(
        scores[0].number, scores[0].cell,
        mean(each.published for each in scores), mean(each.measured for each in scores),
        mean(each.ratio for each in scores),
        mean(each.ratio if each.low is None else each.low for each in scores),
        mean(each.ratio if each.high is None else each.high for each in scores),
        mean(each.null for each in scores), len(scores),
    )  # fmt: skip


def by_source(numbers: Sequence[Number], scores: Sequence[Score]) -> dict[tuple[str, str], Any]:
    """Return the counts of the scoreboard by study and source."""
    found = {}
    for study, source in {(each.number.study, each.number.source) for each in scores}:
        facts = [score for score in scores if score.number.source == source]
        distances = [score.distance for score in facts if score.counts]
        found[study, source] = {
            "published": sum(each.source == source for each in numbers),
            "measured": sum(score.numbers for score in facts),
            "counted": len(distances),
            "median": statistics.median(distances) if distances else None,
        } | _within(distances)
    return found


def by_metric(scores: Sequence[Score]) -> dict[tuple[str, str, str], Any]:
    """Return the counts of the scoreboard and of the null model by study, source and metric."""
    groups: dict[tuple[str, str, str], list[Score]] = {}
    for score in scores:
        if score.counts:
            key = score.number.study, score.number.source, score.metric
            groups.setdefault(key, []).append(score)
    found = {}
    for key, facts in groups.items():
        null = [distance(score.null) for score in facts if score.null is not None]
        counts = {"counted": len(facts)} | _within([score.distance for score in facts])
        of_null = {"counted": len(null)} | _within(null)
        found[key] = counts | {f"null_{name}": count for name, count in of_null.items()}
    return found


def _within(distances: Sequence[float]) -> dict[str, int]:
    return {name: sum(each <= factor for each in distances) for name, factor in GRADES.items()}


def compare(campaign: Campaign, numbers: Sequence[Number], scores: Sequence[Score]) -> Comparison:
    """Compare the scoreboards with the written ones.

    A record has the counts by source. Results have the counts by metric and each number, too.
    """
    found = Comparison()
    tables = campaign.folder / "tables" if campaign.results else campaign.folder
    name = "scoreboard_sources.csv" if campaign.results else "scoreboard.csv"
    _compare_counts(found, by_source(numbers, scores), rows(tables / name), ("study", "source"))
    if campaign.results:
        metrics = rows(tables / "scoreboard_metrics.csv")
        _compare_counts(found, by_metric(scores), metrics, ("study", "source", "metric"))
        _compare_numbers(found, scores, rows(tables / "scoreboard_numbers.csv"))
    return found


def _compare_counts(
    found: Comparison, counts: Mapping[Any, Any], written: Sequence[Row], keys: Sequence[str]
) -> None:
    by_key = {tuple(row[key] for key in keys): row for row in written}
    for key in sorted(counts.keys() | by_key.keys()):
        label = f"scoreboard of {', '.join(key[1:])}"
        row, own = by_key.get(key, {}), counts.get(key, {})
        for name in own or row.keys() - set(keys):
            found.number(f"{label}, {name},", own.get(name), row.get(name))


def _compare_numbers(found: Comparison, scores: Sequence[Score], written: Sequence[Row]) -> None:
    by_key: dict[tuple[str, ...], list[Row]] = {}
    for row in written:
        # Any of a fact's numbers may stand for it.
        names = ("source", "fact") if row["fact"] not in ("", "NA") else KEYS
        key = tuple("" if row[name] == "NA" else row[name] for name in names)
        by_key.setdefault(key, []).append(row)
    for score in scores:
        of = score.number
        key = (of.source, of.fact) if of.fact else (
            of.source, of.place, score.cell.name, of.metric, of.over, of.statistic
        )  # fmt: skip
        label = ", ".join(filter(None, key))
        row = by_key[key].pop() if by_key.get(key) else {}
        values = {
            "published": score.published, "measured": score.measured, "ratio": score.ratio,
            "low": score.low, "high": score.high, "null_ratio": score.null,
            "numbers": score.numbers,
        }  # fmt: skip
        for name, value in values.items():
            found.number(f"{label}, {name},", value, row.get(name))
        words = {"apart": of.apart, "because": of.because, "grade": _grade(score)}
        for name, word in words.items():
            found.word(f"{label}, {name},", word, row.get(name, ""))
    for key, others in by_key.items():
        for row in others:
            found.number(", ".join(filter(None, key)), None, row["published"])


def _grade(score: Score) -> str:
    if score.ratio is None:
        return ""
    return GRADE_WORDS[sum(score.distance > factor for factor in GRADES.values())]
