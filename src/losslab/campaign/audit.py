"""Audit of a campaign's cells: recompute every result from the data that it depends on.

Digests detect accidents but not forgeries, because anyone can recompute them. The audit therefore
recomputes cell.json from manifests, summaries from raw files, seeds and plans from conditions, the
number of replicates from the stopping rule, and conditions from the studies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from losslab.backends.base import GUEST
from losslab.backends.registry import BACKENDS
from losslab.campaign import cellrun, fingerprint, hosts, inputs, integrity
from losslab.campaign.folder import CELL_FILE, MANIFEST_FILE, PARTIAL, as_json, read_json
from losslab.campaign.instrument import PARTS, image_of, kernel_of
from losslab.campaign.recompute import recompute
from losslab.errors import LosslabError
from losslab.instrument import image, kernel
from losslab.instrument.kernelsource import DEBIAN, KERNEL_ORG
from losslab.study.design import Cell
from losslab.study.metrics import primary_value
from losslab.study.seed_family import seed_of

CELLS = "cells"
# A replicate that an earlier campaign with more replicates has left.
SURPLUS = "not in cell.json: a surplus replicate"
# Stages: digests that differ, and values that do not follow from raw files.
DAMAGE, STAGE = "damage", "cells"


@dataclass(frozen=True)
class Finding:
    """A discrepancy in a results folder or an artifact."""

    stage: str  # files, signature, sources, damage, cells, tables or rerun
    path: str  # the file or folder
    what: str  # the discrepancy

    def __str__(self) -> str:
        """Return the finding as a line."""
        return f"{self.path}: {self.what}"


@dataclass(frozen=True)
class Replicate:
    """A replicate of a campaign."""

    path: str  # its folder, relative to the results
    suspect: bool  # invalid or lost for a reason that its raw files do not show
    virtual: bool  # in virtual time: the same seed gives the same bytes


@dataclass
class Audit:
    """The findings in cells, and the extent of the audit."""

    findings: list[Finding] = field(default_factory=list)
    # All replicates, including invalid and lost ones.
    replicates: list[Replicate] = field(default_factory=list)
    # The sets of `Recomputed`, over all replicates.
    metrics: set[str] = field(default_factory=set)
    counted: set[str] = field(default_factory=set)
    not_recomputed: set[str] = field(default_factory=set)
    unpinned: int = 0  # number of replicates measured with an unpinned kernel or image

    def add(self, other: Audit) -> None:
        """Add the findings and the extent of another audit."""
        self.findings += other.findings
        self.replicates += other.replicates
        self.metrics |= other.metrics
        self.counted |= other.counted
        self.not_recomputed |= other.not_recomputed
        self.unpinned += other.unpinned


def audit(
    results: Path,
    cells: Sequence[Cell],
    processes: int = 1,
    say: Callable[[str], None] = lambda line: None,
) -> Audit:
    """Audit the cells of a campaign; report progress by calls of `say` with a line of text."""
    found = Audit()
    tasks = [(results, cell) for cell in cells]
    with ProcessPoolExecutor(processes) as pool:
        for number, part in enumerate(pool.map(_audit_cell, tasks, chunksize=4), start=1):
            found.add(part)
            if number % 100 == 0 or number == len(tasks):
                say(f"{number} of {len(tasks)} cells audited, {len(found.findings)} findings")
    return found


def path_of(cell: Cell) -> str:
    """Return the path of a cell's folder, relative to the results."""
    return f"{CELLS}/{cell.study}/{cell.name}"


def _audit_cell(task: tuple[Path, Cell]) -> Audit:
    """Audit one cell of a results folder; the task is a tuple for `ProcessPoolExecutor.map`."""
    results, cell = task
    place, found = path_of(cell), Audit()
    folder = results / place
    try:
        content = read_json(folder / CELL_FILE)
        count = len(content["replicates"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError, LosslabError) as error:
        found.findings.append(Finding(DAMAGE, place, f"{CELL_FILE} is unreadable: {error}"))
        return found
    problems = integrity.cell_problems(folder, content)
    if problems:
        # A damaged cell is not audited any further.
        found.findings += [Finding(DAMAGE, place, problem) for problem in problems]
        return found
    absent = {"absent": content["absent"]} if "absent" in content else {}
    # `cell_problems` has compared the rows with their replicates.
    rows = content["replicates"]
    expected = cellrun.cell_content(cell.study, cell.block, cell.condition, folder.name, rows)
    expected |= absent
    if (folder / CELL_FILE).read_text() != as_json(expected):
        found.findings.append(
            Finding(STAGE, place, f"{CELL_FILE} does not follow from its replicates and campaign")
        )
    extra = sorted(
        path.name
        for path in folder.iterdir()
        if path.name not in (CELL_FILE, cellrun.LOST_FILE) and not path.name.startswith(PARTIAL)
        and path.name not in map(str, range(count))
    )  # fmt: skip
    found.findings += [
        Finding(STAGE, f"{place}/{name}", SURPLUS if name.isdigit() else "not in cell.json")
        for name in extra
    ]
    if absent:
        if count or not cell.optional:
            found.findings.append(Finding(STAGE, place, "marked as absent, but is not optional"))
        return found
    cell = hosts.measured(cell, rows)
    instrument = _expected(cell)
    manifests = [
        _audit_replicate(cell, instrument, folder / str(number), number, found)
        for number in range(count)
    ]
    if not _stops_here(cell, manifests):
        problem = f"has {count} replicates, contrary to the stopping rule ({cell.stopping})"
        found.findings.append(Finding(STAGE, place, problem))
    return found


def _stops_here(cell: Cell, manifests: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the number of replicates follows from the stopping rule or a lost guest."""
    values: list[float] = []
    for number, manifest in enumerate(manifests):
        if cell.stopping.enough(number, values):
            return False
        if manifest.get("lost"):
            return number == len(manifests) - 1
        value = primary_value(manifest["summary"])
        if manifest["valid"] and value is not None:
            values.append(value)
    return cell.stopping.enough(len(manifests), values)


@dataclass(frozen=True)
class Expected:
    """Content that the manifests of a cell's replicates must have."""

    fingerprint: fingerprint.Fingerprint
    hashes: dict[str, set[str]]  # of kernel and images, by part


def _expected(cell: Cell) -> Expected:
    condition = cell.condition
    needs = BACKENDS[cell.backend, cell.where].needs
    hashes = {
        part: {image.target(name).name}
        for part, name in zip(PARTS, (image_of(condition), *needs.images[1:]), strict=False)
    }
    if needs.guest:
        spec = kernel_of(condition)
        targets = (kernel.target(spec, source) for source in (DEBIAN, KERNEL_ORG))
        hashes["kernel"] = {folder.name for folder in targets}
    return Expected(fingerprint.of(condition, cell.backend, cell.where), hashes)


def _audit_replicate(
    cell: Cell, expected: Expected, folder: Path, number: int, found: Audit
) -> dict[str, Any]:
    """Audit an undamaged replicate; return its manifest."""
    text = (folder / MANIFEST_FILE).read_text()
    manifest: dict[str, Any] = json.loads(text)
    condition, tools = cell.condition, manifest["instrument"]
    again = recompute(folder, manifest)
    problems = list(again.problems)
    measured_on = f"{manifest['backend']} ({tools.get('where', GUEST)})"
    planned = f"{cell.backend} ({cell.where})"
    elsewhere = measured_on != planned
    checks = {
        f"{MANIFEST_FILE} was not written by losslab": text != as_json(manifest),
        "valid with violations, or invalid without violations":
            manifest["valid"] != (not manifest["reasons"]),
        f"seed {manifest['seed']} does not follow from its condition and number":
            manifest["seed"] != seed_of(condition, number, cell.seed_family),
        "has a capture, which no campaign makes": bool(manifest.get("captures")),
        f"backend must be {planned}, found {measured_on}": elsewhere,
        "traces differ from the sources'":
            manifest["trace_sha256"] != inputs.trace_digests(condition),
        "user files differ from the sources'":
            manifest.get("brought_sha256", {}) != inputs.digests(condition),
    }  # fmt: skip
    problems += [problem for problem, failed in checks.items() if failed]
    problems += [] if elsewhere else _instrument_problems(expected, manifest)
    place = f"{path_of(cell)}/{number}"
    found.findings += [Finding(STAGE, place, problem) for problem in problems]
    suspect = not manifest["valid"] and not again.confirmed
    found.replicates.append(Replicate(place, suspect, not cell.real_time))
    found.metrics |= again.metrics
    found.counted |= again.counted
    found.not_recomputed |= again.not_recomputed
    found.unpinned += not tools["pinned"]
    return manifest


def _instrument_problems(expected: Expected, manifest: Mapping[str, Any]) -> list[str]:
    tools, recorded = manifest["instrument"], manifest["fingerprint"]
    # Unpinned kernels and images, which are only counted, and a machine's own kernel may differ.
    pinned = [part for part in fingerprint.BUILT if (tools.get(part) or {}).get("pinned", False)]
    problems = [
        f"{part} in the fingerprint differs from the sources'"
        for part in fingerprint.differences(recorded["parts"], expected.fingerprint.parts)
        if part in pinned or part not in fingerprint.BUILT
    ]
    if recorded["digest"] != fingerprint.digest_of(recorded["parts"]):
        problems.append("the fingerprint's digest does not follow from its parts")
    for part, hashes in expected.hashes.items():
        found = tools.get(part) or {}
        if found.get("pinned", True) and found.get("hash") not in hashes:
            pins = " or ".join(sorted(hashes))
            problems.append(f"{part} must be {pins}, found {found.get('hash')}")
    return problems
