"""Emulated hosts that are Docker containers, by Containernet; where the containers are.

Runs where Containernet's `mininet` module is: in the engine image, booted as a guest's root or
entered on the host. Programs run in a container's namespaces and control group, but are children of
the job: they can be signalled, waited for and looked into as those of Mininet's own hosts, which
`docker exec` would hide behind the engine.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.errors import HostError, LosslabError

# Every container has it, whoever's it is; its value is the owner's.
LABEL = "losslab.owner"
NAMESPACES = ("mount", "net", "uts", "ipc")
# Files that Docker would fill with the machine's own; a program that asks a name server would send
# packets that no one counts.
NAME_FILES = ("etc/hosts", "etc/resolv.conf", "etc/hostname")
TUN = "/dev/net/tun"
PR_SET_PDEATHSIG = 1  # linux/prctl.h
API_TIMEOUT_S = 120
MEMBERS_END_S = 5.0
MEMBERS_POLL_S = 0.01


@dataclass(frozen=True)
class Place:
    """What the containers of one job are made of."""

    owner: str  # prefix of their names and value of their label
    image: str  # NAME:TAG, which the engine has
    binds: tuple[str, ...]  # SOURCE:DESTINATION:MODE, as the engine sees the sources
    # What comes before every program, such as a command that takes rights away: the job's own are
    # root's, and what it starts in a container's namespaces has them too.
    limited: tuple[str, ...] = ()


class _Client:
    """The engine's client, with our label and without a terminal on what it creates."""

    def __init__(self, api: Any, place: Place) -> None:
        self._api, self._place = api, place

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def create_host_config(self, **options: Any) -> Any:
        own = {
            # The first process only sleeps; nothing else runs under the engine's filter.
            "security_opt": ["seccomp=unconfined"],
            # Containernet names the one of the cgroupfs driver; without, every driver has its own.
            "cgroup_parent": None,
        }
        return self._api.create_host_config(**options | own)

    def create_container(self, **options: Any) -> Any:
        own = {"labels": {LABEL: self._place.owner}, "tty": False, "stdin_open": False}
        return self._api.create_container(**options | own)


def client() -> Any:
    """Connect to the engine that DOCKER_HOST names, or the machine's own."""
    import docker

    return docker.from_env(timeout=API_TIMEOUT_S).api


def of_engine(error: BaseException) -> HostError | None:
    """Tell an error of the engine, which says nothing about what was to be measured."""
    if type(error).__module__.partition(".")[0] not in ("docker", "requests"):
        return None
    return HostError(
        f"this machine's engine must make, run and remove containers, found: {error}",
        hint="see `docker info` and the engine's log",
    )


def host_class(place: Place) -> type:
    """Make the class of Containernet's hosts whose containers are those of `place`."""
    from mininet.net import Mininet
    from mininet.node import Docker

    # Or it would raise limits of the machine for good (fixLimits).
    Mininet.inited = True

    class Container(Docker):  # type: ignore[misc]
        """A container that is told from every other job's."""

        def __init__(self, name: str, **options: Any) -> None:
            super().__init__(
                name,
                dimage=place.image,
                dcmd=["sleep", "infinity"],
                volumes=list(place.binds),
                # Or every host has a back door over the engine's bridge.
                network_mode="none",
                publish_all_ports=False,
                # Settings are made from outside, and read back.
                sysctls={},
                devices=[f"{TUN}:{TUN}:rwm"] if Path(TUN).exists() else [],
                **options,
            )

        # Containernet sets both in its constructor, the one to a fixed word.
        @property
        def dnameprefix(self) -> str:
            """What the container's name begins with."""
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

        def _popen(self, cmd: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
            """Start in the container what Containernet would with `docker exec`."""
            own = f"{place.owner}.{self.name}"
            program = cmd[cmd.index(own) + 1 :]
            pid = self._get_pid()
            return subprocess.Popen(
                enter_command(pid, [*place.limited, *program]),
                start_new_session=True,
                preexec_fn=_joining(cgroup_files(pid)),  # noqa: PLW1509
                **options,
            )

        def start(self) -> None:
            """Run nothing: the image's own command is not wanted."""

        def terminate(self) -> None:
            """Remove the container, after what runs in it: a control group in use would stay."""
            end_members(self._get_pid())
            super().terminate()

    return Container


def enter_command(pid: int, program: Sequence[str]) -> list[str]:
    """Write the command that runs a program in the namespaces of process `pid`.

    Not in its process namespace, in which it would have another number for those who signal it.
    """
    return ["nsenter", f"--target={pid}", *(f"--{name}" for name in NAMESPACES), "--", *program]


def cgroup_files(pid: int, proc: Path = Path("/proc")) -> list[Path]:
    """List the files to write a process's number to, for it to join the control groups of `pid`."""
    root = Path("/sys/fs/cgroup")
    files = []
    for line in (proc / str(pid) / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        # Version 2 has no list of controllers and no folder for it: cgroups(7).
        folder = root / controllers.removeprefix("name=")
        files.append(folder / path.lstrip("/") / "cgroup.procs")
    return [file for file in files if file.exists()]


def _joining(files: list[Path]) -> Callable[[], None]:
    """Make what a child does between fork and exec: join, and never outlive the job."""

    def join() -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for file in files:
            file.write_text("0")

    return join


def remove(api: Any, owner: str | None = None) -> list[str]:
    """Remove an owner's (or everyone's) containers and what runs in them; return their names."""
    removed = []
    label = LABEL if owner is None else f"{LABEL}={owner}"
    for container in api.containers(all=True, filters={"label": label}):
        end_members(api.inspect_container(container)["State"]["Pid"])
        api.remove_container(container, force=True, v=True)
        removed.append(container["Names"][0].lstrip("/"))
    return removed


def end_members(pid: int) -> None:
    """Kill the other processes in the control group of a container's first, and see them gone.

    `pid` is the container's first process; 0 when it does not run.
    """
    if pid == 0:
        return
    files = cgroup_files(pid)
    deadline = time.monotonic() + MEMBERS_END_S
    while time.monotonic() < deadline:
        numbers: set[int] = set()
        with contextlib.suppress(OSError):  # the container went first
            for file in files:
                numbers |= {int(line) for line in file.read_text().split()}
        numbers -= {pid, 0}
        if not numbers:
            return
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        time.sleep(MEMBERS_POLL_S)


@contextmanager
def owned(api: Any, owner: str) -> Iterator[None]:
    """Remove an owner's containers after the block, however it ends."""
    try:
        yield
    finally:
        remove(api, owner)


def has_image(api: Any, image: str) -> bool:
    """Tell whether the engine has an image of this name and tag."""
    return any(image in (found.get("RepoTags") or []) for found in api.images())


def import_skeleton(api: Any, image: str, root: Path) -> list[str]:
    """Make an image of `root`'s top level only; return the binds that give it its content.

    Where the engine sees the host image as a folder, there is no need to copy half a gigabyte.
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
    answer = api.import_image_from_data(content, repository=name, tag=tag)
    if not has_image(api, image):
        raise LosslabError(f"the engine must import {image}, found: {answer.strip()}")


def name_binds(root: Path) -> list[str]:
    """Bind the image's own files of names and name servers over those that Docker makes."""
    return [f"{root / file}:/{file}:ro" for file in NAME_FILES]
