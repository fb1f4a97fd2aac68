"""Errors of the command: wrong usage, interrupts, unexpected errors and their exit status."""

import io
import os
import subprocess

import pytest

from losslab import cli, steps
from losslab.campaign.plan import CampaignPlan, Planned
from losslab.reading import UsageError
from losslab.runs import measure
from losslab.study.design import Cell
from losslab.study.intervals import StoppingRule
from tests.unit.study.test_condition import CONDITION
from tests.unit.test_command_line import LOSSLAB

MEASURE = ["measure", "--algorithm", "cubic", "--out"]


def test_unknown_study_is_an_error_with_the_existing_names(capsys):
    assert cli.main(["cells", "nope"]) == 2
    words = capsys.readouterr()
    assert words.out == ""
    assert (
        "calibration, loss, bufferbloat, cloud, map, cellular, backends, kernels, predictions, "
        "quic, score), found nope" in words.err
    )
    assert cli.main(["cells", "loss"]) == 0


@pytest.mark.parametrize(
    ("command", "said"), [("measure", "run was removed"), ("cell", "are kept")]
)
def test_interrupt_names_kept_results(capsys, tmp_path, monkeypatch, command, said):
    def interrupted(*_):
        raise KeyboardInterrupt

    for module in (measure, steps):
        monkeypatch.setattr(module, "instrument", interrupted)
    words = [*MEASURE, str(tmp_path / "out")]
    if command == "cell":
        cell = Cell("s", "b", CONDITION, StoppingRule(1, 1))
        planned = Planned(cell, "", recorded=False)
        CampaignPlan({("s", cell.name): planned}, {"s": []}, {"s": {}}, None).write(tmp_path)
        words = ["cell", f"s/{cell.name}", "--results", str(tmp_path)]
    assert cli.main(words) == 130
    words = capsys.readouterr().err
    assert words.startswith("losslab: interrupted: ")
    assert said in words
    assert "Traceback" not in words


def test_shell_without_input_is_an_error(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    assert cli.main(["shell"]) == 1
    assert "needs a terminal, a command or standard input" in capsys.readouterr().err


def command(*words, **more):
    return subprocess.run([LOSSLAB, *words], stderr=subprocess.PIPE, text=True, check=False, **more)


@pytest.mark.parametrize("words", [["axes"], ["cells", "loss"], ["--help"], ["cells", "--help"]])
def test_full_standard_output_is_an_error(words):
    with open("/dev/full", "w") as full:
        done = command(*words, stdout=full)
    error = "losslab: error: output must be writable, found: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, error)


def test_closed_standard_output_is_wrong_usage():
    done = command("axes", preexec_fn=lambda: os.close(1))
    assert done.returncode == 2
    assert "standard output must be open, found it closed" in done.stderr


def test_character_missing_in_the_terminals_encoding_is_no_error():
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = command("axes", stdout=subprocess.PIPE, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


def failing(monkeypatch, error):
    def fail(_):
        raise error

    monkeypatch.setattr("losslab.doctor._doctor", fail)
    return cli.main(["doctor"])


def test_unexpected_error_writes_its_traceback_to_a_file(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert failing(monkeypatch, IndexError("list index\x1b out of range")) == 1
    words = capsys.readouterr().err
    (left,) = tmp_path.iterdir()
    assert "unexpected error, IndexError: 'list index\\x1b out of range'" in words
    assert str(left) in words
    assert "Traceback" not in words
    assert "Traceback" in left.read_text()


@pytest.mark.parametrize("error", [OSError(28, "No space left"), MemoryError(), PermissionError(1)])
def test_host_error_has_no_traceback(monkeypatch, tmp_path, capsys, error):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert failing(monkeypatch, error) == 1
    assert capsys.readouterr().err.startswith("losslab: error: ")
    assert list(tmp_path.iterdir()) == []


def test_error_messages_escape_control_characters_and_have_a_traceback_on_request(
    monkeypatch, capsys
):
    assert failing(monkeypatch, UsageError("a name must be plain, found \x1b[2J\x9b2J\nhere")) == 2
    words = "losslab: error: a name must be plain, found \\x1b[2J\\x9b2J\nhere\n"
    assert capsys.readouterr().err == words
    monkeypatch.setenv("LOSSLAB_DEBUG", "1")
    assert failing(monkeypatch, UsageError("x must be y")) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "program"), [(["cells", "--x"], "losslab cells"), (["--x"], "losslab")]
)
def test_unknown_option_is_refused_with_the_help_that_lists_the_known_ones(words, program, capsys):
    with pytest.raises(SystemExit):
        cli.main(words)
    assert f"-> {program} --help lists all options" in capsys.readouterr().err


def test_shell_without_a_terminal_runs_its_input(capsys, monkeypatch):
    ran = []

    def execute(command, condition, seed, tools):
        ran.append((command, condition.rtt_ms, seed))
        return 3, "64 bytes from 10.0.3.2\n"

    monkeypatch.setattr("losslab.runs.shell.execute", execute)
    monkeypatch.setattr("losslab.runs.shell.instrument", lambda **_: None)
    monkeypatch.setattr("sys.stdin", io.StringIO("sender ping -c 1 10.0.3.2\n"))
    assert cli.main(["shell", "--rtt-ms", "20", "--seed", "7"]) == 3
    assert ran == [("sender ping -c 1 10.0.3.2\n", 20, 7)]
    assert capsys.readouterr().out == "64 bytes from 10.0.3.2\n"
