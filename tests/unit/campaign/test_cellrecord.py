"""Records of measured cells: what they hold, and how a campaign is compared with one."""

import json

import pytest

from losslab import cli
from losslab.campaign import cellrecord
from losslab.errors import LosslabError
from losslab.study.schemas import check_schema
from tests import sealed
from tests.unit.campaign.cells import write_cell

VALUES = [100.0, 110.0, 90.0, 105.0, 97.0]


@pytest.fixture
def results(tmp_path):
    write_cell(tmp_path / "results", "one", VALUES)
    write_cell(tmp_path / "results", "two", [*VALUES[:3], None])
    return tmp_path / "results"


@pytest.fixture
def record(tmp_path, results):
    path = tmp_path / "record.tsv"
    cellrecord.update(results, path)
    return path


def compare(*arguments):
    return cli.main(["diff", *map(str, arguments)])


def test_record_has_a_row_per_cell_with_counts_mean_and_interval(record):
    one, two = cellrecord.read(record).values()
    assert (one.name, one.replicates, one.valid) == ("loss/one", 5, 5)
    assert (one.metric, one.mean) == ("goodput_mbit", "100.4")
    assert float(one.low) < 100.4 < float(one.high)
    assert (two.replicates, two.valid, two.mean, two.low) == (4, 3, "100", "")


def test_digest_does_not_depend_on_the_code_that_measured(tmp_path, record, capsys):
    write_cell(tmp_path / "other", "one", VALUES, fingerprint={"code": "new"})
    assert compare(tmp_path / "other", record, "--common") == 0
    assert "only in B" not in capsys.readouterr().out


def test_same_campaign_agrees_with_its_record(results, record, capsys):
    assert compare(results, record) == 0
    assert "A and B agree: same bytes in 2 cells." in capsys.readouterr().out


def test_other_bytes_do_not_agree_and_say_where_the_mean_lies(tmp_path, record, capsys):
    write_cell(tmp_path / "other", "one", [value * 2 for value in VALUES])
    assert compare(tmp_path / "other", record, "--common") == 1
    out = capsys.readouterr().out
    assert "different bytes in 1 cell" in out
    assert "the mean of A is outside the recorded confidence interval, " in out


def test_cell_of_the_record_that_was_not_measured_does_not_agree(tmp_path, record, capsys):
    write_cell(tmp_path / "other", "one", VALUES)
    assert compare(tmp_path / "other", record) == 1
    assert "only in B: loss/two" in capsys.readouterr().out


def test_comparison_with_a_record_follows_the_schema(results, record, capsys):
    assert compare(results, record, "--json") == 0
    check_schema(json.loads(capsys.readouterr().out), "diff", "the output")


def test_second_part_of_a_campaign_keeps_the_rows_of_the_first(tmp_path, record, capsys):
    write_cell(tmp_path / "part", "three", VALUES)
    assert cli.main(["record", str(tmp_path / "part"), str(record)]) == 0
    assert [row.cell for row in cellrecord.read(record).values()] == ["one", "three", "two"]
    assert f"recorded 1 cell in {record}, 1 new or changed" in capsys.readouterr().out


def test_changed_file_is_not_recorded(results, tmp_path):
    (results / "cells/loss/one/0/tcp.csv").write_text("t,cwnd\n0,11\n")
    with pytest.raises(LosslabError, match=r"replicate 0: tcp\.csv has changed"):
        cellrecord.update(results, tmp_path / "record.tsv")
    assert not (tmp_path / "record.tsv").exists()


def test_cell_in_real_time_is_not_recorded(tmp_path):
    write_cell(tmp_path / "real", "one", VALUES, backend="realtime")
    with pytest.raises(LosslabError, match="real time"):
        cellrecord.update(tmp_path / "real", tmp_path / "record.tsv")


def test_lost_guest_is_not_recorded(tmp_path):
    folder = write_cell(tmp_path / "lost", "one", VALUES)
    sealed.edit(folder / "0" / "manifest.json", lost=True)
    with pytest.raises(LosslabError, match="lost"):
        cellrecord.update(tmp_path / "lost", tmp_path / "record.tsv")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\t5\t5\t", "\t5\tmany\t", "valid of"),
        ("100.4", "nan", "mean of"),
        ("loss\ttwo", "loss\tone", "without another line"),
        ("sha256", "md5", "must have the columns"),
    ],
)
def test_damaged_record_is_refused_with_its_line(results, record, old, new, message, capsys):
    record.write_text(record.read_text().replace(old, new, 1))
    assert compare(results, record) == 2
    assert message in capsys.readouterr().err


def test_record_compares_only_the_main_metric(results, record, capsys):
    assert compare(results, record, "--metric", "rtt_ms") == 2
    assert "--metric must compare two folders" in capsys.readouterr().err


def test_record_is_a_tsv_file(results, tmp_path, capsys):
    assert cli.main(["record", str(results), str(tmp_path / "record.csv")]) == 2
    assert "must be a .tsv file" in capsys.readouterr().err


@pytest.mark.parametrize("column", ["replicates", "valid", "metric", "mean", "low", "high"])
def test_edited_column_of_a_record_does_not_agree(results, record, capsys, column):
    """C3: only the digest was compared."""
    lines = record.read_text().splitlines()
    at, cells = lines[0].split("\t").index(column), lines[1].split("\t")
    cells[at] = "rtt_ms" if column == "metric" else "999"
    record.write_text("\n".join([lines[0], "\t".join(cells), *lines[2:]]) + "\n")
    assert compare(results, record) == 1
    out = capsys.readouterr().out
    assert "different numbers in 1 cell" in out
    assert f"{column} of A is" in out
