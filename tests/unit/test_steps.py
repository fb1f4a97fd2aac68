"""Commands of the workflow's rules: absent parts, few imports, and the same usage errors."""

import json
import subprocess
import sys

import pytest

from losslab import cli, commands
from losslab.campaign import celldata, collect
from losslab.instrument import records
from losslab.reading import read_rows
from losslab.study.stopping import StoppingRule
from tests.golden import seam
from tests.unit.study.test_condition import CONDITION

WHY = "Containernet's commit must be had from somewhere, found: no route"


@pytest.fixture
def absent(tmp_path):
    path = tmp_path / "image.json"
    records.write({"absent": WHY, "number": 1}, path)
    return path


def test_smoke_test_without_a_part_is_recorded_as_absent(absent, tmp_path):
    out = tmp_path / "tried.json"
    words = [
        "smoke-test",
        "--backend",
        "containernet",
        "--needs",
        str(absent),
        "--record",
        str(out),
    ]
    assert cli.main(words) == 0
    assert records.absent(out) == WHY


def test_cell_without_an_instrument_has_a_reason_and_no_replicate(absent, tmp_path):
    out = tmp_path / "cells" / "cell" / "cell.json"
    words = [
        "cell", "--study", "s", "--block", "b", "--replicates", "3", "--condition",
        json.dumps(CONDITION.to_json()), "--backend", "containernet", "--smoke-test", str(absent),
        "--out", str(out),
    ]  # fmt: skip
    assert cli.main(words) == 0
    (row,) = collect.gather([celldata.read(out)]).cells
    assert (row["n_replicates"], row["n_valid"], row["reasons"]) == (0, 0, WHY)
    # The workflow retries the cell because of this file.
    note = json.loads((out.parent / "lost.json").read_text())
    assert note["absent"] == WHY
    assert note["when_utc"]


def test_collect_records_the_numbers_of_cells_not_run(tmp_path, absent):
    out = tmp_path / "cell" / "cell.json"
    test_cell_without_an_instrument_has_a_reason_and_no_replicate(absent, tmp_path)
    cell = tmp_path / "cells" / "cell" / "cell.json"
    files = {
        t: out.parent / f"{t}.csv"
        for t in ("overview", "replicates", "intervals", "flows", "queue")
    }
    options = [word for table, path in files.items() for word in (f"--{table}", str(path))]
    assert cli.main(["collect", str(cell), *options, "--left-out", "main=3", "other=88"]) == 0
    rows = read_rows(files["overview"])
    assert [(r["block"], r["n_left_out"]) for r in rows] == [
        ("b", ""),
        ("main", "3"),
        ("other", "88"),
    ]


def test_collected_replicates_have_the_error_share_of_their_cells_rule(tmp_path):
    cells = sorted(seam.unpack(tmp_path).glob("*/cell.json"))[:2]
    rules = [StoppingRule(1, 9), StoppingRule(1, 1)]
    measured = list(map(celldata.read, cells))
    rows = collect.gather(measured, rules=rules).replicates
    assert {row["error_share"] for row in rows if row["cell"] == cells[0].parent.name} == {0.025}
    assert {row["error_share"] for row in rows if row["cell"] == cells[1].parent.name} == {1}
    assert {row["error_share"] for row in collect.gather(measured).replicates} == {1}


def test_number_of_rules_must_be_that_of_the_cells(tmp_path, capsys):
    files = [word for t in ("overview", "replicates", "intervals", "flows", "queue")
             for word in (f"--{t}", str(tmp_path / f"{t}.csv"))]  # fmt: skip
    assert cli.main(["collect", "a/cell.json", *files, "--rules", "5-10", "3"]) == 2
    assert "one rule for each of 1 cells, found 2" in capsys.readouterr().err


# Modules that other commands need.
NOT_FOR_A_CELL = (
    "artifact", "campaign.collect", "emulation.plan", "runs", "report", "score", "ui",
    "sweep",
)  # fmt: skip

HEAVY = ("pandas", "scipy", "urllib3")

WATCHED = """\
import json, sys
from losslab import cellspec, cli
from losslab.reading import read_rows
from losslab.errors import LosslabError
from losslab.reading import read_rows
def refuse(*_):
    raise LosslabError("before anything is measured")
cellspec.instrument = refuse
status = cli.main(sys.argv[1:])
print(json.dumps([status, sorted(sys.modules)]))
"""


def described(parser):
    """Return the help of each command, by its words."""
    return {tuple(name.split()): its.format_help() for name, _, its in commands.leaves(parser)}


def test_cell_command_imports_no_other_command(tmp_path):
    words = [
        "cell", "--study", "s", "--block", "b", "--replicates", "1", "--condition",
        json.dumps(CONDITION.to_json()), "--out", str(tmp_path / "cell.json"),
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    status, modules = json.loads(done.stdout)
    assert (status, "before anything is measured" in done.stderr) == (1, True)
    assert "losslab.campaign.cellrun" in modules
    unwanted = (*(f"losslab.{name}" for name in NOT_FOR_A_CELL), *HEAVY)
    assert [m for m in modules if m in unwanted or m.startswith("losslab.ui")] == []


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_parser_of_a_called_command_equals_that_of_all(name):
    whole, few = described(cli.parser()), described(cli.parser([name, "--help"]))
    assert any(words[0] == name for words in few)
    assert few.items() <= whole.items()


@pytest.mark.parametrize("words", [*described(cli.parser())], ids=" ".join)
def test_every_command_has_its_help(capsys, words):
    with pytest.raises(SystemExit) as end:
        cli.main([*words, "--help"])
    assert end.value.code == 0
    help_text = capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.parser().parse_args([*words, "--help"])
    assert capsys.readouterr().out == help_text


@pytest.mark.parametrize("words", [["cell"], ["cell", "--nonsense"], ["cell", "x", "--study", "s"]])
def test_wrong_usage_of_a_step_has_the_usual_message(capsys, words):
    said = []
    for parser in (cli.parser(), cli.parser(words)):
        with pytest.raises(SystemExit) as end:
            parser.parse_args(words)
        said.append((end.value.code, capsys.readouterr().err))
    assert said[0] == said[1]
    assert said[0][0] == 2
