"""Suites: criteria for congestion controls, and the scenarios that they are measured in.

A study that names a suite (`suite: rfc9743`) has its scenarios as blocks, for each of its
algorithms; a campaign may name others in their place (`algorithms`), as `losslab score` does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from losslab.errors import LosslabError
from losslab.reading import input_errors
from losslab.study import metrics
from losslab.study.condition import AXES, DEFAULT_KERNEL
from losslab.study.names import load_algorithms
from losslab.study.points import as_list, block_points, has
from losslab.study.schemas import load_checked

# A suite's word for the algorithm that is scored.
TESTED = "tested"
# Where it may stand.
ROLES = ("algorithm", "competitor")
# How a suite is run: in little more than ten minutes for one algorithm, or over its whole range.
FORMS = ("quick", "full")
QUICK, FULL = FORMS
# A full segment with its Ethernet header, as the bottleneck counts it (emulation/qdiscs.py).
FRAME_BITS = 1514 * 8
# A buffer of a fraction of a small product still has room for a packet that is sent and one more.
LEAST_BUFFER_PACKETS = 2

Point = dict[str, Any]
NO_KERNELS: Mapping[str, str] = MappingProxyType({})


@input_errors()
def load_study(name: str, root: Path, algorithms: Sequence[str] = ()) -> dict[str, Any]:
    """Load a study, and give one of a suite its blocks and runs.

    `algorithms` are in place of those of a study of a suite.
    """
    path = root / "config" / "studies" / f"{name}.yaml"
    study: dict[str, Any] = load_checked(path, "study")
    if "suite" not in study:
        return study
    suite = load_suite(study["suite"], root)
    rows = load_algorithms(root / "config" / "algorithms.tsv")
    return {
        **study,
        "defaults": suite["defaults"],
        "blocks": blocks(
            suite,
            algorithms or study["algorithms"],
            {row["name"]: row["kernel"] for row in rows if row["kernel"] != DEFAULT_KERNEL},
        ),
        "runs": runs(suite, FULL),
    }


def suite_path(name: str, root: Path) -> Path:
    """Give the file of a suite of the repository `root`, whether or not it is there."""
    return root / "config" / "suites" / f"{name}.yaml"


@input_errors()
def load_suite(name: str, root: Path) -> dict[str, Any]:
    """Load a suite and check what its schema cannot."""
    path = suite_path(name, root)
    if not path.is_file():
        known = sorted(each.stem for each in path.parent.glob("*.yaml"))
        raise LosslabError(f"a suite must be one of {', '.join(known)}, found {name!r}")
    suite: dict[str, Any] = load_checked(path, "suite")
    problems = list(_problems(suite))
    if problems:
        raise LosslabError(f"{path} must make sense, found:\n    " + "\n    ".join(problems))
    return suite


def _problems(suite: dict[str, Any]) -> Iterator[str]:
    """Say which names mean nothing, and which sections nobody speaks of."""
    names = [criterion["id"] for criterion in suite["criteria"]]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"criterion {name} stands there twice"
    sections = [each["section"] for each in suite["sections"]]
    covered = [each["section"] for each in suite["criteria"]]
    left = [each["section"] for each in suite["not_covered"]]
    for section in sorted({*covered, *left} - set(sections)):
        yield f"section {section} is none of `sections`"
    for section in sections:
        if (section in covered) == (section in left):
            yield f"section {section} must have criteria, or stand in not_covered with a reason"
    made = blocks(suite, suite["baselines"])
    for criterion in suite["criteria"]:
        for problem in metrics.problems(criterion["metric"]):
            yield f"criterion {criterion['id']}: {problem}"
        yield from _selector_problems(criterion, suite, made)


def _selector_problems(
    criterion: dict[str, Any], suite: dict[str, Any], made: dict[str, list[Point]]
) -> Iterator[str]:
    """Say which of a criterion's cells there are none of, or none in the quick form."""
    where = dict(criterion["where"])
    named = as_list(where.pop("block"))
    unknown = [block for block in named if block not in made]
    if unknown:
        yield f"criterion {criterion['id']}: no scenario is called {', '.join(unknown)}"
        return
    against = criterion.get("against")
    if against is not None and against not in suite["baselines"]:
        yield f"criterion {criterion['id']}: {against} is no baseline, and not always measured"
    quick = [block for block in named if QUICK in suite["scenarios"][block]]
    if not quick and all("not_quick" in suite["scenarios"][block] for block in named):
        if not any(has(suite["defaults"] | p, where) for block in named for p in made[block]):
            yield f"criterion {criterion['id']}: no cell is meant"
        return
    points = [
        point
        for block in quick
        for point in made[block]
        if has(suite["defaults"] | point, where | suite["scenarios"][block][QUICK].get("only", {}))
    ]
    if not points:
        yield f"criterion {criterion['id']}: no cell of the quick form is meant"


def blocks(
    suite: dict[str, Any], algorithms: Sequence[str], kernels: Mapping[str, str] = NO_KERNELS
) -> dict[str, list[Point]]:
    """Make a study's blocks of a suite's scenarios.

    Args:
        suite: As `load_suite` gives it.
        algorithms: Those that are scored.
        kernels: Those that algorithms need, by their names. A scenario that needs another one is
            without these algorithms.

    Returns:
        Per scenario its points, each an axis's value by its name.
    """
    return {
        name: _distinct(
            _with_algorithm(point, algorithm)
            for point in block_points(suite, scenario["points"])
            for algorithm in algorithms
            if "kernel" not in point or kernels.get(algorithm, point["kernel"]) == point["kernel"]
        )
        for name, scenario in suite["scenarios"].items()
    }


def _with_algorithm(point: Point, algorithm: str) -> Point:
    """Put the scored algorithm in its place, and a buffer in packets."""
    point = {"algorithm": TESTED, **point}
    point |= {role: algorithm for role in ROLES if point.get(role) == TESTED}
    if "buffer_bdp" in point:
        point["buffer_packets"] = buffer_packets(point, point.pop("buffer_bdp"))
    return point


def buffer_packets(point: Point, bdp: float) -> int:
    """Round a buffer of so many bandwidth-delay products to packets."""
    values: Point = {name: its.default for name, its in AXES.items()} | point
    bits: float = values["rate_mbit"] * 1e6 * values["rtt_ms"] / 1e3
    return max(LEAST_BUFFER_PACKETS, round(bdp * bits / FRAME_BITS))


def _distinct(points: Iterator[Point]) -> list[Point]:
    """Leave out points that are there before: those in which the algorithm has no place."""
    found: list[Point] = []
    for point in points:
        if point not in found:
            found.append(point)
    return found


def runs(suite: dict[str, Any], form: str) -> dict[str, Any]:
    """Say how a suite's scenarios are run in one of `FORMS`, as a campaign says it of blocks."""
    return {
        name: scenario[form] for name, scenario in suite["scenarios"].items() if form in scenario
    }


def form_runs(study: str, root: Path, form: str) -> dict[str, Any]:
    """Say how the blocks of a study of a suite are run in one of `FORMS`."""
    named = load_study(study, root).get("suite")
    if named is None:
        raise LosslabError(
            f"blocks of study {study} must be named, found {form}, a form that suites have"
        )
    return runs(load_suite(named, root), form)


def with_baselines(suite: dict[str, Any], algorithms: Sequence[str]) -> list[str]:
    """List algorithms and then the baselines that are not among them."""
    return list(dict.fromkeys(itertools.chain(algorithms, suite["baselines"])))
