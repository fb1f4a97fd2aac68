"""Files of a results folder: every reader finds damage, and refuses what is no result."""

import json
import os

import pytest

from losslab import api, cli
from losslab.campaign import cellrun, fingerprint, results, tables
from losslab.campaign.results import DamagedError, Replicate, read_cell, read_cells
from losslab.errors import LosslabError
from losslab.reading import UsageError
from losslab.study.condition import seed_of
from losslab.ui import series
from tests import sealed
from tests.sealed import HOST
from tests.unit.campaign.cells import write_cell
from tests.unit.study.test_condition import CONDITION

RAW = {
    "intervals.csv": "t_s,goodput_mbit\n1.0,9.5\n2.0,9.4\n", "tcp.csv": "t_s,flow\n0.1,5001\n",
    "queue.csv": "t_s,backlog_packets\n0.1,3\n", "sender.log": "sent\n",
    "console.log": "the guest's last words\n",
}  # fmt: skip
MANIFEST = {
    "backend": "virtual", "cell": CONDITION.to_json(), "seed": 1, "summary": {"goodput_mbit": 1.5},
    "instrument": {"kernel": {"version": "6.12"}}, "valid": True, "reasons": [],
}  # fmt: skip
ROW = {key: MANIFEST[key] for key in ("seed", "summary", "instrument", "valid", "reasons")}
CELL = {
    "study": "loss", "block": "main", "cell": "a", "condition": CONDITION.to_json(),
    "replicates": [ROW],
}  # fmt: skip


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


@pytest.fixture
def cell(tmp_path):
    """A cell of two valid replicates."""
    folder = tmp_path / "cells/study/a-cell"
    now = fingerprint.of(CONDITION, "virtual", "guest").to_json()
    for number in range(2):
        manifest = MANIFEST | {
            "seed": seed_of(CONDITION, number), "summary": {"goodput_mbit": 9.5 + number},
            "fingerprint": now,
        }  # fmt: skip
        sealed.replicate(folder / str(number), manifest, RAW)
    return sealed.cell(folder, CONDITION.to_json(), 2)


def finished(cell, number):
    tools = type("Tools", (), {"backend": "virtual", "where": "guest"})()
    folder = cell.parent / str(number)
    return cellrun.finished(folder, CONDITION, seed_of(CONDITION, number), tools)


def test_unchanged_cell_has_its_condition_and_replicates(cell):
    found = read_cell(cell).checked(CONDITION)
    assert (found.condition, found.problems()) == (CONDITION, [[], []])
    assert [each.folder.name for each in found.replicates] == ["0", "1"]
    assert all(each.in_virtual_time for each in found.replicates)


@pytest.mark.parametrize("name", [*RAW, "manifest.json", "host.json"])
@pytest.mark.parametrize("damage", [empty, truncate, flip, delete, link, add])
def test_damage_of_any_file_is_found_by_every_reader(cell, name, damage):
    whole = cell.parent / "0"
    assert finished(cell, 0)
    damage(whole / name)
    assert finished(cell, 0) is None
    for read in (
        lambda: read_cell(cell).checked(),
        lambda: tables.numbers_of(read_cell(cell)),
        lambda: results.cell_content("study", "block", CONDITION, cell.parent, 2),
        lambda: series.load(whole),
        lambda: api.Run(whole).summary,
    ):
        with pytest.raises(DamagedError):
            read()
    assert finished(cell, 1)


def test_damage_of_present_files_is_found_in_results_without_raw_files(cell):
    for name in ("tcp.csv", "host.json"):
        (cell.parent / "0" / name).unlink()
    (cell.parent / "0/more.csv").touch()
    assert read_cell(cell).problems(present_only=True) == [[], []]
    flip(cell.parent / "0/queue.csv")
    assert read_cell(cell).problems(present_only=True) == [
        ["queue.csv has changed since it was measured"], []
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [{"summary": {"goodput_mbit": 211852.0}}, {"valid": False}, {"seed": 7},
     {"reasons": ["made up"]}, {"manifest_sha256": "0" * 64}],
)  # fmt: skip
def test_summary_that_contradicts_its_manifests_is_found(cell, change):
    content = json.loads(cell.read_text())
    content["replicates"][1] |= change
    cell.write_text(json.dumps(content))
    with pytest.raises(DamagedError, match="replicate 1: values differ"):
        read_cell(cell).checked()


@pytest.mark.parametrize("key", [*results.MANIFEST_KEYS, "cell"])
def test_sealed_manifest_without_a_key_is_damage(cell, key):
    manifest = json.loads((cell.parent / "0/manifest.json").read_text())
    del manifest[key]
    sealed.replicate(cell.parent / "0", manifest)
    with pytest.raises(DamagedError, match=f"(?s)replicate 0: .*'{key}' is a required property"):
        read_cell(cell).checked()


def test_replicate_or_cell_in_anothers_place_is_found(cell):
    other = cell.parent.rename(cell.parents[1] / "another-cell")
    with pytest.raises(DamagedError, match=r"cell\.json is of another cell"):
        read_cell(other / "cell.json").checked()
    folder = other.rename(cell.parent)
    for old, new in (("0", "x"), ("1", "0"), ("x", "1")):
        os.rename(folder / old, folder / new)
    with pytest.raises(DamagedError, match="values differ"):
        read_cell(cell).checked()


def test_replicates_that_a_cell_does_not_list_are_not_plotted(cell):
    """Leftovers of a measurement of more replicates, maybe of another condition."""
    sealed.cell(cell.parent, CONDITION.to_json(), 1)
    assert series.replicates(cell.parent) == [cell.parent / "0"]


# Files from elsewhere: any content is read or refused


def written(tmp_path, name, data):
    path = tmp_path / f"{name}.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def test_files_of_losslab_are_read_with_unknown_keys(tmp_path):
    later = {"later": 1}
    for name, data in (("manifest", MANIFEST), ("host", HOST), ("cell", CELL)):
        written(tmp_path, name, data | later)
    one = Replicate(tmp_path)
    assert (one.manifest, one.host) == (MANIFEST | later, HOST | later)
    assert read_cell(tmp_path / "cell.json").content == CELL | later


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"backend": "ns3"}, "backend: 'ns3' is not one of"),
        ({"instrument": {"where": "the moon"}}, "instrument.where"),
        ({"seed": 1.0}, "a seed must be a whole number, found 1.0"),
        ({"seed": -1}, "seed"),
        ({"summary": {"goodput_mbit": "5"}}, "summary.goodput_mbit"),
        ({"summary": {"goodput_mbit": float("nan")}}, "must be JSON"),
        ({"captures": ["../x"]}, "captures"),
        ({"format": "2.0"}, "must have results format 1.x"),
        ({"cell": {"algorithm": "cubic", "speed": 1}}, "unknown condition keys: 'speed'"),
        ({"cell": {}}, "a condition must set algorithm"),
    ],
)
def test_manifest_with_an_invalid_value_is_refused(tmp_path, change, words):
    with pytest.raises(UsageError, match=words):
        results.read_manifest(written(tmp_path, "manifest", MANIFEST | change))


@pytest.mark.parametrize("name", ["..", "a/b", "", "a\n"])
def test_cell_name_that_is_no_folder_name_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match="cell: "):
        read_cell(written(tmp_path, "cell", CELL | {"cell": name}))


@pytest.mark.parametrize("text", ["{}", "[]", "null", "{", "1", '{"seed": 1e400}'])
@pytest.mark.parametrize("command", [["rerun"], ["export", "--qlog"]])
def test_commands_refuse_a_malformed_manifest(tmp_path, capsys, command, text):
    assert cli.main([*command, str(written(tmp_path, "manifest", text))]) == 2
    assert "losslab: error: " in capsys.readouterr().err


# Folders of cells


def test_cells_are_found_by_study_and_name_once_each(tmp_path):
    with pytest.raises(LosslabError, match="must contain measured cells"):
        read_cells(tmp_path)
    folder = write_cell(tmp_path / "a", "cell", [1, 2, 3])
    (folder / ".losslab-partial").mkdir()  # of a killed process
    (folder / ".losslab-partial" / "cell.json").touch()
    linked = tmp_path / "c" / "cells"
    linked.parent.mkdir()
    linked.symlink_to(folder.parents[1])  # on another disk
    assert read_cells(linked.parent)["loss/cell"].file == linked / "loss/cell/cell.json"
    write_cell(tmp_path / "b", "cell", [1, 2, 3])
    with pytest.raises(LosslabError, match=r"must have each cell once, found .*/a/.* and .*/b/"):
        read_cells(tmp_path)


def test_skipped_cells_are_no_measured_cells(tmp_path):
    folder = write_cell(tmp_path, "cell", [])
    content = json.loads((folder / "cell.json").read_text())
    (folder / "cell.json").write_text(json.dumps(content | {"absent": "its trace is not there"}))
    assert read_cells(tmp_path) == {}


def test_two_replicates_of_one_seed_are_refused(tmp_path):
    write_cell(tmp_path, "cell", [1, 2, 3], seeds=[1, 2, 2])
    with pytest.raises(UsageError, match="must have another seed in each replicate"):
        read_cells(tmp_path)
