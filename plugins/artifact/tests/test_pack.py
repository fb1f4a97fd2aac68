"""Folders and campaigns that cannot be packed."""

import subprocess
from pathlib import Path

import pytest

from losslab.errors import LosslabError
from losslab_artifact import pack


def test_campaign_to_pack_must_be_a_file_of_the_repository(tmp_path, root):
    assert pack.campaign_file(root / "config/quick.yaml") == Path("config/quick.yaml")
    for path in (tmp_path / "none.yaml", root / "pyproject.toml"):
        with pytest.raises(LosslabError, match="must be a configuration file"):
            pack.campaign_file(path)


def test_packing_without_results_is_refused(tmp_path):
    with pytest.raises(LosslabError, match="must record the campaign"):
        pack.pack(tmp_path, Path("config/quick.yaml"), tmp_path / "a.tar.gz", False)


def test_all_uncommitted_files_are_named_with_what_to_do(tmp_path):
    def git(*words):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)

    git("init")
    for name in ("kept", "changed"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "first")
    pack.require_committed(tmp_path)
    (tmp_path / "changed").write_text("2")
    for name in ("cubic", "my-run"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text("{}")
    with pytest.raises(LosslabError) as error:
        pack.require_committed(tmp_path)
    assert "found 2 new and 1 changed: cubic/, my-run/, changed" in error.value.message
    assert "mv cubic/ my-run/ runs/" in error.value.hint
    assert "commit or undo the changes of changed" in error.value.hint
