"""R and the renderer: found, or named with the command that installs them."""

import hashlib
import io
import os
import platform
import tarfile

import pytest

from losslab import processes, repository
from losslab.errors import HostError, LosslabError
from losslab.instrument import analysis
from losslab.instrument.archive import UnavailableError


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


def test_killed_r_is_not_taken_for_missing_packages(tmp_path, monkeypatch):
    (tmp_path / "Rscript").write_text("#!/bin/sh\nkill -9 $$\n")
    (tmp_path / "Rscript").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(LosslabError, match=r"Rscript.* must succeed, found status -9") as error:
        analysis.require_r("a test")
    # `losslab sweep` goes on without a figure only if something is missing: a HostError.
    assert not isinstance(error.value, HostError)


def test_missing_renderer_is_named(monkeypatch):
    monkeypatch.setattr(analysis, "quarto", lambda: None)
    monkeypatch.setattr(analysis.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(HostError, match="a test needs Quarto, or pandoc and typst, found none"):
        analysis.require_renderer("a test")


NAME = "quarto-1.9.9-linux-amd64.tar.gz"
SCRIPT = b"#!/bin/sh\necho 1.9.9\n"


def packed():
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        member = tarfile.TarInfo("quarto-1.9.9/bin/quarto")
        member.size, member.mode = len(SCRIPT), 0o755
        tar.addfile(member, io.BytesIO(SCRIPT))
    return content.getvalue()


@pytest.fixture
def release(server, monkeypatch, tmp_path):
    """Pin a small release at the server; return the server, which has it."""
    content = packed()
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    file = tmp_path / "quarto.toml"
    file.write_text(
        'version = "1.9.9"\nurl = "http://localhost/v1.9.9"\n\n'
        f'[sha256]\nlinux-amd64 = "{hashlib.sha256(content).hexdigest()}"\n'
    )
    monkeypatch.setattr(analysis, "PINS", file)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    server.files[f"/quarto/{NAME}"] = content
    return server


def on_path(folder, monkeypatch, version):
    folder.mkdir()
    (folder / "quarto").write_text(f"#!/bin/sh\necho {version}\n")
    (folder / "quarto").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "quarto"


def test_pinned_release_is_installed_once_and_used(release, monkeypatch, tmp_path):
    on_path(tmp_path / "bin", monkeypatch, "1.10.2")
    found = analysis.install_quarto()
    assert analysis.quarto_version(found) == "1.9.9"
    assert analysis.quarto() == analysis.install_quarto() == found
    assert len(release.asked) == 1


def test_changed_release_is_refused_and_the_report_has_another_renderer(release, capsys):
    release.files[f"/quarto/{NAME}"] = b"evil"
    with pytest.raises(UnavailableError, match="different content"):
        analysis.install_quarto()
    assert analysis.quarto() is None
    assert analysis.main() == 0
    words = capsys.readouterr().err
    assert "rendered with knitr, pandoc and typst" in words
    assert "different content" in words


def test_release_of_another_address_is_installed(release, monkeypatch, tmp_path):
    (tmp_path / NAME).write_bytes(release.files.pop(f"/quarto/{NAME}"))
    monkeypatch.setenv(analysis.SOURCE, f"file:{tmp_path}")
    assert analysis.install_quarto().is_file()


def test_unknown_machine_has_no_pinned_release(release, monkeypatch, tmp_path):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(UnavailableError, match="riscv64"):
        analysis.install_quarto()
    assert analysis.quarto() is None
    found = on_path(tmp_path / "bin", monkeypatch, "1.9.0")
    assert analysis.quarto() == found


@pytest.mark.parametrize(
    ("version", "used"), [("1.9.36", True), ("2.0", True), ("1.8.27", False), ("none", False)]
)
def test_quarto_on_path_is_used_if_it_is_new_enough(release, monkeypatch, tmp_path, version, used):
    found = on_path(tmp_path / "bin", monkeypatch, version)
    assert analysis.quarto() == (found if used else None)


def test_every_machine_of_the_pins_has_a_hash():
    data = analysis.read_toml(analysis.PINS)
    assert set(data["sha256"]) == set(analysis.SYSTEMS.values())
    assert all(len(value) == 64 for value in data["sha256"].values())
    assert data["version"] in data["url"]
