"""Comparing the files of a cell's replicates: missing, empty, added and changed ones."""

import json
import shutil

import pytest

from losslab import cli
from losslab.campaign import cellfiles, diff
from losslab.screen import difftable
from tests import sealed
from tests.unit.campaign.cells import INSTRUMENT, write_cell

VALUES = [100, 110, 90, 105, 97]
OTHERS = [104, 95, 92, 108, 101]


@pytest.fixture
def sets(tmp_path):
    return tmp_path / "a", tmp_path / "b"


@pytest.fixture(params=[True, False], ids=["digests", "format 1.0"])
def digests(request):
    return request.param


@pytest.fixture
def same(sets, digests):
    """Two sets by one instrument, with the same bytes; the folder of B's cell."""
    more = {"instrument": INSTRUMENT, "digests": digests}
    return [write_cell(root, "cell", VALUES, **more) for root in sets][1]


@pytest.fixture
def other(sets, digests):
    """Two sets by different instruments, whose numbers agree; the folder of B's cell."""
    write_cell(sets[0], "cell", VALUES, digests=digests)
    return write_cell(sets[1], "cell", OTHERS, digests=digests)


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


def test_lost_guests_are_no_agreement(sets):
    for root in sets:
        folder = write_cell(root, "cell", [None], instrument=INSTRUMENT)
        sealed.edit(folder / "0" / "manifest.json", lost=True)
        sealed.again(folder / "0")
    assert only(sets).verdict == diff.Verdict.TOO_FEW
    assert status(sets) == 1


@pytest.mark.parametrize("which", ["same", "other"])
def test_empty_tables_are_named_and_fail(sets, which, digests, request, capsys):
    folder = request.getfixturevalue(which)
    for number in range(len(VALUES)):
        (folder / str(number) / "tcp.csv").write_text("")
    found = only(sets)
    assert found.verdict == diff.Verdict.INCONSISTENT
    what = "another tcp.csv than was measured" if digests else "an empty tcp.csv"
    assert f"B has {what} (replicates 0, 1, 2, 3, 4)" in found.problems
    assert status(sets) == status(sets, "--common") == 1
    assert f"loss/cell: B has {what} (replicates 0, 1, 2, 3, 4)" in capsys.readouterr().out


def test_tables_that_are_empty_on_both_sides_are_no_agreement(sets, same, digests):
    for root in sets:
        (root / "cells" / "loss" / "cell" / "0" / "tcp.csv").write_text("")
    what = "another tcp.csv than was measured" if digests else "an empty tcp.csv"
    assert only(sets).problems == [f"{side} has {what} (replicate 0)" for side in "AB"]
    assert status(sets) == 1


@pytest.mark.parametrize("which", ["same", "other"])
@pytest.mark.parametrize("name", ["tcp.csv", "sender.log", "manifest.json"])
def test_a_missing_file_is_named_and_fails(sets, which, name, digests, request, capsys):
    folder = request.getfixturevalue(which)
    (folder / "3" / name).unlink()
    assert only(sets).verdict == diff.Verdict.INCONSISTENT
    assert status(sets) == 1
    assert name in capsys.readouterr().out
    assert f"B has no {name} (replicate 3)" in only(sets, common=True).problems


@pytest.mark.parametrize("which", ["same", "other"])
def test_a_file_that_no_replicate_of_one_side_has_is_named(sets, which, digests, request):
    folder = request.getfixturevalue(which)
    for number in range(len(VALUES)):
        (folder / str(number) / "flows.csv").write_text("name\n1\n")
    assert "flows.csv is in B only" in only(sets).problems
    assert status(sets) == 1
    assert status(sets, "--common") == 0


@pytest.mark.parametrize("which", ["same", "other"])
def test_a_file_added_to_one_replicate_is_named(sets, which, digests, request):
    folder = request.getfixturevalue(which)
    (folder / "2" / "more.csv").write_text("t\n1\n")
    assert "more.csv is in B only" in only(sets).problems
    assert status(sets) == 1
    assert "B has no more.csv (replicates 0, 1, 3, 4)" in only(sets, common=True).problems


def test_a_table_without_rows_is_a_difference_unless_both_have_none(sets, other, digests):
    def empty(root):
        folder = root / "cells" / "loss" / "cell" / "1"
        (folder / "tcp.csv").write_text("t,cwnd\n")
        if digests:  # measured so
            sealed.again(folder)

    empty(sets[1])
    assert only(sets).problems == ["B has no rows in tcp.csv (replicate 1)"]
    assert status(sets) == 1
    empty(sets[0])
    assert only(sets).verdict == diff.Verdict.NO_DIFFERENCE


def test_files_below_a_folder_are_compared(sets, same, digests):
    for root in sets:
        folder = root / "cells" / "loss" / "cell" / "0"
        (folder / "logs").mkdir()
        (folder / "logs" / "one").write_text(root.name)
        if digests:
            sealed.again(folder)
    assert any(
        problem.startswith("logs/one must have the same bytes, found line 1: 'a', 'b'")
        for problem in only(sets).problems
    )


@pytest.mark.parametrize("name", ["tcp.csv", "sender.log"])
def test_the_same_instrument_and_seed_must_give_the_same_bytes(sets, same, digests, name):
    with (same / "4" / name).open("a") as file:
        file.write("2,9\n")
    if digests:  # measured so
        sealed.again(same / "4")
    found = only(sets)
    assert found.verdict == diff.Verdict.INCONSISTENT
    assert any(
        p.startswith(f"{name} must have the same bytes, found line ") for p in found.problems
    )
    assert status(sets) == 1


def test_another_number_from_the_same_instrument_and_seed_is_a_difference(sets):
    write_cell(sets[0], "cell", VALUES, instrument=INSTRUMENT)
    write_cell(sets[1], "cell", OTHERS, instrument=INSTRUMENT)
    found = only(sets)
    assert found.verdict == diff.Verdict.INCONSISTENT
    assert any(p.startswith("manifest.json must have the same bytes") for p in found.problems)


def test_in_real_time_the_same_seed_gives_other_bytes(sets):
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
def test_a_manifest_that_cell_json_contradicts_is_named(sets, other, digests, change):
    path = other / "2" / "manifest.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    assert only(sets).verdict == diff.Verdict.INCONSISTENT
    assert status(sets) == 1
    if not digests:
        assert only(sets).problems == [f"B has {cellfiles.OTHER_VALUES} (replicate 2)"]


def test_a_cell_json_that_its_manifests_contradict_is_named(sets, other):
    file = other / "cell.json"
    rows = json.loads(file.read_text())["replicates"]
    rows[2]["summary"]["goodput_mbit"] = 93
    sealed.edit(file, replicates=rows)
    assert only(sets).problems == [f"B has {cellfiles.OTHER_VALUES} (replicate 2)"]


def test_results_without_raw_folders_are_compared_only_on_request(sets, other):
    for number in range(len(OTHERS)):
        shutil.rmtree(other / str(number))
    assert only(sets).verdict == diff.Verdict.INCONSISTENT
    assert status(sets) == 1
    assert status(sets, "--common") == 0
    assert only(sets, common=True).verdict == diff.Verdict.NO_DIFFERENCE


def test_one_missing_folder_is_named_even_then(sets, other):
    shutil.rmtree(other / "1")
    assert only(sets, common=True).problems == ["B has no files (replicate 1)"]


def test_files_are_looked_for_also_where_seeds_differ(sets, digests):
    write_cell(sets[0], "cell", VALUES, digests=digests)
    folder = write_cell(sets[1], "cell", OTHERS, seeds=range(10, 15), digests=digests)
    assert status(sets) == 0
    for number in range(len(OTHERS)):
        (folder / str(number) / "tcp.csv").unlink()
    assert "tcp.csv is in A only" in only(sets).problems


def test_many_problems_are_shortened_in_the_table_alone(sets, other):
    for number in range(4):
        with (other / str(number) / "manifest.json").open("w") as file:
            file.write("{")
        (other / str(number) / f"{number}.csv").touch()
    comparison = diff.compare_sets(*sets)
    text = difftable.text(comparison)
    count = len(comparison.cells[0].problems)
    assert count > 4
    assert f"loss/cell: and {count - 3} more problems (all are in --json)" in text
    assert json.loads(diff.as_json(comparison))["cells"][0]["problems"]
