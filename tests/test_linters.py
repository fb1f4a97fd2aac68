"""Linters run as tests on the files that Git tracks: a finding fails the test."""

import shutil
import subprocess

import pytest

from tests.conftest import ROOT
from tests.sources import tracked

LINTR = (
    "problems <- lapply(commandArgs(TRUE), lintr::lint, cache = TRUE); "
    "for (each in problems[lengths(problems) > 0]) print(each); "
    "quit(status = sum(lengths(problems)) > 0)"
)
PYTHON = ("*.py", "*.pyi")
# Each linter's command, and the patterns of the files that it gets: none, if it finds them from
# the ones that the repository names.
LINTERS = {
    "ruff check": (["ruff", "check"], PYTHON),
    "ruff format": (["ruff", "format", "--check"], PYTHON),
    "mypy": (["mypy"], ()),
    "codespell": (["codespell"], ("*",)),
    "snakefmt": (["snakefmt", "--check"], ("*Snakefile", "*.smk")),
    "snakemake --lint": (["snakemake", "--lint"], ()),
    # R's linter takes minutes.
    "lintr": (["Rscript", "--vanilla", "-e", LINTR], ("analysis/*.R", "studies/*.R")),
    **{
        f"shell syntax of {name}": ([shell, "-n"], (name,))
        for shell, pattern in (("sh", "*.sh"), ("bash", ".ci/run"))
        for name in (str(path.relative_to(ROOT)) for path in tracked(pattern))
    },
}


def lint(name, root):
    """Run a linter on the tracked files of a clone."""
    command, patterns = LINTERS[name]
    files = [path.relative_to(root) for path in tracked(*patterns, root=root)] if patterns else []
    assert files or not patterns
    return subprocess.run(
        [*command, *map(str, files)], cwd=root, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.nightly] * (name == "lintr")) for name in LINTERS],
)
def test_linter_finds_nothing(name):
    done = lint(name, ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("tracked_too", [False, True])
def test_linters_read_only_what_git_tracks(tmp_path, tracked_too):
    """The logs of a campaign have words that a spelling checker refuses."""
    for name in ("pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("logs/render.log", "notes.txt", "out/script.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"import os  # a warning {'during'[:-1]} a run\n")
    (tmp_path / "kept.py").write_text('"""A module."""\n')
    git = ["git", "-C", tmp_path]
    subprocess.run([*git, "init", "-q"], check=True)
    files = ["--force", "."] if tracked_too else ["kept.py"]
    subprocess.run([*git, "add", *files], check=True)
    for name in ("codespell", "ruff check"):
        assert (lint(name, tmp_path).returncode != 0) == tracked_too, name
