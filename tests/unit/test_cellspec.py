"""The reservation of a new output folder, and the command that repeats a run."""

import os
import shlex
import subprocess
import sys

import pytest

from losslab import cellspec
from losslab.cellspec import claimed
from losslab.errors import LosslabError
from losslab.instrument import cache
from losslab.reading import UsageError
from losslab.study import runlength
from losslab.study.condition import Condition


def test_folder_that_exists_or_that_another_process_makes_is_refused(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="exists"), claimed(tmp_path):
        pytest.fail("an existing folder was reserved")
    monkeypatch.chdir(tmp_path)
    same = tmp_path / "new" / ".." / "new" / "run"
    refused = pytest.raises(UsageError, match="another process")
    with claimed(tmp_path / "new" / "run"), refused, claimed(same):
        pytest.fail("the folder was reserved twice")


def test_lock_folder_of_another_is_refused(tmp_path, monkeypatch):
    """C5: a link, or a folder that others may enter."""
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path))
    folder = tmp_path / f"losslab-locks-{os.geteuid()}"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    with pytest.raises(LosslabError, match="no other user can enter"), claimed(tmp_path / "run"):
        pass
    folder.rmdir()
    (tmp_path / "mine").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "mine")
    with pytest.raises(LosslabError, match="no other user can enter"), claimed(tmp_path / "run"):
        pass


def test_locks_end_with_their_holder_and_leave_no_file(tmp_path, monkeypatch):
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    code = (
        "import os, sys; from pathlib import Path; from losslab.cellspec import claimed\n"
        "with claimed(Path(sys.argv[1])): os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=True)
    with claimed(tmp_path / "run"):
        pass
    assert list(cache.locks().iterdir()) == []


def test_missing_home_is_a_clear_error(monkeypatch):
    """E: HOME unset, no passwd entry, no cache variable."""
    monkeypatch.delenv("LOSSLAB_CACHE", raising=False)
    monkeypatch.delenv("HOME", raising=False)

    def no_entry(uid):
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", no_entry)
    with pytest.raises(LosslabError, match="found neither LOSSLAB_CACHE nor HOME"):
        cache.cache_folder()


def test_repeating_command_has_the_duration_where_another_would_be_chosen():
    """Without a duration, `losslab measure` takes longer runs on a long path."""
    long = Condition(algorithm="cubic", rtt_ms=200, rate_mbit=20, buffer_packets=100)
    assert runlength.with_length([long], False, False)[0] != [long]
    words = shlex.split(cellspec.measure_command(long, 1))
    assert words[words.index("--duration-s") + 1] == "10"
    assert "--duration-s" not in cellspec.measure_command(long, 1, path_only=True)
    assert "--duration-s" not in cellspec.measure_command(Condition(algorithm="cubic"), 1)
