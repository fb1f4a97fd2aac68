"""Tree of links to losslab's files and to those that a campaign's folder adds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from losslab import repository
from losslab.errors import LosslabError

HEAD = "name\tlabel\n"


@pytest.fixture
def base(tmp_path):
    return written(
        tmp_path / "base",
        {
            "config/algorithms.tsv": f"{HEAD}cubic\tCUBIC\n",
            "config/studies/loss.yaml": "",
            "algorithms/gaimd/tcp_gaimd.c": "",
            "config/traces/README.md": "",
            "workflow/rules/measure.smk": "",
            "report/index.qmd": "",
        },
    )


@pytest.fixture
def folder(tmp_path):
    return written(
        tmp_path / "mine",
        {
            "config/algorithms.tsv": f"{HEAD}mine\tMine\n",
            "config/studies/own.yaml": "own",
            "algorithms/mine/tcp_mine.c": "mine",
            "config/traces/lte": "1\n2\n",
        },
    )


def written(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def added(folder):
    return sorted({p.relative_to(folder) for each in repository.ADDED for p in folder.glob(each)})


def test_tree_has_the_files_of_both(base, folder):
    tree = repository.linked(base, folder, added(folder))
    assert {path.name for path in (tree / "algorithms").iterdir()} == {"gaimd", "mine"}
    assert {path.name for path in (tree / "config/studies").iterdir()} == {"loss.yaml", "own.yaml"}
    assert (tree / "config/algorithms.tsv").read_text() == f"{HEAD}cubic\tCUBIC\nmine\tMine\n"
    assert (tree / "report/index.qmd").is_file()
    # Relative paths from rules stay in the tree.
    assert (tree / "workflow/rules/../../config/studies/own.yaml").read_text() == "own"
    assert (tree / "config/traces/lte").read_text() == "1\n2\n"


def test_edits_are_seen_and_removed_files_vanish(base, folder):
    tree = repository.linked(base, folder, added(folder))
    (folder / "algorithms/mine/tcp_mine.c").write_text("edited")
    (folder / "config/studies/own.yaml").unlink()
    assert repository.linked(base, folder, added(folder)) == tree
    assert (tree / "algorithms/mine/tcp_mine.c").read_text() == "edited"
    assert not os.path.lexists(tree / "config/studies/own.yaml")


def test_file_that_replaces_one_of_losslabs_is_refused(base, folder):
    (folder / "config/studies/loss.yaml").write_text("mine")
    with pytest.raises(LosslabError, match="must not replace losslab's, found config/studies/loss"):
        repository.linked(base, folder, added(folder))


@pytest.mark.parametrize("marked", [True, False])
def test_only_a_marked_folder_adds_files(folder, marked):
    if marked:
        (folder / repository.MARK).write_text("")
    (folder / "config/algorithms.tsv").unlink()
    code = "from losslab.repository import ROOT; print(ROOT)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    found = Path(done.stdout.strip())
    assert found == (folder / repository.TREE if marked else repository.BASE)


def test_conflict_is_an_error_without_a_traceback(folder):
    (folder / repository.MARK).write_text("")
    (folder / "config/studies/loss.yaml").write_text("mine")
    done = subprocess.run(
        [sys.executable, "-m", "losslab.cli", "--version"], cwd=folder, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    first, second = done.stderr.splitlines()
    assert first.endswith("must not replace losslab's, found config/studies/loss.yaml")
    assert second == "  -> rename it"


def test_removed_current_folder_is_no_error(tmp_path):
    code = "import os; os.rmdir(os.getcwd()); from losslab.repository import ROOT; print(ROOT)"
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "gone", capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stdout.strip() == str(repository.BASE), done.stderr
