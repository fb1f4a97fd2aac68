"""Containernet in the engine image, and whether an instrument is pinned."""

import json
import subprocess

import pytest

from losslab.campaign import instrument
from losslab.instrument import archive, image, integrity, kernel
from losslab.instrument.archive import UnavailableError


def repository_of(folder, text):
    def git(*words):
        return subprocess.run(
            ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x", *words],
            check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip

    (folder / "mininet").mkdir(parents=True)
    (folder / "mininet" / "net.py").write_text(text)
    (folder / "mininet" / "examples").symlink_to("../examples")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "x")
    return git("rev-parse", "HEAD")


def test_containernet_comes_from_any_copy_with_the_pinned_commit(monkeypatch, tmp_path):
    commit = repository_of(tmp_path / "copy", "pinned = True\n")
    (tmp_path / "copy" / "mininet" / "net.py").write_text("pinned = False\n")
    monkeypatch.setenv(image.SOURCE, f"git+file://{tmp_path}/copy")
    monkeypatch.setattr(image, "containernet", lambda: {"commit": commit, "url": "unused"})
    image.install_containernet(tmp_path / "opt", tmp_path / "log")
    assert (tmp_path / "opt/mininet/net.py").read_text() == "pinned = True\n"


def test_containernet_without_the_pinned_commit_is_refused(monkeypatch, tmp_path):
    repository_of(tmp_path / "copy", "other = True\n")
    monkeypatch.setenv(image.SOURCE, f"file://{tmp_path}/copy")
    with pytest.raises(UnavailableError, match="Containernet's commit c068942") as error:
        image.install_containernet(tmp_path / "opt", tmp_path / "log")
    assert image.SOURCE in error.value.hint


@pytest.mark.parametrize("pinned", [True, False])
def test_instrument_is_pinned_if_all_its_parts_are(server, monkeypatch, tmp_path, pinned):
    monkeypatch.setattr(integrity, "PINS", tmp_path / "trees.tsv")
    for folder, facts in (
        (kernel.target(), {"pinned": True, "hash": "k"}),
        (image.target(pinned=pinned), {"pinned": pinned, "hash": "i"}),
    ):
        (folder / "root").mkdir(parents=True)
        (folder / "provenance.json").write_text(json.dumps(facts))
    (kernel.target() / "linux").touch()
    sha256 = archive.digest(kernel.target() / "linux")
    (kernel.target() / integrity.LINUX_DIGEST).write_text(sha256)
    assert instrument.instrument().provenance["pinned"] is pinned
