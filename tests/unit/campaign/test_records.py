"""Recorded numbers: a report made from them is the one made from the cells."""

import json
import lzma
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

import losslab
from losslab import cli
from losslab.campaign import records, results, tables
from losslab.campaign.results import read_cell
from losslab.errors import LosslabError
from losslab.reading import UsageError, read_rows
from losslab.study.intervals import StoppingRule
from tests import sealed
from tests.golden import seam
from tests.unit.campaign.cells import CODE, write_cell
from tests.unit.study.test_condition import CONDITION


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
    records.update(measured, [study], folder, names(study.cells))
    return folder


@pytest.fixture
def record(tmp_path, once):
    """Return a folder with the numbers of the measured study."""
    return shutil.copytree(once, tmp_path / "numbers")


@pytest.fixture
def as_measured(monkeypatch, study, measured):
    """Give every cell the fingerprint that it was measured with."""
    digests = {
        cell.condition: read_cell(path(measured, cell)).replicates[0].manifest["fingerprint"]
        for cell in study.cells
    }
    monkeypatch.setattr(
        records.fingerprint, "of",
        lambda condition, *_: SimpleNamespace(digest=digests[condition]["digest"]),
    )  # fmt: skip


def names(cells):
    return {f"{cell.study}/{cell.name}" for cell in cells}


def path(results, cell):
    return results / "cells" / cell.study / cell.name / "cell.json"


def lines(record, study):
    text = lzma.decompress(records.file_of(record, study.name).read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def write_lines(record, study, content):
    text = "".join(json.dumps(line) + "\n" for line in content)
    records.file_of(record, study.name).write_bytes(lzma.compress(text.encode()))


def written(found, folder):
    found.write(folder, "seam")
    return {path.stem: path.read_text() for path in (folder / "seam").iterdir()}


def test_tables_from_records_have_the_bytes_of_those_from_cells(tmp_path, study, measured, record):
    names = [cell.name for cell in study.cells]
    found = records.read(record, study.name, names)
    again = written(tables.gather(found[name] for name in names), tmp_path / "again")
    cells = (
        tables.numbers_of(read_cell(path(measured, cell)), cell.name in study.series)
        for cell in study.cells
    )
    assert again == written(tables.gather(cells), tmp_path / "first")
    assert len(again["flows"].splitlines()) > 100
    assert len(again["queue"].splitlines()) > 100


def test_provenance_of_recorded_cells_is_theirs_and_says_that_they_are_recorded(
    tmp_path, study, measured, record
):
    overview = tmp_path / "overview.csv"
    rows = [{"study": study.name, "cell": cell.name, "recorded": "FALSE"} for cell in study.cells]
    tables.write_csv(overview, list(rows[0]), rows)
    here = list(records.origins([overview], measured))
    rows = [row | {"recorded": "TRUE"} for row in rows]
    tables.write_csv(overview, list(rows[0]), rows)
    there = list(records.origins([overview], tmp_path, record))
    assert records.digests(here) == records.digests(there)
    note = {
        "part": "not measured here",
        "what": f"numbers recorded in {record}, by the same measuring code",
    }
    assert records.origin_table(there) == [note | {"cells": len(rows)}, *records.origin_table(here)]
    # A cell that is not measured has no machine and no day.
    absent = records.Origin(here[0].content | {"replicates": []}, [])
    assert records.origin_table([*here, absent]) == records.origin_table(here)
    with pytest.raises(UsageError, match="--recorded must name the folder"):
        list(records.origins([overview], tmp_path))


@pytest.mark.usefixtures("as_measured")
def test_cells_measured_for_the_same_are_available(study, record):
    assert records.available(record, study.cells) == {(c.study, c.name) for c in study.cells}


@pytest.mark.usefixtures("as_measured")
@pytest.mark.parametrize(
    "change", [{"stopping": StoppingRule(7, 7)}, {"seed_family": 2}, {"block": "another"}]
)
def test_cell_that_needs_other_runs_is_not_available(study, record, change):
    first, *others = study.cells
    cells = [replace(first, **change), *others]
    assert records.available(record, cells) == {(c.study, c.name) for c in others}


FORGERIES = [
    (lambda its: its["summary"].update(goodput_mbit=5e6), "goodput_mbit must be at most"),
    (lambda its: its["summary"].update(goodput_mbit=-5), "must be a number from 0"),
    (lambda its: its.update(reasons=["a check failed"]), "is valid with a violation"),
    (lambda its: its["summary"].update(goodput_mbit=its["summary"]["goodput_mbit"] * 0.9),
     "other numbers than in .*record.tsv"),
]  # fmt: skip


@pytest.mark.usefixtures("as_measured")
@pytest.mark.parametrize(("forge", "message"), FORGERIES)
def test_t2_forged_numbers_are_refused(study, measured, record, forge, message):
    records.update_record(measured, record / "record.tsv")
    assert len(records.available(record, study.cells)) == len(study.cells)
    content = lines(record, study)
    (first,) = (line for line in content if line["content"]["cell"].startswith("bulk_cubic_loss1"))
    row = next(row for row in first["content"]["replicates"] if row["valid"])
    forge(row)
    write_lines(record, study, content)
    with pytest.raises(UsageError, match=message):
        records.available(record, study.cells)


def test_only_named_cells_are_recorded_and_numbers_of_others_are_kept(
    tmp_path, study, measured, record
):
    before, first = lines(record, study), study.cells[:1]
    for recorded, kept in ((record, study.cells), (tmp_path / "new", first)):
        assert records.update(measured, [study], recorded, names(first)) == 1
        assert len(lines(recorded, study)) == len(kept)
        assert len(read_rows(recorded / "cells.tsv", "\t")) == len(kept)
    assert lines(record, study) == before


def test_cell_with_runs_of_two_instruments_is_not_recorded(tmp_path, study, measured):
    copy = shutil.copytree(measured, tmp_path / "copy")
    cell = path(copy, study.cells[0])
    manifest = results.read_manifest(cell.parent / "0/manifest.json")
    manifest["fingerprint"]["digest"] = "0" * 16
    sealed.replicate(cell.parent / "0", manifest)
    content = read_cell(cell).content
    count = len(content["replicates"])
    sealed.cell(cell.parent, content["condition"], count, content["study"], content["block"])
    with pytest.raises(LosslabError, match="must have runs of one instrument, found 2"):
        records.update(copy, [study], tmp_path / "numbers", names(study.cells))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda its: its[1:], "must have the cell"),
        (lambda its: its[:1] + its, "a recorded cell without another line"),
        (lambda its: [line | {"more": 1} for line in its], "more"),
        (lambda its: [its[0] | {"analysed": []}, *its[1:]], "must have numbers of"),
        ("loss.jsonl.xz", "must be a readable .xz file"),
        ("cells.tsv", r"cells\.tsv"),
    ],
)
def test_damaged_record_is_refused_with_a_way_out(study, record, damage, message):
    if damage == "cells.tsv":
        (record / damage).unlink()
    elif isinstance(damage, str):
        file = records.file_of(record, study.name)
        file.write_bytes(file.read_bytes()[:-50])
    else:
        write_lines(record, study, damage(lines(record, study)))
    with pytest.raises(UsageError, match=message) as caught:
        records.available(record, study.cells)
        records.read(record, study.name, [cell.name for cell in study.cells])
    assert "->" in str(caught.value)


def test_f4_recorded_numbers_are_read_as_the_tables_of_their_cells(study, measured, record):
    """Only a clone with Snakemake could read them; a cell that the index lacks is left out."""
    found, cells = losslab.read(record), losslab.read(measured)
    assert repr(found).startswith(f"<Results of {len(study.cells)} recorded cells in ")
    columns = ["study", "cell", "replicate", "seed", "valid", "goodput_mbit"]
    once, again = (
        each.replicates[columns].sort_values(columns).reset_index(drop=True)
        for each in (found, cells)
    )
    assert once.equals(again)
    assert len(found.means()) == len(cells.means())
    with pytest.raises(UsageError, match="found only recorded numbers"):
        found.runs()
    *lines, last = (record / "cells.tsv").read_text().splitlines()
    (record / "cells.tsv").write_text("\n".join([*lines, ""]))
    assert last.split("\t")[1] not in set(losslab.read(record).cells["cell"])


# Records with a row per cell


VALUES = [100.0, 110.0, 90.0, 105.0, 97.0]


@pytest.fixture
def folder(tmp_path):
    write_cell(tmp_path / "results", "one", VALUES)
    write_cell(tmp_path / "results", "two", [*VALUES[:3], None])
    return tmp_path / "results"


@pytest.fixture
def row_record(tmp_path, folder):
    path = tmp_path / "record.tsv"
    records.update_record(folder, path)
    return path


def compare(*arguments):
    return cli.main(["diff", *map(str, arguments)])


def test_record_has_a_row_per_cell_with_counts_mean_and_interval(row_record):
    one, two = records.read_record(row_record).values()
    assert (one.name, one.replicates, one.valid) == ("loss/one", 5, 5)
    assert (one.metric, one.mean) == ("goodput_mbit", "100.4")
    assert float(one.low) < 100.4 < float(one.high)
    assert (two.replicates, two.valid, two.mean, two.low) == (4, 3, "100", "")


def test_same_results_agree_with_their_record_whatever_code_measured_them(
    folder, row_record, capsys, tmp_path
):
    assert compare(folder, row_record) == 0
    assert "A and B agree: same bytes in 2 cells." in capsys.readouterr().out
    write_cell(tmp_path / "other", "one", VALUES, fingerprint=CODE | {"digest": "new"})
    assert compare(tmp_path / "other", row_record, "--common") == 0
    assert "only in B" not in capsys.readouterr().out


def test_other_bytes_do_not_agree_and_say_where_the_mean_lies(tmp_path, row_record, capsys):
    write_cell(tmp_path / "other", "one", [value * 2 for value in VALUES])
    assert compare(tmp_path / "other", row_record, "--common") == 1
    out = capsys.readouterr().out
    assert "different bytes in 1 cell" in out
    assert "the mean of A is outside the recorded confidence interval, " in out
    assert "the record has no durations: runs of another one have other bytes, too" in out
    # A folder with a record, and one that is not there.
    (tmp_path / "recorded").mkdir()
    shutil.copy(row_record, tmp_path / "recorded")
    assert cli.main(["diff", str(tmp_path / "recorded"), str(row_record)]) == 2
    assert f"its record is {tmp_path / 'recorded' / 'record.tsv'}" in capsys.readouterr().err
    assert cli.main(["diff", str(tmp_path / "absent"), str(row_record)]) == 2
    assert "absent must contain measured cells, found no such folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "status", "verdict"),
    [
        ([*VALUES, 88.0], 0, "same bytes in the common runs"),
        ([88.0, *VALUES], 1, "different bytes"),
        (VALUES[:3], 1, "another number of runs"),
    ],
)
def test_cell_with_another_number_of_runs_is_compared_over_the_first(
    tmp_path, row_record, capsys, values, status, verdict
):
    """F6: an other number of runs was reported as different bytes."""
    write_cell(tmp_path / "other", "one", values)
    assert compare(tmp_path / "other", row_record, "--common") == status
    *_, last = capsys.readouterr().out.splitlines()
    assert f": {verdict} in 1 cell" in last


@pytest.mark.parametrize(
    ("kept", "change", "verdict"),
    [
        (1, {}, "same numbers in the common runs"),
        (None, {"duration_s": 99.0}, "another duration"),
        (None, {"rate_mbit": 7.0}, "different conditions"),
    ],
)
def test_numbers_beside_a_record_tell_duration_and_runs(
    tmp_path, study, measured, record, kept, change, verdict
):
    records.update_record(measured, record / "record.tsv")
    copy = shutil.copytree(measured, tmp_path / "copy")
    cell = path(copy, next(c for c in study.cells if c.name.startswith("bulk_cubic_loss1")))
    content = read_cell(cell).content
    for folder in cell.parent.glob("[0-9]*") if change else ():
        manifest = results.read_manifest(folder / "manifest.json")
        manifest["cell"] |= change
        (folder / "tcp.csv").write_text("t\n")  # another duration has other bytes
        sealed.edit(folder / "manifest.json", cell=manifest["cell"])
        sealed.reseal(folder)
    count = kept or len(content["replicates"])
    sealed.cell(
        cell.parent, content["condition"] | change, count, content["study"], content["block"]
    )
    comparison = records.compare(copy, record / "record.tsv")
    verdicts = {each.cell.rpartition("/")[2]: str(each.verdict) for each in comparison.cells}
    assert verdicts.pop(cell.parent.name) == verdict
    assert {*verdicts.values()} == {"same bytes"}
    assert comparison.agree == (not change)


def test_second_part_of_a_campaign_keeps_the_rows_of_the_first(tmp_path, row_record, capsys):
    write_cell(tmp_path / "part", "three", VALUES)
    assert cli.main(["record", str(tmp_path / "part"), str(row_record)]) == 0
    assert [row.cell for row in records.read_record(row_record).values()] == ["one", "three", "two"]
    assert f"recorded 1 cell in {row_record}, 1 new or changed" in capsys.readouterr().out


def test_cells_in_real_time_and_lost_guests_are_not_recorded(tmp_path):
    write_cell(tmp_path / "real", "one", VALUES, instrument={"where": "host"})
    with pytest.raises(LosslabError, match="real time"):
        records.update_record(tmp_path / "real", tmp_path / "record.tsv")
    folder = write_cell(tmp_path / "results", "one", VALUES)
    sealed.edit(folder / "0" / "manifest.json", lost=True)
    sealed.reseal(folder / "0")
    condition = read_cell(folder / "cell.json").content["condition"]
    sealed.cell(folder, condition, len(VALUES), study="loss")
    with pytest.raises(LosslabError, match="the guest of a replicate was lost"):
        records.update_record(tmp_path / "results", tmp_path / "record.tsv")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\t5\t5\t", "\t5\tmany\t", "valid of"),
        ("100.4", "nan", "mean of"),
        ("loss\ttwo", "loss\tone", "without another line"),
        ("sha256", "md5", "must have the columns"),
    ],
)
def test_damaged_record_is_refused_with_its_line(folder, row_record, old, new, message, capsys):
    row_record.write_text(row_record.read_text().replace(old, new, 1))
    assert compare(folder, row_record) == 2
    assert message in capsys.readouterr().err


def test_edited_columns_of_a_record_do_not_agree(folder, row_record, capsys):
    """C3: only the digest was compared."""
    head, first, *others = row_record.read_text().splitlines()
    study, cell, *_, digest = first.split("\t")
    edited = "\t".join([study, cell, "9", "9", "rtt_ms", "9", "9", "9", digest])
    row_record.write_text("\n".join([head, edited, *others]) + "\n")
    assert compare(folder, row_record) == 1
    out = capsys.readouterr().out
    assert "different numbers in 1 cell" in out
    for column in ("replicates", "valid", "metric"):
        assert f"{column} of A is" in out


# Provenance


ORIGIN_INSTRUMENT = {
    "kernel": {"version": "6.12.1", "patches": ["0001-a.patch", "0002-b.patch"]},
    "image": {"packages": {"iperf3": "3.18-2", "bash": "5.2"}, "packages_sha256": "00112233445566"},
}

ORIGIN_HOST = {
    "started_utc": "2026-11-20T23:59:59+00:00", "losslab": "0.1.0", "host_cpu": "A processor",
    "host_kernel": "6.1", "wall_s": 900.0, "git": {"commit": "0123456789abcdef", "dirty": True},
}  # fmt: skip


def origin_cell(folder, name, *instruments, host=ORIGIN_HOST):
    path = folder / "results" / "cells" / "x" / name
    for number, instrument in enumerate(instruments):
        manifest = {
            "cell": CONDITION.to_json(), "seed": number, "valid": True, "reasons": [],
            "summary": {}, "instrument": instrument,
        }  # fmt: skip
        sealed.replicate(path / str(number), manifest, **host)
    sealed.cell(path, CONDITION.to_json(), len(instruments), study="x")


def test_provenance_counts_cells_by_part(tmp_path, snapshot):
    later = ORIGIN_HOST | {"started_utc": "2026-11-21T00:00:01+00:00", "git": {}}
    other = {"kernel": {"version": "6.1.2", "patches": ["0009-bbr3.patch"]}}
    origin_cell(tmp_path, "a", ORIGIN_INSTRUMENT, ORIGIN_INSTRUMENT)
    origin_cell(tmp_path, "b", ORIGIN_INSTRUMENT, other, host=later)
    overview = tmp_path / "x_cells.csv"
    rows = [{"study": "x", "block": "main", "cell": name} for name in ("a", "b", "absent", "")]
    tables.write_csv(overview, list(rows[0]), rows)
    out = tmp_path / "origin.csv"
    arguments = ["origin", str(overview), "--results", str(tmp_path / "results")]
    assert cli.main([*arguments, "--out", str(out)]) == 0
    assert out.read_text() == snapshot
