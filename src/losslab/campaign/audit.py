"""Audit a campaign's cells: each follows from its replicates, and these from their raw files.

Digests find accidents: whoever edits a file can compute them anew. So everything is computed again
from what lies below it: cell.json from manifests, summaries from raw files, seeds and plans from
conditions, the number of replicates from the stopping rule, conditions from the studies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from losslab.backends.base import GUEST
from losslab.backends.known import BACKENDS
from losslab.campaign import cellrun, fingerprint, inputs, integrity
from losslab.campaign.folder import CELL_FILE, MANIFEST_FILE, PARTIAL, as_json, read_json
from losslab.campaign.instrument import PARTS, image_of, kernel_of
from losslab.campaign.recompute import recompute
from losslab.errors import LosslabError
from losslab.instrument import image, kernel
from losslab.instrument.kernelsource import DEBIAN, KERNEL_ORG
from losslab.study.design import Cell
from losslab.study.metrics import primary_value
from losslab.study.seeds import replicate_seed

CELLS = "cells"
# What finds something: digests that do not fit, or values that do not follow from raw files.
DAMAGE, STAGE = "damage", "cells"


@dataclass(frozen=True)
class Finding:
    """Something that is not as it must be."""

    stage: str  # what found it: files, signature, sources, damage, cells, tables or rerun
    path: str  # where
    what: str  # what was found there

    def __str__(self) -> str:
        """Say it in a line."""
        return f"{self.path}: {self.what}"


@dataclass(frozen=True)
class Replicate:
    """A replicate of a campaign."""

    path: str  # its folder, below the results
    suspect: bool  # invalid or lost for a reason that its raw files do not show
    virtual: bool  # in virtual time: the same seed gives the same bytes


@dataclass
class Audit:
    """Findings in cells, and their content."""

    findings: list[Finding] = field(default_factory=list)  # what is not as it must be
    # All replicates, invalid and lost ones too.
    replicates: list[Replicate] = field(default_factory=list)
    # As of `Recomputed`, of all replicates; also the next two.
    metrics: set[str] = field(default_factory=set)
    counted: set[str] = field(default_factory=set)
    not_recomputed: set[str] = field(default_factory=set)
    unpinned: int = 0  # how many replicates an unpinned kernel or image measured

    def add(self, other: Audit) -> None:
        """Take in what was found elsewhere."""
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
    say: Callable[[str], None] = lambda words: None,
) -> Audit:
    """Audit the cells of a campaign. `say`: receives a line about the progress now and then."""
    found = Audit()
    tasks = [(results, cell) for cell in cells]
    with ProcessPoolExecutor(processes) as pool:
        for number, part in enumerate(pool.map(_audit_cell, tasks, chunksize=4), start=1):
            found.add(part)
            if number % 100 == 0 or number == len(tasks):
                say(f"{number} of {len(tasks)} cells audited, {len(found.findings)} findings")
    return found


def path_of(cell: Cell) -> str:
    """Return a cell's folder, below the results."""
    return f"{CELLS}/{cell.study}/{cell.name}"


def _audit_cell(task: tuple[Path, Cell]) -> Audit:
    """Audit one cell of a results folder."""
    results, cell = task
    place, found = path_of(cell), Audit()
    folder = results / place

    def note(what: str, number: int | None = None) -> None:
        where = place if number is None else f"{place}/{number}"
        found.findings.append(Finding(STAGE, where, what))

    try:
        content = read_json(folder / CELL_FILE)
        count = len(content["replicates"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError, LosslabError) as error:
        found.findings.append(Finding(DAMAGE, place, f"no readable {CELL_FILE}: {error}"))
        return found
    problems = integrity.cell_problems(folder, content)
    if problems:
        # What does not agree with itself needs no closer look.
        found.findings += [Finding(DAMAGE, place, problem) for problem in problems]
        return found
    absent = {"absent": content["absent"]} if "absent" in content else {}
    expected = cellrun.cell_result(cell.study, cell.block, cell.condition, folder, count) | absent
    if (folder / CELL_FILE).read_text() != as_json(expected):
        note(f"another {CELL_FILE} than its replicates and the campaign give")
    extra = sorted(
        path.name
        for path in folder.iterdir()
        if path.name not in (CELL_FILE, cellrun.LOST_FILE) and not path.name.startswith(PARTIAL)
        and path.name not in map(str, range(count))
    )  # fmt: skip
    found.findings += [Finding(STAGE, f"{place}/{name}", "not in cell.json") for name in extra]
    if absent:
        if count or not cell.optional:
            note("absent, though the campaign measures it")
        return found
    manifests = [
        _audit_replicate(cell, folder / str(number), number, found) for number in range(count)
    ]
    if not _stops_here(cell, manifests):
        note(f"{count} replicates, which the stopping rule ({cell.stopping}) does not give")
    return found


def _stops_here(cell: Cell, manifests: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether a cell has as many replicates as its stopping rule gives, or ends lost."""
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


def _audit_replicate(cell: Cell, folder: Path, number: int, found: Audit) -> dict[str, Any]:
    """Audit a replicate whose files have their digests; return its manifest."""
    text = (folder / MANIFEST_FILE).read_text()
    manifest: dict[str, Any] = json.loads(text)
    condition, tools = cell.condition, manifest["instrument"]
    again = recompute(folder, manifest)
    problems = list(again.problems)
    other_backend = (manifest["backend"], tools.get("where", GUEST)) != (cell.backend, cell.where)
    wrong = {
        f"a {MANIFEST_FILE} that losslab did not write": text != as_json(manifest),
        "valid with violations, or invalid without":
            manifest["valid"] != (not manifest["reasons"]),
        f"seed {manifest['seed']}, which is not that of its condition and number":
            manifest["seed"] != replicate_seed(condition, number),
        "a capture, which no campaign asks for": bool(manifest.get("captures")),
        f"measured by another backend than {cell.backend} ({cell.where})": other_backend,
        "another trace than the sources have":
            manifest["trace_sha256"] != inputs.trace_digests(condition),
        "other user files than the sources have":
            manifest.get("brought_sha256", {}) != inputs.digests(condition),
    }  # fmt: skip
    problems += [what for what, found_so in wrong.items() if found_so]
    problems += [] if other_backend else _instrument_problems(cell, manifest)
    place = f"{path_of(cell)}/{number}"
    found.findings += [Finding(STAGE, place, problem) for problem in problems]
    suspect = not manifest["valid"] and not again.confirmed
    found.replicates.append(Replicate(place, suspect, not cell.real_time))
    found.metrics |= again.metrics
    found.counted |= again.counted
    found.not_recomputed |= again.not_recomputed
    found.unpinned += not tools["pinned"]
    return manifest


def _instrument_problems(cell: Cell, manifest: Mapping[str, Any]) -> list[str]:
    """Say which parts of a replicate's instrument are not those of these sources."""
    condition, tools = cell.condition, manifest["instrument"]
    now = fingerprint.of(condition, cell.backend, cell.where)
    its = manifest["fingerprint"]
    # What was built for want of the pinned sources is counted; a machine's own kernel is its own.
    parts = [part for part in fingerprint.BUILT if (tools.get(part) or {}).get("pinned", False)]
    problems = [
        f"another {part} than the sources give"
        for part in fingerprint.differences(its["parts"], now.parts)
        if part in parts or part not in fingerprint.BUILT
    ]
    if its["digest"] != fingerprint.digest_of(its["parts"]):
        problems.append("a fingerprint that is not its parts'")
    needs = BACKENDS[cell.backend, cell.where].needs
    expected = {
        part: {image.target(name).name}
        for part, name in zip(PARTS, (image_of(condition), *needs.images[1:]), strict=False)
    }
    if needs.kernel is not None:
        which = kernel_of(condition)
        origins = (kernel.target(needs.kernel, which, origin) for origin in (DEBIAN, KERNEL_ORG))
        expected["kernel"] = {folder.name for folder in origins}
    for part, names in expected.items():
        its = tools.get(part) or {}
        if its.get("pinned", True) and its.get("hash") not in names:
            problems.append(f"another {part} ({its.get('hash')}) than the sources pin")
    return problems
