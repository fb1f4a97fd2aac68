"""Containers, as far as tests need neither an engine nor Containernet."""

import os
import sys
import types
from pathlib import Path

import pytest

from losslab.emulation import containers


class Api:
    """The engine's client; it records its calls."""

    def __init__(self):
        self.calls = []

    def create_container(self, **options):
        self.calls.append(("create", options))
        return {"Id": "1"}

    def create_host_config(self, **options):
        return options


PLACE = containers.Place("losslab-abc", "losslab-host:1", ("/a:/b:ro",))


@pytest.fixture
def containernet_module(monkeypatch):
    """A replacement of Containernet's module with the same classes."""

    class Docker:
        def __init__(self, name, **options):
            self.dnameprefix = "mn"
            self.dcli = Api()
            self.name, self.options = name, options
            self.dc = self.dcli.create_container(
                name=f"{self.dnameprefix}.{name}", labels=["com.containernet"], tty=True
            )

        def _get_pid(self):
            return os.getpid()

    module = types.ModuleType("mininet.node")
    module.Docker = Docker
    monkeypatch.setitem(sys.modules, "mininet.node", module)
    monkeypatch.setitem(sys.modules, "mininet", types.ModuleType("mininet"))


def test_programs_start_in_the_namespaces_and_receive_signals(containernet_module, monkeypatch):
    host = containers.host_class(PLACE)("sender", ip=None)
    started = []
    monkeypatch.setattr(
        containers.subprocess, "Popen", lambda command, **options: started.append(command)
    )
    host._popen(["docker", "exec", "-t", "losslab-abc.sender", "ping", "-c", "1", "10.0.3.2"])
    assert started[0][0] == "nsenter"
    assert f"--target={os.getpid()}" in started[0]
    assert "--pid" not in started[0]
    assert started[0][-4:] == ["ping", "-c", "1", "10.0.3.2"]


def test_program_in_a_guest_starts_as_on_a_plain_host(containernet_module, monkeypatch, tmp_path):
    groups = tmp_path / "cgroup.procs"
    monkeypatch.setattr(containers, "cgroup_files", lambda pid: [groups])
    monkeypatch.setattr(containers, "ROOT_GROUP", str(tmp_path / "root"))
    for file in (groups, tmp_path / "root"):
        file.touch()
    host = containers.host_class(PLACE)("sender", ip=None)
    host.pid = 42
    started = []

    def start(command, **options):
        # The job has joined the container's group, and not yet left it.
        started.append((command, groups.read_text(), (tmp_path / "root").read_text()))

    monkeypatch.setattr(containers.subprocess, "Popen", start)
    host.popen(["ping", "10.0.3.2"])
    assert started == [(["mnexec", "-da", "42", "ping", "10.0.3.2"], "0", "")]
    assert (tmp_path / "root").read_text() == "0"


def test_cgroups_of_both_versions_are_found(tmp_path, monkeypatch):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("5:pids:/docker/a\n1:name=systemd:/docker/a\n0::/x\n")
    monkeypatch.setattr(Path, "exists", lambda self: True)
    assert [str(file) for file in containers.cgroup_files(7, tmp_path)] == [
        "/sys/fs/cgroup/pids/docker/a/cgroup.procs",
        "/sys/fs/cgroup/systemd/docker/a/cgroup.procs",
        "/sys/fs/cgroup/x/cgroup.procs",
    ]
