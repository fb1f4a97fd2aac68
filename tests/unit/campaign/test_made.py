"""Record of the files that the workflow made."""

import pytest

from losslab.campaign import made, recorded
from losslab.campaign.made import Made

CELL, OTHER = "results/cells/loss/a/cell.json", "results/cells/loss/b/cell.json"
TABLE, PAGE = "results/tables/a.csv", "results/report/report.html"
FILES = {CELL: "1", TABLE: "2", PAGE: "3"}
NOW = Made("x", FILES, whole=True)


def after(before, now=NOW, ran=(), outputs=FILES):
    return made.after_run(before, now, set(ran), None if outputs is None else {*outputs})


def test_first_run_makes_a_whole_record_from_cells_of_earlier_runs():
    assert after(Made(), ran=[TABLE, PAGE]) == NOW


def test_file_of_an_unrecorded_run_is_not_current():
    assert after(Made(), ran=[PAGE]) == Made("x", {CELL: "1", PAGE: "3"})


def test_recorded_files_remain_current():
    assert after(NOW, ran=[PAGE]) == NOW
    failed = after(Made(), Made("x", {CELL: "1", TABLE: "2"}, True), [TABLE], None)
    assert failed == Made("x", {CELL: "1", TABLE: "2"})
    assert after(failed, ran=[PAGE]) == NOW


@pytest.mark.parametrize("edited", [CELL, TABLE])
def test_file_edited_between_two_runs_is_not_current(edited):
    """A page of this run may have been made from it."""
    found = after(Made("x", FILES | {edited: "0"}, True), ran=[PAGE])
    assert found == Made("x", {CELL: "1", PAGE: "3"})
    assert not after(found, ran=[PAGE]).whole


def test_cell_added_by_hand_outdates_recorded_files():
    more = Made("x", FILES | {OTHER: "4"}, True)
    assert after(NOW, more, [PAGE], more.files) == Made("x", {CELL: "1", OTHER: "4", PAGE: "3"})
    assert after(NOW, more, [OTHER, PAGE], more.files) == more


def test_other_sources_or_software_make_every_file_again():
    assert not after(Made("y", FILES, True), ran=[PAGE]).whole
    assert after(Made("y", FILES, True), ran=[TABLE, PAGE]) == NOW


def test_file_of_no_job_and_missing_file_are_found():
    more = Made("x", FILES | {"results/tables/more.csv": "4"}, True)
    assert not after(more, more, [PAGE]).whole
    assert not after(NOW, ran=[PAGE], outputs=[*FILES, "results/tables/gone.csv"]).whole


def test_changed_table_of_a_partial_run_outdates_what_follows():
    """The next run may start with files whose times say nothing, as after `cp -r`."""
    found = after(NOW, Made("x", FILES | {TABLE: "4"}, True), [TABLE], [CELL, TABLE])
    assert found == Made("x", {CELL: "1", TABLE: "4"})


def test_folder_and_its_record(tmp_path):
    (tmp_path / TABLE).parent.mkdir(parents=True)
    (tmp_path / TABLE).write_text("a\n")
    for content in ("", "x"):
        (tmp_path / "results/tables" / made.MARK).write_text(content)
        found = made.present(tmp_path, [CELL], "x")
        # Only Snakemake's own mark is empty.
        assert len(found.files) == 1 + len(content)
    assert made.read(tmp_path) == Made()
    made.write(found, tmp_path)
    assert made.read(tmp_path) == found
    (tmp_path / TABLE).write_text("b\n")
    assert made.read(tmp_path) != made.present(tmp_path, [CELL], "x")
    (tmp_path / made.FILE).write_text("[]")
    assert made.read(tmp_path) == Made()


def test_outputs_are_expanded_to_the_files_that_are_recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "results/report/tables"
    folder.mkdir(parents=True)
    for name in ("a.csv", made.MARK):
        (folder / name).write_text("")
    outputs = [CELL, OTHER, "results/report/tables", "results/instrument/a.json", PAGE, "gone"]
    assert made.expanded(outputs, [CELL]) == {CELL, PAGE, "results/report/tables/a.csv"}


def test_maker_is_of_sources_configuration_and_software(tmp_path, monkeypatch):
    monkeypatch.setattr(recorded, "software", lambda: {"r-base": "4.5.0"})
    for name in ("analysis/a.R", "src/a.py", "src/__pycache__/a.pyc", "docs/a.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    first = made.maker({}, tmp_path)
    for name in ("src/__pycache__/a.pyc", "docs/a.md"):
        (tmp_path / name).write_text("2")
    assert made.maker({}, tmp_path) == first
    assert made.maker({"a": 1}, tmp_path) != first
    (tmp_path / "analysis/a.R").write_text("2")
    changed = made.maker({}, tmp_path)
    assert changed != first
    monkeypatch.setattr(recorded, "software", dict)
    assert made.maker({}, tmp_path) not in (first, changed)
