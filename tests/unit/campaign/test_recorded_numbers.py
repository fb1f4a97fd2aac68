"""Recorded numbers: a report made from them is the one made from the cells."""

import json
import lzma
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

from losslab.campaign import celldata, collect, provenance, recorded_numbers
from losslab.campaign.folder import read_json
from losslab.campaign.integrity import DamagedError
from losslab.errors import LosslabError
from losslab.reading import UsageError, read_rows
from losslab.study.intervals import StoppingRule
from tests import sealed
from tests.golden import seam


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return seam.load_study(seam.project(tmp_path_factory.mktemp("project")))


@pytest.fixture(scope="module")
def measured(tmp_path_factory, study):
    """Return the results folder of a measured study."""
    folder = tmp_path_factory.mktemp("measured")
    seam.unpack(folder / "cells" / study.name)
    return folder


@pytest.fixture(scope="module")
def once(tmp_path_factory, study, measured):
    folder = tmp_path_factory.mktemp("record") / "numbers"
    recorded_numbers.update(measured, [study], folder, names(study.cells))
    return folder


@pytest.fixture
def record(tmp_path, once):
    """Return a folder with the numbers of the measured study."""
    return shutil.copytree(once, tmp_path / "numbers")


@pytest.fixture
def as_measured(monkeypatch, study, measured):
    """Give every cell the fingerprint that it was measured with."""
    digests = {
        cell.condition: read_json(path(measured, cell).parent / "0/manifest.json")["fingerprint"]
        for cell in study.cells
    }
    monkeypatch.setattr(
        recorded_numbers.fingerprint, "of",
        lambda condition, *_: SimpleNamespace(digest=digests[condition]["digest"]),
    )  # fmt: skip


def names(cells):
    return {f"{cell.study}/{cell.name}" for cell in cells}


def path(results, cell):
    return results / "cells" / cell.study / cell.name / "cell.json"


def lines(record, study):
    text = lzma.decompress(recorded_numbers.file_of(record, study.name).read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def write_lines(record, study, content):
    text = "".join(json.dumps(line) + "\n" for line in content)
    recorded_numbers.file_of(record, study.name).write_bytes(lzma.compress(text.encode()))


def written(tables, folder):
    tables.write(folder, "seam")
    return {path.stem.partition("_")[2]: path.read_text() for path in folder.iterdir()}


def test_tables_from_recorded_numbers_have_the_bytes_of_those_from_cells(
    tmp_path, study, measured, record
):
    names = [cell.name for cell in study.cells]
    found = recorded_numbers.read(record, study.name, names)
    again = written(collect.gather(found[name].data for name in names), tmp_path / "again")
    cells = (celldata.read(path(measured, cell), cell.name in study.series) for cell in study.cells)
    assert again == written(collect.gather(cells), tmp_path / "first")
    assert len(again["flows"].splitlines()) > 100
    assert len(again["queue"].splitlines()) > 100


def test_provenance_of_recorded_cells_is_theirs_and_says_that_they_are_recorded(
    tmp_path, study, measured, record
):
    overview = tmp_path / "overview.csv"
    rows = [{"study": study.name, "cell": cell.name, "recorded": "FALSE"} for cell in study.cells]
    collect.write_csv(overview, list(rows[0]), rows)
    here = list(provenance.records([overview], measured))
    rows = [row | {"recorded": "TRUE"} for row in rows]
    collect.write_csv(overview, list(rows[0]), rows)
    there = list(provenance.records([overview], tmp_path, record))
    assert provenance.digests(here) == provenance.digests(there)
    note = {"part": "not measured here", "what": f"numbers recorded in {record}"}
    assert provenance.table(there) == [note | {"cells": len(rows)}, *provenance.table(here)]
    with pytest.raises(UsageError, match="--recorded must name the folder"):
        list(provenance.records([overview], tmp_path))


@pytest.mark.usefixtures("as_measured")
def test_cells_measured_for_the_same_are_available(study, record):
    assert recorded_numbers.available(record, study.cells) == {
        (c.study, c.name) for c in study.cells
    }


@pytest.mark.usefixtures("as_measured")
@pytest.mark.parametrize(
    "change", [{"stopping": StoppingRule(7, 7)}, {"seed_family": 2}, {"block": "another"}]
)
def test_cell_that_needs_other_runs_is_not_available(study, record, change):
    first, *others = study.cells
    cells = [replace(first, **change), *others]
    assert recorded_numbers.available(record, cells) == {(c.study, c.name) for c in others}


def test_cells_measured_with_another_instrument_are_not_available(study, record, monkeypatch):
    other = SimpleNamespace(digest="0" * 16)
    monkeypatch.setattr(recorded_numbers.fingerprint, "of", lambda *_: other)
    assert recorded_numbers.available(record, study.cells) == set()


def test_only_named_cells_are_recorded_and_numbers_of_others_are_kept(
    tmp_path, study, measured, record
):
    before, first = lines(record, study), study.cells[:1]
    for recorded, kept in ((record, study.cells), (tmp_path / "new", first)):
        assert recorded_numbers.update(measured, [study], recorded, names(first)) == 1
        assert len(lines(recorded, study)) == len(kept)
        assert len(read_rows(recorded / "cells.tsv", "\t")) == len(kept)
    assert lines(record, study) == before


def test_damaged_cell_is_not_recorded(tmp_path, study, measured):
    copy = shutil.copytree(measured, tmp_path / "copy")
    file = next(copy.glob("cells/*/*/0/tcp.csv"))
    file.write_text(file.read_text()[:-2])
    with pytest.raises(DamagedError, match=r"tcp\.csv has changed"):
        recorded_numbers.update(copy, [study], tmp_path / "numbers", names(study.cells))
    assert not (tmp_path / "numbers").exists()


def test_cell_with_runs_of_two_instruments_is_not_recorded(tmp_path, study, measured):
    copy = shutil.copytree(measured, tmp_path / "copy")
    cell = path(copy, study.cells[0])
    manifest = read_json(cell.parent / "0/manifest.json")
    manifest["fingerprint"]["digest"] = "0" * 16
    sealed.replicate(cell.parent / "0", manifest)
    content = read_json(cell)
    count = len(content["replicates"])
    sealed.cell(cell.parent, content["condition"], count, content["study"], content["block"])
    with pytest.raises(LosslabError, match="must have runs of one instrument, found 2"):
        recorded_numbers.update(copy, [study], tmp_path / "numbers", names(study.cells))


def cut(record, study):
    file = recorded_numbers.file_of(record, study.name)
    file.write_bytes(file.read_bytes()[:-50])


def without_a_cell(record, study):
    write_lines(record, study, lines(record, study)[1:])


def with_a_cell_twice(record, study):
    write_lines(record, study, lines(record, study)[:1] + lines(record, study))


def with_an_unknown_key(record, study):
    write_lines(record, study, [line | {"more": 1} for line in lines(record, study)])


def without_a_replicate(record, study):
    found = lines(record, study)
    found[0]["analysed"].pop()
    write_lines(record, study, found)


def without_its_index(record, study):
    (record / "cells.tsv").unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "must be a readable .xz file"),
        (without_a_cell, "must have the cell"),
        (with_a_cell_twice, "a cell without another line"),
        (with_an_unknown_key, "more"),
        (without_a_replicate, "must have numbers of"),
        (without_its_index, r"cells\.tsv"),
    ],
)
def test_damaged_record_is_refused_with_a_way_out(study, record, damage, message):
    damage(record, study)
    with pytest.raises(UsageError, match=message) as caught:
        recorded_numbers.available(record, study.cells)
        recorded_numbers.read(record, study.name, [cell.name for cell in study.cells])
    assert "->" in str(caught.value)
