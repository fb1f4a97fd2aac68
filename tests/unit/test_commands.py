"""Commands of installed packages, by the entry points `losslab.commands`."""

from importlib import metadata

import pytest

from losslab import cli, commands
from losslab.backends import registry
from losslab.reading import UsageError


def test_unknown_place_of_a_backend_is_named():
    with pytest.raises(UsageError, match="must be one of virtual on guest"):
        registry.BACKENDS["virtual", "moon"]


def test_package_that_cannot_be_imported_is_named(monkeypatch, capsys):
    broken = metadata.EntryPoint("mine", "no_such_package:MINE", commands.GROUP)
    monkeypatch.setattr(metadata, "entry_points", lambda **_: metadata.EntryPoints([broken]))
    assert cli.main(["mine"]) == 1
    assert "no_such_package:MINE must be importable for the command mine" in capsys.readouterr().err


def test_package_with_a_command_of_losslab_is_named(monkeypatch, capsys):
    taken = metadata.EntryPoint("measure", "theirs:MINE", commands.GROUP)
    given = metadata.EntryPoints([taken])
    monkeypatch.setattr(metadata, "entry_points", lambda **by: given.select(**by))
    assert cli.main(["--help"]) == 1
    assert "must have a new name, found theirs:MINE as measure" in capsys.readouterr().err


def described(parser):
    """Return the help of each command, by its words."""
    return {tuple(name.split()): its.format_help() for name, _, its in commands.leaves(parser)}


def test_every_command_has_its_examples_and_the_same_help_without_the_other_commands(capsys):
    whole = described(cli.parser())
    assert {words[0] for words in whole} == set(commands.installed())
    for words, help_text in whole.items():
        assert all(line in help_text for line in ("examples:", *commands.examples(" ".join(words))))
        assert described(cli.parser([*words, "--help"]))[words] == help_text
        with pytest.raises(SystemExit) as end:
            cli.main([*words, "--help"])
        assert (end.value.code, capsys.readouterr().out) == (0, help_text)


@pytest.mark.parametrize("words", [["cell"], ["cell", "--nonsense"], ["cell", "x", "y"]])
def test_wrong_usage_of_a_step_has_the_usual_message(capsys, words):
    said = []
    for parser in (cli.parser(), cli.parser(words)):
        with pytest.raises(SystemExit) as end:
            parser.parse_args(words)
        said.append((end.value.code, capsys.readouterr().err))
    assert said[0] == said[1]
    assert said[0][0] == 2
