"""Comparison of a recorded cell with its name, condition, seeds, stopping rule and record.

A reader cannot measure the cell again at once, but it refuses a line that contradicts itself, the
campaign or the table beside the record.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from losslab.backends.registry import BACKENDS
from losslab.campaign import recordrows
from losslab.emulation.plan import make_plan
from losslab.errors import LosslabError
from losslab.reading import UsageError
from losslab.study import metrics
from losslab.study.axes import DRAWN_TRACE
from losslab.study.condition import Condition
from losslab.study.design import Cell
from losslab.study.seed_family import seed_of
from losslab.study.stopping import StoppingRule

HINT = "restore the record, for example with `git checkout`, or measure the cell again"
# Metrics that the link bounds.
OF_THE_LINK = ("goodput_mbit", "throughput_mbit")
# Units whose values are at least 0; a percentage is at most 100.
COUNTED = ("_mbit", "_ms", "_s", "_packets", "_percent")
SIGNED = ("unexplained_packets",)

Row = dict[str, Any]


def require(
    contents: Mapping[str, Row],
    study: str,
    folder: Path,
    rules: Mapping[str, StoppingRule],
    seed_families: Mapping[str, int],
) -> None:
    """Compare recorded cells' contents of cell.json, by name, with all that a record says of them.

    `rules` and `seed_families` are those of the campaign's cells, if they are known. Raises
    UsageError that names the first cell with a contradiction.
    """
    record = folder.resolve().with_suffix(".tsv")
    rows = _rows(record) if record.is_file() else None
    for name, content in contents.items():
        where = place(folder, study, name)
        condition = _require_possible(content, where, study, name)
        if name in rules:
            _require_count(content, where, rules[name])
        if name in seed_families:
            _require_seeds(content, where, condition, seed_families[name])
        if rows is not None:
            _require_row(content, where, rows, record)


def place(folder: Path, study: str, name: str) -> str:
    """Return where a recorded cell is, for an error."""
    return f"{folder / study}.jsonl.xz, cell {name}"


def require_planned(content: Row, where: str, cell: Cell) -> None:
    """Refuse a cell.json that is not a campaign's: condition, block, seeds or their number.

    The stopping rule does not hold for a cell that ends with a lost guest.
    """
    _same("block", cell.block, content["block"], where)
    planned, found = cell.condition.to_json(), _condition(content, where).to_json()
    for axis, value in planned.items():
        _same(axis, value, found[axis], where)
    _require_seeds(content, where, cell.condition, cell.seed_family)
    if not any(each.get("lost", False) for each in content["replicates"][-1:]):
        _require_count(content, where, cell.stopping)
        _require_stopped(content, where, cell.stopping)


def _rows(record: Path) -> Mapping[str, Any]:
    return recordrows.read(record)


def _condition(content: Row, where: str) -> Condition:
    try:
        return Condition.from_json(content["condition"])
    except (LosslabError, TypeError, ValueError) as error:
        raise UsageError(f"{where} must have a condition, found: {error}", hint=HINT) from error


def _require_possible(content: Row, where: str, study: str, name: str) -> Condition:
    """Refuse a cell that contradicts its study, its name or itself; return its condition."""
    condition = _condition(content, where)
    _same("study", study, content["study"], where)
    if name not in _names(content["block"], condition):
        raise UsageError(
            f"{where} must have the block and the condition of its name, found "
            f"{content['block']} and {condition.slug()}",
            hint=HINT,
        )
    if problems := condition.problems():
        raise UsageError(f"{where} must have a possible condition, found: {problems[0]}", hint=HINT)
    seeds = [each["seed"] for each in content["replicates"]]
    if len(set(seeds)) < len(seeds):
        raise UsageError(
            f"{where} must have replicates with different seeds, found equal ones", hint=HINT
        )
    rate_mbit = _rate_mbit(condition)
    for number, each in enumerate(content["replicates"]):
        if problem := next(_problems(each, rate_mbit), None):
            raise UsageError(f"{where}, replicate {number}, {problem}", hint=HINT)
    return condition


def _require_count(content: Row, where: str, rule: StoppingRule) -> None:
    count = len(content["replicates"])
    if not rule.minimum <= count <= rule.maximum:
        raise UsageError(f"{where} must have {rule} replicates, found {count}", hint=HINT)


def _require_seeds(content: Row, where: str, condition: Condition, family: int) -> None:
    for number, each in enumerate(content["replicates"]):
        expected = seed_of(condition, number, family)
        _same(f"seed of replicate {number}", expected, each["seed"], where)


def _require_row(content: Row, where: str, rows: Mapping[str, Any], record: Path) -> None:
    """Compare a cell with its row of the record beside the folder."""
    row = rows.get(f"{content['study']}/{content['cell']}")
    if row is None:
        raise UsageError(f"{where} must have a row in {record}, found none", hint=HINT)
    summaries = [each["summary"] for each in content["replicates"] if each["valid"]]
    for column, value in recordrows.numbers_of(summaries, len(content["replicates"])).items():
        _same(f"{column} of {record}:", getattr(row, column), value, where)


def _same(what: str, expected: object, found: object, where: str) -> None:
    if found != expected:
        raise UsageError(f"{where} must have the {what} {expected}, found {found}", hint=HINT)


def _names(block: str, condition: Condition) -> Iterator[str]:
    """Yield the names that a cell of the condition may have."""
    for backend, place in BACKENDS:
        for either in (False, True):
            yield Cell(
                "", block, condition, StoppingRule(1, 1), backend, place, any_backend=either
            ).name


def _rate_mbit(condition: Condition) -> float:
    """Return the link's mean rate, without a bound if its trace is not here or is drawn."""
    try:
        path = make_plan(condition, 0).path_spec
    except (LosslabError, OSError):
        return math.inf
    drawn = DRAWN_TRACE in (condition.trace, condition.trace_back)
    return math.inf if drawn else path.mean_rate_mbit or path.rate_mbit


def _problems(replicate: Mapping[str, Any], rate_mbit: float) -> Iterator[str]:
    """Yield what is wrong with a replicate's row."""
    violations, summary = replicate["reasons"], replicate["summary"]
    if replicate["valid"] and violations:
        yield f"must be invalid with violations, found a valid one: {violations[0]}"
    if not replicate["valid"] and not violations:
        yield "must have a violation, found an invalid one without"
    values = {name: value for name, value in summary.items() if _is_number(value)}
    for name, value in values.items():
        high = 100.0 if name.endswith("_percent") else math.inf
        low = 0.0 if name.endswith(COUNTED) and name not in SIGNED else -math.inf
        if not (math.isfinite(value) and low <= value <= high):
            yield f"must have a possible {name}, found {value}"
    for name in OF_THE_LINK if replicate["valid"] else ():
        if values.get(name, 0.0) > rate_mbit:
            yield (
                f"must have a {name} of at most the link's {rate_mbit:g} Mbit/s, found "
                f"{values[name]}"
            )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _require_stopped(content: Row, where: str, rule: StoppingRule) -> None:
    """Refuse a number of replicates at which the rule does not end a cell."""
    values: list[float] = []
    replicates: Sequence[Row] = content["replicates"]
    ends = None
    for count in range(rule.maximum + 1):
        if rule.enough(count, values):
            ends = count
            break
        if count == len(replicates):
            break
        value = metrics.primary_value(replicates[count]["summary"])
        if replicates[count]["valid"] and value is not None:
            values.append(value)
    if ends != len(replicates):
        found = "more" if ends is None else str(ends)
        raise UsageError(
            f"{where} must have the replicates after which its stopping rule ends, {found}, found "
            f"{len(replicates)}",
            hint=HINT,
        )
