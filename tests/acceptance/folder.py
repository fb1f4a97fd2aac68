"""A root folder of Debian with nothing in it, and programs that run as if it were a machine.

It is made by mmdebstrap of what this machine's apt knows. A program in it has process numbers,
mounts, /proc, /dev and /dev/shm of its own, and the network of this machine. All mounts are those
of a namespace that ends with the program, so that whatever happens nothing stays mounted.
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

# What the README takes for granted: "On Debian 12 or 13, with git, make and python3".
GRANTED = ("git", "make", "python3")
PREFIX = "losslab-bare-"
ROOT_USER, ORDINARY_USER = "root", "reader"
# As the kernel mounts it where nobody says otherwise: half of the memory, exec allowed.
SHM = "mode=1777,nosuid,nodev"
# From new namespaces into the folder: $1 it, $2 /dev/shm's options, then the program. A user
# namespace can be made in it, which a mere chroot forbids.
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
# What it may take to install R and its packages, or to build a kernel, on a machine that is busy.
LIMIT_S = 2 * 3600.0


@dataclass(frozen=True)
class Ran:
    """How a program in the folder ended, and what it said when."""

    status: int | None
    wall_s: float
    core_s: float  # of a processor, of all that it started
    lines: tuple[tuple[float, str], ...]  # seconds since its start

    @property
    def good(self) -> bool:
        """Tell whether it succeeded."""
        return self.status == 0

    @property
    def text(self) -> str:
        """Return all that it said."""
        return "\n".join(line for _, line in self.lines)


class Bare:
    """A root folder."""

    def __init__(self, root: Path, logs: Path, user: str) -> None:
        self.root, self.logs, self.user = root, logs, user
        self._count = 0

    @property
    def home(self) -> Path:
        """Name the user's home, as programs in it do."""
        return Path("/root") if self.user == ROOT_USER else Path("/home") / self.user

    def outside(self, path: Path) -> Path:
        """Say where a path of the folder lies for this machine."""
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
        """Run a line of shell in it.

        Args:
            command: The line.
            user: Who runs it; the folder's user by default.
            cwd: Where; at home by default.
            variables: What it has in its environment besides the least.
            before: A program that runs the line, such as one that confines it.
            shm: How /dev/shm is mounted.
            limit_s: When it is ended.
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
            LosslabError: it does not.
        """
        ran = self.run(command, **more)  # type: ignore[arg-type]
        if not ran.good:
            last = "\n".join(ran.text.splitlines()[-30:])
            raise LosslabError(f"`{command}` must succeed, found status {ran.status}:\n{last}")
        return ran

    def taken_bytes(self, *paths: Path) -> int:
        """Say what is taken by folders of it, those that are not there by nothing."""
        there = [self.outside(path) for path in paths if self.outside(path).exists()]
        if not there:
            return 0
        said = processes.run(["du", "-sxc", "--block-size=1", *there])
        return int(said.split("\n")[-2].split()[0])


def _watched(words: Sequence[str], limit_s: float, heard: Callable[[str], None]) -> Ran:
    """Run a program to its end, and note when it said what."""
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
    """Give a new root folder, which is gone afterwards.

    Args:
        suite: Debian's name of the release.
        user: Who is to work in it.
        logs: A folder for what its programs say.

    Raises:
        LosslabError: this is not root, or mmdebstrap is not there or fails.
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
    """List apt's sources of a release, in the archives that this machine's apt knows."""
    lines = []
    for archive in debian_archives():
        security = "security" in archive
        names = [f"{suite}-security"] if security else [suite, f"{suite}-updates"]
        lines += [f"deb {archive} {name} main" for name in names]
    return lines


def bootstrap(suite: str, root: Path, log: Path) -> None:
    """Install what every Debian has, and what the README takes for granted."""
    options = [word for line in network.apt_options() for word in ("--aptopt", line)]
    processes.run(
        ["mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(GRANTED)}",
         "--aptopt", 'APT::Install-Recommends "false"', *options, suite, root, *sources(suite)],
        log=log,
    )  # fmt: skip


def refuse_mounts(folder: Path, mountinfo: str | None = None) -> None:
    """Unmount what is mounted in a folder that is to be removed, and say that it was.

    Raises:
        LosslabError: something is.
    """
    text = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    mounts = [line.split()[4] for line in text.splitlines()]
    inside = [mount for mount in mounts if mount.startswith(f"{folder}/")]
    for mount in reversed(inside):
        processes.attempt(["umount", "--lazy", mount])
    if inside:
        raise LosslabError(f"nothing must be mounted in {folder}, found {', '.join(inside)}")
