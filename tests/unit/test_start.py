"""What a campaign pays for once per cell: the start of a step knows and imports what it needs."""

import json
import subprocess
import sys

import pytest

from losslab import cli, examples, steps
from tests.unit.study.test_condition import CONDITION

# What other commands need.
NOT_FOR_A_CELL = (
    "artifact", "campaign.collect", "commands", "emulation.plan", "report", "score", "screen",
    "sweep",
)  # fmt: skip
HEAVY = ("packaging", "concurrent.futures")
WATCHED = """\
import json, sys
from losslab import asked, cli
from losslab.errors import LosslabError
def refuse(*_):
    raise LosslabError("before anything is measured")
asked.instrument = refuse
status = cli.main(sys.argv[1:])
print(json.dumps([status, sorted(sys.modules)]))
"""


def described(parser):
    """The help of each command, by the words that it is called by."""
    return {tuple(name.split()): its.format_help() for name, _, its in examples.leaves(parser)}


def test_a_cell_imports_nothing_of_other_commands(tmp_path):
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
    assert [m for m in modules if m in unwanted or m.startswith("losslab.screen")] == []


def test_the_steps_are_what_the_whole_parser_knows_of_them():
    whole = described(cli.parser())
    for name in steps.NAMES:
        few = described(cli.parser([name, "--help"]))
        assert set(few) == {(each,) for each in steps.NAMES}
        assert all(few[words] == whole[words] for words in few)


@pytest.mark.parametrize("words", [(), ("--help",), ("measure", "cell"), ("nonsense",)])
def test_every_other_command_line_knows_every_command(words):
    assert described(cli.parser(words)) == described(cli.parser())


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
def test_wrong_usage_of_a_step_is_said_in_the_same_words(capsys, words):
    said = []
    for parser in (cli.parser(), cli.parser(words)):
        with pytest.raises(SystemExit) as end:
            parser.parse_args(words)
        said.append((end.value.code, capsys.readouterr().err))
    assert said[0] == said[1]
    assert said[0][0] == 2
