"""Commands of installed packages, by the entry points `losslab.commands`."""

import re
import tomllib
from importlib import metadata

import pytest

from losslab import cli, commands
from losslab.backends import registry
from losslab.reading import UsageError
from tests.conftest import ROOT

PROJECTS = {
    path.parent: tomllib.loads(path.read_text())["project"]
    for path in sorted(ROOT.glob("plugins/*/pyproject.toml"))
}
ENTRIES = [
    (name, value, project)
    for project in PROJECTS.values()
    for name, value in project["entry-points"].get(commands.GROUP, {}).items()
]


def test_core_imports_and_names_no_plugin():
    names = [project["name"] for project in PROJECTS.values()]
    names += [name.replace("-", "_") for name in names]
    names += [f"losslab {name}" for name, _, _ in ENTRIES]
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in ROOT.glob("src/losslab/**/*.py")
        for text in [path.read_text()]
        for name in names
        if name in text
    ]
    assert found == []


def test_no_plugin_imports_another():
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for folder in PROJECTS
        for path in folder.glob("losslab_*/*.py")
        for line in path.read_text().splitlines()
        if re.match(r"(from|import) losslab_", line) and path.parent.name not in line
    ]
    assert found == []


def test_plugins_are_installed_with_losslabs_version_and_a_page():
    assert {name for name, _, _ in ENTRIES} <= commands.installed().keys()
    assert {p["version"] for p in PROJECTS.values()} == {cli.__version__}
    assert all((folder / "README.md").is_file() for folder in PROJECTS)


@pytest.fixture
def without(monkeypatch):
    """No package adds commands."""
    monkeypatch.setattr(metadata, "entry_points", lambda **_: metadata.EntryPoints())


@pytest.mark.usefixtures("without")
@pytest.mark.parametrize(("name", "value", "project"), ENTRIES)
def test_absent_command_says_which_package_to_install(name, value, project, capsys):
    assert cli.main([name, "x"]) == 2
    error = capsys.readouterr().err
    assert f"`losslab {name}` needs the package {project['name']}" in error
    assert "pip install" in error


@pytest.mark.parametrize("kind", registry.GROUPS)
def test_absent_backend_says_which_package_to_install(kind):
    with pytest.raises(
        UsageError, match=f"{kind} with --where host needs the package losslab-"
    ) as e:
        registry._Backends()[kind, "host"]
    assert "pip install" in e.value.hint
    with pytest.raises(UsageError, match="must be one of virtual on guest"):
        registry.BACKENDS[kind, "moon"]


@pytest.mark.usefixtures("without")
def test_overview_without_plugins_lists_losslabs_own_commands(capsys):
    assert cli.main([]) == 0
    text = capsys.readouterr().out
    assert "  measure " in text
    assert [name for name, _, _ in ENTRIES if f"\n  {name} " in text] == []


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
