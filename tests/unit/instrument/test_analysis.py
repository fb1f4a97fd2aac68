"""R and the renderer: found, or named with the command that installs them."""

import hashlib
import io
import os
import platform
import tarfile

import pytest

from losslab import analysis, processes, repository
from losslab.errors import HostError, LosslabError
from losslab.instrument.fetch import UnavailableError


def test_missing_r_packages_of_it_or_renderer_are_named(monkeypatch):
    monkeypatch.setattr(processes, "run", lambda *words, **how: "ragg svglite")
    with pytest.raises(HostError, match="a test needs R packages, found missing: ragg, svglite"):
        analysis.require_r("a test")
    monkeypatch.setattr(repository.shutil, "which", lambda name: None)
    with pytest.raises(HostError, match="found missing: r-base-core") as error:
        analysis.require_r("a test")
    assert "r-base-core r-cran-tidyverse" in error.value.hint
    monkeypatch.setattr(analysis, "quarto", lambda: None)
    monkeypatch.setattr(analysis.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(HostError, match="a test needs Quarto, or pandoc and typst, found none"):
        analysis.require_renderer("a test")


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


NAME = "quarto-1.9.9-linux-amd64.tar.gz"


@pytest.fixture
def release(server, monkeypatch, tmp_path):
    """Pin a small release; return the folder that has it, as LOSSLAB_QUARTO_SOURCE says."""
    script = b"#!/bin/sh\necho 1.9.9\n"
    with tarfile.open(tmp_path / NAME, mode="w:gz") as tar:
        member = tarfile.TarInfo("quarto-1.9.9/bin/quarto")
        member.size, member.mode = len(script), 0o755
        tar.addfile(member, io.BytesIO(script))
    digest = hashlib.sha256((tmp_path / NAME).read_bytes()).hexdigest()
    pins = tmp_path / "quarto.toml"
    pins.write_text(
        f'version = "1.9.9"\nurl = "{server.url}/v1.9.9"\n[sha256]\nlinux-amd64 = "{digest}"\n'
    )
    monkeypatch.setattr(analysis, "PINS", pins)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv(analysis.SOURCE, str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return tmp_path


@pytest.mark.parametrize("place", ["folder", "server"])
def test_pinned_release_is_installed_once_and_used(place, release, server, monkeypatch):
    program(release, "quarto", "echo 1.10.2", monkeypatch)
    if place == "server":
        monkeypatch.delenv(analysis.SOURCE)
        server.files[f"/v1.9.9/{NAME}"] = (release / NAME).read_bytes()
    found = analysis.install_quarto()
    assert analysis.quarto_version(found) == "1.9.9"
    assert analysis.quarto() == analysis.install_quarto() == found
    assert len(server.asked) == (place == "server")


def test_changed_release_is_refused_and_the_report_has_another_renderer(release, capsys):
    (release / NAME).write_bytes(b"evil")
    assert analysis.main() == 0
    words = capsys.readouterr().err
    assert "rendered with knitr, pandoc and typst" in words
    assert "different content" in words
    assert analysis.quarto() is None


def test_unknown_machine_has_no_pinned_release(release, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(UnavailableError, match="riscv64"):
        analysis.install_quarto()
    found = program(release, "quarto", "echo 1.9.0", monkeypatch)
    assert analysis.quarto() == found


def test_every_machine_of_the_pins_has_a_hash():
    data = analysis.read_toml(analysis.PINS)
    assert {*data["sha256"]} == {*analysis.SYSTEMS.values()}
    assert data["version"] in data["url"]


@pytest.mark.parametrize(
    ("version", "used"), [("1.9.36", True), ("2.0", True), ("1.8.27", False), ("none", False)]
)
def test_quarto_on_path_is_used_if_it_is_new_enough(release, monkeypatch, tmp_path, version, used):
    found = program(tmp_path, "quarto", f"echo {version}", monkeypatch)
    assert analysis.quarto() == (found if used else None)
