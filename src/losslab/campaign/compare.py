"""Comparison of two result sets by cell: files, means, and ratios with confidence intervals.

Each cell has one test. With hundreds of cells, some differ by chance at any level. The p-values are
therefore adjusted by the false discovery rate (`study.intervals.adjusted`). If nothing differs, and
cells are independent or positively dependent, the comparison fails with a probability of at most
5 %. docs/how-to/compare.md describes the methods and their sources.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from statistics import fmean

from losslab.campaign import rerun, results
from losslab.campaign.results import FILES, MANIFEST_FILE, MeasuredCell, Replicate, Row
from losslab.reading import UsageError
from losslab.study import metrics
from losslab.study.condition import AXES, Condition
from losslab.study.intervals import LEVEL, MIN_RUNS, Interval, adjusted, ratio_interval
from losslab.study.schemas import check_schema

# Version of the JSON output (workflow/schemas/diff.schema.yaml).
FORMAT = 1
# Limit of the quoted characters of a value that is no finite number.
MAX_SHOWN_LENGTH = 40
CORRECTION = "Benjamini-Hochberg"
# The keys of a manifest that determine the bytes of a replicate in virtual time.
INPUTS = (
    "backend", "cell", "seed", "instrument", "trace_sha256", "video_sha256", "brought_sha256",
    "captures",
)  # fmt: skip
FINGERPRINT = "fingerprint"


class CellVerdict(StrEnum):
    """The verdict on a compared cell; docs/how-to/compare.md explains each."""

    SAME_BYTES = "same bytes"
    SAME_RUNS = "same bytes in the common runs"
    SAME_VALUES = "same numbers in the common runs"
    EQUAL = "deterministic, equal"
    NO_DIFFERENCE = "no significant difference"
    NOT_MEASURED = "metric not measured"
    UNEQUAL = "deterministic, different"
    DIFFERENT = "significantly different"
    TOO_FEW = "too few runs"
    INCONSISTENT = "inconsistent replicates"
    CONDITIONS = "different conditions"
    DURATION = "another duration"
    RUNS = "another number of runs"
    OTHER_BYTES = "different bytes"
    OTHER_NUMBERS = "different numbers"


AGREEING = (
    CellVerdict.SAME_BYTES,
    CellVerdict.SAME_RUNS,
    CellVerdict.SAME_VALUES,
    CellVerdict.EQUAL,
    CellVerdict.NO_DIFFERENCE,
)
# Axes of how long a cell was measured, not of what was measured.
OF_DURATION = ("duration_s", "warmup_s")


@dataclass(frozen=True, kw_only=True)
class CellDifference:
    """The comparison of a cell in two result sets; pairs are values of A and B."""

    cell: str
    metric: str
    replicates: tuple[int, int]
    n: tuple[int, int]  # number of compared runs
    mean: tuple[float | None, float | None]  # arithmetic
    ratio: float | None = None  # geometric mean of B / A
    confidence_interval: Interval | None = None  # of the ratio, not adjusted for other cells
    p_value: float | None = None
    p_adjusted: float | None = None
    paired: bool
    verdict: CellVerdict = CellVerdict.TOO_FEW
    problems: list[str]
    versions: tuple[str, ...] = ()  # parts of the instrument and code that differ


@dataclass(frozen=True)
class Comparison:
    """The comparison of two result sets."""

    cells: list[CellDifference]
    only_in_first: list[str]
    only_in_second: list[str]
    metric: str | None = None  # None: the primary metric of each cell
    common: bool = False  # whether only cells and files that both have are compared

    @property
    def reasons(self) -> list[str]:
        """Why the sets do not agree; empty if they agree."""
        counts = Counter(cell.verdict for cell in self.cells)
        # A chosen metric may be missing in cells of another app.
        passing = (*AGREEING, CellVerdict.NOT_MEASURED) if self.metric else AGREEING
        failing = [verdict for verdict in CellVerdict if verdict not in passing]
        reasons = [f"{v} in {counted(counts[v])}" for v in failing if counts[v]]
        if not self.common:
            for side, names in (("A", self.only_in_first), ("B", self.only_in_second)):
                if names:
                    reasons.append(f"{counted(len(names))} in {side} only")
        if not reasons and not any(counts[verdict] for verdict in AGREEING):
            reasons.append("no cell was compared")
        return reasons

    @property
    def agree(self) -> bool:
        """True if cells were compared and all agree."""
        return not self.reasons


def counted(count: int) -> str:
    """Format a number of cells."""
    return f"{count} cell" if count == 1 else f"{count} cells"


def compare_sets(
    first: Path, second: Path, metric: str | None = None, common: bool = False
) -> Comparison:
    """Compare the cells of two results folders by a metric; None: each cell's primary metric.

    With `common`, compare only cells and files that both have.
    """
    a, b = results.read_cells(first), results.read_cells(second)
    if metric is not None:
        everything = [s for side in (a, b) for cell in side.values() for s in cell.summaries]
        metrics.require_declared(metric, everything)
    compared = [
        compare_cell(name, a[name], b[name], metric, common) for name in sorted(a.keys() & b.keys())
    ]
    only_in_first, only_in_second = sorted(a.keys() - b.keys()), sorted(b.keys() - a.keys())
    return Comparison(judged(compared), only_in_first, only_in_second, metric, common)


def judged(compared: Sequence[CellDifference]) -> list[CellDifference]:
    """Adjust the cells' p-values for multiple comparisons, and set the verdicts that follow."""
    values = iter(adjusted([c.p_value for c in compared if c.p_value is not None]))
    cells = [c if c.p_value is None else replace(c, p_adjusted=next(values)) for c in compared]
    return [
        replace(cell, verdict=CellVerdict.DIFFERENT)
        if cell.p_adjusted is not None and cell.p_adjusted < 1 - LEVEL
        else cell
        for cell in cells
    ]


def compare_cell(
    name: str,
    first: MeasuredCell,
    second: MeasuredCell,
    metric: str | None = None,
    common: bool = False,
) -> CellDifference:
    """Compare one cell, in pairs if at least five seeds are on both sides.

    Pairs of the same seed remove the variation between seeds. The verdict assumes that no
    difference is significant; see `judged`.
    """
    chosen = metric or metrics.primary([*first.summaries, *second.summaries])
    values = first.values(chosen), second.values(chosen)
    shared = sorted(values[0].keys() & values[1].keys())
    paired = len(shared) >= MIN_RUNS
    a, b = ([v[seed] for seed in (shared if paired else sorted(v))] for v in values)
    difference = CellDifference(
        cell=name,
        metric=chosen,
        replicates=(len(first.rows), len(second.rows)),
        n=(len(a), len(b)),
        mean=(fmean(a) if a else None, fmean(b) if b else None),
        paired=paired,
        problems=results.other_values(first.condition, second.condition),
    )
    ratio = ratio_interval(b, a, paired) if a and b else None
    with_ratio = replace(difference, ratio=_finite(ratio.value if ratio else None))
    if verdict := of_conditions(first.condition, second.condition):
        kept = with_ratio if verdict is CellVerdict.DURATION else difference
        return replace(kept, verdict=verdict)
    difference = with_ratio
    file_problems, same_bytes = compare_files(first, second, common)
    measured = any(values) or not (first.summaries and second.summaries)
    problems = _value_problems(first, second, chosen if measured else None) + file_problems
    difference = replace(difference, problems=problems)
    if same_bytes and not problems:
        one_number = len(first.rows) == len(second.rows)
        verdict = CellVerdict.SAME_BYTES if one_number else CellVerdict.SAME_RUNS
        return replace(difference, verdict=verdict)
    difference = replace(difference, versions=other_versions(first.rows, second.rows))
    agreeing = CellVerdict.NO_DIFFERENCE
    if not measured:
        agreeing = CellVerdict.NOT_MEASURED
    elif ratio is None or min(difference.n) < MIN_RUNS:
        return difference
    elif len({*a}) == len({*b}) == 1:
        agreeing = CellVerdict.EQUAL
        if a[0] != b[0]:
            return replace(difference, verdict=CellVerdict.UNEQUAL)
    else:
        difference = replace(difference, confidence_interval=ratio.interval, p_value=ratio.p_value)
    return replace(difference, verdict=CellVerdict.INCONSISTENT if problems else agreeing)


def of_conditions(first: Condition, second: Condition) -> CellVerdict | None:
    """Return the verdict on cells with different values of their axes; None if all are equal."""
    other = {name for name in AXES if getattr(first, name) != getattr(second, name)}
    if not other:
        return None
    return CellVerdict.DURATION if other <= {*OF_DURATION} else CellVerdict.CONDITIONS


def other_versions(first: Sequence[Row], second: Sequence[Row]) -> tuple[str, ...]:
    """Name the parts of the instrument, such as its kernel, that differ between two cells' runs."""
    parts = {part: None for rows in (first, second) for row in rows for part in row["instrument"]}

    def versions(rows: Sequence[Row], part: str) -> set[str]:
        return {json.dumps(row["instrument"].get(part), sort_keys=True) for row in rows}

    return tuple(p for p in parts if p != "pinned" and versions(first, p) != versions(second, p))


def _value_problems(first: MeasuredCell, second: MeasuredCell, metric: str | None) -> list[str]:
    """List the replicates that lack a value although the other side has one for their seed.

    Without this check, a cell could agree of which only some runs are valid. Without a metric,
    replicates only must be valid.
    """

    def problem(row: Row) -> str:
        if not row["valid"]:
            return "invalid"
        if metric is None or metrics.value(row["summary"], metric) is not None:
            return ""
        return f"valid, but {metric} is {str(row['summary'].get(metric))[:MAX_SHOWN_LENGTH]}"

    problems = []
    for side, cell, other in (("A", first, second), ("B", second, first)):
        failing = {row["seed"] for row in other.rows if problem(row)}
        problems += [
            f"replicate {number} (seed {row['seed']}) of {side} is {text}"
            for number, row in enumerate(cell.rows)
            if (text := problem(row)) and row["seed"] not in failing
        ]
    return problems


def compare_files(
    first: MeasuredCell, second: MeasuredCell, common: bool = False
) -> tuple[list[str], bool]:
    """Compare the files of a cell's replicates in two result sets, or only those that both have.

    Files must agree with their digests. In virtual time, the same instrument, code and seed must
    give the same bytes. Returns the problems; and whether the side with fewer replicates has no
    others than the other side, none was lost, and all their files have the same bytes.
    """
    notes: defaultdict[str, list[int]] = defaultdict(list)
    for side, cell in (("A", first), ("B", second)):
        for number, problems in enumerate(cell.problems(present_only=common)):
            for problem in problems:
                notes[f"{side}: {problem}"].append(number)
    sides = [
        {row["seed"]: run for row, run in zip(cell.rows, cell.replicates, strict=True)}
        for cell in (first, second)
    ]
    shared = sides[0].keys() & sides[1].keys()
    same = len(shared) == min(map(len, sides)) > 0
    for number, (seed, one) in enumerate(sides[0].items()):
        if seed in sides[1]:
            differences = _different_bytes(one, sides[1][seed])
            same = same and differences == []
            for problem in differences or ():
                notes[problem].append(number)
    lines = [
        f"{problem} ({'replicates' if len(numbers) > 1 else 'replicate'} "
        f"{', '.join(map(str, numbers))})"
        for problem, numbers in notes.items()
    ]
    return lines, same


def _different_bytes(one: Replicate, other: Replicate) -> list[str] | None:
    """List the unexpected differences of two replicates of one seed; [] if all bytes are the same.

    Returns None if the bytes differ or are unknown, and may differ.
    """
    try:
        a, b = one.manifest, other.manifest
    except UsageError:
        return None
    if a | {FINGERPRINT: None} == b | {FINGERPRINT: None}:
        return None if a.get("lost") else []
    same_inputs = all(a.get(key) == b.get(key) for key in (*INPUTS, FINGERPRINT))
    if not same_inputs or not one.in_virtual_time:
        return None
    differences = []
    shared = [name for name in a.get(FILES, ()) if name in b.get(FILES, ())]
    for name in [*shared, MANIFEST_FILE]:
        x, y = one.folder / name, other.folder / name
        if x.is_file() and y.is_file() and (old := x.read_bytes()) != (new := y.read_bytes()):
            difference = rerun.first_difference(old, new)
            differences.append(f"{name} must have the same bytes, found {difference}")
    return differences


def _finite(value: float | None) -> float | None:
    """Return a finite number unchanged; None for others, which JSON cannot represent."""
    return value if value is not None and math.isfinite(value) else None


def as_json(comparison: Comparison) -> str:
    """Return a comparison as JSON, by workflow/schemas/diff.schema.yaml."""
    data = asdict(comparison) | {
        "format": FORMAT, "agree": comparison.agree, "reasons": comparison.reasons,
        "confidence_level": LEVEL, "correction": CORRECTION,
    }  # fmt: skip
    for cell in data["cells"]:
        ends = cell["confidence_interval"]
        cell["confidence_interval"] = ends and [_finite(end) for end in ends]
    document = json.loads(json.dumps(data, allow_nan=False))
    check_schema(document, "diff", "the comparison")
    return json.dumps(document, indent=1)
