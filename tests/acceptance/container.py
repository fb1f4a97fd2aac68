"""Docker's default confinement: system calls that a guest needs and Docker refuses.

The engine is installed in a root folder and runs there, in control groups of this machine that
are removed afterwards. Containers get the folder's programs, the user's home, and no network.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from losslab.errors import LosslabError
from tests.acceptance.folder import ROOT_USER, Bare

# Parent of the engine's control groups.
PARENT = f"losslab-bare-{os.getpid()}"
GROUPS = Path("/sys/fs/cgroup")
# Further folders of a container with the root folder's /usr.
LINKS = ("bin", "lib", "lib64", "sbin")
CONTAINER = (
    "docker run --rm --network none --volume /usr:/usr:ro --volume /etc:/etc "
    "--volume {home}:{home} --workdir {clone} --env LOSSLAB_CACHE={home}/.cache/losslab"
)
ENGINE = r"""
set -eu
# The engine would set some of the kernel's own values, which are this machine's.
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount -t tmpfs -o mode=755 groups /sys/fs/cgroup
for controller in cpu cpuacct cpuset memory devices freezer pids blkio; do
    place=/sys/fs/cgroup/$controller
    mkdir $place
    mount -t cgroup -o $controller cgroup $place || rmdir $place
done
mount -t tmpfs run /run
dockerd --host unix:///run/docker.sock --storage-driver vfs --bridge none --iptables=false \
    --ip6tables=false --ip-masq=false --ip-forward=false --cgroup-parent /$PARENT \
    --exec-opt native.cgroupdriver=cgroupfs >/var/log/dockerd.log 2>&1 &
for n in $(seq 300); do docker version >/dev/null 2>&1 && break; sleep 0.2; done
docker version --format 'Docker {{.Server.Version}}' || { tail -20 /var/log/dockerd.log; exit 1; }
mkdir -p /var/tmp/image/tmp; chmod 1777 /var/tmp/image/tmp
for link in $LINKS; do ln -sfn usr/$link /var/tmp/image/$link; done
tar -C /var/tmp/image -c . | docker import - bare >/dev/null
"""


@dataclass(frozen=True)
class Trial:
    """A way to start a container, a command, and the expected outcome."""

    flags: str
    command: str
    good: bool  # whether the command is expected to work
    says: str = ""  # expected output otherwise


# Debian 13 has a separate package for the client.
INSTALL = "apt-get install -y --no-install-recommends"
DOCTOR = ".venv/bin/losslab doctor"
MEASURE = (
    ".venv/bin/losslab measure --algorithm bbr --rate-mbit 10 --rtt-ms 20 --duration-s 2 "
    "--out /tmp/run"
)
UNCONFINED = "--security-opt seccomp=unconfined"
SCRATCH = "--tmpfs /scratch:exec,size=1g --env LOSSLAB_SCRATCH=/scratch"
TRIALS = (
    Trial("", DOCTOR, False, "personality"),
    Trial("--shm-size 1g", MEASURE, False, "seccomp=unconfined"),
    Trial(UNCONFINED, MEASURE, True),
    Trial(f"{UNCONFINED} {SCRATCH}", MEASURE, True),
    Trial(f"{UNCONFINED} --cap-drop ALL --user 1000:1000", MEASURE, True),
)


def tried(made: Bare, clone: Path, variables: dict[str, str]) -> int:
    """Run all trials, print each outcome, and return the number of unexpected ones."""
    if not variables:
        raise LosslabError(
            "a container must be given kernel and image, found none", hint="add --instruments DIR"
        )
    made.needed("scripts/setup.sh tools", cwd=clone, variables=variables)
    made.needed(
        f"apt-get update -qq && {INSTALL} docker.io && (command -v docker || {INSTALL} docker-cli)",
        user=ROOT_USER, cwd=Path("/"),
    )  # fmt: skip
    # Containers of any user must be able to read the folder.
    made.needed(f"chmod -R a+rX {made.home}", user=ROOT_USER)
    container = CONTAINER.format(home=made.home, clone=clone)
    lines = [ENGINE, "set +e"]
    for number, trial in enumerate(TRIALS):
        lines += [
            f"{container} {trial.flags} bare {trial.command} 2>&1",
            rf"printf '\nended {number} %s\n' $?",
        ]
    try:
        ran = made.run(
            "\n".join(lines), user=ROOT_USER, cwd=Path("/"), before=["unshare", "--net"],
            variables={
                "PARENT": PARENT, "LINKS": " ".join(LINKS),
                "DOCKER_HOST": "unix:///run/docker.sock",
            },
        )  # fmt: skip
    finally:
        remove_groups()
    return judged(TRIALS, ran.text)


def judged(trials: Sequence[Trial], text: str) -> int:
    """Print each trial's output; return the number of unexpected outcomes."""
    wrong = 0
    rest = text
    for number, trial in enumerate(trials):
        said, found, rest = rest.partition(f"\nended {number} ")
        status = rest.split("\n", 1)[0] if found else "none"
        as_expected = bool(found) and (status == "0") == trial.good and trial.says in said
        wrong += not as_expected
        print(f"== docker run {trial.flags}: {trial.command}\n{said.strip()}")
        print(f"== status {status}, {'as expected' if as_expected else 'NOT as expected'}\n")
    return wrong


def remove_groups() -> None:
    """Remove the engine's control groups, nested ones first."""
    for top in GROUPS.glob(f"*/{PARENT}"):
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
