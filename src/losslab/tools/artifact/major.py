"""Major claims of an artifact, and the experiments that measure only what they need.

`report/major-claims.yaml` names the claims. An experiment is one study with the cells of its major
claims, with as many and as long runs as in the campaign, so the bytes are those of the campaign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.errors import LosslabError, did_you_mean
from losslab.reading import UsageError, read_yaml
from losslab.repository import ROOT
from losslab.study import design, studyfiles
from losslab.study.condition import AXES
from losslab.study.design import Cell
from losslab.study.schemas import check_schema

FILE = Path("report/major-claims.yaml")
OTHER_CLAIMS = (
    f"write a list of your campaign's claims in the form of {FILE}, and name it by --claims FILE; "
    "or pack a campaign with their cells"
)


@dataclass(frozen=True)
class Major:
    """A major claim."""

    label: str  # C2, C3, ...; C1 is that the bytes are the same
    study: str
    claim: str
    item: str  # place where the paper shows it
    selectors: tuple[Mapping[str, Any], ...]  # of its cells


@dataclass(frozen=True)
class Experiment:
    """The cells of one study's major claims."""

    label: str  # E2, E3, ...; E1 verifies the archive
    study: str
    claims: tuple[Major, ...]
    config: Mapping[str, Any]  # a campaign of these cells alone
    cells: tuple[Cell, ...]


def read_major(path: Path = ROOT / FILE, root: Path = ROOT) -> list[Major]:
    """Read the list of major claims; LosslabError if one is no claim of a study."""
    content = read_yaml(path)
    check_schema(content, "artifact", str(path))
    majors = []
    for number, entry in enumerate(content["claims"], start=2):
        study, _, name = entry["claim"].partition("/")
        file = studyfiles.file(root, study, studyfiles.CLAIMS)
        known = {each["id"]: each for each in read_yaml(file)["claims"]} if file.is_file() else {}
        if name not in known:
            raise UsageError(
                f"{path}: a major claim must be one of {file}, found {entry['claim']}"
                + did_you_mean(name, known)
            )
        claim = known[name]
        where = claim.get("where", {})
        selectors = [where, where | claim.get("against", {}), claim.get("others", where)]
        majors.append(Major(f"C{number}", study, name, entry["item"], tuple(selectors)))
    return majors


def experiments(
    config: Mapping[str, Any], majors: Sequence[Major], root: Path = ROOT
) -> list[Experiment]:
    """Return the experiments of a campaign's configuration, one per study of the claims."""
    blocks = design.blocks_to_run(dict(config), root)
    experiment_list = []
    for number, study in enumerate(dict.fromkeys(each.study for each in majors), start=2):
        claims = tuple(each for each in majors if each.study == study)
        runs = _reduced(study, blocks.get(study, {}), claims, config, root)
        reduced_config = {**config, "studies": {study: runs}, "others": False}
        # The reduced campaign has no recorded verdicts.
        reduced_config.pop("campaign", None)
        cells = tuple(design.load_cells(reduced_config, root)) if runs else ()
        for major in claims:
            points = ({"block": cell.block, **cell.condition.to_json()} for cell in cells)
            if not any(_matches(point, major.selectors[0]) for point in points):
                raise LosslabError(
                    "a major claim must be one that the campaign measures, found "
                    f"{study}/{major.claim}, of which it has no cell",
                    hint=OTHER_CLAIMS,
                )
        experiment_list.append(Experiment(f"E{number}", study, claims, reduced_config, cells))
    return experiment_list


def _reduced(
    study: str,
    blocks: Mapping[str, Any],
    claims: Sequence[Major],
    config: Mapping[str, Any],
    root: Path,
) -> dict[str, list[dict[str, Any]]]:
    """Return the runs of a study's blocks, only of the cells that claims select."""
    declared = studyfiles.load_study(study, root, config.get("algorithms", ()))
    selectors = [selector for each in claims for selector in each.selectors]
    runs_of_block: dict[str, list[dict[str, Any]]] = {}
    for block, given in blocks.items():
        points = list(studyfiles.block_grid(declared, declared["blocks"][block]))
        varying = [axis for axis in AXES if len({str(each.get(axis)) for each in points}) > 1]
        for run in studyfiles.as_list(given):
            for point in points:
                values = {"block": block, **point}
                if studyfiles.matches(point, run.get("only", {})) and any(
                    _matches(values, selector) for selector in selectors
                ):
                    only = {axis: point[axis] for axis in varying if axis in point}
                    entry = {key: value for key, value in run.items() if key != "only"}
                    runs_of_block.setdefault(block, []).append(
                        {"only": only, **entry} if only else entry
                    )
    return runs_of_block


def _matches(values: Mapping[str, Any], selector: Mapping[str, Any]) -> bool:
    """Return whether a point, with its block, has a selector's values."""
    blocks = studyfiles.as_list(selector.get("block", values["block"]))
    axes = {axis: value for axis, value in selector.items() if axis != "block"}
    return values["block"] in blocks and studyfiles.matches(values, axes)
