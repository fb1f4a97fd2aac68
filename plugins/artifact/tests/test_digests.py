"""Digests of the files of an archive."""

import os

import pytest

from losslab.errors import LosslabError
from losslab_artifact import verify


def test_integrity_finds_changed_missing_and_extra_files(campaign):
    digests = verify.read_digests(campaign)
    assert len(digests) == 6
    assert verify.wrong_files(campaign, digests) == {}
    changed = campaign / "results/cells/loss/cell/1/tcp.csv"
    changed.write_text(changed.read_text().replace("1", "2"))
    (campaign / "results/claims.csv").unlink()
    (campaign / "results/.more").write_text("more")
    (campaign / "results/more").symlink_to("/etc")
    os.mkfifo(campaign / "results/fifo")  # opening it would block
    assert verify.wrong_files(campaign, digests) == {
        "results/.more": "not listed",
        "results/cells/loss/cell/1/tcp.csv": "changed",
        "results/claims.csv": "missing",
        "results/fifo": "not a regular file",
        "results/more": "not a regular file",
    }


def test_integrity_ignores_only_files_of_set_up(campaign):
    digests = verify.read_digests(campaign)
    for name in (".venv/bin", "src/losslab.egg-info", "src/losslab/__pycache__"):
        (campaign / name).mkdir(parents=True)
        (campaign / name / "file").write_text("made here")
    assert verify.wrong_files(campaign, digests) == {}
    for name in ("results/.venv", "src/other.egg-info"):
        (campaign / name).mkdir(parents=True)
        (campaign / name / "file").write_text("added")
    found = verify.wrong_files(campaign, digests)
    assert set(found) == {"results/.venv/file", "src/other.egg-info/file"}


def test_malformed_file_list_is_refused(campaign):
    (campaign / verify.DIGESTS).unlink()
    with pytest.raises(LosslabError, match=r"must list the artifact's files"):
        verify.read_digests(campaign)
    (campaign / verify.DIGESTS).write_text("name\nx\ty\n")
    with pytest.raises(LosslabError, match="must list each file once"):
        verify.read_digests(campaign)


@pytest.mark.parametrize(
    "names", [["../x"], ["/etc/passwd"], ["a/../b"], ["a//b"], ["./a"], ["a", "a"], ["."]]
)
def test_file_list_with_outside_or_repeated_paths_is_refused(tmp_path, names):
    rows = "".join(f"{'0' * 64}  {name}\n" for name in names)
    (tmp_path / verify.DIGESTS).write_text(rows)
    with pytest.raises(LosslabError, match="must list each file once"):
        verify.read_digests(tmp_path)
