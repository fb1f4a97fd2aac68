"""Comparison of a cell.json, measured or recorded, with the campaign's cell.

`losslab verify` compares measured cells, and a campaign with recorded numbers the recorded ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from losslab.errors import LosslabError
from losslab.reading import UsageError
from losslab.study import metrics
from losslab.study.condition import Condition, seed_of
from losslab.study.design import Cell
from losslab.study.intervals import StoppingRule

HINT = "restore the record, for example with `git checkout`, or measure the cell again"

Row = dict[str, Any]


def place(folder: Path, study: str, name: str) -> str:
    """Return where a recorded cell is, for an error."""
    return f"{folder / study}.jsonl.xz, cell {name}"


def require_planned(content: Row, where: str, cell: Cell) -> None:
    """Refuse a cell.json that is not a campaign's: condition, block, seeds or their number.

    The stopping rule does not hold for a cell that ends with a lost guest. Raises UsageError with
    the first contradiction; `where`: the cell's place.
    """
    _same("study", cell.study, content["study"], where)
    _same("block", cell.block, content["block"], where)
    try:
        found = Condition.from_json(content["condition"]).to_json()
    except (LosslabError, TypeError, ValueError) as error:
        raise UsageError(f"{where} must have a condition, found: {error}", hint=HINT) from error
    for axis, value in cell.condition.to_json().items():
        _same(axis, value, found[axis], where)
    replicates = content["replicates"]
    for number, each in enumerate(replicates):
        expected = seed_of(cell.condition, number, cell.seed_family)
        _same(f"seed of replicate {number}", expected, each["seed"], where)
    if not any(each.get("lost", False) for each in replicates[-1:]):
        _require_stopped(replicates, where, cell.stopping)


def _same(what: str, expected: object, found: object, where: str) -> None:
    if found != expected:
        raise UsageError(f"{where} must have the {what} {expected}, found {found}", hint=HINT)


def _require_stopped(replicates: list[Row], where: str, rule: StoppingRule) -> None:
    """Refuse a number of replicates at which the rule does not end a cell."""
    values: list[float] = []
    for number, each in enumerate(replicates):
        if rule.enough(number, values):
            break
        value = metrics.primary_value(each["summary"])
        if each["valid"] and value is not None:
            values.append(value)
    else:
        number = len(replicates)
    if number != len(replicates) or not rule.enough(number, values):
        raise UsageError(
            f"{where} must have the replicates after which its stopping rule {rule} ends, found "
            f"{len(replicates)}",
            hint=HINT,
        )
