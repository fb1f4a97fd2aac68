"""Validation of claims and published numbers before a campaign starts.

Without it, a misspelt value would select no cell or another number, and still lead to a verdict.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from losslab.reading import UsageError, input_errors, number, read_rows, read_text, read_yaml, shown
from losslab.repository import ROOT
from losslab.study import metrics, schemas, studyfiles
from losslab.study.condition import AXES
from losslab.study.studyfiles import Point, as_list, block_grid, load_study, matches, unmatched

COMPARISONS = ("at_most", "at_least", "within")
# The limits that a claim may have: one, or both ends of a range.
LIMITS = [*([name] for name in COMPARISONS), ["at_most", "at_least"]]
# Parameters besides `where`, and those that each kind requires; it accepts no others.
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
    "scatter_ratio": ("against",),
}
# Kinds whose number can be compared with published runs, and with published runs and their scatter.
OF_RUNS = {
    "published_runs": ("value", "change_percent", "smallest_ratio", "largest_ratio",
                       "value_over_largest"),
    "published_sd": ("value",),
}  # fmt: skip
# Kinds whose `where` must select exactly one cell.
OF_ONE_CELL = ("value", "change_percent", "value_over_largest", "scatter_ratio")


@input_errors()
def check(studies: Iterable[str], root: Path) -> None:
    """Check the claims and published numbers of studies against their complete designs."""
    for name in studies:
        study = load_study(name, root)
        points = design_points(study)
        for selector in study.get("time_series", []):
            if problems := unmatched(selector, points):
                raise UsageError(f"time_series of study {name} must select cells: {problems[0]}")
        check_claims(studyfiles.file(root, name, studyfiles.CLAIMS), name, points, root)
        for what in (studyfiles.PUBLISHED, studyfiles.CURVES):
            for published in studyfiles.published(root, name, what):
                check_published(published, points, study.get("published_numbers", []))


def design_points(study: dict[str, Any]) -> list[Point]:
    """List all points of a study's blocks, with the block and a value for every axis."""
    defaults = {name: axis.default for name, axis in AXES.items()}
    return [
        {"block": name, **defaults, **point}
        for name, block in study["blocks"].items()
        for point in block_grid(study, block)
    ]


def check_claims(path: Path, study: str, points: list[Point], root: Path = ROOT) -> None:
    """Check a study's file of claims; `root` has its published numbers."""
    content = read_yaml(path)
    claims = content.get("claims") if isinstance(content, dict) else None
    if not isinstance(claims, list) or not claims or set(content) != {"study", "since", "claims"}:
        raise UsageError(
            f"{path} must have the keys study, since (the version that has these limits first) and "
            "claims (a list), and no other key"
        )
    if content["study"] != study:
        raise UsageError(f"study must be {study} in {path}, found {content['study']}")
    tables = studyfiles.published(root, study)
    published = [row for table in tables for row in read_rows(table)]
    names: set[str] = set()
    for claim in claims:
        name = shown(claim.get("id", "without an id") if isinstance(claim, dict) else claim)
        problems = schemas.problems(claim, "claims")
        if not problems:
            problems = _parameter_problems(claim) or _cell_problems(claim, points)
            problems += _reason_problems(claim, points, published)
        if name in names:
            problems.append("another claim of the file has the same id")
        names.add(name)
        if problems:
            raise UsageError(
                f"{path}, claim {name}: " + "; ".join(problems),
                hint="workflow/schemas/claims.schema.yaml explains every key",
            )


def check_published(path: Path, points: list[Point], of_study: Iterable[str] = ()) -> None:
    """Check a study's published numbers, with the numeric columns `of_study` besides the axes."""
    if not (rows := read_rows(path)):
        raise UsageError(
            f"{path} must have published numbers, found no row",
            hint="remove the file if the study's source publishes no numbers",
        )
    study_columns = set(of_study)
    numeric = _numeric_columns() | study_columns
    # Values of the points on the axes of a row, of which a table has many: to compare fast.
    known: dict[tuple[str, ...], set[tuple[Any, ...]]] = {}
    for line, row in enumerate(rows, start=2):
        values: dict[str, float | str] = {key: text for key, text in row.items() if text}
        for key in numeric & values.keys():
            with contextlib.suppress(UsageError):  # reported with the line below
                values[key] = number(row[key])
        shared = {key: value for key, value in values.items() if key not in study_columns}
        problems = [
            f"{key} must be a number without a unit, found {values[key]!r}"
            for key in sorted(numeric & set(values))
            if not isinstance(values[key], float)
        ] or schemas.problems(shared, "published")
        selector = {key: value for key, value in values.items() if key in AXES}
        if (axes := tuple(selector)) not in known:
            known[axes] = {tuple(point[axis] for axis in axes) for point in points}
        if not problems and tuple(selector.values()) not in known[axes]:
            problems = unmatched(selector, points)
        if problems:
            raise UsageError(
                f"{path}, line {line}: " + "; ".join(problems),
                hint="workflow/schemas/published.schema.yaml lists every column",
            )


def _numeric_columns() -> set[str]:
    """Return the names of the numeric columns that every study may have."""
    axes = {name for name, axis in AXES.items() if axis.kind != "str"}
    return axes | {
        name
        for name, column in schemas.schema("published")["properties"].items()
        if column.get("type") == "number" or column.get("$ref", "").endswith("/size")
    }


def _parameter_problems(claim: Mapping[str, Any]) -> list[str]:
    """List the keys that a claim of its kind lacks or must not have."""
    kind = claim["kind"]
    comparisons = [key for key in COMPARISONS if key in claim]
    problems = [] if comparisons in LIMITS else [
        f"a claim must have one of {', '.join(COMPARISONS)}, or at_most with at_least, found "
        f"{', '.join(comparisons) or 'none'}"
    ]  # fmt: skip
    if len(comparisons) == 2 and claim["at_least"] >= claim.get("at_most", math.inf):
        problems.append(f"at_least must be below at_most, found {claim['at_least']}")
    problems += metrics.problems(claim["metric"]) if "metric" in claim else []
    if claim.get("metric") in AXES:
        problems.append(f"metric must not be an axis, found {claim['metric']}")
    if "along" in claim and AXES[claim["along"]].kind == "str":
        problems.append(f"along must be an axis of numbers, found {claim['along']}")
    required: tuple[str, ...] = NEEDS[kind]
    optional: tuple[str, ...] = PARAMETERS
    if kind == "largest_loss_z":
        optional += ("metric", "statistic")
    else:
        required += ("where",)
    problems += [f"kind {kind} needs {key}, found none" for key in required if key not in claim]
    excess = [key for key in optional if key in claim and key not in required]
    of_runs = [key for key in OF_RUNS if key in claim]
    excess += [key for key in of_runs if kind not in OF_RUNS[key]]
    if of_runs and claim.get("statistic", "mean") != "mean":
        problems.append(f"statistic must be mean with {of_runs[0]}, found {claim['statistic']}")
    if "published_sd" in claim and claim["published_runs"] == 1:
        problems.append("published_runs must be at least 2 with published_sd, found 1")
    return problems + [f"kind {kind} takes no {key}, found one" for key in excess]


def _cell_problems(claim: Mapping[str, Any], points: list[Point]) -> list[str]:
    """List the selectors of a claim that select no cell of the complete design, or too many."""
    kind, where = claim["kind"], claim.get("where", {})
    selectors = {"where": where, "others": claim.get("others", {})}
    # With a wrong `where`, `against`, which completes it, would repeat the error.
    if not unmatched(where, points):
        selectors["against"] = where | claim.get("against", {})
    if problems := [
        f"{key} must select a cell of the study: {problem}"
        for key, selector in selectors.items()
        for problem in unmatched(selector, points)
    ] or [
        f"{axis} must be a number without a unit in {key}, found {value}"
        for key, selector in selectors.items()
        for axis, values in selector.items()
        for value in as_list(values)
        if isinstance(value, str) and axis in AXES and AXES[axis].kind != "str"
    ]:
        return problems
    cells = _selected(where, points)
    if kind in OF_ONE_CELL and len(cells) != 1:
        return [f"where must select one cell for kind {kind}, found {len(cells)}"]
    if "against" in claim:
        base = _selected(where | claim["against"], points)
        shared = set(points[0]) - set(claim["against"])
        for cell in cells:
            counterparts = [b for b in base if all(b[axis] == cell[axis] for axis in shared)]
            if len(counterparts) != 1:
                values = ", ".join(f"{axis} {cell[axis]}" for axis in where)
                return [
                    "against must select one counterpart for each cell, found "
                    f"{len(counterparts)} for {values}"
                ]
    if "along" in claim:
        steps = [cell[claim["along"]] for cell in cells]
        if len(steps) < 2 or len(set(steps)) != len(steps):
            return [
                f"where must select two or more cells that differ only in {claim['along']}, found "
                f"{len(cells)} with {len(set(steps))} values"
            ]
    return []


def _reason_problems(
    claim: Mapping[str, Any], points: list[Point], published: Sequence[Mapping[str, str]]
) -> list[str]:
    """List what is wrong with the evidence for the sentences of a claim's reason."""
    problems = []
    steps = _selected(claim.get("where", {}), points)
    for sentence in claim.get("reason", []):
        if "shown_by" in sentence:
            support = sentence["shown_by"]
            problems += _parameter_problems(support) or _cell_problems(support, points)
            if "cause" in sentence and not _shows_cause(claim, support, points, steps):
                problems.append(
                    "a cause must be shown by other cells than the claim's, one of which differs "
                    "in a single axis from one of the claim's or of a sentence before, and so on "
                    "back to the claim's; a scatter_ratio must be against the claim's own"
                )
            steps += _next_steps(support, points, steps)
        elif "published" in sentence:
            problems += published_problems(sentence["published"], published)
        else:
            name, function = sentence["test"].split("::")
            path = ROOT / name
            if not path.is_file() or f"def {function}(" not in read_text(path):
                problems.append(f"test must exist in the repository, found {sentence['test']}")
    return [f"reason: {problem}" for problem in problems]


def _shows_cause(
    claim: Mapping[str, Any],
    support: Mapping[str, Any],
    points: list[Point],
    steps: Sequence[Point],
) -> bool:
    """Return whether a support is about a step's cells with one thing changed.

    The steps are the claim's cells and those that the reason's sentences before lead to. Cells that
    differ in several axes show no cause: any of them may be it.
    """
    own = _selected(claim.get("where", {}), points)
    others = _selected(support.get("where", {}), points)
    against = support["against"] if support["kind"] == "scatter_ratio" else None
    base = _selected(support["where"] | against, points) if against else []
    # A ratio is of the claim's own cells, so a step between does not count.
    pair = bool(_next_steps(support, points, own if against else steps))
    return pair and all(cell in own for cell in base) and not any(cell in own for cell in others)


def _next_steps(
    support: Mapping[str, Any], points: list[Point], steps: Sequence[Point]
) -> list[Point]:
    """List a support's cells that differ from a step's in a single axis."""
    others = _selected(support.get("where", {}), points)
    return [b for b in others if any(_differences(a, b) == 1 for a in steps)]


def _differences(a: Point, b: Point) -> int:
    """Count the axes in which two points differ."""
    return sum(axis != "block" and a[axis] != b[axis] for axis in a)


def published_problems(
    support: Mapping[str, Any], published: Sequence[Mapping[str, str]]
) -> list[str]:
    """List the published numbers that contradict a sentence, or report that none is selected."""
    column = support["column"]
    values = [
        number(row[column])
        for row in published
        if row.get(column) and all(row.get(k) == f"{v}" for k, v in support["where"].items())
    ]
    if not values:
        return [f"where must select rows with a published {column}, found none"]
    low, high = support.get("at_least", -math.inf), support.get("at_most", math.inf)
    return [
        f"published {column} must be {'at least' if value < low else 'at most'} "
        f"{low if value < low else high}, found {value}"
        for value in values
        if not low <= value <= high
    ]


def _selected(selector: Mapping[str, Any], points: list[Point]) -> list[Point]:
    return [point for point in points if matches(point, selector)]
