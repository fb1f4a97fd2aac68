"""Files of other users at the paths of locks: losslab never follows, awaits or changes them."""

import contextlib
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from losslab import lock
from losslab.backends import onhost, resources
from losslab.errors import HostError
from losslab.instrument import cache, kerneltree

STRANGER = 12345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="giving files to another user needs root")


def link(path, victim):
    path.symlink_to(victim)


def dangling_link(path, victim):
    path.symlink_to(victim.with_name("not there yet"))


def pipe(path, victim):
    os.mkfifo(path)


def device(path, victim):
    if os.geteuid() != 0:
        pytest.skip("making a device needs root")
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("making a device is not allowed here")


def unix_socket(path, victim):
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


def folder(path, victim):
    path.mkdir(mode=0o700)


def file(path, victim):
    path.write_text("of somebody")


def strangers_folder(path, victim):
    path.mkdir(mode=0o700)
    os.chown(path, STRANGER, STRANGER)


def open_folder(path, victim):
    path.mkdir()
    path.chmod(0o770)


def strangers_file(path, victim):
    path.write_text("of somebody")
    os.chown(path, STRANGER, STRANGER)


STRANGERS_FOLDER = pytest.param(strangers_folder, marks=needs_root)
STRANGERS_FILE = pytest.param(strangers_file, marks=needs_root)
NOT_FOLDERS = [link, dangling_link, pipe, device, unix_socket, file, open_folder, STRANGERS_FOLDER]
NOT_FILES = [link, dangling_link, pipe, device, unix_socket, folder, STRANGERS_FILE]


@pytest.fixture
def victim(tmp_path):
    """Return a file and a folder to which a link leads; tests check that they do not change."""
    precious = tmp_path / "victim"
    precious.mkdir(mode=0o755)
    (precious / "precious").write_text("as it was")
    yield precious
    assert [path.name for path in precious.iterdir()] == ["precious"]
    assert (precious / "precious").read_text() == "as it was"
    assert not precious.with_name("not there yet").exists()


@contextlib.contextmanager
def cpu_lock(monkeypatch, place):
    """Leave only one possible folder for the locks, so that the refusal shows."""
    with resources.private_folder(place) as descriptor:
        os.close(lock.open_lock(place / "cpu-0.0", descriptor))
        yield


@contextlib.contextmanager
def real_time_lock(monkeypatch, place):
    monkeypatch.setattr(onhost, "FOLDER", place)
    with onhost.turn():
        yield


FOLDERS = {"cpus": cpu_lock, "real time": real_time_lock}


@pytest.mark.parametrize("obstacle", NOT_FOLDERS)
@pytest.mark.parametrize("name", FOLDERS)
def test_lock_folder_belongs_to_the_user(name, obstacle, tmp_path, monkeypatch, victim):
    place = tmp_path / "place"
    obstacle(place, victim)
    with (
        pytest.raises(HostError, match=f"{place} must ") as error,
        FOLDERS[name](monkeypatch, place),
    ):
        pass
    assert str(place) in error.value.hint


def lock_of_cpu(monkeypatch, where, obstruct):
    where.chmod(0o700)
    obstruct(where / "cpu-7.0")
    resources._hold(where, [7])


def lock_of_real_time(monkeypatch, where, obstruct):
    where.chmod(0o700)
    obstruct(where / onhost.LOCK)
    with real_time_lock(monkeypatch, where):
        pass


def lock_of_build(monkeypatch, where, obstruct):
    obstruct(where / ".hash.lock")
    with cache.building(where / "hash"):
        pass


def lock_of_tree(monkeypatch, where, obstruct):
    obstruct(where / "lock")
    with kerneltree.with_additions(where, [], [], where / "log"):
        pass


@pytest.mark.parametrize("obstacle", NOT_FILES)
@pytest.mark.parametrize("use", [lock_of_cpu, lock_of_real_time, lock_of_build, lock_of_tree])
def test_lock_belongs_to_the_user(use, obstacle, tmp_path, monkeypatch, victim):
    where = tmp_path / "where"
    where.mkdir()
    target = victim / "precious" if obstacle is link else victim
    with pytest.raises(HostError, match=r"must (be|belong)") as error:
        use(monkeypatch, where, lambda path: obstacle(path, target))
    assert str(where) in error.value.hint


def test_lock_file_keeps_its_content_and_is_held_once(tmp_path):
    path = tmp_path / "lock"
    path.write_text("as it was")
    path.chmod(0o666)
    os.close(lock.open_lock(path))
    assert path.read_text() == "as it was"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def environment(monkeypatch, tmp_path):
    runtime, temporary = tmp_path / "runtime", tmp_path / "temporary"
    for place in (runtime, temporary):
        place.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setattr(resources.tempfile, "gettempdir", lambda: str(temporary))
    monkeypatch.setattr(resources, "RUN", tmp_path / "run" / "losslab")
    return runtime / "losslab", temporary / f"losslab-{os.geteuid()}"


def test_cpu_locks_are_in_the_users_own_folder_if_it_exists(monkeypatch, tmp_path):
    runtime, temporary = environment(monkeypatch, tmp_path)
    with resources.own_cpu(cpus=[3]):
        assert [path.name for path in runtime.iterdir()] == ["cpu-3.0"]
    monkeypatch.setenv("XDG_RUNTIME_DIR", "relative")
    with resources.own_cpu(cpus=[3]):
        assert [path.name for path in temporary.iterdir()] == ["cpu-3.0"]


@pytest.mark.parametrize("obstacle", NOT_FOLDERS)
def test_other_users_can_neither_block_nor_redirect_a_guest(
    obstacle, monkeypatch, tmp_path, victim, capfd
):
    runtime, temporary = environment(monkeypatch, tmp_path)
    obstacle(runtime, victim)
    with resources.own_cpu(cpus=[3]) as cpu:
        assert (cpu, temporary.is_dir()) == (3, True)
    (temporary / "cpu-3.0").unlink()
    temporary.rmdir()
    obstacle(temporary, victim)
    with resources.own_cpu(cpus=[3]) as cpu:
        assert cpu == 3
    words = capfd.readouterr().err
    assert f"note: guests may share a CPU while another is idle: {runtime} must" in words


def test_pipe_in_place_of_locks_does_not_block_a_guest(tmp_path):
    """The test needs its own process: open(2) of a pipe waits for the other end."""
    (tmp_path / f"losslab-{os.geteuid()}").mkdir(mode=0o700)
    os.mkfifo(tmp_path / f"losslab-{os.geteuid()}" / "cpu-0.0")
    code = (
        "from pathlib import Path; from losslab.backends import resources\n"
        "resources.RUN = Path('/proc/no/such')\n"
        "with resources.own_cpu(cpus=[0]) as cpu: print(cpu)"
    )
    variables = os.environ | {"TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": ""}
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, timeout=60, check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.stdout == "0\n"
    assert "cpu-0.0 must be a file, found something else" in done.stderr
    assert time.monotonic() - begin < 50


@needs_root
def test_root_does_not_change_folders_of_others(tmp_path):
    other, own = tmp_path / "mine-other", tmp_path / "mine-own"
    for path in (other, own):
        path.mkdir()
    os.chown(other, STRANGER, STRANGER)
    lock.sweep(tmp_path, "mine-")
    assert [path.name for path in tmp_path.iterdir()] == ["mine-other"]


@needs_root
def test_two_users_do_not_block_each_other():
    """Each user made the folder with the other's name; both get a CPU."""
    code = (
        "import os, sys, tempfile; from pathlib import Path\n"
        "from losslab.backends import resources\n"
        "os.setresuid(*[int(sys.argv[1])] * 3)\n"
        "(Path(tempfile.gettempdir()) / f'losslab-{sys.argv[2]}').mkdir(0o700, exist_ok=True)\n"
        "with resources.own_cpu(cpus=[0]) as cpu: print(cpu)"
    )
    with tempfile.TemporaryDirectory(dir="/tmp") as shared:
        Path(shared).chmod(0o1777)
        variables = os.environ | {"TMPDIR": shared, "XDG_RUNTIME_DIR": ""}
        for user, other in (("12345", "12346"), ("12346", "12345")):
            done = subprocess.run(
                [sys.executable, "-c", code, user, other], env=variables, timeout=60, check=False,
                capture_output=True, text=True, cwd="/",
            )  # fmt: skip
            assert done.stdout == "0\n", done.stderr
