"""Files of a campaign's folder come before losslab's."""

import os
import subprocess
import sys

import pytest

from losslab import extensions, repository


@pytest.fixture
def folder(campaign_folder):
    for name in ("studies/loss/study.yaml", "studies/own/study.yaml"):
        (campaign_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (campaign_folder / name).write_text("mine")
    return campaign_folder


def test_own_file_comes_before_losslabs(folder):
    for name in ("own", "loss"):
        assert repository.find(f"studies/{name}/study.yaml").read_text() == "mine"
    assert repository.find("studies/map/study.yaml").parents[2] == repository.ROOT
    found = {path.parent.name: path for path in repository.listed("studies/*/study.yaml")}
    assert list(found) == sorted(found)
    assert {path.parents[2] for path in found.values()} == {folder, repository.ROOT}
    assert (found["loss"], found["own"]) == tuple(
        folder / f"studies/{name}/study.yaml" for name in ("loss", "own")
    )


def test_folder_without_the_mark_adds_nothing(folder):
    (folder / extensions.MARK).unlink()
    assert repository.find("studies/loss/study.yaml").parents[2] == repository.ROOT
    assert not repository.find("studies/own/study.yaml").exists()


def test_import_reads_no_folder_and_writes_nothing(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    code = "import os; os.rmdir(os.getcwd()); from losslab import repository as r; print(r.ROOT)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=gone, capture_output=True, text=True, check=True,
        env={k: v for k, v in os.environ.items() if k != extensions.VARIABLE},
    )  # fmt: skip
    assert done.stdout.strip() == str(repository.ROOT)
