"""Linters run as tests: a finding fails the test."""

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
        'found <- lapply(c("analysis", "studies"), lintr::lint_dir, cache = TRUE); print(found); '
        "quit(status = sum(lengths(found)) > 0)",
    ],
    **{
        f"shell syntax of {path.name}": ["sh", "-n", str(path)]
        for path in sorted((ROOT / "scripts").glob("*.sh"))
    },
    "shell syntax of .ci/run": ["bash", "-n", ".ci/run"],
}


# R's linter takes minutes.
NIGHTLY = [pytest.param(name, marks=pytest.mark.nightly) for name in COMMANDS if name == "lintr"]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "lintr"] + NIGHTLY)
def test_linter_finds_nothing(name, root):
    done = subprocess.run(COMMANDS[name], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
