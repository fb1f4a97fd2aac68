"""Jobs on this machine's own kernel, in real time and as root: one at a time, and leaving nothing.

A job runs in an image that becomes its root folder, read-only, in namespaces of its own: this
machine's links, sysctls, mounts and packet filter stay as they are. Here the hosts are Mininet's
plain ones; `backends.containernet` runs jobs whose hosts are containers.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from losslab.backends import remedies, virtual
from losslab.backends.virtual import Outcome
from losslab.errors import GuestLostError, HostError

PACKAGE = Path(__file__).resolve().parents[1]
# Root's own: whoever measures, on this machine cells wait for each other here.
FOLDER = Path("/run/losslab")
LOCK = "real-time.lock"
JOB_PREFIX = "job-"
# How the end of a job that was killed looks: as it is, and as the program says it that waited for
# the first process of a namespace.
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)

# Make an image the root folder of this mount namespace and run a Python module there. Nothing is
# written to the image: what the job needs is mounted, and goes with the namespace.
ENTER = r"""
set -e
root=$1 module=$2 processes=$3 variables=$4
shift 4
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
if [ "$processes" = own ]; then
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
else
    for folder in proc sys; do mount --rbind "/$folder" "$root/$folder"; done
fi
for folder in dev run tmp mnt; do mount -t tmpfs -o mode=755 tmpfs "$root/$folder"; done
chmod 1777 "$root/tmp"
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/net"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
for device in null zero full random urandom tty net/tun; do
    if [ -e "/dev/$device" ]; then
        touch "$root/dev/$device"
        mount --bind "/dev/$device" "$root/dev/$device"
    fi
done
while [ $# -ge 2 ]; do
    if [ -d "$1" ]; then mkdir -p "$root$2"; else touch "$root$2"; fi
    mount --bind "$1" "$root$2"
    shift 2
done
# Not chroot: Mininet's mnexec enters namespaces, and finds itself at their own root.
cd "$root"
pivot_root . .
umount -l .
cd /
# Variables are words without spaces.
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/tmp LANG=C.UTF-8 TZ=UTC TERM=dumb PYTHONPATH=/mnt/losslab PYTHONDONTWRITEBYTECODE=1 \
    PYTHONHASHSEED=0 $variables python3 -m "$module"
"""


@dataclass(frozen=True)
class Entry:
    """What a job enters, and the program that it is."""

    root: Path  # an image's root folder
    module: str
    # Of the process namespace and what else a job can do without seeing: all of it ends when the
    # job does, at whatever moment and for whatever reason. A job that talks to a Docker engine
    # must have the machine's own.
    own_processes: bool
    mounts: dict[Path, str] = field(default_factory=dict)  # this machine's path: the job's
    variables: dict[str, str] = field(default_factory=dict)

    def command(self) -> list[str]:
        """Write the command line."""
        own = ["--pid", "--fork", "--kill-child=SIGKILL", "--ipc", "--uts"]
        return [
            "unshare", "--mount", "--net", "--propagation", "private",
            *(own if self.own_processes else []),
            "--", "sh", "-c", ENTER, "sh",
            str(self.root.resolve()), self.module, "own" if self.own_processes else "all",
            " ".join(f"{name}={value}" for name, value in self.variables.items()),
            *(word for path, at in self.mounts.items() for word in (str(path.resolve()), at)),
        ]  # fmt: skip


@dataclass(frozen=True)
class Turn:
    """The right to measure in real time on this machine."""

    lock: int  # file descriptor
    source: Path  # a copy of this package, in a folder of its own: jobs do not see the clone


@contextlib.contextmanager
def turn() -> Iterator[Turn]:
    """Wait until no other job runs in real time on this machine; remove what killed ones left.

    Raises:
        HostError: the lock's folder is not root's own.
    """
    with contextlib.closing(_Folder()) as folder:
        try:
            fcntl.flock(folder.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("losslab: another cell runs in real time; waiting for its end", file=sys.stderr)
            fcntl.flock(folder.lock, fcntl.LOCK_EX)
        for leftover in FOLDER.glob(f"{JOB_PREFIX}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=JOB_PREFIX, dir=FOLDER) as name:
            source = Path(name)
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PACKAGE, source / PACKAGE.name, ignore=ignored)
            yield Turn(folder.lock, source)


class _Folder:
    """The folder of locks and jobs, which no one but root can have made or can write to."""

    def __init__(self) -> None:
        with contextlib.suppress(FileExistsError):
            FOLDER.mkdir(mode=0o700)
        try:
            folder = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            raise HostError(
                f"{FOLDER} must be a folder, found: {error}", hint=f"remove {FOLDER}"
            ) from error
        try:
            found = os.fstat(folder)
            if found.st_uid != 0 or stat.S_IMODE(found.st_mode) & 0o077:
                raise HostError(
                    f"{FOLDER} must be root's, with rights for no one else, found user "
                    f"{found.st_uid} and rights {stat.S_IMODE(found.st_mode):o}",
                    hint=f"see who made it, and remove it: rm -r {FOLDER}",
                )
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            self.lock = os.open(LOCK, flags, 0o600, dir_fd=folder)
        except OSError as error:
            raise HostError(
                f"{FOLDER / LOCK} must be a file, found: {error}", hint=f"remove {FOLDER / LOCK}"
            ) from error
        finally:
            os.close(folder)

    def close(self) -> None:
        """Give the lock back."""
        os.close(self.lock)


def run(image_root: Path, job: dict[str, Any], job_folder: Path, timeout_s: float) -> Outcome:
    """Run one job with Mininet's plain hosts; arguments and errors as of `run_job`."""
    with turn() as mine:
        mounts = {mine.source: "/mnt/losslab", job_folder: "/mnt/out"}
        entry = Entry(
            image_root, "losslab.emulation.jobs.hostjob", own_processes=True, mounts=mounts
        )
        return run_job(entry, job, job_folder, timeout_s, mine.lock)


def run_job(
    entry: Entry,
    job: dict[str, Any],
    job_folder: Path,
    timeout_s: float,
    lock: int,
    patience_s: float = 0.0,
    clean: Callable[[], None] | None = None,
) -> Outcome:
    """Run one job to its end; when this process is interrupted or killed, the job ends, too.

    Args:
        entry: Where it runs, and what.
        job: What it is to do.
        job_folder: Where it reads that and leaves its files.
        timeout_s: Wall-clock limit.
        lock: Stays held until the job's last process has ended, even if this process is killed.
        patience_s: How long a job that is to end may clean up; 0 where there is nothing to.
        clean: What cleans up after a job that did not end well.

    Raises:
        HostError: the job could not begin, or was killed.
        GuestLostError: the job did not end in time, crashed, or left no result.
        LosslabError: the job refused what it was asked.
    """
    (job_folder / "job.json").write_text(json.dumps(job, indent=1, sort_keys=True) + "\n")
    console_path = job_folder / "console.log"
    begin = time.monotonic()
    hung = False
    ending = signal.SIGTERM if patience_s else signal.SIGKILL
    with console_path.open("wb") as console:
        process = subprocess.Popen(
            entry.command(),
            stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT,
            # A Ctrl-C is for this process, which then ends the job.
            start_new_session=True,
            pass_fds=[lock],
            preexec_fn=lambda: _end_with_parent(ending),  # noqa: PLW1509
        )  # fmt: skip
        try:
            process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            hung = True
        finally:
            _end(process, patience_s)
            if process.returncode != 0 and clean is not None:
                clean()
    said = f"its last words: {remedies.last_words(console_path.read_text(errors='replace'))}"
    if not (job_folder / virtual.STARTED).exists():
        raise HostError(
            f"a job must find an image for its root folder and begin, found exit status "
            f"{process.returncode}; {said}",
            hint="see `losslab doctor`; in a container: it must have all capabilities "
            "(`docker run --privileged`)",
        )
    if hung:
        raise GuestLostError(
            f"the job must end within {timeout_s:g} s, found it still running; {said}",
            hint="raise --timeout-s if the machine is slow",
        )
    if process.returncode in KILLED:
        raise HostError(
            "the job must end by itself, found it killed, as by a machine that is out of memory",
            hint="free memory, and start again",
        )
    try:
        result = json.loads((job_folder / "result.json").read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise GuestLostError(
            f"the job must leave result.json, found none (exit status {process.returncode}); {said}"
        ) from error
    virtual.refuse_failure(result)
    return Outcome(result, "", time.monotonic() - begin)


def _end_with_parent(ending: signal.Signals) -> None:
    """Let the job be signalled if this process is killed: prctl(2)."""
    ctypes.CDLL(None).prctl(virtual.PR_SET_PDEATHSIG, ending)


def _end(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """End a job that still runs: ask first where it has something to clean up."""
    if process.poll() is not None:
        return
    if patience_s:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=patience_s)
            return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
