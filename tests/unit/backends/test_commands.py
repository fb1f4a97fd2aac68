"""What a guest's kernel is told."""

import dataclasses
from pathlib import Path

import pytest

from losslab import processes
from losslab.backends.base import Instrument, Job
from losslab.backends.containernet import EngineGuest
from losslab.backends.virtual import BOOT_SEED, Guest
from losslab.study.seeds import derived_seed

TOOLS = Instrument(Path("/kernel/linux"), Path("/"), {})


def command(monkeypatch, tmp_path, guest=Guest, **tools):
    """The words of a job's own guest."""
    monkeypatch.setenv("LOSSLAB_SCRATCH", str(tmp_path))
    (tmp_path / "job").mkdir(exist_ok=True)
    job = Job({"kind": "command"}, tmp_path / "job", 7, 1.0, alone=True)
    monkeypatch.setattr(processes, "spawn", lambda command, **_: command)
    with guest().start(dataclasses.replace(TOOLS, **tools), job) as start:
        return start.begin(None)


def test_a_guest_that_stays_takes_its_seed_where_a_copy_would(monkeypatch, tmp_path):
    words = command(monkeypatch, tmp_path)
    assert f"random.seed={BOOT_SEED}" in words
    assert f"snapshot=stay:{derived_seed(7, 'kernel')}" in words


def test_a_kernel_without_copies_has_its_jobs_seed_from_the_beginning(monkeypatch, tmp_path):
    words = command(monkeypatch, tmp_path, copies=False)
    seeds = [word for word in words if word.startswith("random.seed=")]
    # The last one counts.
    assert seeds[-1] == f"random.seed={derived_seed(7, 'kernel')}"
    assert not any(word.startswith("snapshot=") for word in words)


def test_a_kernels_own_words_are_on_its_command_line(monkeypatch, tmp_path):
    assert "seccomp=on" in command(monkeypatch, tmp_path, boot=("seccomp=on",))
    assert "seccomp=on" not in command(monkeypatch, tmp_path)


@pytest.mark.parametrize(("guest", "image"), [(Guest, "host"), (EngineGuest, "engine")])
def test_a_guest_may_mount_what_its_first_program_does_and_no_more(
    monkeypatch, tmp_path, root, guest, image
):
    words = command(monkeypatch, tmp_path, guest, engine_root=Path("/"))
    init = (root / "containers" / image / "init").read_text()
    mounts = 1 + init.count("mount -t hostfs")  # and the kernel its root folder
    assert f"hostfs=,mounts={mounts},writable=/proc/self/cwd/." in words
    assert "LOSSLAB_OUT=/proc/self/cwd/." in words
    assert "noreboot" in words
