"""Behaviour of the command: help, pipes, JSON output, stdout and stderr."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from losslab import cli, commands
from losslab.campaign import compare, rerun, results
from losslab.errors import LosslabError
from losslab.repository import FORMAT

LOSSLAB = str(Path(sys.executable).parent / "losslab")


def said(capsys, *words):
    assert cli.main(list(words)) == 0
    return capsys.readouterr().out


def test_command_without_arguments_lists_commands(capsys):
    text = said(capsys)
    for name, each in commands.COMMANDS.items():
        assert (f"  {name} " in text) == (each.heading != commands.WORKFLOW), name


def test_overview_says_which_command_compares_what_and_hides_those_of_the_workflow(capsys):
    text = " ".join(said(capsys).split())
    for name in ("rerun", "divergence", "diff", "compare", "verify", "artifact verify", "check"):
        assert text.count(f" `{name}`") == 1, name
    hidden = {name for name, each in commands.COMMANDS.items() if each.heading == commands.WORKFLOW}
    assert hidden == {
        "cell", "collect", "entries", "evidence", "smoke-test", "origin", "record"
    }  # fmt: skip
    assert all(commands.find(name) for name in hidden)


def test_version_names_kernel_and_image(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    lines = capsys.readouterr().out.splitlines()
    assert end.value.code == 0
    assert [line.split()[0] for line in lines] == ["losslab", "results", "kernel", "image"]
    assert lines[1] == f"results {FORMAT}"


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["measure", "--help"]])
def test_help_and_version_import_no_heavy_package(words):
    code = (
        "import sys; from losslab import cli\n"
        "try: cli.main(sys.argv[1:])\n"
        "finally: print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    heavy = {"jsonschema", "numpy", "pandas", "plotext", "rich", "scipy", "snakemake", "urllib3"}
    assert done.returncode == 0
    assert heavy & {*done.stderr.split()} == set()


@pytest.mark.parametrize("words", ["axes", "--help"])
def test_closed_pipe_is_no_error(words):
    # The pipe is closed before the command writes, so its size does not matter.
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [LOSSLAB, words], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_json_output_has_cells_and_axes(capsys):
    cells = json.loads(said(capsys, "cells", "loss", "--json"))
    assert cells[0]["study"] == "loss"
    lines = said(capsys, "cells", "loss").splitlines()
    assert [cell["cell"] for cell in cells] == [line.split("\t")[1] for line in lines]
    axes = json.loads(said(capsys, "axes", "--json"))
    assert axes["loss_percent"]["exclusiveMaximum"] == 100


@pytest.mark.parametrize("found", ["2.0", "0.9"])
def test_results_of_another_major_format_are_refused(tmp_path, found):
    cell = tmp_path / "loss" / "cell" / "cell.json"
    cell.parent.mkdir(parents=True)
    cell.write_text(json.dumps({"format": found, "replicates": []}))
    with pytest.raises(LosslabError, match=rf"format 1\.x, found {found}"):
        compare.compare_sets(tmp_path, tmp_path)
    (cell.parent / "host.json").write_text(json.dumps({"format": found}))
    with pytest.raises(LosslabError, match="must have results format"):
        rerun.load_manifest(cell.parent)


@pytest.mark.parametrize("data", [{}, {"format": "1.0"}, {"format": "1.7"}])
def test_results_of_this_major_format_are_read(tmp_path, data):
    results.require_format(data, tmp_path / "cell.json")
