"""Linters run as tests: a finding fails the test."""

import re
import subprocess

import pytest

from tests.conftest import ROOT

COMMANDS = {
    "ruff check": ["ruff", "check", "."],
    "ruff format": ["ruff", "format", "--check", "."],
    "mypy": ["mypy"],
    "codespell": ["codespell"],
    "snakefmt": ["snakefmt", "--check", "Snakefile", "workflow", "config/template"],
    "snakemake --lint": ["snakemake", "--lint"],
    "lintr": [
        "Rscript",
        "--vanilla",
        "-e",
        # Files that were clean and have not changed are not checked again.
        'found <- lintr::lint_dir("analysis", cache = TRUE); print(found); '
        "quit(status = length(found) > 0)",
    ],
    **{
        f"shell syntax of {path.name}": ["sh", "-n", str(path)]
        for path in sorted((ROOT / "scripts").glob("*.sh"))
    },
    "shell syntax of .ci/run": ["bash", "-n", ".ci/run"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_linter_finds_nothing(name, root):
    done = subprocess.run(COMMANDS[name], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_linters_that_make_check_omits_have_their_names(root):
    omitted = re.findall(
        r'--deselect "tests/test_linters.py::(\w+)\[(.+?)\]"',
        (root / "scripts/check.sh").read_text(),
    )
    assert {name for _, name in omitted} == {"lintr", "snakemake --lint"}
    assert {function for function, _ in omitted} == {test_linter_finds_nothing.__name__}
