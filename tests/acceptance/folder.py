"""Root folders of Debian with few packages, and programs that run in them like on a machine.

mmdebstrap makes a root folder from the archives of this machine's apt. A program in it has its own
process numbers, mounts, /proc, /dev and /dev/shm, and this machine's network. All mounts belong to
a namespace that ends with the program, so nothing stays mounted.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument.debian import debian_archives
from losslab.lock import own_folder
from tests.acceptance import network

# Requirements of the README: "On Debian 12 or 13, with git, make and python3".
GRANTED = ("git", "make", "python3")
PREFIX = "losslab-bare-"
ROOT_USER, ORDINARY_USER = "root", "reader"
# The kernel's default mount options of /dev/shm: half of the memory, exec allowed.
SHM = "mode=1777,nosuid,nodev"
# Enters the folder in new namespaces: $1 is the folder, $2 the options of /dev/shm, then the
# program. User namespaces work in it, unlike in a chroot.
ENTER = r"""
set -eu
cd "$1"; shm="$2"; shift 2
mount --bind . .
cd "$PWD"
mount -t proc proc proc
mount -t sysfs -o ro sys sys
mount -t tmpfs -o mode=755,nosuid dev dev
for node in null zero full random urandom tty; do
    touch dev/$node
    mount --bind /dev/$node dev/$node
done
mkdir dev/shm dev/pts
mount -t tmpfs -o "$shm" shm dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
pivot_root . .
umount -l .
cd /
"$@"
"""
# Time limit to install R and its packages, or to build a kernel, on a busy machine.
LIMIT_S = 2 * 3600.0


@dataclass(frozen=True)
class Ran:
    """Exit status and timed output of a program in the folder."""

    status: int | None
    wall_s: float
    core_s: float  # CPU time of the program and its children
    lines: tuple[tuple[float, str], ...]  # time in s since its start, and text

    @property
    def good(self) -> bool:
        """Return whether the program succeeded."""
        return self.status == 0

    @property
    def text(self) -> str:
        """Return the whole output."""
        return "\n".join(line for _, line in self.lines)


class Bare:
    """A root folder."""

    def __init__(self, root: Path, logs: Path, user: str) -> None:
        self.root, self.logs, self.user = root, logs, user
        self._count = 0

    @property
    def home(self) -> Path:
        """Return the user's home inside the folder."""
        return Path("/root") if self.user == ROOT_USER else Path("/home") / self.user

    def outside(self, path: Path) -> Path:
        """Return the path on this machine of a path inside the folder."""
        return self.root / path.relative_to("/")

    def run(
        self,
        command: str,
        *,
        user: str | None = None,
        cwd: Path | None = None,
        variables: dict[str, str] | None = None,
        before: Sequence[str] = (),
        shm: str = SHM,
        limit_s: float = LIMIT_S,
    ) -> Ran:
        """Run a line of shell in the folder.

        Args:
            command: Line of shell.
            user: User who runs it; the folder's user by default.
            cwd: Working folder; home by default.
            variables: Environment variables in addition to the minimal ones.
            before: Program that runs the line, such as one that confines it.
            shm: Mount options of /dev/shm.
            limit_s: Time limit in s.
        """
        who = user or self.user
        home = Path("/root") if who == ROOT_USER else Path("/home") / who
        sbin = "/usr/local/sbin:/usr/sbin:/sbin:" if who == ROOT_USER else ""
        variables = {
            "HOME": str(home), "USER": who, "LOGNAME": who, "TERM": "dumb",
            "PATH": f"{sbin}/usr/local/bin:/usr/bin:/bin", **network.variables(),
            **(variables or {}),
        }  # fmt: skip
        ids = ["setpriv", f"--reuid={who}", f"--regid={who}", "--init-groups"]
        words = [
            "unshare", "--mount", "--propagation", "private", "--pid", "--ipc", "--uts", "--fork",
            "--kill-child", "sh", "-c", ENTER, "enter", self.root, shm,
            "env", "--ignore-environment", f"--chdir={cwd or home}",
            *(f"{name}={value}" for name, value in variables.items()),
            *before, *([] if who == ROOT_USER else ids), "sh", "-c", command,
        ]  # fmt: skip
        self._count += 1
        log = self.logs / f"{self._count:02d}.log"
        with log.open("w") as file:
            print(f"# {who}: {command}", file=file, flush=True)
            return _watched(
                [*map(str, words)], limit_s, lambda line: print(line, file=file, flush=True)
            )

    def needed(self, command: str, **more: object) -> Ran:
        """Run a line that must succeed.

        Raises:
            LosslabError: The line failed.
        """
        ran = self.run(command, **more)  # type: ignore[arg-type]
        if not ran.good:
            last = "\n".join(ran.text.splitlines()[-30:])
            raise LosslabError(f"`{command}` must succeed, found status {ran.status}:\n{last}")
        return ran

    def taken_bytes(self, *paths: Path) -> int:
        """Return the disk space of paths inside the folder; missing ones count as 0."""
        there = [self.outside(path) for path in paths if self.outside(path).exists()]
        if not there:
            return 0
        said = processes.run(["du", "-sxc", "--block-size=1", *there])
        return int(said.split("\n")[-2].split()[0])


def _watched(words: Sequence[str], limit_s: float, heard: Callable[[str], None]) -> Ran:
    """Run a program to its end, and record the time of each line of output."""
    begin, core_begin = time.monotonic(), _children_s()
    reading, writing = os.pipe()
    with open(reading, errors="replace") as said, open(writing, "wb") as console:
        process = processes.spawn(words, console=console)
        console.close()
        lines = []
        try:
            for line in said:
                now = round(time.monotonic() - begin, 1)
                lines.append((now, line.rstrip("\n")))
                heard(f"{now:8.1f} {line.rstrip()}")
                if now > limit_s:
                    break
            status = processes.wait(process, max(1.0, limit_s - (time.monotonic() - begin)))
        finally:
            processes.end_session(process)
    wall_s, core_s = time.monotonic() - begin, _children_s() - core_begin
    return Ran(status, round(wall_s, 1), round(core_s, 1), tuple(lines))


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def bare(suite: str, user: str, logs: Path) -> Iterator[Bare]:
    """Yield a new root folder, which is removed afterwards.

    Args:
        suite: Debian's name of the release.
        user: Name of the user in it.
        logs: Folder of its programs' output.

    Raises:
        LosslabError: The caller is not root, or mmdebstrap is missing or fails.
    """
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        raise LosslabError(
            f"making a root folder must be done by root, with mmdebstrap, found user "
            f"{pwd.getpwuid(os.geteuid()).pw_name}, {shutil.which('mmdebstrap') or 'none'}",
            hint="scripts/packages.sh machine",
        )
    with own_folder(Path(tempfile.gettempdir()), PREFIX) as folder:
        folder.chmod(0o755)
        made = Bare(folder / "root", logs, user)
        try:
            bootstrap(suite, made.root, logs / "mmdebstrap.log")
            network.prepare(made.root)
            if user != ROOT_USER:
                made.needed(
                    f"useradd --create-home --shell /bin/bash {user}", user=ROOT_USER, cwd=Path("/")
                )
            yield made
        finally:
            refuse_mounts(folder)


def sources(suite: str) -> list[str]:
    """Return apt sources of a release, in the archives that this machine's apt uses."""
    lines = []
    for archive in debian_archives():
        security = "security" in archive
        names = [f"{suite}-security"] if security else [suite, f"{suite}-updates"]
        lines += [f"deb {archive} {name} main" for name in names]
    return lines


def bootstrap(suite: str, root: Path, log: Path) -> None:
    """Install Debian's essential packages and the README's requirements."""
    options = [word for line in network.apt_options() for word in ("--aptopt", line)]
    processes.run(
        ["mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(GRANTED)}",
         "--aptopt", 'APT::Install-Recommends "false"', *options, suite, root, *sources(suite)],
        log=log,
    )  # fmt: skip


def refuse_mounts(folder: Path, mountinfo: str | None = None) -> None:
    """Unmount everything in a folder that is to be removed, and report it as an error.

    Raises:
        LosslabError: Something was mounted.
    """
    text = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    mounts = [line.split()[4] for line in text.splitlines()]
    inside = [mount for mount in mounts if mount.startswith(f"{folder}/")]
    for mount in reversed(inside):
        processes.attempt(["umount", "--lazy", mount])
    if inside:
        raise LosslabError(f"nothing must be mounted in {folder}, found {', '.join(inside)}")
