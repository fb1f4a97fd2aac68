"""Jobs on this machine's own kernel, in real time and as root, one at a time.

A job's root folder is a read-only image. It runs in namespaces of its own, so that this machine's
links, sysctls, mounts and packet filter do not change. The hosts are Mininet's, or containers of
this machine's engine.
"""

from __future__ import annotations

import contextlib
import secrets
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
from losslab.backends import payload, resources, runner
from losslab.backends.base import (
    CLEAN,
    CONSOLE_FILE,
    ENGINE_IMAGES,
    ENGINE_START_S,
    HOST,
    STARTED,
    End,
    Finding,
    Instrument,
    Job,
    Needs,
    Start,
    load_result,
    refuse_failure,
    without_result,
)
from losslab.errors import HostError, LosslabError
from losslab.instrument import image
from losslab.lock import locked, own_folder
from losslab.study.condition import Condition
from losslab.tools.realtime import preflight

# Root's own folder, whose lock all real-time cells on this machine use.
FOLDER = Path("/run/losslab")
JOB_PREFIX = "job-"
PACKAGE = Path(__file__).resolve().parent
MODULE = "losslab.tools.realtime.hostjob"
# Exit status of a killed job: its own, and that of `unshare`, which waits for the first process of
# the namespace.
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
START_S = 60.0  # ten times the usual
# Time for a job to remove its containers after a signal.
CLEAN_UP_S = 60.0
CLEAN_UP_JOB_S = 120.0
JOB_SOCKET = "/run/docker.sock"  # in the job's root folder

# Make an image the root folder of this mount namespace and run a Python module there. The image is
# read-only; all other folders are mounted and end with the namespace.
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
    """Return the command of a job that runs a module in the image `root`.

    With `own_processes`, it has process, IPC and UTS namespaces of its own, so that all processes
    end with the job, for any reason. A job that uses a Docker engine needs the machine's
    namespaces. `mounts` has the job's path of each of this machine's.
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
    """Permission to measure in real time on this machine."""

    lock: int  # file descriptor
    source: Path  # folder with the payload; the job does not see the repository

    def spawn(
        self, command: Sequence[str], console: IO[bytes], ending: signal.Signals = signal.SIGKILL
    ) -> processes.Process:
        """Start a job, which holds the lock until its last process ends, also after this one."""
        return processes.spawn(command, ending=ending, console=console, pass_fds=[self.lock])


@contextlib.contextmanager
def turn() -> Iterator[Turn]:
    """Wait until no other job runs in real time; remove leftovers of killed jobs."""
    FOLDER.mkdir(mode=0o700, exist_ok=True)
    waiting = "losslab: another cell runs in real time; waiting for its end"
    with locked(FOLDER, waiting) as lock, own_folder(FOLDER, JOB_PREFIX) as source:
        payload.pack(source)
        shutil.copytree(
            PACKAGE,
            source / MODULE.rpartition(".")[0].replace(".", "/"),
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        yield Turn(lock, source)


class OnHost:
    """Mininet hosts on this machine's kernel."""

    needs = Needs(
        job="losslab/tools/realtime/hostjob.py", guest=False, images=("host",),
        command="make setup", start_s=START_S,
    )  # fmt: skip
    title = "virtual backend's hosts on this kernel, in real time"
    image_name, containers = image.HOST, False

    def requirements(self) -> Iterator[Finding]:
        """Yield what `losslab doctor` checks."""
        folder = image.part(self.image_name).existing()
        return preflight.host(folder / "root" if folder else None, containers=self.containers)

    def ready(self, image_root: Path, condition: Condition) -> dict[str, Any]:
        """Refuse a machine that cannot measure a condition; return its engine's versions, too."""
        versions = preflight.require(image_root, condition, self.containers)
        return {"where": HOST} | ({"docker": versions} if self.containers else {})

    @contextlib.contextmanager
    def start(self, tools: Instrument, job: Job) -> Iterator[Start]:
        """Wait for this job's turn."""
        with turn() as mine:
            mounts = {mine.source: "/mnt/losslab", job.folder: "/mnt/out"}
            command = enter(tools.image_root, MODULE, own_processes=True, mounts=mounts)
            yield Start(lambda console: mine.spawn(command, console))

    def result(self, job: Job, end: End, console: str) -> dict[str, Any]:
        """Read a job's result; see `Backend.result`."""
        last_output = f"its last output: {resources.last_lines(console)}"
        if not (job.folder / STARTED).exists():
            raise HostError(
                f"a job must enter its image and start, found exit status {end.status}; "
                f"{last_output}",
                hint="see `losslab doctor`; a container must have all capabilities "
                "(`docker run --privileged`)",
            )
        if end.status in KILLED:
            raise HostError(
                "the job must end by itself, found it killed, possibly because the machine is out "
                "of memory",
                hint="free memory, and start again",
            )
        outcome = load_result(job)
        if end.status is None or not outcome:
            raise without_result(job, end, "job", last_output)
        refuse_failure(outcome)
        return outcome


class EngineOnHost(OnHost):
    """Containers of this machine's engine, which are removed at the end."""

    needs = Needs(
        job="losslab/tools/realtime/hostjob.py", guest=False, images=ENGINE_IMAGES,
        command="make containernet", start_s=ENGINE_START_S,
    )  # fmt: skip
    title = "containernet backend on this kernel, in real time"
    image_name, containers = image.ENGINE, True

    @contextlib.contextmanager
    def start(self, tools: Instrument, job: Job) -> Iterator[Start]:
        """Wait for this job's turn, and give the job the options of its containers."""
        with turn() as mine:
            more = {
                "owner": f"losslab-{secrets.token_hex(4)}",
                "image": f"losslab-host:{tools.provenance['image']['hash']}",
                # Paths of the engine, which does not run in the job's root folder.
                "image_root": str(tools.image_root.resolve()),
                "binds": [f"{mine.source}:/mnt/losslab:ro", f"{job.folder.resolve()}:/mnt/out:rw"],
            }
            command = _command(tools, mine, job.folder)
            yield Start(
                lambda console: mine.spawn(command, console, signal.SIGTERM),
                more,
                patience_s=CLEAN_UP_S,
                clean_up=lambda: _clean(tools, more, mine),
            )


def _command(tools: Instrument, mine: Turn, job_folder: Path) -> list[str]:
    return enter(
        tools.engine,
        MODULE,
        own_processes=False,
        mounts={
            mine.source: "/mnt/losslab", job_folder: "/mnt/out", tools.image_root: "/mnt/image",
            preflight.socket_path(): JOB_SOCKET,
        },
        variables={
            "DOCKER_HOST": f"unix://{JOB_SOCKET}",
            # Containernet's mininet comes before Debian's.
            "PYTHONPATH": "/mnt/losslab:/opt/containernet",
        },
    )  # fmt: skip


def _clean(tools: Instrument, more: dict[str, Any], mine: Turn) -> None:
    """Remove the containers of a job that may not have done so itself."""
    with tempfile.TemporaryDirectory(prefix="clean-", dir=mine.source) as name:
        folder = Path(name)
        job = Job({"kind": CLEAN}, folder, 0, CLEAN_UP_JOB_S)
        command = _command(tools, mine, folder)
        start = Start(lambda console: mine.spawn(command, console), more)
        try:
            end = runner.wait_for_end(start, job)
            console = (folder / CONSOLE_FILE).read_text(errors="replace")
            OnHost().result(job, end, console)
        except LosslabError as error:
            print(f"losslab: note: containers may remain: {error}", file=sys.stderr)
