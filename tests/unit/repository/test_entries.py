"""The scripts of CI for the table of algorithms: what a merge keeps and removes."""

import shutil
import subprocess

import pytest

from losslab.repository import ROOT

FILES = {
    "algorithms/gone/tcp_gone.c": "/* a module */\n",
    "algorithms/template/tcp_template.c": "/* the skeleton */\n",
    "recorded/algorithms/gone.json": "{}\n",
    "recorded/algorithms/stays.json": "{}\n",
}


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def merge(tmp_path):
    """Return a function that commits changes of the folder and runs a script in it."""
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", tmp_path)

    def commit(words):
        subprocess.run([*git, "add", "--all"], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", words], check=True)

    subprocess.run([*git, "init", "--quiet"], check=True)
    write(tmp_path, FILES)
    commit("base")

    def run(script, change=None):
        if change is not None:
            change()
            commit("merge")
        command = [ROOT / "scripts" / script, "entries"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode

    return run


def test_removed_algorithm_has_a_comment_and_leaves_the_table(merge, tmp_path):
    assert merge("entries.sh", lambda: shutil.rmtree(tmp_path / "algorithms/gone")) == 0
    assert "`gone` is removed" in (tmp_path / "entries/gone/comment.md").read_text()
    assert merge("keep-entries.sh") == 0
    kept = [file.name for file in (tmp_path / "recorded/algorithms").iterdir()]
    assert kept == ["stays.json"]


def test_algorithm_without_a_row_does_not_keep_another_from_its_own(merge, tmp_path):
    write(
        tmp_path,
        {
            "algorithms/good/tcp_good.c": "",
            "entries/good/good.json": '{"new": 1}\n',
            "entries/good/comment.md": "good\n",
            "entries/gone/comment.md": "has no row\n",
        },
    )
    assert merge("keep-entries.sh") == 0
    kept = {file.name: file.read_text() for file in (tmp_path / "recorded/algorithms").iterdir()}
    assert kept == {"gone.json": "{}\n", "stays.json": "{}\n", "good.json": '{"new": 1}\n'}


def test_name_that_is_none_has_a_comment_with_the_reason(merge, tmp_path):
    files = {"algorithms/a$(id)/tcp_a.c": ""}
    assert merge("entries.sh", lambda: write(tmp_path, files)) == 1
    assert "has only letters" in (tmp_path / "entries/_refused/comment.md").read_text()
    assert merge("keep-entries.sh") == 0


def test_change_of_the_skeleton_alone_measures_nothing(merge, tmp_path):
    file = tmp_path / "algorithms/template/tcp_template.c"
    assert merge("entries.sh", lambda: file.write_text("/* changed */\n")) == 0
    assert [*(tmp_path / "entries").iterdir()] == []
