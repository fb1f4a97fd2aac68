"""Scorecards as data: what a suite's criteria found, for machines, and whether it became worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from losslab import __version__
from losslab.errors import LosslabError
from losslab.reading import read_json
from losslab.study.schemas import check_schema

# The study whose cells a score measures.
STUDY = "score"
FORMAT = 1
VERDICTS = ("meets", "misses", "undecided", "not measured")
MEETS = VERDICTS[0]
# Runs that do not scatter have intervals without width; what changes by less than this share of
# the recorded value is no change that anybody sees in a figure.
LEAST_CHANGE = 0.01

Card = dict[str, Any]
Row = Mapping[str, str]


def scorecard(
    suite: Mapping[str, Any],
    form: str,
    tested: Sequence[str],
    rows: Sequence[Row],
    cells: Sequence[Row],
) -> Card:
    """Put a score together. Raises LosslabError if it would not follow its own schema."""
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
    """Give a criterion's number for one algorithm, beside the baselines'."""
    side = "at_most" if row["at_most"] else "at_least"
    beside = {
        name: by_criterion[row["criterion"], name]
        for name in baselines
        if name != row["algorithm"] and (row["criterion"], name) in by_criterion
    }
    same = ("algorithm", "criterion", "section", "title", "metric", "unit", "verdict")
    return {
        **{key: row[key] for key in same},
        **_numbers(row),
        "n": int(float(row["n"])),
        "limit": {side: float(row[side])},
        "limit_is": row["limit_is"],
        "limit_because": row["limit_because"],
        "reason": row["absent"],
        "baselines": {
            name: {**_numbers(one), "verdict": one["verdict"]} for name, one in beside.items()
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
    """Read a scorecard. Raises UsageError if it is not there, or is none of this format."""
    card: Card = read_json(path)
    hint = "`losslab score NAME --out DIR` leaves DIR/scorecard.json"
    check_schema(card, "scorecard", str(path), hint)
    return card


def require_comparable(before: Card, suite: str, form: str) -> None:
    """Refuse a recorded scorecard of another suite or form, whose numbers do not compare.

    Raises LosslabError if it is one.
    """
    for key, value in (("suite", suite), ("form", form)):
        if before[key] != value:
            raise LosslabError(
                f"scorecards must be of one {key} to compare, found {value} now and {before[key]} "
                "recorded",
                hint="--quick or not, as it was recorded",
            )


def worse(now: Card, before: Card) -> list[str]:
    """Say what became worse than it was recorded, by more than the intervals.

    Raises LosslabError if they are of other suites or forms, whose numbers do not compare.
    """
    require_comparable(before, now["suite"], now["form"])
    found = {(each["algorithm"], each["criterion"]): each for each in now["criteria"]}
    asked = [each for each in before["criteria"] if each["algorithm"] in now["tested"]]
    if not asked:
        raise LosslabError(
            f"the recorded scorecard must have {' or '.join(now['tested'])}, found "
            f"{', '.join(before['tested'])}"
        )
    return [
        f"{old['algorithm']}, {old['criterion']} ({old['section']}): {words}"
        for old in asked
        for words in _worse(found.get((old["algorithm"], old["criterion"])), old)
    ]


def _worse(new: dict[str, Any] | None, old: dict[str, Any]) -> Iterator[str]:
    """Say how a criterion became worse; nothing where it did not."""
    if old["value"] is None:
        return
    if new is None or new["value"] is None:
        why = "no such criterion" if new is None else new["reason"]
        yield f"was {said(old)}, and has no number ({why})"
        return
    sign = 1 if "at_least" in old["limit"] else -1
    change = sign * (new["value"] - old["value"])
    if change >= -LEAST_CHANGE * abs(old["value"]):
        return
    if None in (new["low"], new["high"], old["low"], old["high"]):
        # Without intervals there is only the verdict.
        apart = old["verdict"] == MEETS != new["verdict"]
    elif sign > 0:
        apart = new["high"] < old["low"]
    else:
        apart = new["low"] > old["high"]
    if apart:
        yield f"was {said(old)}, is {said(new)}"


def said(entry: Mapping[str, Any]) -> str:
    """Say a criterion's number: 4.57 [4.1, 5.0] BDP."""
    if entry["value"] is None:
        return "no number"
    interval = ""
    if entry["low"] is not None and entry["low"] != entry["high"]:
        interval = f" [{entry['low']:.3g}, {entry['high']:.3g}]"
    unit = f" {entry['unit']}" if "unit" in entry else ""
    return f"{entry['value']:.3g}{interval}{unit}"


def table(card: Card) -> str:
    """Print what was asked for: a line per criterion, then how many have which verdict."""
    lines = []
    for algorithm in card["tested"]:
        own = [each for each in card["criteria"] if each["algorithm"] == algorithm]
        lines.append(algorithm)
        for each in own:
            side, limit = next(iter(each["limit"].items()))
            number = f"{said(each)}, {side.replace('_', ' ')} {limit:g}"
            lines.append(
                f"  {each['verdict']:13} {each['section']:6} {each['criterion']:18} {number}"
            )
        counts = Counter(each["verdict"] for each in own)
        lines.append("  " + ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v]))
    return "\n".join(lines)
