"""Scorecards: the results of a suite's criteria as JSON, and their comparison with older ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from losslab import __version__
from losslab.errors import LosslabError
from losslab.reading import read_json
from losslab.study.schemas import check_schema

# The study with the cells of a score.
STUDY = "score"
FORMAT = 1
VERDICTS = ("meets", "misses", "inconclusive", "not measured")
MEETS = VERDICTS[0]
# Changes below this share of the recorded value are ignored. Otherwise any change of a value
# without variance, whose confidence interval has no width, would count.
MIN_CHANGE = 0.01

Card = dict[str, Any]
Row = Mapping[str, str]


def scorecard(
    suite: Mapping[str, Any],
    form: str,
    tested: Sequence[str],
    rows: Sequence[Row],
    cells: Sequence[Row],
) -> Card:
    """Build the scorecard of algorithms from the tables of criteria and of cells.

    `form` is that of the suite. Raises LosslabError if the result violates the schema of
    scorecards.
    """
    counts = {row["cell"]: row for row in cells if row["cell"]}
    baselines = [name for name in suite["baselines"] if name not in tested]
    order = [*tested, *baselines]
    by_criterion = {(row["criterion"], row["algorithm"]): row for row in rows}
    entries = [
        _entry(by_criterion[criterion["id"], algorithm], by_criterion, suite["baselines"], counts)
        for algorithm in order
        for criterion in suite["criteria"]
        if (criterion["id"], algorithm) in by_criterion
    ]
    card = {
        "format": FORMAT,
        "suite": suite["suite"],
        "source": suite["source"],
        "form": form,
        "losslab": __version__,
        "tested": list(tested),
        "baselines": baselines,
        "criteria": entries,
        "not_covered": suite["not_covered"],
    }
    check_schema(card, "scorecard", "the scorecard")
    return card


def _entry(
    row: Row,
    by_criterion: Mapping[tuple[str, str], Row],
    baselines: Sequence[str],
    counts: Mapping[str, Row],
) -> dict[str, Any]:
    """Return a criterion's result for one algorithm, with those of the baselines."""
    side = "at_most" if row["at_most"] else "at_least"
    baseline_rows = {
        name: by_criterion[row["criterion"], name]
        for name in baselines
        if name != row["algorithm"] and (row["criterion"], name) in by_criterion
    }
    copied = ("algorithm", "criterion", "section", "title", "metric", "unit", "verdict")
    return {
        **{key: row[key] for key in copied},
        **_numbers(row),
        "n": int(float(row["n"])),
        "limit": {side: float(row[side])},
        "limit_is": row["limit_is"],
        "limit_because": row["limit_because"],
        "reason": row["absent"],
        "baselines": {
            name: {**_numbers(one), "verdict": one["verdict"]}
            for name, one in baseline_rows.items()
        },
        "runs": [_runs(cell, counts[cell]) for cell in row["cells"].split()],
    }


def _numbers(row: Row) -> dict[str, float | None]:
    return {key: float(row[key]) if row[key] else None for key in ("value", "low", "high")}


def _runs(cell: str, row: Row) -> dict[str, Any]:
    folder = f"results/cells/{STUDY}/{cell}"
    return {
        "cell": cell,
        "folder": folder,
        "replicates": int(row["n_replicates"]),
        "valid": int(row["n_valid"]),
        "rerun": f"losslab rerun {folder}/0",
    }


def load(path: Path) -> Card:
    """Read a scorecard.

    Raises UsageError if the file does not exist or is not a scorecard of this format.
    """
    card: Card = read_json(path)
    hint = "`losslab score NAME --out DIR` writes DIR/scorecard.json"
    check_schema(card, "scorecard", str(path), hint)
    return card


def require_comparable(before: Card, suite: str, form: str) -> None:
    """Raise LosslabError for a scorecard of another suite or form, which is not comparable."""
    for key, value in (("suite", suite), ("form", form)):
        if before[key] != value:
            raise LosslabError(
                f"scorecards must have the same {key} to compare, found {value} now and "
                f"{before[key]} recorded",
                hint="use --quick if the recorded scorecard has the form quick, and only then",
            )


def regressions(now: Card, before: Card) -> list[str]:
    """List criteria that are worse than recorded, with confidence intervals that do not overlap.

    Raises LosslabError if the scorecards have different suites or forms, or no algorithm in common.
    """
    require_comparable(before, now["suite"], now["form"])
    entries = {(each["algorithm"], each["criterion"]): each for each in now["criteria"]}
    recorded = [each for each in before["criteria"] if each["algorithm"] in now["tested"]]
    if not recorded:
        raise LosslabError(
            f"the recorded scorecard must have {' or '.join(now['tested'])}, found "
            f"{', '.join(before['tested'])}"
        )
    return [
        f"{old['algorithm']}, {old['criterion']} ({old['section']}): {change}"
        for old in recorded
        for change in _regression(entries.get((old["algorithm"], old["criterion"])), old)
    ]


def _regression(new: dict[str, Any] | None, old: dict[str, Any]) -> Iterator[str]:
    """Yield how a criterion became worse; nothing if it did not."""
    if old["value"] is None:
        return
    if new is None or new["value"] is None:
        why = "no such criterion" if new is None else new["reason"]
        yield f"was {text(old)}, now has no result ({why})"
        return
    sign = 1 if "at_least" in old["limit"] else -1
    change = sign * (new["value"] - old["value"])
    if change >= -MIN_CHANGE * abs(old["value"]):
        return
    if None in (new["low"], new["high"], old["low"], old["high"]):
        # Without confidence intervals, compare the verdicts.
        is_worse = old["verdict"] == MEETS != new["verdict"]
    elif sign > 0:
        is_worse = new["high"] < old["low"]
    else:
        is_worse = new["low"] > old["high"]
    if is_worse:
        yield f"was {text(old)}, is {text(new)}"


def text(entry: Mapping[str, Any]) -> str:
    """Format a criterion's result with its confidence interval, such as 4.57 [4.1, 5.0] BDP."""
    if entry["value"] is None:
        return "no result"
    interval = ""
    if entry["low"] is not None and entry["low"] != entry["high"]:
        interval = f" [{entry['low']:.3g}, {entry['high']:.3g}]"
    unit = f" {entry['unit']}" if "unit" in entry else ""
    return f"{entry['value']:.3g}{interval}{unit}"


def table(card: Card) -> str:
    """Return a line for each criterion of the scored algorithms, and the counts of verdicts."""
    lines = []
    for algorithm in card["tested"]:
        entries = [each for each in card["criteria"] if each["algorithm"] == algorithm]
        lines.append(algorithm)
        for each in entries:
            side, limit = next(iter(each["limit"].items()))
            result = f"{text(each)}, {side.replace('_', ' ')} {limit:g}"
            lines.append(
                f"  {each['verdict']:13} {each['section']:6} {each['criterion']:18} {result}"
            )
        counts = Counter(each["verdict"] for each in entries)
        lines.append("  " + ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v]))
    return "\n".join(lines)
