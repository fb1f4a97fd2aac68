"""Anonymous archives: names that git and CITATION.cff know, replaced in sources only."""

import subprocess

import pytest

from losslab.errors import LosslabError
from losslab.tools.artifact import anonymous


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "CITATION.cff").write_text(
        "authors: [{ family-names: Hopper, given-names: Grace, orcid: 0000-1 }, { name: Max }]\n"
    )
    for words in (
        ("init",), ("add", "."), ("remote", "add", "origin", "git@example.org:analyst/engine.git"),
        ("-c", "user.name=max", "-c", "user.email=max@example.org", "commit", "-m", "first"),
    ):  # fmt: skip
        subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True)
    return folder


def test_names_of_git_and_of_the_citation_are_known(repository, tmp_path):
    found = anonymous.names(repository, tmp_path / "home" / "grace")
    assert {"max@example.org", "analyst/engine", "git@example.org:analyst/engine", "Grace Hopper",
            "Hopper, Grace", "Hopper", "0000-1", "Max", str(tmp_path / "home" / "grace")} <= set(
        found
    )  # fmt: skip
    # A word that code may have names nobody.
    assert "max" not in found
    assert found == sorted(found, key=len, reverse=True)
    assert "/root" not in anonymous.names(repository, anonymous.Path("/root"))


def test_sources_lose_names_and_keep_words(tmp_path):
    shared = tmp_path / "repository.py"
    shared.write_text("max(1, 2)  # GRACE hopper, Hopperton, by Max\n")
    root = tmp_path / "archive"
    root.mkdir()
    (root / "code.py").hardlink_to(shared)
    assert anonymous.strip(root, ["Grace Hopper", "Hopper", "Max"]) == ["code.py"]
    assert (root / "code.py").read_text() == "max(1, 2)  # Anonymous, Hopperton, by Anonymous\n"
    assert "GRACE" in shared.read_text()


@pytest.mark.parametrize(
    ("name", "data"), [("results/a.json", b"Hopper"), ("image.bin", b"\0Hopper")]
)
def test_names_in_files_that_cannot_be_edited_are_refused(tmp_path, name, data):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(LosslabError, match=f"found {name}"):
        anonymous.strip(tmp_path, ["Hopper"])


def test_nobody_is_named_in_an_archive_without_names(tmp_path):
    (tmp_path / "a.py").write_text("1\n")
    assert anonymous.strip(tmp_path, []) == []
