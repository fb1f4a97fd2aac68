"""Jobs on this machine's own kernel, in real time and as root: one at a time, and leaving nothing.

A job runs in an image that becomes its root folder, read-only, in namespaces of its own: this
machine's links, sysctls, mounts and packet filter stay as they are. Here the hosts are Mininet's
plain ones; `backends.containernet` runs jobs whose hosts are containers.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from losslab import processes
from losslab.backends import parcel, preflight, remedies
from losslab.backends.base import (
    HOST,
    STARTED,
    End,
    Instrument,
    Job,
    Needs,
    Start,
    load_result,
    refuse_failure,
    without_result,
)
from losslab.errors import HostError
from losslab.lock import open_lock, private_folder
from losslab.study.condition import Condition

# Root's own: whoever measures, on this machine cells wait for each other here.
FOLDER = Path("/run/losslab")
LOCK = "real-time.lock"
JOB_PREFIX = "job-"
# Exit status of a job that was killed: its own, and that of the program that waited for the first
# process of a namespace.
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
START_S = 60.0  # a minute is ten times what it takes

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


def enter(
    root: Path,
    module: str,
    own_processes: bool,
    mounts: Mapping[Path, str],
    variables: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Write the command of a job that enters an image's root folder and runs a module there.

    Args:
        root: The image's root folder.
        module: The program that the job is.
        own_processes: Give it a process namespace and what else a job can do without seeing: all
            of it ends when the job does, at whatever moment and for whatever reason. A job that
            talks to a Docker engine must have the machine's own.
        mounts: By this machine's path the job's.
        variables: Further ones of its environment.
    """
    own = ["--pid", "--fork", "--kill-child=SIGKILL", "--ipc", "--uts"]
    return [
        "unshare", "--mount", "--net", "--propagation", "private", *(own if own_processes else []),
        "--", "sh", "-c", ENTER, "sh",
        str(root.resolve()), module, "own" if own_processes else "all",
        " ".join(f"{name}={value}" for name, value in variables.items()),
        *(word for path, at in mounts.items() for word in (str(path.resolve()), at)),
    ]  # fmt: skip


@dataclass(frozen=True)
class Turn:
    """The right to measure in real time on this machine."""

    lock: int  # file descriptor
    source: Path  # what a job gets of this package, in a folder of its own: it sees no clone

    def spawn(
        self, command: Sequence[str], console: IO[bytes], ending: signal.Signals = signal.SIGKILL
    ) -> processes.Process:
        """Start a job; the lock stays held until its last process ends, even without this one."""
        return processes.spawn(command, ending=ending, console=console, pass_fds=[self.lock])


@contextlib.contextmanager
def turn() -> Iterator[Turn]:
    """Wait until no other job runs in real time on this machine; remove what killed ones left."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(private_folder(FOLDER))
        lock = open_lock(FOLDER / LOCK, folder)
        stack.callback(os.close, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("losslab: another cell runs in real time; waiting for its end", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in FOLDER.glob(f"{JOB_PREFIX}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=JOB_PREFIX, dir=FOLDER) as name:
            source = Path(name)
            parcel.pack(source)
            yield Turn(lock, source)


class OnHost:
    """Mininet's own hosts on this machine's kernel."""

    needs = Needs(
        job="emulation/jobs/hostjob.py", kernel=None, images=("host",), command="make setup",
        start_s=START_S,
    )  # fmt: skip

    def ready(self, image_root: Path, condition: Condition) -> dict[str, Any]:
        """Refuse a machine that cannot measure a condition; as `Backend.ready`."""
        preflight.require(image_root, condition, containers=False)
        return {"where": HOST}

    @contextlib.contextmanager
    def start(self, tools: Instrument, job: Job) -> Iterator[Start]:
        """Wait for this job's turn."""
        with turn() as mine:
            mounts = {mine.source: "/mnt/losslab", job.folder: "/mnt/out"}
            module = "losslab.emulation.jobs.hostjob"
            command = enter(tools.image_root, module, own_processes=True, mounts=mounts)
            yield Start(lambda console: mine.spawn(command, console))

    def result(self, job: Job, end: End, console: str) -> dict[str, Any]:
        """As `Backend.result`."""
        said = f"its last words: {remedies.last_words(console)}"
        if not (job.folder / STARTED).exists():
            raise HostError(
                f"a job must find an image for its root folder and begin, found exit status "
                f"{end.status}; {said}",
                hint="see `losslab doctor`; in a container: it must have all capabilities "
                "(`docker run --privileged`)",
            )
        if end.status in KILLED:
            raise HostError(
                "the job must end by itself, found it killed, as by a machine that is out of "
                "memory",
                hint="free memory, and start again",
            )
        found = load_result(job)
        if end.status is None or not found:
            raise without_result(job, end, "job", said)
        refuse_failure(found)
        return found
