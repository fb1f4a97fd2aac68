"""Studies: their files, their parameter grids, and suites of scenarios.

A study's files follow from its name. Its grid is the cross product of each block's axes.

If a study names a suite (`suite: rfc9743`), the suite's scenarios are the study's blocks, for each
of the study's algorithms. A campaign may replace the algorithms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from losslab import extensions
from losslab.errors import LosslabError, did_you_mean
from losslab.reading import UsageError, input_errors
from losslab.repository import ROOT, find, listed
from losslab.study import background, metrics, parameters, schedule, units
from losslab.study.condition import AXES, DEFAULT_KERNEL
from losslab.study.names import load_algorithms
from losslab.study.schemas import load_checked

# The value of `competitor` that stands for the foreground flow's algorithm.
SAME = "same"
# Axes for whose values a study may declare names, with the text of a declaration.
NAMED: Mapping[str, Callable[[Any], str]] = {
    "flows": background.to_text, "changes": schedule.to_text,
}  # fmt: skip
Point = dict[str, Any]
# The largest product in the repository has some 500 cells.
POINTS_MAX = 10_000


def block_grid(
    study: Mapping[str, Any], block: dict[str, Any] | list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the points of a block: the cross product of its axes, or of each of its products.

    Axes that the block does not set have the study's defaults. Names that the study declares for
    values, such as those of `flows` and `changes`, are replaced by these values. Parameters of an
    algorithm in place of its name are those of the axis `parameters`.
    """
    named = {
        axis: {name: to_text(declared) for name, declared in study.get(axis, {}).items()}
        for axis, to_text in NAMED.items()
    }
    for product in as_list(block):
        axes = {axis: as_list(value) for axis, value in (study["defaults"] | product).items()}
        if (count := math.prod(map(len, axes.values()))) > POINTS_MAX:
            raise LosslabError(
                f"a block's product must have at most {POINTS_MAX} cells, found {count}",
                hint="give its axes fewer values, or split it into several blocks",
            )
        for values in itertools.product(*axes.values()):
            point = dict(zip(axes, values, strict=True))
            if point.get("competitor") == SAME and "algorithm" in point:
                point["competitor"] = point["algorithm"]
            for axis in named.keys() & point.keys():
                point[axis] = named[axis].get(point[axis], point[axis])
            yield units.resolved(point | parameters.resolved(point))


def declared_values(studies: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the values that studies declare for each axis, and their blocks, as text.

    A campaign may measure fewer. An axis that a block does not set has its default there.
    """
    values = {name: {str(axis.default): None} for name, axis in AXES.items()}
    for study in studies:
        for name, block in study["blocks"].items():
            values.setdefault("block", {})[name] = None
            for axis, value in itertools.chain(*(p.items() for p in block_grid(study, block))):
                values[axis][str(value)] = None
    return {axis: list(texts) for axis, texts in values.items()}


def matches(values: Mapping[str, Any], selector: Mapping[str, Any]) -> bool:
    """Return whether a point, or its defaults, have the selector's values on every axis."""
    return all(
        _value(values, axis) in [units.one(axis, v, values) for v in as_list(value)]
        for axis, value in selector.items()
    )


def _value(point: Mapping[str, Any], axis: str) -> Any:
    return point[axis] if axis in point else AXES[axis].default


def unmatched(selector: Mapping[str, Any], points: Sequence[Point]) -> list[str]:
    """List the values of a selector that no point has, or report that no point has all of them."""
    selected = [point for point in points if matches(point, selector)]
    for axis, values in selector.items():
        known = {_value(point, axis) for point in selected}
        unknown = [
            value
            for value in as_list(values)
            if value not in known and not any(matches(point, {axis: value}) for point in points)
        ]
        if unknown:
            every = dict.fromkeys(str(_value(point, axis)) for point in points)
            return [
                f"{axis} must be one of {', '.join(every)}, found "
                f"{', '.join(map(str, unknown))}{did_you_mean(str(unknown[0]), every)}"
            ]
    pairs = ", ".join(f"{axis} {value}" for axis, value in selector.items())
    return [] if selected else [f"no cell has {pairs} together"]


def as_list(value: Any) -> list[Any]:
    """Return a list unchanged, and any other value as a list of one."""
    return value if isinstance(value, list) else [value]


# Files of a study in its folder, studies/NAME, besides its own R functions.
CHAPTER, CLAIMS, TABLES = "chapter.qmd", "claims.yaml", "tables.R"
PUBLISHED, CURVES = "published.csv", "curves.csv"

# The value that stands for the scored algorithm, and the axes that may have it.
TESTED = "tested"
ROLES = ("algorithm", "competitor")
# The forms of a suite: `quick` takes little more than ten minutes per algorithm.
FORMS = ("quick", "full")
QUICK, FULL = FORMS


@input_errors()
def load_study(name: str, root: Path, algorithms: Sequence[str] = ()) -> dict[str, Any]:
    """Load a study; add the blocks and runs of the suite that it names, for some `algorithms`."""
    path = file(root, name, "study.yaml")
    if not path.is_file():
        names = study_names(root)
        raise LosslabError(
            f"a study must be one of {', '.join(names)}, found {name}{did_you_mean(name, names)}",
            hint=f"`losslab new study {name}` in your campaign's folder adds a study",
        )
    study: dict[str, Any] = load_checked(path, "study")
    if study["study"] != name:
        raise LosslabError(
            f"study must be the name of its folder in {path}, found {study['study']}"
        )
    if "suite" not in study:
        return study
    suite = load_suite(study["suite"], root)
    return {
        **study,
        "defaults": suite["defaults"],
        "blocks": blocks(suite, algorithms or study["algorithms"], own_kernels(root)),
        "runs": runs(suite, FULL),
    }


def suite_path(name: str, root: Path) -> Path:
    """Return the path of a suite, a user's own or of `root`; the file need not exist."""
    own = extensions.folder()
    path = own / "suites" / f"{name}.yaml" if own else root
    return path if path.is_file() else find(f"suites/{name}/suite.yaml", root)


@input_errors()
def load_suite(name: str, root: Path = ROOT) -> dict[str, Any]:
    """Load a suite and check the constraints that its schema cannot express."""
    path = suite_path(name, root)
    if not path.is_file():
        own = {path.stem for path in (extensions.folder() or root).glob("suites/*.yaml")}
        names = sorted(own | {path.parent.name for path in listed("suites/*/suite.yaml", root)})
        raise UsageError(
            f"a suite must be one of {', '.join(names)}, found {name}{did_you_mean(name, names)}",
            hint="to add a suite, write suites/NAME/suite.yaml in your campaign's folder",
        )
    if path != (losslabs := root / "suites" / name / "suite.yaml") and losslabs.is_file():
        raise UsageError(
            f"a suite of your own must have a new name, found {path}, which has that of losslab's: "
            "its verdicts would be taken for those of losslab's cases",
            hint=f"rename the suite and its folder, such as suites/my-{name}/suite.yaml",
        )
    suite: dict[str, Any] = load_checked(path, "suite")
    problems = [*_problems(suite)]
    if suite["suite"] != name:
        problems = [
            f"suite must be the name of its folder or file, {name}, found {suite['suite']}",
            *problems,
        ]
    if problems:
        raise UsageError(f"{path} is not consistent:\n    " + "\n    ".join(problems))
    return suite


def _problems(suite: dict[str, Any]) -> Iterator[str]:
    """Yield what is inconsistent in a suite: unknown names, and sections without cases."""
    for metric in suite.get("compared", []):
        yield from metrics.problems(metric)
    cases = suite.get("cases", {})
    sections = [section["section"] for section in suite.get("sections", ())]
    covered = {case["section"] for case in cases.values() if "section" in case}
    not_covered = {section["section"] for section in suite.get("not_covered", ())}
    for section in sorted((covered | not_covered) - set(sections)):
        yield f"section must be one of `sections`, found {section}"
    for section in sections:
        if (section in covered) == (section in not_covered):
            yield f"section {section} must either have cases or be in not_covered with a reason"
    if "commands" in suite and "commands" in suite.get("scenarios", ()):
        yield "no scenario may have the name `commands` beside `commands`, found one"
    points = blocks(suite, [TESTED])
    for name, case in cases.items():
        problems = _span_problems(case, suite, points) if "over" in case else ()
        yield from (f"case {name}: {problem}" for problem in problems)


def _span_problems(
    case: dict[str, Any], suite: dict[str, Any], points: dict[str, list[Point]]
) -> Iterator[str]:
    """Yield why a case spans no cells, or none in the quick form."""
    for check in case["expect"]:
        yield from metrics.problems(check["metric"])
    where, selected = case.get("where", {}), as_list(case["over"])
    if unknown := [block for block in selected if block not in points]:
        yield f"over must name scenarios, found {', '.join(unknown)}"
        return
    scenarios = suite["scenarios"]
    quick = [block for block in selected if QUICK in scenarios[block]]
    only_full = not quick and all("not_quick" in scenarios[block] for block in selected)
    if not any(
        matches(point, scenarios[block].get(QUICK, {}).get("only", {})) and matches(point, where)
        for block in (selected if only_full else quick)
        for point in points[block]
    ):
        yield f"where must select a cell{'' if only_full else ' of the quick form'}, found none"


def own_kernels(root: Path) -> dict[str, str]:
    """Return the kernel of each algorithm that needs another one than the default, by name."""
    rows = load_algorithms(find("config/algorithms.tsv", root))
    return {row["name"]: row["kernel"] for row in rows if row["kernel"] != DEFAULT_KERNEL}


def blocks(
    suite: dict[str, Any], algorithms: Sequence[str], kernels: Mapping[str, str] | None = None
) -> dict[str, list[Point]]:
    """Return the blocks of a study that names a suite: the points of each scenario.

    `kernels` has the kernel that each scored algorithm needs. A scenario with another kernel leaves
    the algorithm out.
    """
    blocks: dict[str, list[Point]] = {}
    for name, scenario in suite.get("scenarios", {}).items():
        blocks[name] = []
        points = block_grid(suite, scenario["points"])
        for point, algorithm in itertools.product(points, algorithms):
            kernel = point.get("kernel")
            needed = (kernels or {}).get(algorithm.partition(",")[0], kernel)
            if kernel is None or needed == kernel:
                complete = _with_algorithm(point, algorithm)
                # A point without the scored algorithm is the same for all algorithms.
                if complete not in blocks[name]:
                    blocks[name].append(complete)
    return blocks


def _with_algorithm(point: Point, algorithm: str) -> Point:
    """Return a point with the scored algorithm."""
    point = {"algorithm": TESTED, **point}
    return point | {role: algorithm for role in ROLES if point.get(role) == TESTED}


def runs(suite: dict[str, Any], form: str) -> dict[str, Any]:
    """Return the run configuration of a suite's scenarios in one of `FORMS`."""
    return {
        name: scenario[form]
        for name, scenario in suite.get("scenarios", {}).items()
        if form in scenario
    }


def form_runs(study: str, root: Path, form: str) -> dict[str, Any]:
    """Return the run configuration of the blocks of a study that names a suite."""
    named = load_study(study, root).get("suite")
    if named is None:
        raise LosslabError(
            f"study {study} names no suite, so the configuration must list its blocks, found the "
            f"form {form}"
        )
    return runs(load_suite(named, root), form)


def study_names(root: Path) -> list[str]:
    """List the names of all studies of the repository `root`."""
    return [path.parent.name for path in listed("studies/*/study.yaml", root)]


def file(root: Path, study: str, name: str) -> Path:
    """Return the path of a file of a study; it need not exist."""
    return find(f"studies/{study}/{name}", root)


def study_of(chapter: Path) -> str:
    """Return the study of a chapter, or "" for a chapter without one."""
    return chapter.parent.name if chapter.name == CHAPTER else ""


def published(root: Path, study: str, name: str = PUBLISHED) -> list[Path]:
    """List the file of a study's published numbers, or of its curves, if it has one."""
    path = file(root, study, name)
    return [path] if path.exists() else []


def suite_files(root: Path, study: str) -> list[Path]:
    """List the file of the suite that a study runs, if it runs one."""
    named = load_study(study, root).get("suite")
    return [suite_path(named, root)] if named else []


def functions(root: Path, studies: Iterable[str]) -> list[Path]:
    """List the R files with functions: those that all studies share, and the given studies' own."""
    place = extensions.campaign()
    trusted = place is None or extensions.trusted(place)
    shared = listed("analysis/R/*.R", root) if trusted else sorted(root.glob("analysis/R/*.R"))
    own = [path for study in studies for path in listed(f"studies/{study}/*.R", root)]
    return [*shared, *(path for path in own if path.name != TABLES)]
