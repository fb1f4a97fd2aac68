"""Locks, and folders that losslab made and may remove."""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from losslab import lock
from losslab.campaign.results import CELL_FILE, MANIFEST_FILE, replace_json, whole_folder
from losslab.errors import HostError, LosslabError

HOLD = (
    "import sys, time; from pathlib import Path; from losslab import lock\n"
    "lock.hold_for_life(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
)


def test_lock_ends_with_its_holder(tmp_path):
    folder = tmp_path / "folder"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(LosslabError, match="found another"):
        lock.hold_for_life(folder)
    holder.kill()
    holder.wait()
    lock.hold_for_life(folder)


def test_second_holder_waits_for_the_first(tmp_path):
    wait = (
        "import sys; from pathlib import Path; from losslab import lock\n"
        "with lock.locked(Path(sys.argv[1]), 'waiting'): Path(sys.argv[1], 'second').touch()"
    )
    with lock.locked(tmp_path):
        second = subprocess.Popen(
            [sys.executable, "-c", wait, str(tmp_path)], stderr=subprocess.PIPE, text=True
        )
        assert second.stderr.readline() == "waiting\n"
        assert not (tmp_path / "second").exists()
    assert second.wait() == 0
    assert (tmp_path / "second").exists()


OWN = (
    "import sys, time; from pathlib import Path; from losslab import lock\n"
    "with lock.own_folder(Path(sys.argv[1]), 'mine-') as folder:\n"
    "    (folder / 'file').touch(); print(folder, flush=True); time.sleep(60)"
)


def test_folders_of_killed_owners_are_removed(tmp_path):
    (tmp_path / "yours-1").mkdir()
    owners = [
        subprocess.Popen([sys.executable, "-c", OWN, str(tmp_path)], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    living, dead = (Path(owner.stdout.readline().decode().strip()) for owner in owners)
    owners[1].kill()
    owners[1].wait()
    assert living.is_dir()
    assert dead.is_dir()
    with lock.own_folder(tmp_path, "mine-") as own:
        assert living.is_dir()
        assert not dead.exists()
    assert not own.exists()
    owners[0].kill()
    owners[0].wait()
    lock.sweep(tmp_path, "mine-")
    assert [path.name for path in tmp_path.iterdir()] == ["yours-1"]


def test_concurrent_processes_get_distinct_folders(tmp_path):
    def own(_):
        for _ in range(50):
            with lock.own_folder(tmp_path, "mine-") as folder:
                (folder / "file").touch()
                assert (folder / "file").exists()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(own, range(4)))
    assert list(tmp_path.iterdir()) == []


PREFIX = "losslab-rerun-"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def leftover(parent):
    """Make a folder whose owner was killed."""
    code = (
        "import os, sys; from pathlib import Path; from losslab import lock\n"
        f"with lock.own_folder(Path(sys.argv[1]), {PREFIX!r}) as folder:\n"
        "    (folder / 'file').touch(); print(folder.parent, flush=True); os._exit(0)"
    )
    command = [sys.executable, "-c", code, str(parent)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="giving folders to another user needs root")
def test_marked_folder_of_another_user_is_kept(tmp_path):
    """D: root may open other users' folders."""
    path = leftover(tmp_path)
    os.chown(path, 65534, 65534)
    lock.sweep(tmp_path, PREFIX)
    assert os.path.isdir(path)


def test_folder_of_the_user_in_place_of_a_replicate_is_kept(tmp_path):
    """D: `cell` and `sweep` replace replicates, and nothing else."""
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "thesis.tex").write_text("mine")
    with (
        pytest.raises(HostError, match="must be a replicate's folder"),
        whole_folder(tmp_path / "0"),
    ):
        pass
    assert names(tmp_path) == ["0"]
    assert (tmp_path / "0" / "thesis.tex").read_text() == "mine"


def test_damaged_replicate_is_replaced(tmp_path):
    (tmp_path / "0").mkdir()
    text = json.dumps({"backend": "virtual", "cell": {}, "files": {}})
    (tmp_path / "0" / MANIFEST_FILE).write_text(text[:40])
    with whole_folder(tmp_path / "0") as folder:
        (folder / "new").touch()
    assert names(tmp_path / "0") == ["new"]


def test_file_of_the_user_beside_a_written_file_is_kept(tmp_path):
    """D: any `.losslab-*` beside an output."""
    mine = tmp_path / f".losslab-{CELL_FILE}"
    mine.write_text("mine")
    replace_json({}, tmp_path / CELL_FILE)
    assert mine.read_text() == "mine"
    assert names(tmp_path) == sorted([mine.name, CELL_FILE])


def test_lock_file_keeps_its_content_and_is_no_link(tmp_path):
    (tmp_path / "file").write_text("as it was")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with lock.locked(tmp_path / "file"):
        assert (tmp_path / "file").read_text() == "as it was"
    with pytest.raises(OSError, match="symbolic links"), lock.locked(tmp_path / "link"):
        pass


def test_only_the_folder_that_losslab_marked_is_removed(tmp_path):
    """D: a name is no proof, and the user may have copied a folder of losslab's to keep it."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(leftover(tmp_path / "elsewhere"))
    for name, file, text in (
        ("keep", "thesis.tex", "mine"), ("forged", lock.MARK, "[[not losslab's")
    ):  # fmt: skip
        (tmp_path / f"{PREFIX}{name}").mkdir()
        (tmp_path / f"{PREFIX}{name}" / file).write_text(text)
    (tmp_path / f"{PREFIX}file").write_text("mine")
    shutil.copytree(leftover(tmp_path), tmp_path / f"{PREFIX}copy")
    kept = {
        "elsewhere",
        *(f"{PREFIX}{name}" for name in ("link", "keep", "forged", "file", "copy")),
    }
    lock.sweep(tmp_path, PREFIX)
    assert {*names(tmp_path)} == kept
    assert (tmp_path / f"{PREFIX}link" / lock.MARK).is_file()
