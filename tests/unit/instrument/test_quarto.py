"""Installation of the pinned Quarto, and the choice between it and one on PATH."""

import hashlib
import io
import os
import platform
import tarfile

import pytest

from losslab.instrument import analysis
from losslab.instrument.archive import UnavailableError

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
