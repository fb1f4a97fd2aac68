"""Raw files of compared replicates, and results of two versions of the code."""

import json
import shutil

import pytest

from losslab import cli
from losslab.campaign import cellfiles, diff
from losslab.ui import tables
from tests import sealed
from tests.unit.campaign.cells import INSTRUMENT, write_cell

VALUES = [100, 110, 90, 105, 97]

OTHERS = [104, 95, 92, 108, 101]


@pytest.fixture
def sets(tmp_path):
    return tmp_path / "a", tmp_path / "b"


@pytest.fixture
def same(sets):
    """Write two sets of the same bytes by one instrument; return the folder of B's cell."""
    more = {"instrument": INSTRUMENT}
    return [write_cell(root, "cell", VALUES, **more) for root in sets][1]


@pytest.fixture
def other(sets):
    """Write two sets by different instruments that agree; return the folder of B's cell."""
    write_cell(sets[0], "cell", VALUES)
    return write_cell(sets[1], "cell", OTHERS)


def only(sets, **options):
    [cell] = diff.compare_sets(*sets, **options).cells
    return cell


def status(sets, *options):
    return cli.main(["diff", *map(str, sets), *options])


def test_same_bytes_need_no_statistics(sets):
    for root in sets:
        write_cell(root, "cell", [5], instrument=INSTRUMENT)
    found = only(sets)
    assert (found.verdict, found.problems) == (diff.Verdict.SAME_BYTES, [])
    assert status(sets) == 0


def test_invalid_replicates_may_have_the_same_bytes(sets):
    for root in sets:
        write_cell(root, "cell", [None], instrument=INSTRUMENT)
    assert status(sets) == 0


def test_lost_guests_do_not_agree(sets):
    for root in sets:
        folder = write_cell(root, "cell", [None], instrument=INSTRUMENT)
        sealed.edit(folder / "0" / "manifest.json", lost=True)
        sealed.reseal(folder / "0")
    assert only(sets).verdict == diff.Verdict.TOO_FEW
    assert status(sets) == 1


@pytest.mark.parametrize("which", ["same", "other"])
def test_empty_tables_are_named_and_fail(sets, which, request, capsys):
    folder = request.getfixturevalue(which)
    for number in range(len(VALUES)):
        (folder / str(number) / "tcp.csv").write_text("")
    found = only(sets)
    assert found.verdict == diff.Verdict.INCONSISTENT
    what = "tcp.csv has changed since it was measured"
    assert f"B: {what} (replicates 0, 1, 2, 3, 4)" in found.problems
    assert status(sets) == status(sets, "--common") == 1
    assert f"loss/cell: B: {what} (replicates 0, 1, 2, 3, 4)" in capsys.readouterr().out


def test_empty_tables_on_both_sides_do_not_agree(sets, same):
    for root in sets:
        (root / "cells" / "loss" / "cell" / "0" / "tcp.csv").write_text("")
    what = "tcp.csv has changed since it was measured"
    assert only(sets).problems == [f"{side}: {what} (replicate 0)" for side in "AB"]
    assert status(sets) == 1


@pytest.mark.parametrize("which", ["same", "other"])
@pytest.mark.parametrize("name", ["tcp.csv", "sender.log", "manifest.json"])
def test_missing_file_is_named_and_fails(sets, which, name, request, capsys):
    folder = request.getfixturevalue(which)
    (folder / "3" / name).unlink()
    assert only(sets).verdict == diff.Verdict.INCONSISTENT
    assert status(sets) == 1
    assert name in capsys.readouterr().out
    assert f"B: {name} is missing (replicate 3)" in only(sets, common=True).problems


@pytest.mark.parametrize("which", ["same", "other"])
def test_file_missing_on_one_side_is_named(sets, which, request):
    folder = request.getfixturevalue(which)
    for number in range(len(VALUES)):
        (folder / str(number) / "flows.csv").write_text("name\n1\n")
    assert "flows.csv is in B only" in only(sets).problems
    assert status(sets) == 1
    assert status(sets, "--common") == 0


@pytest.mark.parametrize("which", ["same", "other"])
def test_file_added_to_one_replicate_is_named(sets, which, request):
    folder = request.getfixturevalue(which)
    (folder / "2" / "more.csv").write_text("t\n1\n")
    assert "more.csv is in B only" in only(sets).problems
    assert status(sets) == 1
    assert "B: more.csv is missing (replicates 0, 1, 3, 4)" in only(sets, common=True).problems


def test_table_without_rows_on_one_side_is_a_difference(sets, other):
    def empty(root):
        folder = root / "cells" / "loss" / "cell" / "1"
        (folder / "tcp.csv").write_text("t,cwnd\n")
        sealed.reseal(folder)  # as if measured

    empty(sets[1])
    assert only(sets).problems == ["B: tcp.csv has no rows (replicate 1)"]
    assert status(sets) == 1
    empty(sets[0])
    assert only(sets).verdict == diff.Verdict.NO_DIFFERENCE


def test_files_in_subfolders_are_compared(sets, same):
    for root in sets:
        folder = root / "cells" / "loss" / "cell" / "0"
        (folder / "logs").mkdir()
        (folder / "logs" / "one").write_text(root.name)
        sealed.reseal(folder)
    assert any(
        problem.startswith("logs/one must have the same bytes, found line 1: 'a', 'b'")
        for problem in only(sets).problems
    )


@pytest.mark.parametrize("name", ["tcp.csv", "sender.log"])
def test_same_instrument_and_seed_must_give_the_same_bytes(sets, same, name):
    with (same / "4" / name).open("a") as file:
        file.write("2,9\n")
    sealed.reseal(same / "4")  # as if measured
    found = only(sets)
    assert found.verdict == diff.Verdict.INCONSISTENT
    assert any(
        p.startswith(f"{name} must have the same bytes, found line ") for p in found.problems
    )
    assert status(sets) == 1


def test_same_instrument_and_seed_must_give_the_same_value(sets):
    write_cell(sets[0], "cell", VALUES, instrument=INSTRUMENT)
    write_cell(sets[1], "cell", OTHERS, instrument=INSTRUMENT)
    found = only(sets)
    assert found.verdict == diff.Verdict.INCONSISTENT
    assert any(p.startswith("manifest.json must have the same bytes") for p in found.problems)


def test_bytes_may_differ_in_real_time(sets):
    where = {"instrument": {"where": "host"}}
    write_cell(sets[0], "cell", VALUES, **where)
    write_cell(sets[1], "cell", OTHERS, **where)
    found = only(sets)
    assert (found.verdict, found.problems) == (diff.Verdict.NO_DIFFERENCE, [])


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest | {"summary": {"goodput_mbit": 5}},
        lambda manifest: manifest | {"seed": 77},
        lambda manifest: manifest | {"valid": 1},
        lambda manifest: [],
    ],
)
def test_manifest_that_contradicts_cell_json_is_named(sets, other, change):
    path = other / "2" / "manifest.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    assert only(sets).verdict == diff.Verdict.INCONSISTENT
    assert status(sets) == 1


def test_cell_json_that_contradicts_its_manifests_is_named(sets, other):
    file = other / "cell.json"
    rows = json.loads(file.read_text())["replicates"]
    rows[2]["summary"]["goodput_mbit"] = 93
    sealed.edit(file, replicates=rows)
    assert only(sets).problems == [f"B: {cellfiles.OTHER_VALUES} (replicate 2)"]


def test_results_without_raw_folders_are_compared_only_on_request(sets, other):
    for number in range(len(OTHERS)):
        shutil.rmtree(other / str(number))
    assert only(sets).verdict == diff.Verdict.INCONSISTENT
    assert status(sets) == 1
    assert status(sets, "--common") == 0
    assert only(sets, common=True).verdict == diff.Verdict.NO_DIFFERENCE


def test_missing_folder_of_one_replicate_is_named_on_request_too(sets, other):
    shutil.rmtree(other / "1")
    assert only(sets, common=True).problems == ["B: no files (replicate 1)"]


def test_files_are_compared_for_different_seeds_too(sets):
    write_cell(sets[0], "cell", VALUES)
    folder = write_cell(sets[1], "cell", OTHERS, seeds=range(10, 15))
    assert status(sets) == 0
    for number in range(len(OTHERS)):
        (folder / str(number) / "tcp.csv").unlink()
    assert "tcp.csv is in A only" in only(sets).problems


def test_problems_are_shortened_in_the_table_only(sets, other):
    for number in range(4):
        with (other / str(number) / "manifest.json").open("w") as file:
            file.write("{")
        (other / str(number) / f"{number}.csv").touch()
    comparison = diff.compare_sets(*sets)
    text = tables.diff_text(comparison)
    count = len(comparison.cells[0].problems)
    assert count > 4
    assert f"loss/cell: and {count - 3} more problems (all are in --json)" in text
    assert json.loads(diff.as_json(comparison))["cells"][0]["problems"]


@pytest.mark.parametrize(
    ("values", "codes", "verdict", "problems"),
    [
        ([100.0] * 5, ("aa", "bb"), diff.Verdict.SAME_BYTES, 0),
        ([101.0] * 5, ("aa", "bb"), diff.Verdict.UNEQUAL, 0),
        ([101.0] * 5, ("aa", "aa"), diff.Verdict.UNEQUAL, 2),
    ],
    ids=["same bytes", "other bytes", "other bytes of the same code"],
)
def test_versions_of_the_code_are_compared_by_their_results(
    tmp_path, values, codes, verdict, problems
):
    sets = tmp_path / "a", tmp_path / "b"
    for folder, measured, code in zip(sets, ([100.0] * 5, values), codes, strict=True):
        write_cell(folder, "cell", measured, instrument={}, fingerprint={"digest": code})
    (found,) = diff.compare_sets(*sets).cells
    # The same code must give the same manifest.json and tcp.csv.
    assert (found.verdict, len(found.problems)) == (verdict, problems)
