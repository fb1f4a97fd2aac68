"""Integrity of results: every reader finds a changed result."""

import json
import os
from dataclasses import replace

import pytest

from losslab.campaign import (
    celldata,
    cellrun,
    collect,
    fingerprint,
    integrity,
    provenance,
    staleness,
)
from losslab.errors import LosslabError
from losslab.study.condition import seed_of
from losslab.study.design import Cell
from losslab.study.intervals import StoppingRule
from losslab.ui import cellstable, series
from tests import sealed
from tests.unit.study.test_condition import CONDITION

RAW = {
    "intervals.csv": "t_s,goodput_mbit\n1.0,9.5\n2.0,9.4\n", "tcp.csv": "t_s,flow\n0.1,5001\n",
    "queue.csv": "t_s,backlog_packets\n0.1,3\n", "sender.log": "sent\n",
    "console.log": "the guest's last words\n",
}  # fmt: skip
FINGERPRINT = fingerprint.of(CONDITION, "virtual", "guest").to_json()
CELL = Cell("study", "block", CONDITION, StoppingRule(2, 2))
FILES = (*RAW, "manifest.json", "host.json")


def empty(path):
    path.write_bytes(b"")


def truncate(path):
    path.write_bytes(path.read_bytes()[:-2])


def flip(path):
    octets = bytearray(path.read_bytes())
    octets[len(octets) // 2] ^= 1
    path.write_bytes(octets)


def delete(path):
    path.unlink()


def link(path):
    elsewhere = path.parents[2] / f"elsewhere-{path.name}"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def add(path):
    (path.parent / f"{path.name}.bak").write_bytes(path.read_bytes())


DAMAGES = (empty, truncate, flip, delete, link, add)


@pytest.fixture
def cell(tmp_path):
    """A cell of two valid replicates."""
    folder = tmp_path / "cells/study/a-cell"
    for number in range(2):
        manifest = {
            "backend": "virtual", "cell": CONDITION.to_json(), "valid": True,
            "seed": seed_of(CONDITION, number), "reasons": [],
            "summary": {"goodput_mbit": 9.5 + number}, "instrument": {},
            "trace_sha256": {}, "video_sha256": None, "fingerprint": FINGERPRINT,
        }  # fmt: skip
        sealed.replicate(folder / str(number), manifest, RAW)
    return sealed.cell(folder, CONDITION.to_json(), 2, CELL.study, CELL.block)


def test_unchanged_cell_has_no_problem(cell):
    assert integrity.cell_problems(cell.parent) == []
    assert len(integrity.read_cell(cell)["replicates"]) == 2


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_of_any_file_is_found_by_every_reader(cell, tmp_path, name, damage):
    tools = type("Tools", (), {"backend": "virtual", "where": "guest"})()
    whole = cell.parent / "0"
    assert cellrun.finished(whole, CONDITION, seed_of(CONDITION, 0), tools)
    damage(whole / name)

    assert cellrun.finished(whole, CONDITION, seed_of(CONDITION, 0), tools) is None
    assert [p for p in integrity.cell_problems(cell.parent) if "replicate 0" in p]
    overview = tmp_path / "overview.csv"
    collect.write_csv(overview, ("study", "cell"), [{"study": "study", "cell": "a-cell"}])
    for read in (
        lambda: celldata.read(cell),
        lambda: list(provenance.records([overview], tmp_path)),
        lambda: cellrun.cell_result("study", "block", CONDITION, cell.parent, 2),
        lambda: series.load(whole),
    ):
        with pytest.raises(LosslabError):
            read()
    # The other replicate is intact.
    assert cellrun.finished(cell.parent / "1", CONDITION, seed_of(CONDITION, 1), tools)


@pytest.mark.parametrize("damage", [empty, truncate, flip, delete])
def test_damage_of_a_cells_summary_is_found(cell, damage):
    damage(cell)
    with pytest.raises(integrity.DamagedError):
        integrity.read_cell(cell)


@pytest.mark.parametrize(
    "change",
    [
        {"summary": {"goodput_mbit": 211852.0}},
        {"valid": False},
        {"seed": 7},
        {"reasons": ["made up"]},
        {"manifest_sha256": "0" * 64},
    ],
)
def test_summary_that_contradicts_its_manifests_is_found(cell, change):
    content = json.loads(cell.read_text())
    content["replicates"][1] |= change
    cell.write_text(json.dumps(content))
    with pytest.raises(integrity.DamagedError, match="replicate 1: values differ"):
        integrity.read_cell(cell)


def test_nan_in_a_summary_is_no_damage(cell):
    folder = cell.parent / "0"
    sealed.edit(folder / "manifest.json", summary={"goodput_mbit": float("nan")})
    sealed.reseal(folder)
    sealed.cell(cell.parent, CONDITION.to_json(), 2)
    assert integrity.cell_problems(cell.parent) == []


@pytest.mark.parametrize("key", [*integrity.MANIFEST_KEYS, "cell"])
def test_sealed_manifest_without_a_key_is_damage(cell, key):
    folder = cell.parent / "0"
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest[key]
    sealed.replicate(folder, manifest)
    assert "replicate 0" in integrity.cell_problems(cell.parent)[0]


def test_axis_that_is_younger_than_a_file_has_its_default_there(cell):
    older = {name: value for name, value in CONDITION.to_json().items() if name != "pauses"}
    sealed.edit(cell, condition=older)
    assert integrity.read_cell(cell)["condition"] == older


def test_replicate_of_another_condition_is_found(cell):
    sealed.edit(cell, condition=CONDITION.to_json() | {"loss_percent": 9.0})
    with pytest.raises(integrity.DamagedError, match="the condition differs"):
        integrity.read_cell(cell)


def test_replicate_in_anothers_place_is_found(cell):
    os.rename(cell.parent / "0", cell.parent / "x")
    os.rename(cell.parent / "1", cell.parent / "0")
    os.rename(cell.parent / "x", cell.parent / "1")
    with pytest.raises(integrity.DamagedError, match="values differ"):
        integrity.read_cell(cell)


def test_cell_of_another_condition_is_refused_with_both_values(cell):
    """Row A1: readers trusted the folder's name."""
    asked = replace(CONDITION, duration_s=29, rtt_ms=CONDITION.rtt_ms + 1e-6)
    for read in (
        lambda: integrity.read_cell(cell, asked),
        lambda: celldata.read(cell, asked=asked),
        lambda: cellstable.rows([(asked, cell)], ["algorithm"], None),
    ):
        with pytest.raises(LosslabError, match=r"duration_s [\d.]+ instead of 29.0") as error:
            read()
        assert f"rtt_ms {CONDITION.rtt_ms} instead of {asked.rtt_ms}" in str(error.value)
        assert "--out" in str(error.value)


def test_replicates_that_a_cell_does_not_list_are_not_plotted(cell):
    """Leftovers of a measurement of more replicates, maybe of another condition."""
    sealed.cell(cell.parent, CONDITION.to_json(), 1, CELL.study, CELL.block)
    assert series.replicates(cell.parent) == [cell.parent / "0"]
    assert len(celldata.read_hosts(cell)) == 1


def test_cell_in_another_cells_folder_is_found(cell):
    other = cell.parent.rename(cell.parents[1] / "another-cell")
    assert integrity.cell_problems(other) == ["cell.json is of another cell"]


@pytest.mark.parametrize(
    ("planned", "problem"),
    [
        ({"condition": replace(CONDITION, duration_s=29)}, "duration_s .* instead of 29.0"),
        ({"seed_family": 2}, "seed of replicate 0 .* instead of"),
        ({"block": "other"}, "block block instead of other"),
    ],
)
def test_cell_of_another_campaign_is_refused(cell, planned, problem):
    """Names have no durations and no seeds, so its folder has the same name."""
    content = integrity.read_cell(cell)
    staleness.require_planned(content, CELL, cell.parent)
    with pytest.raises(integrity.DamagedError, match=f"found another: .*{problem}") as error:
        staleness.require_planned(content, replace(CELL, **planned), cell.parent)
    assert "delete this folder" in error.value.hint
