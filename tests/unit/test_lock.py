import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from losslab import lock
from losslab.errors import LosslabError

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


def test_link_at_a_locks_path_is_not_followed(tmp_path):
    (tmp_path / "victim").write_text("as it was")
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"), lock.locked(tmp_path / "lock"):
        pass


def test_lock_file_keeps_its_content(tmp_path):
    (tmp_path / "lock").write_text("as it was")
    with lock.locked(tmp_path / "lock"):
        assert (tmp_path / "lock").read_text() == "as it was"


@pytest.mark.skipif(os.geteuid() != 0, reason="giving folders to another user needs root")
def test_root_does_not_change_folders_of_others(tmp_path):
    other, own = tmp_path / "mine-other", tmp_path / "mine-own"
    for path in (other, own):
        path.mkdir()
        lock.mark(path, "test")
    os.chown(other, 12345, 12345)
    lock.sweep(tmp_path, "mine-")
    assert [path.name for path in tmp_path.iterdir()] == ["mine-other"]
