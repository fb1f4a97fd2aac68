"""Suites: criteria for congestion controls, and the scenarios that they are measured in.

A study that names a suite (`suite: rfc9743`) has its scenarios as blocks, for each of its
algorithms; a campaign may name others in their place (`algorithms`), as `losslab score` does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from losslab.errors import LosslabError
from losslab.reading import input_errors
from losslab.reading.files import repeats
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
    if problems := list(_problems(suite)):
        raise LosslabError(f"{path} must make sense, found:\n    " + "\n    ".join(problems))
    return suite


def _problems(suite: dict[str, Any]) -> Iterator[str]:
    """Say which names mean nothing, and which sections nobody speaks of."""
    criteria = suite["criteria"]
    if twice := repeats(criterion["id"] for criterion in criteria):
        yield f"criterion {twice} stands there twice"
    sections = [each["section"] for each in suite["sections"]]
    covered = {each["section"] for each in criteria}
    left = {each["section"] for each in suite["not_covered"]}
    for section in sorted((covered | left) - set(sections)):
        yield f"section {section} is none of `sections`"
    for section in sections:
        if (section in covered) == (section in left):
            yield f"section {section} must have criteria, or stand in not_covered with a reason"
    made = blocks(suite, suite["baselines"])
    for criterion in criteria:
        found = [
            *metrics.problems(criterion["metric"]),
            *_selector_problems(criterion, suite, made),
        ]
        yield from (f"criterion {criterion['id']}: {problem}" for problem in found)


def _selector_problems(
    criterion: dict[str, Any], suite: dict[str, Any], made: dict[str, list[Point]]
) -> Iterator[str]:
    """Say which of a criterion's cells there are none of, or none in the quick form."""
    where, scenarios = dict(criterion["where"]), suite["scenarios"]
    named = as_list(where.pop("block"))
    if unknown := [block for block in named if block not in made]:
        yield f"no scenario is called {', '.join(unknown)}"
        return
    against = criterion.get("against")
    if against is not None and against not in suite["baselines"]:
        yield f"{against} is no baseline, and not always measured"
    quick = [block for block in named if QUICK in scenarios[block]]
    excused = not quick and all("not_quick" in scenarios[block] for block in named)
    if not any(
        has(point, where | scenarios[block].get(QUICK, {}).get("only", {}))
        for block in (named if excused else quick)
        for point in made[block]
    ):
        yield f"no cell {'' if excused else 'of the quick form '}is meant"


def blocks(
    suite: dict[str, Any], algorithms: Sequence[str], kernels: Mapping[str, str] | None = None
) -> dict[str, list[Point]]:
    """Make a study's blocks of a suite's scenarios: per scenario its points.

    Args:
        suite: As `load_suite` gives it.
        algorithms: Those that are scored.
        kernels: Those that algorithms need, by their names. A scenario that needs another one is
            without these algorithms.
    """
    found: dict[str, list[Point]] = {}
    for name, scenario in suite["scenarios"].items():
        found[name] = []
        points = block_points(suite, scenario["points"])
        for point, algorithm in itertools.product(points, algorithms):
            kernel = point.get("kernel")
            if kernel is None or (kernels or {}).get(algorithm, kernel) == kernel:
                made = _with_algorithm(point, algorithm)
                # A point in which the algorithm has no place is there once.
                found[name] += [made] if made not in found[name] else []
    return found


def _with_algorithm(point: Point, algorithm: str) -> Point:
    """Put the scored algorithm in its place, and a buffer in packets."""
    point = {"algorithm": TESTED, **point}
    point |= {role: algorithm for role in ROLES if point.get(role) == TESTED}
    if "buffer_bdp" in point:
        point["buffer_packets"] = buffer_packets(point, point.pop("buffer_bdp"))
    return point


def buffer_packets(point: Point, bdp: float) -> int:
    """Round a buffer of so many bandwidth-delay products to packets."""
    values: Point = {name: AXES[name].default for name in ("rate_mbit", "rtt_ms")} | point
    bits: float = values["rate_mbit"] * 1e6 * values["rtt_ms"] / 1e3
    return max(LEAST_BUFFER_PACKETS, round(bdp * bits / FRAME_BITS))


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
