"""R and the renderer: found, or named with the command that installs them."""

import os

import pytest

from losslab import processes, repository
from losslab.errors import HostError, LosslabError
from losslab.instrument import analysis


def test_everything_is_installed_here():
    analysis.require_r("a test")
    analysis.require_renderer("a test")


def test_missing_r_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(repository.shutil, "which", lambda name: None)
    with pytest.raises(HostError, match="found missing: r-base-core") as error:
        analysis.require_r("a test")
    assert "r-base-core r-cran-tidyverse" in error.value.hint


def test_missing_r_packages_are_named(monkeypatch):
    monkeypatch.setattr(processes, "run", lambda *words, **how: "ragg svglite")
    with pytest.raises(HostError, match="a test needs R packages, found missing: ragg, svglite"):
        analysis.require_r("a test")


def program(folder, name, script, monkeypatch):
    """Put a program first on PATH."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return folder / name


def test_killed_r_is_not_taken_for_missing_packages(tmp_path, monkeypatch):
    program(tmp_path, "Rscript", "kill -9 $$", monkeypatch)
    with pytest.raises(LosslabError, match=r"Rscript.* must succeed, found status -9") as error:
        analysis.require_r("a test")
    # `losslab sweep` goes on without a figure only if something is missing: a HostError.
    assert not isinstance(error.value, HostError)


def test_missing_renderer_is_named(monkeypatch):
    monkeypatch.setattr(analysis, "quarto", lambda: None)
    monkeypatch.setattr(analysis.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(HostError, match="a test needs Quarto, or pandoc and typst, found none"):
        analysis.require_renderer("a test")


@pytest.mark.parametrize(
    ("version", "used"), [("1.9.36", True), ("2.0", True), ("1.8.27", False), ("none", False)]
)
def test_quarto_on_path_is_used_if_it_is_new_enough(monkeypatch, tmp_path, version, used):
    found = program(tmp_path, "quarto", f"echo {version}", monkeypatch)
    assert analysis.quarto() == (found if used else None)
