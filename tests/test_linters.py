"""The linters are tests: a finding fails the run."""

import subprocess

import pytest

COMMANDS = {
    "ruff check": ["ruff", "check", "."],
    "ruff format": ["ruff", "format", "--check", "."],
    "mypy": ["mypy"],
    "snakefmt": ["snakefmt", "--check", "Snakefile", "workflow/rules"],
    "snakemake --lint": ["snakemake", "--lint"],
    "lintr": [
        "Rscript",
        "--vanilla",
        "-e",
        'found <- lintr::lint_dir("analysis"); print(found); quit(status = length(found) > 0)',
    ],
    "shell syntax": ["sh", "-n", "scripts/setup.sh"],
    "shell syntax, containernet": ["sh", "-n", "scripts/containernet.sh"],
    "shell syntax, packages": ["sh", "-n", "scripts/packages.sh"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_clean(name, root):
    done = subprocess.run(COMMANDS[name], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
