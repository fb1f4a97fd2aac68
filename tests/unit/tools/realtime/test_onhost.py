"""Jobs on the host: exclusive use of the machine and results; most tests need no root."""

import contextlib
import os

import pytest

from losslab import lock, processes
from losslab.backends import base, runner
from losslab.errors import GuestLostError, HostError, LosslabError
from losslab.tools.realtime import onhost


@pytest.fixture
def folder(monkeypatch, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("the folder is root's: run as root")
    monkeypatch.setattr(onhost, "FOLDER", tmp_path / "losslab")
    return tmp_path / "losslab"


def test_host_lock_is_in_a_private_folder_of_root(folder):
    with onhost.turn() as mine:
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (mine.source / "losslab" / "emulation" / "measure.py").exists()
        killed = folder / "job-killed"
    killed.mkdir()
    lock.mark(killed, onhost.JOB_PREFIX)
    assert not mine.source.exists()
    with onhost.turn():
        assert not killed.exists()


class ShellJob(onhost.OnHost):
    """A backend whose job is a shell script."""

    def __init__(self, script):
        self.script = script

    @contextlib.contextmanager
    def start(self, tools, job):
        command = ["sh", "-c", f"cd {job.folder}; {self.script}"]
        yield base.Start(lambda console: processes.spawn(command, console=console))


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        ("echo mount: permission denied; exit 32", HostError, "permission denied"),
        ("touch started; kill -KILL $$", HostError, "out of memory"),
        ("touch started; echo Oops; exit 1", GuestLostError, "Oops"),
        ("touch started; sleep 60", GuestLostError, "still running"),
        ("touch started; echo '{\"error\": \"no\", \"kind\": \"host\"}' > result.json",
         HostError, "no"),
        ("touch started; echo '{\"error\": \"x\", \"kind\": \"crashed\"}' > result.json",
         GuestLostError, "must not crash"),
        ("touch started; echo '{\"error\": \"y\", \"kind\": \"refused\"}' > result.json",
         LosslabError, "y"),
    ],
)  # fmt: skip
def test_folder_of_a_job_is_kept_by_its_outcome(tmp_path, script, kind, words):
    """Only refusals by the job itself and failed checks are recorded as rows."""
    job = base.Job({"kind": "replicate"}, tmp_path, 7, timeout_s=1.0)
    with pytest.raises(LosslabError) as error:
        runner.run(ShellJob(script), None, job)
    assert type(error.value) is kind
    assert words in str(error.value)
