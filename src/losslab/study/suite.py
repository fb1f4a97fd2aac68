"""Suites: scenarios, and criteria for congestion controls or metrics that a change may move.

If a study names a suite (`suite: rfc9743`), the suite's scenarios are the study's blocks, for each
of the study's algorithms. A campaign may replace the algorithms.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from losslab.errors import LosslabError, did_you_mean
from losslab.reading import input_errors, repeats
from losslab.study import metrics
from losslab.study.condition import AXES, DEFAULT_KERNEL
from losslab.study.grid import as_list, block_grid, matches
from losslab.study.names import load_algorithms
from losslab.study.schemas import load_checked

# The value that stands for the scored algorithm, and the axes that may have it.
TESTED = "tested"
ROLES = ("algorithm", "competitor")
# The forms of a suite: `quick` takes little more than ten minutes per algorithm.
FORMS = ("quick", "full")
QUICK, FULL = FORMS
# A full segment with its Ethernet header, as the bottleneck counts it (emulation/qdiscs.py).
FRAME_BITS = 1514 * 8
# One packet in transmission and one in the queue.
MIN_BUFFER_PACKETS = 2

Point = dict[str, Any]


@input_errors()
def load_study(name: str, root: Path, algorithms: Sequence[str] = ()) -> dict[str, Any]:
    """Load a study; add the blocks and runs of the suite that it names, for some `algorithms`."""
    path = root / "config" / "studies" / f"{name}.yaml"
    if not path.is_file():
        names = sorted(each.stem for each in path.parent.glob("*.yaml"))
        raise LosslabError(
            f"a study must be one of {', '.join(names)}, found {name}{did_you_mean(name, names)}",
            hint=f"to add a study, write {path}",
        )
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
    """Return the path of a suite of the repository `root`; the file need not exist."""
    return root / "config" / "suites" / f"{name}.yaml"


@input_errors()
def load_suite(name: str, root: Path) -> dict[str, Any]:
    """Load a suite and check the constraints that its schema cannot express."""
    path = suite_path(name, root)
    if not path.is_file():
        names = sorted(suite_file.stem for suite_file in path.parent.glob("*.yaml"))
        raise LosslabError(f"a suite must be one of {', '.join(names)}, found {name!r}")
    suite: dict[str, Any] = load_checked(path, "suite")
    if problems := list(_problems(suite)):
        raise LosslabError(f"{path} is not consistent:\n    " + "\n    ".join(problems))
    return suite


def _problems(suite: dict[str, Any]) -> Iterator[str]:
    """Yield what is inconsistent in a suite: unknown names, and sections without criteria."""
    for metric in suite.get("compared", []):
        yield from metrics.problems(metric)
    if "criteria" not in suite:
        return
    criteria = suite["criteria"]
    if twice := repeats(criterion["id"] for criterion in criteria):
        yield f"id of a criterion must be unique, found twice: {twice}"
    sections = [section["section"] for section in suite["sections"]]
    covered = {criterion["section"] for criterion in criteria}
    not_covered = {section["section"] for section in suite["not_covered"]}
    for section in sorted((covered | not_covered) - set(sections)):
        yield f"section must be one of `sections`, found {section}"
    for section in sections:
        if (section in covered) == (section in not_covered):
            yield (
                f"section {section} must either have criteria or be in not_covered with a reason"
            )
    points = blocks(suite, suite["baselines"])
    for criterion in criteria:
        problems = [
            *metrics.problems(criterion["metric"]),
            *_selector_problems(criterion, suite, points),
        ]
        yield from (f"criterion {criterion['id']}: {problem}" for problem in problems)


def _selector_problems(
    criterion: dict[str, Any], suite: dict[str, Any], points: dict[str, list[Point]]
) -> Iterator[str]:
    """Yield why a criterion selects no cells, or none in the quick form."""
    where, scenarios = dict(criterion["where"]), suite["scenarios"]
    selected = as_list(where.pop("block"))
    if unknown := [block for block in selected if block not in points]:
        yield f"block must be one of the scenarios, found {', '.join(unknown)}"
        return
    against = criterion.get("against")
    if against is not None and against not in suite["baselines"]:
        yield f"against must be one of the baselines, which are always measured, found {against}"
    quick = [block for block in selected if QUICK in scenarios[block]]
    only_full = not quick and all("not_quick" in scenarios[block] for block in selected)
    if not any(
        matches(point, where | scenarios[block].get(QUICK, {}).get("only", {}))
        for block in (selected if only_full else quick)
        for point in points[block]
    ):
        yield f"where must select a cell{'' if only_full else ' of the quick form'}, found none"


def blocks(
    suite: dict[str, Any], algorithms: Sequence[str], kernels: Mapping[str, str] | None = None
) -> dict[str, list[Point]]:
    """Return the blocks of a study that names a suite: the points of each scenario.

    `kernels` has the kernel that each scored algorithm needs. A scenario with another kernel leaves
    the algorithm out.
    """
    found: dict[str, list[Point]] = {}
    for name, scenario in suite["scenarios"].items():
        found[name] = []
        points = block_grid(suite, scenario["points"])
        for point, algorithm in itertools.product(points, algorithms):
            kernel = point.get("kernel")
            if kernel is None or (kernels or {}).get(algorithm, kernel) == kernel:
                complete = _with_algorithm(point, algorithm)
                # A point without the scored algorithm is the same for all algorithms.
                found[name] += [complete] if complete not in found[name] else []
    return found


def _with_algorithm(point: Point, algorithm: str) -> Point:
    """Return a point with the scored algorithm, and with its buffer in packets."""
    point = {"algorithm": TESTED, **point}
    point |= {role: algorithm for role in ROLES if point.get(role) == TESTED}
    if "buffer_bdp" in point:
        point["buffer_packets"] = buffer_packets(point, point.pop("buffer_bdp"))
    return point


def buffer_packets(point: Point, bdp: float) -> int:
    """Convert a buffer from bandwidth-delay products to packets."""
    values: Point = {name: AXES[name].default for name in ("rate_mbit", "rtt_ms")} | point
    bits: float = values["rate_mbit"] * 1e6 * values["rtt_ms"] / 1e3
    return max(MIN_BUFFER_PACKETS, round(bdp * bits / FRAME_BITS))


def runs(suite: dict[str, Any], form: str) -> dict[str, Any]:
    """Return the run configuration of a suite's scenarios in one of `FORMS`."""
    return {
        name: scenario[form] for name, scenario in suite["scenarios"].items() if form in scenario
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
