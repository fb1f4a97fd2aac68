"""Claims and published numbers as data: refuse mistakes before anything is measured.

A misspelt word would otherwise select no cell, or another number, and be a verdict all the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from losslab.reading import UsageError, input_errors, number, read_rows, read_text, read_yaml, shown
from losslab.study import files, metrics, schemas
from losslab.study.condition import AXES
from losslab.study.design import ROOT
from losslab.study.points import as_list, block_points, has
from losslab.study.suite import load_study

COMPARISONS = ("at_most", "at_least", "within")
# Beside `where`, what each kind needs; it may have nothing else of these.
PARAMETERS = ("against", "others", "along")
NEEDS: dict[str, tuple[str, ...]] = {
    "value": (),
    "largest": (),
    "smallest": (),
    "largest_factor": (),
    "change_percent": ("against",),
    "smallest_ratio": ("against",),
    "largest_ratio": ("against",),
    "gain_factor": ("against",),
    "value_over_largest": ("others",),
    "largest_rise_percent": ("along",),
    "largest_loss_z": (),
}
# Kinds of which one cell has the value.
OF_ONE_CELL = ("value", "change_percent", "value_over_largest")

Point = dict[str, Any]


@input_errors()
def check(studies: Iterable[str], root: Path) -> None:
    """Check the claims and published numbers of studies against their full designs."""
    for name in studies:
        study = load_study(name, root)
        points = design_points(study)
        check_claims(files.claims(root, name), name, points)
        for published in files.published(root, name):
            check_published(published, points, study.get("published_numbers", []))


def design_points(study: dict[str, Any]) -> list[Point]:
    """List a study's cells as axes and values, of all blocks that a campaign can measure."""
    standard = {name: its.default for name, its in AXES.items()}
    return [
        {"block": name, **standard, **point}
        for name, block in study["blocks"].items()
        for point in block_points(study, block)
    ]


def check_claims(path: Path, study: str, points: list[Point]) -> None:
    """Check a study's file of claims."""
    content = read_yaml(path)
    listed = content.get("claims") if isinstance(content, dict) else None
    if not isinstance(listed, list) or not listed or set(content) != {"study", "claims"}:
        raise UsageError(
            f"{path} must have the key study, a list of claims under claims, and no other key"
        )
    if content["study"] != study:
        raise UsageError(f"study must be {study} in {path}, found {content['study']}")
    names: set[str] = set()
    for claim in listed:
        name = shown(claim.get("id", "without an id") if isinstance(claim, dict) else claim)
        problems = schemas.problems(claim, "claims")
        if not problems:
            problems = _parameter_problems(claim) or _cell_problems(claim, points)
            problems += _reason_problems(claim.get("reason", {}), points)
        if name in names:
            problems.append("id must be unique in the file, found it twice")
        names.add(name)
        if problems:
            raise UsageError(
                f"{path}, claim {name}: " + "; ".join(problems),
                hint="workflow/schemas/claims.schema.yaml explains every key",
            )


def check_published(path: Path, points: list[Point], own: Iterable[str] = ()) -> None:
    """Check a study's table of published numbers.

    `own` are columns of numbers besides those that all studies may have.
    """
    if not (rows := read_rows(path)):
        raise UsageError(
            f"{path} must have published numbers, found no row",
            hint="remove the file if the study's source states none",
        )
    own = set(own)
    numeric = _numeric_columns() | own
    for line, row in enumerate(rows, start=2):
        values: dict[str, float | str] = {key: text for key, text in row.items() if text}
        for key in numeric & values.keys():
            with contextlib.suppress(UsageError):
                values[key] = number(row[key])
        shared = {key: value for key, value in values.items() if key not in own}
        problems = schemas.problems(shared, "published") + [
            f"{key} must be a number, found {values[key]!r}"
            for key in sorted(own & set(values))
            if not isinstance(values[key], float)
        ]
        if not problems:
            problems = _unmatched({k: v for k, v in values.items() if k in AXES}, points)
        if problems:
            raise UsageError(
                f"{path}, line {line}: " + "; ".join(problems),
                hint="workflow/schemas/published.schema.yaml lists every column",
            )


def _numeric_columns() -> set[str]:
    """Name the columns that are numbers: of the axes and of the schema of published numbers."""
    axes = {name for name, its in AXES.items() if its.kind != "str"}
    return axes | {
        name
        for name, what in schemas.schema("published")["properties"].items()
        if what.get("type") == "number" or what.get("$ref", "").endswith("/size")
    }


def _parameter_problems(claim: Mapping[str, Any]) -> list[str]:
    """Say what a claim's kind needs and does not have, or has and does not need."""
    kind = claim["kind"]
    given = [key for key in COMPARISONS if key in claim]
    found = [] if len(given) == 1 else [
        f"exactly one of {', '.join(COMPARISONS)} must stand in a claim, found "
        f"{', '.join(given) or 'none'}"
    ]  # fmt: skip
    found += metrics.problems(claim["metric"]) if "metric" in claim else []
    needs: tuple[str, ...] = NEEDS[kind]
    takes: tuple[str, ...] = PARAMETERS
    if kind == "largest_loss_z":
        takes += ("metric", "statistic")
    else:
        needs += ("where",)
    found += [f"kind {kind} needs {key}, found none" for key in needs if key not in claim]
    more = [key for key in takes if key in claim and key not in needs]
    return found + [f"kind {kind} takes no {key}, found one" for key in more]


def _cell_problems(claim: Mapping[str, Any], points: list[Point]) -> list[str]:
    """Say which of a claim's selectors mean no cell of the full design, or too many."""
    kind, where = claim["kind"], claim.get("where", {})
    selectors = {"where": where, "others": claim.get("others", {})}
    selectors["against"] = where | claim.get("against", {})
    if problems := [
        f"{key} must mean a cell of the study: {problem}"
        for key, wanted in selectors.items()
        for problem in _unmatched(wanted, points)
    ]:
        return problems
    cells = _selected(where, points)
    if kind in OF_ONE_CELL and len(cells) != 1:
        return [f"where must mean one cell for kind {kind}, found {len(cells)}"]
    if "against" in claim:
        base = _selected(where | claim["against"], points)
        shared = set(points[0]) - set(claim["against"])
        for cell in cells:
            counterparts = [b for b in base if all(b[axis] == cell[axis] for axis in shared)]
            if len(counterparts) != 1:
                words = ", ".join(f"{axis} {cell[axis]}" for axis in where)
                return [
                    f"against must mean one counterpart of each cell, found {len(counterparts)} "
                    f"of {words}"
                ]
    if "along" in claim:
        steps = [cell[claim["along"]] for cell in cells]
        if len(steps) < 2 or len(set(steps)) != len(steps):
            return [
                f"where must mean two or more cells that differ in {claim['along']} alone, found "
                f"{len(cells)} with {len(set(steps))} values"
            ]
    return []


def _reason_problems(reason: Mapping[str, Any], points: list[Point]) -> list[str]:
    """Say what is wrong with what supports a claim's reason."""
    if "shown_by" in reason:
        support = reason["shown_by"]
        problems = _parameter_problems(support) or _cell_problems(support, points)
        return [f"reason: {problem}" for problem in problems]
    if "test" in reason:
        name, function = reason["test"].split("::")
        path = ROOT / name
        if not path.is_file() or f"def {function}(" not in read_text(path):
            return [f"reason: test must be one of ours, found {reason['test']}"]
    return []


def _selected(wanted: Mapping[str, Any], points: list[Point]) -> list[Point]:
    """List the cells that have one of the wanted values on every axis."""
    return [point for point in points if has(point, wanted)]


def _unmatched(wanted: Mapping[str, Any], points: list[Point]) -> list[str]:
    """Say which wanted value no cell has, or that no cell has all of them; empty when one has."""
    found = _selected(wanted, points)
    # A study has thousands of cells, and most selectors are right: others look at all cells.
    if found and all(
        set(as_list(value)) <= {point[axis] for point in found} for axis, value in wanted.items()
    ):
        return []
    for axis, value in wanted.items():
        known = list(dict.fromkeys(point[axis] for point in points))
        strange = [v for v in as_list(value) if v not in known]
        if strange:
            return [
                f"{axis} must be one of {', '.join(map(str, known))}, found "
                f"{', '.join(map(str, strange))}"
            ]
    pairs = ", ".join(f"{axis} {value}" for axis, value in wanted.items())
    return [] if found else [f"no cell has {pairs} together"]
