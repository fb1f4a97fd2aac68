"""Wrong usage and interrupts, as the user sees them."""

import io
import json

import pytest

from losslab import asked, cli
from tests.unit.study.test_condition import CONDITION

MEASURE = ["measure", "--algorithm", "cubic", "--out"]


def test_an_unknown_study_is_an_error_that_names_those_there_are(capsys):
    assert cli.main(["cells", "nope"]) == 2
    words = capsys.readouterr()
    assert words.out == ""
    assert (
        "calibration, loss, bufferbloat, cloud, map, cellular, backends, kernels, quic, score),"
        " found nope" in words.err
    )
    assert cli.main(["cells", "loss"]) == 0


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_what_is_no_finite_number_is_wrong_usage(capsys, tmp_path, value):
    assert cli.main([*MEASURE, str(tmp_path / "out"), "--rtt-ms", value]) == 2
    assert f"rtt_ms must be a finite number, found {value}" in capsys.readouterr().err


def test_a_cells_condition_of_another_type_is_wrong_usage(capsys, tmp_path):
    data = json.dumps(CONDITION.to_json() | {"rtt_ms": "20"})
    words = ["cell", "--study", "s", "--block", "b", "--replicates", "1", "--condition", data]
    assert cli.main([*words, "--out", str(tmp_path / "cell" / "cell.json")]) == 2
    assert "rtt_ms must be a finite number" in capsys.readouterr().err
    assert not (tmp_path / "cell").exists()


@pytest.mark.parametrize(("command", "said"), [("measure", "leaves nothing"), ("cell", "are kept")])
def test_an_interrupt_says_what_is_kept(capsys, tmp_path, monkeypatch, command, said):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(asked, "instrument", interrupted)
    words = [*MEASURE, str(tmp_path / "out")]
    if command == "cell":
        words = [
            "cell", "--study", "s", "--block", "b", "--replicates", "1", "--condition",
            json.dumps(CONDITION.to_json()), "--out", str(tmp_path / "cell.json"),
        ]  # fmt: skip
    assert cli.main(words) == 130
    words = capsys.readouterr().err
    assert words.startswith("losslab: interrupted: ")
    assert said in words
    assert "Traceback" not in words


def test_a_shell_with_nothing_to_read_says_how_to_give_it_a_command(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    assert cli.main(["shell"]) == 1
    assert "found no standard input" in capsys.readouterr().err


def test_a_shell_without_a_terminal_runs_what_it_is_given(capsys, monkeypatch):
    ran = []

    def execute(command, condition, seed, tools):
        ran.append((command, condition.rtt_ms, seed))
        return 3, "64 bytes from 10.0.3.2\n"

    monkeypatch.setattr("losslab.shell.execute", execute)
    monkeypatch.setattr("losslab.campaign.instrument.instrument", lambda **_: None)
    monkeypatch.setattr("sys.stdin", io.StringIO("sender ping -c 1 10.0.3.2\n"))
    assert cli.main(["shell", "--rtt-ms", "20", "--seed", "7"]) == 3
    assert ran == [("sender ping -c 1 10.0.3.2\n", 20, 7)]
    assert capsys.readouterr().out == "64 bytes from 10.0.3.2\n"
