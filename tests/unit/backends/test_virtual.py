"""Command lines of guest kernels."""

import dataclasses
from pathlib import Path

import pytest

from losslab import processes
from losslab.backends.base import Instrument, Job
from losslab.backends.virtual import BOOT_SEED, EngineGuest, Guest
from losslab.study.axes import derived_seed

TOOLS = Instrument(Path("/kernel/linux"), Path("/"), {})


def command_line(monkeypatch, tmp_path, guest=Guest, interactive=False, **tools):
    """Return the command line of a guest that is booted for one job."""
    monkeypatch.setenv("LOSSLAB_SCRATCH", str(tmp_path))
    (tmp_path / "job").mkdir(exist_ok=True)
    job = Job({"kind": "command"}, tmp_path / "job", 7, 1.0, interactive, alone=True)
    monkeypatch.setattr(processes, "spawn", lambda command, **_: command)
    with guest().start(dataclasses.replace(TOOLS, **tools), job) as start:
        return start.begin(None)


def test_command_line_has_the_jobs_seed_and_the_kernels_boot_options(monkeypatch, tmp_path):
    words = command_line(monkeypatch, tmp_path)
    assert f"random.seed={BOOT_SEED}" in words
    assert f"snapshot=stay:{derived_seed(7, 'kernel')}" in words
    words = command_line(monkeypatch, tmp_path, interactive=True)
    seeds = [word for word in words if word.startswith("random.seed=")]
    # The kernel uses the last seed.
    assert seeds[-1] == f"random.seed={derived_seed(7, 'kernel')}"
    assert not any(word.startswith("snapshot=") for word in words)
    assert "seccomp=on" in command_line(monkeypatch, tmp_path, boot=("seccomp=on",))
    assert "seccomp=on" not in command_line(monkeypatch, tmp_path)


@pytest.mark.parametrize(("guest", "image"), [(Guest, "host"), (EngineGuest, "engine")])
def test_guest_may_mount_as_often_as_its_init_does(monkeypatch, tmp_path, root, guest, image):
    words = command_line(monkeypatch, tmp_path, guest, engine_root=Path("/"))
    init = (root / "containers" / image / "init").read_text()
    mounts = 1 + init.count("mount -t hostfs")  # the kernel mounts its root folder
    assert f"hostfs=,mounts={mounts},writable=/proc/self/cwd/." in words
    assert "LOSSLAB_OUT=/proc/self/cwd/." in words
    assert "noreboot" in words
