"""The containernet backend, from the outside: in a guest, or on this machine's own kernel.

In a guest: Docker's engine and Containernet run inside a kernel of ours that has what they need, in
virtual time, without root. On the host: in containers of this machine's engine, on its own kernel,
in real time and as root; one cell at a time, in network and mount namespaces of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.backends import virtual
from losslab.backends.virtual import Outcome
from losslab.errors import GuestLostError, LosslabError

GUEST, HOST = "guest", "host"
PLACES = (GUEST, HOST)
PACKAGE = Path(__file__).resolve().parents[1]
# One for the machine, whoever measures: cells that share processors disturb each other.
LOCK = Path("/run/lock/losslab-containernet")
# What a job needs to remove its containers after a signal.
CLEAN_UP_S = 60.0
CLEAN_UP_JOB_S = 120.0
DEFAULT_SOCKET = Path("/var/run/docker.sock")

# Make the engine image a root folder of this mount namespace and run the job there. Nothing is
# written to the image: what it needs is mounted, and goes with the namespace.
ENTER = r"""
set -e
root=$1 source=$2 out=$3 image=$4 socket=$5
for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder"; done
for folder in run tmp mnt; do mount -t tmpfs tmpfs "$root/$folder"; done
mkdir "$root/mnt/losslab" "$root/mnt/out" "$root/mnt/image"
mount --bind "$source" "$root/mnt/losslab"
mount --bind "$out" "$root/mnt/out"
mount --bind "$image" "$root/mnt/image"
touch "$root/run/docker.sock"
mount --bind "$socket" "$root/run/docker.sock"
exec chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/tmp LANG=C.UTF-8 TZ=UTC TERM=dumb DOCKER_HOST=unix:///run/docker.sock \
    PYTHONPATH=/mnt/losslab:/opt/containernet PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 \
    python3 -m losslab.backends.enginehost
"""


@dataclass(frozen=True)
class Images:
    """The root folders that a job uses."""

    engine: Path
    host: Path
    tag: str  # of the host image, in the engine of this machine


def run_in_guest(
    kernel: Path,
    images: Images,
    job: dict[str, Any],
    job_folder: Path,
    seed: int,
    timeout_s: float,
) -> Outcome:
    """Boot a guest that runs containers for one job; as `virtual.boot`."""
    # The guest mounts it: see containers/engine/init.
    (job_folder / "image").symlink_to(images.host.resolve())
    return virtual.boot(kernel, images.engine, job, job_folder, seed, timeout_s)


def run_on_host(images: Images, job: dict[str, Any], job_folder: Path, timeout_s: float) -> Outcome:
    """Run one job in containers of this machine's engine; they are gone at the end.

    Raises:
        GuestLostError: the job did not end in time, or left no result.
        LosslabError: the job failed.
    """
    with _alone() as lock, tempfile.TemporaryDirectory(prefix="losslab-") as name:
        source = Path(name) / PACKAGE.name
        shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
        binds = [f"{name}:/mnt/losslab:ro", f"{job_folder.resolve()}:/mnt/out:rw"]
        job = job | {
            "owner": f"losslab-{secrets.token_hex(4)}",
            "image": f"losslab-host:{images.tag}",
            # As the engine sees them, which is not in the job's root folder.
            "image_root": str(images.host.resolve()),
            "binds": binds,
        }
        return _run_job(images, job, job_folder, Path(name), timeout_s, lock)


def _run_job(
    images: Images,
    job: dict[str, Any],
    job_folder: Path,
    source: Path,
    timeout_s: float,
    lock: int,
) -> Outcome:
    (job_folder / "job.json").write_text(json.dumps(job, indent=1, sort_keys=True) + "\n")
    console_path = job_folder / "console.log"
    begin = time.monotonic()
    hung = False
    with console_path.open("wb") as console:
        process = subprocess.Popen(
            _command(images, job_folder, source),
            stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT,
            # A Ctrl-C is for this process, which then ends the job.
            start_new_session=True,
            # Its containers are there until it has ended, even if this process is killed.
            pass_fds=[lock],
            preexec_fn=_end_with_parent,  # noqa: PLW1509
        )  # fmt: skip
        try:
            process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            hung = True
        finally:
            _end(process)
            if process.returncode != 0 and job["kind"] != "clean":
                _clean(images, job, source, lock)
    lines = console_path.read_text(errors="replace").splitlines()
    tail = "\n".join(lines[-virtual.CONSOLE_LINES :])
    if hung:
        raise GuestLostError(
            f"the job must end within {timeout_s:g} s, found it still running; its last lines:\n"
            f"{tail}"
        )
    result_path = job_folder / "result.json"
    if not result_path.exists():
        raise GuestLostError(
            f"the job must leave result.json, found none (exit status {process.returncode}); its "
            f"last lines:\n{tail}"
        )
    result = json.loads(result_path.read_text())
    if "error" in result:
        raise LosslabError(f"the job must succeed, found:\n{result['error']}")
    return Outcome(result, "", time.monotonic() - begin)


def _command(images: Images, job_folder: Path, source: Path) -> list[str]:
    folders = [images.engine, source, job_folder, images.host, socket_path()]
    return [
        "unshare", "--mount", "--net", "--propagation", "private", "--",
        "sh", "-c", ENTER, "sh", *(str(folder.resolve()) for folder in folders),
    ]  # fmt: skip


def _end_with_parent() -> None:
    """Ask the job to end if this process is killed: prctl(2)."""
    ctypes.CDLL(None).prctl(virtual.PR_SET_PDEATHSIG, signal.SIGTERM)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a job that still runs: first ask, so that it cleans up."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=CLEAN_UP_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _clean(images: Images, job: dict[str, Any], source: Path, lock: int) -> None:
    """Remove the containers of a job that could not do it itself."""
    with tempfile.TemporaryDirectory(prefix="losslab-clean-") as name:
        try:
            clean = job | {"kind": "clean"}
            _run_job(images, clean, Path(name), source, CLEAN_UP_JOB_S, lock)
        except LosslabError as error:
            print(f"losslab: note: containers may be left: {error}", file=sys.stderr)


def socket_path() -> Path:
    """Return the socket of this machine's engine.

    Raises:
        LosslabError: DOCKER_HOST names something else.
    """
    address = os.environ.get("DOCKER_HOST", f"unix://{DEFAULT_SOCKET}")
    if not address.startswith("unix://"):
        raise LosslabError(
            f"Docker's engine must be on this machine, found DOCKER_HOST={address}",
            hint="unset DOCKER_HOST, or set it to unix:///var/run/docker.sock",
        )
    return Path(address.removeprefix("unix://"))


@contextlib.contextmanager
def _alone() -> Iterator[int]:
    """Wait until no other cell is measured in real time on this machine; give the lock's file."""
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("losslab: another cell runs in real time; waiting for its end", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()
