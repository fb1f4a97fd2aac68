import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from losslab import cli, lock
from losslab.campaign.results import CELL_FILE, MANIFEST_FILE, replace_json, whole_folder
from losslab.errors import HostError, LosslabError
from losslab.repository import ROOT

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


def test_folder_of_the_user_with_our_prefix_is_kept(tmp_path):
    """D: a name is no proof that losslab made a folder."""
    (tmp_path / f"{PREFIX}keep").mkdir()
    (tmp_path / f"{PREFIX}keep" / "thesis.tex").write_text("mine")
    (tmp_path / f"{PREFIX}file").write_text("mine")
    (tmp_path / f"{PREFIX}forged").mkdir()
    (tmp_path / f"{PREFIX}forged" / lock.MARK).write_text("[[not losslab's")
    before = names(tmp_path)
    leftover(tmp_path)
    lock.sweep(tmp_path, PREFIX)
    assert names(tmp_path) == before
    assert (tmp_path / f"{PREFIX}keep" / "thesis.tex").read_text() == "mine"


def test_copy_of_a_leftover_is_kept(tmp_path):
    """D: the user may have copied a folder of losslab's to keep it."""
    shutil.copytree(leftover(tmp_path), tmp_path / f"{PREFIX}copy")
    lock.sweep(tmp_path, PREFIX)
    assert names(tmp_path) == [f"{PREFIX}copy"]


def test_link_in_place_of_a_leftover_is_not_followed(tmp_path):
    """D: a symbolic link to a marked folder elsewhere."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    other = leftover(tmp_path / "elsewhere")
    (tmp_path / "here" / f"{PREFIX}link").symlink_to(other)
    lock.sweep(tmp_path / "here", PREFIX)
    assert os.path.isfile(os.path.join(other, lock.MARK))
    assert names(tmp_path / "here") == [f"{PREFIX}link"]


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


def tree(folder):
    return {str(p): p.read_bytes() if p.is_file() else b"" for p in sorted(folder.rglob("*"))}


def check(*words):
    return cli.main(["check", *map(str, words)])


def test_check_refuses_a_folder_that_it_did_not_make(tmp_path, capsys):
    """D: `check --out work` removed work/change/files."""
    change = tmp_path / "tcp_cubic.c"
    change.write_text("int x;\n")
    files = tmp_path / "work" / "change" / "files"
    files.mkdir(parents=True)
    (files / "tcp_cubic.c").write_text("mine")
    before = tree(tmp_path)
    assert check(change, "--out", tmp_path / "work") == 2
    assert tree(tmp_path) == before
    assert "--out must name a new folder" in capsys.readouterr().err


def test_check_refuses_an_argument_in_its_output_folder(tmp_path, capsys):
    """D: `check work/change/files/tcp_cubic.c --out work` removed its own argument."""
    files = tmp_path / "work" / "change" / "files"
    files.mkdir(parents=True)
    lock.mark(tmp_path / "work", "losslab check")
    change = files / "tcp_cubic.c"
    change.write_text("mine")
    before = tree(tmp_path)
    assert check(change, "--out", tmp_path / "work") == 2
    (tmp_path / "link").symlink_to(files)
    assert check(f"a.c={tmp_path / 'link' / 'tcp_cubic.c'}", "--out", tmp_path / "work") == 2
    (tmp_path / "link").unlink()
    assert tree(tmp_path) == before
    assert "without the command's input" in capsys.readouterr().err


def test_check_reads_its_input_before_it_writes(tmp_path, capsys):
    """D: a missing file was found after folders had been removed."""
    assert check(tmp_path / "missing.c", "--out", tmp_path / "work") == 2
    assert names(tmp_path) == []
    assert "found no file" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["../victim.c", "/tmp/losslab-victim.c", "net/../../victim.c"])
def test_check_writes_no_file_outside_of_its_folder(tmp_path, capsys, path):
    """D: `PATH=FILE` wrote to any path."""
    change = tmp_path / "mine.c"
    change.write_text("mine")
    assert check(f"{path}={change}", "--out", tmp_path / "work") == 2
    assert names(tmp_path) == ["mine.c"]
    assert "must be a path in the kernel's source" in capsys.readouterr().err


def test_setup_keeps_an_environment_that_it_did_not_make(tmp_path):
    """D: setup.sh removed any .venv."""
    for name in ("scripts", ".venv"):
        (tmp_path / name).mkdir()
    shutil.copy(ROOT / "scripts" / "setup.sh", tmp_path / "scripts")
    (tmp_path / ".venv" / "mine").touch()
    command = ["sh", str(tmp_path / "scripts" / "setup.sh"), "tools"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "found another" in done.stderr
    assert (tmp_path / ".venv" / "mine").is_file()
