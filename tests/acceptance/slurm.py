"""A Slurm cluster of one machine, where an ordinary user measures a campaign.

The results are compared with a local run. munged, slurmctld and slurmd run without systemd and
accounting from files in a separate folder, with a link in /etc/slurm. `nobody` measures with an
empty cache and fetches the packed instrument. All daemons are ended.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from losslab.artifact.pack import packed_instrument
from losslab.campaign.rerun import compare
from losslab.errors import LosslabError
from tests.acceptance.options import Options

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
USER = "nobody"
# Four short cells, in groups of two.
CAMPAIGN = {
    "campaign": "cluster",
    "studies": {
        "loss": {
            "sensitivity": [
                {
                    "only": {"rtt_ms": [10, 50], "loss_percent": [5, 10], "offloads": "off"},
                    "replicates": 2,
                    "duration_s": 3,
                    "warmup_s": 1,
                }
            ]
        }
    },
}
DAEMONS = ("munged", "slurmctld", "slurmd")
TARGET = "results/summary/loss_cells.csv"
# Slurm's default path: the executor removes SLURM_CONF from its jobs' environment.
CONF_PLACE = Path("/etc/slurm/slurm.conf")
# Time limit on a busy machine.
READY_S = 120.0
CONF = """\
ClusterName=losslab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdTimeout=10
MinJobAge=300
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory_mb} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def free_port() -> int:
    """Return a port that is not in use."""
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return int(each.getsockname()[1])


def run(*words: object, **more: object) -> str:
    """Run a command; return its output."""
    command = [str(word) for word in words]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **more).stdout


class Cluster:
    """munged, slurmctld and slurmd, with files in a folder."""

    def __init__(self, folder: Path) -> None:
        """Write the configuration."""
        self.folder = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        for name in ("munge", "state", "spool"):
            (folder / name).mkdir(mode=0o755)
        host = socket.gethostname().partition(".")[0]
        self.host = host
        memory_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20 // 2
        (folder / "slurm.conf").write_text(
            CONF.format(
                host=host, folder=folder, controller=free_port(), daemon=free_port(),
                cpus=os.cpu_count(), memory_mb=memory_mb,
            )
        )  # fmt: skip
        if CONF_PLACE.exists() or CONF_PLACE.is_symlink():
            raise LosslabError(f"{CONF_PLACE} must not be there: this machine has a cluster")
        CONF_PLACE.symlink_to(folder / "slurm.conf")
        key = folder / "munge" / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *words: object) -> None:
        """Start a daemon in the foreground, as a child."""
        log = (self.folder / f"{name}.out").open("ab")
        self._daemons[name] = subprocess.Popen(
            [name, *map(str, words)], env=self.environment, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip

    def up(self) -> None:
        """Start all three, and wait until the node is idle."""
        munge = self.folder / "munge"
        self.start(
            "munged", "--foreground", "--force", f"--key-file={munge}/key",
            f"--socket={munge}/socket", f"--pid-file={munge}/pid", f"--log-file={munge}/log",
            f"--seed-file={munge}/seed",
        )  # fmt: skip
        self.wait(lambda: (munge / "socket").exists(), "munged's socket")
        self.start("slurmctld", "-D", "-c")
        self.node_up()

    def node_up(self) -> None:
        """Start the node."""
        self.start("slurmd", "-D", "-N", self.host)
        self.wait(lambda: "idle" in self.sinfo(), "an idle node")

    def sinfo(self) -> str:
        """Return the node's state."""
        done = subprocess.run(
            ["sinfo", "--noheader", "--format=%T"], env=self.environment, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        return done.stdout

    def wait(self, ready: object, what: str) -> None:
        """Poll until a condition holds."""
        for _ in range(int(READY_S / 0.2)):
            if ready():
                return
            time.sleep(0.2)
        logs = "".join(p.read_text(errors="replace")[-2000:] for p in self.folder.glob("*.[ol]*"))
        raise LosslabError(f"{what} must be there after {READY_S:.0f} s, found none:\n{logs}")

    def kill_node(self) -> None:
        """Kill the node's daemon and all its jobs, like a power failure."""
        for job in self.jobs():
            for process in run("scontrol", "listpids", job, env=self.environment).splitlines()[1:]:
                with contextlib.suppress(ProcessLookupError, ValueError):
                    os.kill(int(process.split()[0]), signal.SIGKILL)
        self._end("slurmd", signal.SIGKILL)

    def jobs(self) -> list[str]:
        """Return the running jobs."""
        words = ["squeue", "--noheader", "--states=R", "--format=%A"]
        return run(*words, env=self.environment).split()

    def _end(self, name: str, number: int) -> None:
        process = self._daemons.pop(name, None)
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def down(self) -> None:
        """End jobs and daemons, and remove the link."""
        if "slurmctld" in self._daemons:
            subprocess.run(
                ["scancel", f"--user={USER}"], env=self.environment, check=False, timeout=30
            )
            time.sleep(1)
        for name in reversed(DAEMONS):
            self._end(name, signal.SIGTERM)
        CONF_PLACE.unlink(missing_ok=True)


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """Yield a cluster, which is ended afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="losslab-slurm-"))
    folder.chmod(0o755)
    made = Cluster(folder)
    try:
        made.up()
        yield made
    finally:
        made.down()
        shutil.rmtree(folder, ignore_errors=True)


def snakemake(work: Path, config: Path, *words: str) -> list[str]:
    """Return the command that measures a campaign in a folder."""
    return [
        str(BIN / "snakemake"), TARGET, "--snakefile", str(ROOT / "Snakefile"),
        "--directory", str(work), "--configfile", str(config), *words,
    ]  # fmt: skip


@contextlib.contextmanager
def through_slurm(made: Cluster, work: Path, config: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the campaign as an ordinary user; kill its processes at the end of the block."""
    them = pwd.getpwnam(USER)
    home = work / "home"
    home.mkdir(parents=True, exist_ok=True)
    for path in (work, home):
        os.chown(path, them.pw_uid, them.pw_gid)
    environment = {
        "PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8", "TZ": "UTC",
        "SLURM_CONF": made.environment["SLURM_CONF"], "PYTHONDONTWRITEBYTECODE": "1",
        "LOSSLAB_CACHE": str(home / "cache"), "LOSSLAB_INSTRUMENTS": str(work.parent / "packed"),
    }  # fmt: skip
    words = [
        "--workflow-profile", str(ROOT / "profiles" / "slurm"), "--slurm-status-command", "squeue",
        "--slurm-no-account", "--cores", str(os.cpu_count()), "--latency-wait", "5",
        "--slurm-init-seconds-before-status-checks", "5", "--group-components", "cells=2",
    ]  # fmt: skip
    process = subprocess.Popen(
        snakemake(work, config, *words), env=environment, cwd=work, user=them.pw_uid,
        group=them.pw_gid, extra_groups=[], start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def measure(made: Cluster, work: Path, config: Path) -> None:
    """Run the campaign to its end."""
    with through_slurm(made, work, config) as process:
        if process.wait() != 0:
            raise LosslabError("the campaign must end well on Slurm, found it failed")


def manifests(work: Path) -> dict[str, int]:
    """Return finished replicates with the times of their manifests."""
    found = (work / "results" / "cells").glob("*/*/*/manifest.json")
    return {str(path.parent.relative_to(work)): path.stat().st_mtime_ns for path in found}


def differences(first: Path, second: Path) -> list[str]:
    """Return the replicates whose bytes differ between two folders."""
    names = {*manifests(first), *manifests(second)}
    found = []
    for name in sorted(names):
        if not ((first / name).is_dir() and (second / name).is_dir()):
            found.append(f"{name}: on one side only")
        else:
            agreement = compare(first / name, second / name)
            found += [f"{name}: {file}: {what}" for file, what in agreement.different.items()]
    return found


def killed_in_the_middle(made: Cluster, work: Path, config: Path) -> None:
    """Kill the node after the first replicates, start it again, and finish the campaign."""
    with through_slurm(made, work, config) as process:
        while len(manifests(work)) < 2 and process.poll() is None:
            time.sleep(0.2)
        made.kill_node()
    before = manifests(work)
    print(f"killed the node with {len(before)} replicates finished", flush=True)
    made.node_up()
    measure(made, work, config)
    after = manifests(work)
    lost = [name for name, when in before.items() if after.get(name) != when]
    if lost:
        raise LosslabError(f"finished replicates must be kept, found measured again: {lost}")
    print(f"{len(before)} of {len(before)} finished replicates were kept", flush=True)


def missing(_: Options) -> str:
    """Return why this machine can start no cluster; empty if it can."""
    if os.geteuid() != 0:
        return "needs root"
    absent = [name for name in DAEMONS if shutil.which(name) is None]
    return f"needs {', '.join(absent)}: scripts/packages.sh cluster" if absent else ""


def compare_with_local(options: Options, kill: bool = False) -> None:
    """Measure locally as root and through Slurm as an ordinary user, and compare the bytes.

    Args:
        options: Options; they may name another campaign of the study `loss`.
        kill: Whether to kill the node during the campaign.

    Raises:
        LosslabError: A replicate differs.
    """
    with tempfile.TemporaryDirectory(prefix="losslab-cluster-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        config = options.campaign or folder / "campaign.yaml"
        if options.campaign is None:
            config.write_text(yaml.safe_dump(CAMPAIGN))
        local, remote, packed = folder / "local", folder / "remote", folder / "packed"
        for each in (local, remote, packed):
            each.mkdir()
        for path in packed_instrument():
            shutil.copy(path, packed)
        run(*snakemake(local, config.resolve(), "--workflow-profile", "none", "--cores", "all"),
            cwd=local, stderr=subprocess.DEVNULL)  # fmt: skip
        with cluster() as made:
            began = time.monotonic()
            (killed_in_the_middle if kill else measure)(made, remote, config.resolve())
            wall_s = time.monotonic() - began
        count = len(manifests(remote))
        if (found := differences(local, remote)) or not count:
            raise LosslabError("\n".join([f"all of {count} replicates must agree, found", *found]))
        print(f"{count} of {count} replicates have the same bytes, measured locally by root and "
              f"through Slurm by {USER} ({wall_s:.0f} s)")  # fmt: skip
