"""Data dictionary: every column of recorded tables has a type, a unit and a meaning."""

import csv
import gzip
import json

import pytest

from losslab import cli
from losslab.errors import LosslabError
from losslab.repository import listed
from losslab.study import dictionary, metrics, studyfiles
from losslab.study.condition import AXES
from losslab.ui import printed
from tests.conftest import ROOT
from tests.sources import tracked

FOLDERS = ("tests/golden/cells", "tests/golden/expected", "tests/expected/analysis/output")
RECORDED = tracked(*(f"{folder}/*.csv*" for folder in FOLDERS))


def header(path):
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return next(csv.reader(text.splitlines()), [])


def test_no_column_of_a_recorded_table_is_undeclared():
    assert len({path.name for path in RECORDED}) > 25
    missing = {
        str(path.relative_to(ROOT)): found
        for path in RECORDED
        if (found := dictionary.undeclared(str(path).removesuffix(".gz"), header(path)))
    }
    assert missing == {}, "declare them in config/columns.tsv"


def test_columns_of_sweeps_and_replicates_are_declared_and_others_are_named():
    columns = [*AXES, "metric", *printed.STATISTICS, *printed.MORE, "reasons"]
    assert dictionary.undeclared("my-sweep/sweep.csv", columns) == []
    names = [*AXES, *metrics.declared()]
    assert dictionary.undeclared("results/summary/map/replicates.csv", names) == []
    assert dictionary.undeclared("a/tcp.csv", ["t_s", "colour"]) == ["colour"]
    assert dictionary.describe("a/tcp.csv", ["colour"])[0].type == "any"


@pytest.mark.parametrize(
    ("path", "name", "unit", "said"),
    [
        ("my-run/ping.csv", "rtt_ms", "ms", "Round-trip time of the ping."),
        ("results/summary/map/replicates.csv", "rtt_ms", "ms", "Axis of the cell"),
        ("results/summary/map/replicates.csv", "jain_index", "", "Jain's fairness index"),
        ("results/tables/map/effects.csv", "factor", "", "Factor by which"),
        ("results/tables/cloud/flow.csv", "step", "", "losslab's, in words"),
        ("results/tables/any/table.csv", "goodput_mbit_low", "Mbit/s", "Lower end of the 95 %"),
        ("results/summary/loss/flows.csv", "flow", "", "first (the flow under test)"),
        ("my-run/tcp.csv", "flow", "", "Source port of the connection"),
    ],
)
def test_column_has_the_meaning_of_its_table(path, name, unit, said):
    (column,) = dictionary.describe(path, [name])
    assert column.unit == unit
    assert said in column.description


def test_columns_of_a_study_are_in_a_file_with_the_studys_name():
    studies = set(studyfiles.study_names(ROOT))
    assert {path.parent.name for path in listed("studies/*/columns.tsv")} <= studies


def test_column_of_a_table_without_description_is_refused(monkeypatch, tmp_path):
    path = tmp_path / "columns.tsv"
    path.write_text("tables\tcolumn\ttype\tunit\tdescription\nx.csv\ta\tnumber\t\tA number.\n")
    monkeypatch.setattr(dictionary, "FILE", path)
    dictionary.tables.cache_clear()
    try:
        with pytest.raises(LosslabError, match=r"found none of x\.csv for the column a"):
            dictionary.tables()
    finally:
        dictionary.tables.cache_clear()


def test_command_prints_the_columns_of_a_file_or_of_every_table(capsys):
    path = next(path for path in RECORDED if path.name == "queue.csv")
    assert cli.main(["columns", str(path)]) == 0
    assert "Packets in the queue." in capsys.readouterr().out
    assert cli.main(["columns", str(path), "--json"]) == 0
    assert [its["name"] for its in json.loads(capsys.readouterr().out)] == header(path)
    assert cli.main(["columns"]) == 0
    printed = capsys.readouterr().out
    assert "## `tcp.csv`" in printed and "| `cwnd_packets` | integer | packets |" in printed
    assert cli.main(["columns", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == dictionary.tables().keys()


def test_f4_files_of_recorded_campaigns_have_declared_columns(capsys):
    """A tab-separated file was one column, and a packed one got the advice of another encoding."""
    for path in sorted((ROOT / "recorded/full").iterdir()):
        assert cli.main(["columns", str(path), "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert [row["name"] for row in rows if row["type"] == dictionary.UNDECLARED] == []
        assert len(rows) > 2
    assert cli.main(["columns", str(ROOT / "recorded/full")]) == 2
    assert "losslab.read(FOLDER)" in capsys.readouterr().err


def test_axes_are_found_by_a_word(capsys):
    assert cli.main(["axes", "wave"]) == 2
    assert "`losslab axes` lists all" in capsys.readouterr().err
    for word, axis in (("Bandwidth", "rate_mbit"), ("latency", "rtt_ms")):
        assert cli.main(["axes", word]) == 0
        assert f"| `{axis}`" in capsys.readouterr().out
    assert cli.main(["axes", "RTT"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("| `rtt_ms`") for line in lines)
    assert not any(line.startswith("| `algorithm`") for line in lines)
    assert cli.main(["axes", "codel", "--json"]) == 0
    assert "queue" in json.loads(capsys.readouterr().out)


def test_metrics_are_found_by_a_word(capsys):
    assert cli.main(["metrics", "wave"]) == 2
    assert "no metric has wave" in capsys.readouterr().err
    assert cli.main(["metrics", "goodput", "--json"]) == 0
    names = [row["name"] for row in json.loads(capsys.readouterr().out)]
    assert "goodput_mbit" in names and "rtt_loaded_ms" not in names


def test_table_that_is_not_there_has_the_columns_that_it_may_have(capsys, monkeypatch, tmp_path):
    """The page on Python promised it, and the command refused."""
    monkeypatch.chdir(tmp_path)
    for file in ("results/summary/loss/replicates.csv", "replicates.csv"):
        assert cli.main(["columns", file, "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        names = {row["name"] for row in rows}
        assert {"study", "seed", "valid", "loss_percent", "goodput_mbit"} < names
        assert all(row["type"] != dictionary.UNDECLARED for row in rows)
    assert cli.main(["columns", "queue.csv", "--json"]) == 0
    assert "backlog_packets" in [row["name"] for row in json.loads(capsys.readouterr().out)]
    assert cli.main(["columns", "mine.csv"]) == 2
    assert "mine.csv does not exist" in capsys.readouterr().err
