"""Docker containers as emulated hosts, with Containernet.

This module runs in the engine image, which has Containernet's `mininet` module: in a guest or on
the host. Programs run in a container's namespaces and control group, but are children of the job,
so that the job can signal, wait for and inspect them. With `docker exec` they would be children of
the engine.
"""

from __future__ import annotations

import ctypes
import io
import os
import signal
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.errors import LosslabError

# Label of every container of losslab; its value names the owner.
LABEL = "losslab.owner"
NAMESPACES = ("--mount", "--net", "--uts", "--ipc")
# Files that Docker would copy from the machine. With its name servers, programs would send DNS
# packets that belong to no flow.
NAME_FILES = ("etc/hosts", "etc/resolv.conf", "etc/hostname")
ROOT_GROUP = "/sys/fs/cgroup/cgroup.procs"
TUN = "/dev/net/tun"
PR_SET_PDEATHSIG = 1  # linux/prctl.h
API_TIMEOUT_S = 120
# Folders of programs' own files. In the image's layer, each new file would take random draws.
TMPFS = ("/run", "/tmp", "/var/tmp")


@dataclass(frozen=True)
class Place:
    """Options of one job's containers."""

    owner: str  # prefix of their names and value of their label
    image: str  # NAME:TAG, which the engine has
    binds: tuple[str, ...]  # SOURCE:DESTINATION:MODE; sources are the engine's paths


class _Client:
    """Client of the engine that labels the containers and creates them without a terminal."""

    def __init__(self, api: Any, place: Place) -> None:
        self._api, self._place = api, place

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def create_host_config(self, **options: Any) -> Any:
        required = {
            # Only the first process, which sleeps, would run under the engine's filter.
            "security_opt": ["seccomp=unconfined"],
            # Containernet sets a parent that only the cgroupfs driver accepts.
            "cgroup_parent": None,
        }
        return self._api.create_host_config(**options | required)

    def create_container(self, **options: Any) -> Any:
        required = {"labels": {LABEL: self._place.owner}, "tty": False, "stdin_open": False}
        return self._api.create_container(**options | required)


def client() -> Any:
    """Connect to the engine in DOCKER_HOST, by default this machine's."""
    import docker

    return docker.from_env(timeout=API_TIMEOUT_S).api


def host_class(place: Place) -> type:
    """Return a class of Containernet hosts with the options of `place`."""
    from mininet.node import Docker

    class Container(Docker):  # type: ignore[misc]
        """A container with the name and label of its owner."""

        def __init__(self, name: str, **options: Any) -> None:
            super().__init__(
                name,
                dimage=place.image,
                dcmd=["sleep", "infinity"],
                volumes=list(place.binds),
                # By default, hosts would also be connected by the engine's bridge.
                network_mode="none",
                publish_all_ports=False,
                # losslab sets sysctls in the namespace, and reads them back.
                sysctls={},
                tmpfs=dict.fromkeys(TMPFS, "exec,mode=1777"),
                devices=[f"{TUN}:{TUN}:rwm"] if Path(TUN).exists() else [],
                **options,
            )
            self._cgroups = list(map(str, cgroup_files(self._get_pid())))

        # Containernet's constructor sets both attributes, the prefix to a constant.
        @property
        def dnameprefix(self) -> str:
            """Prefix of the container's name."""
            return place.owner

        @dnameprefix.setter
        def dnameprefix(self, _: str) -> None:
            pass

        @property
        def dcli(self) -> _Client:
            """The engine's client."""
            return self._client

        @dcli.setter
        def dcli(self, api: Any) -> None:
            self._client = _Client(api, place)

        def popen(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
            """Start a program as plain hosts do, with the same times; it ends with the guest."""
            with _joined(self._cgroups):
                return subprocess.Popen(["mnexec", "-da", str(self.pid), *command], **options)

        def _popen(self, cmd: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
            """Start a program in the container without `docker exec`, which Containernet uses."""
            container_name = f"{place.owner}.{self.name}"
            program = cmd[cmd.index(container_name) + 1 :]
            pid = self._get_pid()
            return subprocess.Popen(
                # Not the process namespace, so that the job can signal the program by its PID.
                ["nsenter", f"--target={pid}", *NAMESPACES, "--", *program],
                start_new_session=True,
                preexec_fn=_joining(cgroup_files(pid)),  # noqa: PLW1509
                **options,
            )

        def start(self) -> None:
            """Do not run the image's own command."""

    return Container


def cgroup_files(pid: int, proc: Path = Path("/proc")) -> list[Path]:
    """List the `cgroup.procs` files of the control groups of `pid`; a PID written there joins."""
    root = Path("/sys/fs/cgroup")
    files = []
    for line in (proc / str(pid) / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        # In version 2, controllers are empty and have no folder: cgroups(7).
        folder = root / controllers.removeprefix("name=")
        files.append(folder / path.lstrip("/") / "cgroup.procs")
    return [file for file in files if file.exists()]


@contextmanager
def _joined(files: Sequence[str]) -> Iterator[None]:
    """Join control groups for the block, so that a child starts in them."""
    for file in files:
        _join(file)
    try:
        yield
    finally:
        _join(ROOT_GROUP)


def _join(file: str) -> None:
    # Opening it as a Python file would also query it, and each failed query takes time.
    descriptor = os.open(file, os.O_WRONLY)
    os.write(descriptor, b"0")
    os.close(descriptor)


def _joining(files: list[Path]) -> Callable[[], None]:
    """Return a `preexec_fn` that joins control groups and ends the child with the job."""

    def join() -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for file in files:
            _join(str(file))

    return join


def has_image(api: Any, image: str) -> bool:
    """Return whether the engine has an image with this name and tag."""
    return any(image in (found.get("RepoTags") or []) for found in api.images())


def import_skeleton(api: Any, image: str, root: Path) -> list[str]:
    """Import an image with only the top level of `root`; return the binds for its content.

    The engine can read the folder, so that half a gigabyte need not be copied.
    """
    content = io.BytesIO()
    binds = []
    with tarfile.open(fileobj=content, mode="w") as tar:
        for entry in sorted(root.iterdir()):
            member = tarfile.TarInfo(entry.name)
            if entry.is_symlink():
                member.type, member.linkname = tarfile.SYMTYPE, os.readlink(entry)
            elif entry.is_dir():
                member.type, member.mode = tarfile.DIRTYPE, 0o1777 if entry.name == "tmp" else 0o755
                if entry.name in ("usr", "etc", "var", "opt"):
                    binds.append(f"{entry}:/{entry.name}:ro")
            else:
                continue
            tar.addfile(member)
    import_image(api, image, content.getvalue())
    return binds


def import_image(api: Any, image: str, content: Any) -> None:
    """Import a tar archive as an image."""
    name, tag = image.rsplit(":", 1)
    response = api.import_image_from_data(content, repository=name, tag=tag)
    if not has_image(api, image):
        raise LosslabError(f"the engine must import {image}, found: {response.strip()}")


def name_binds(root: Path) -> list[str]:
    """List binds of the image's name and resolver files over those that Docker creates."""
    return [f"{root / file}:/{file}:ro" for file in NAME_FILES]
