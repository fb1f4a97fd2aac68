"""First program of a guest: make hosts, set them up for a condition, run the job, power off.

It runs as root under the pinned kernel, in virtual time. It waits twice to be forked: with bare
hosts, and set up for a condition (see `backends.snapshot`). The job's folder is mounted on /mnt/out
and describes the job in job.json. A job may also be a shell, in which each emulated host's name is
a command that runs others there.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from losslab.emulation import hosts, measure
from losslab.emulation.kernellog import BOOT_LOG, WARNING, KernelLog, Message
from losslab.emulation.measure import BareHosts, Stage, stage
from losslab.emulation.outcome import write_failure, write_result
from losslab.emulation.plan import make_plan
from losslab.emulation.programs import sleep_until
from losslab.emulation.topology import HOSTS, RECEIVER_ADDRESS
from losslab.errors import LosslabError
from losslab.study import parameters
from losslab.study.axes import NONE
from losslab.study.condition import Condition

# The job's folder. Each snapshot has a folder of its own, each fork has that of its job.
JOB = Path("/mnt/out")
# A write to it returns in each fork of the guest. A guest without this file is seeded for its job
# at boot, and does not fork.
SNAPSHOT = Path("/proc/snapshot")
# The words to write. The first fork continues with the random generator as it is; the second fork
# has it seeded for its job.
BARE, PREPARED = "stage", "seed"
# Uptime at which a guest waits. What a guest did before must not change the results, and time is
# part of its state. A guest is bare after 0.01 s, with containers after 0.1 s. Between two ticks,
# which are at multiples of 4 ms, nothing else is due.
WAIT_NS = {BARE: 10_001_000_000, PREPARED: 20_001_000_000}
RB_POWER_OFF = 0x4321FEDC  # linux/reboot.h

Job = dict[str, Any]  # job.json, or the part of it that a cell's snapshot has
Result = dict[str, Any]
# Sender and receiver share the guest's memory. With TCP's default limits, results would depend on
# its size. In pages of 4 KiB: 4 GiB, more than the guest has. tcp(7), tcp_mem.
TCP_MEM_PAGES = "1048576 1048576 1048576"
ALLOWED_SYSCTL = "net.ipv4.tcp_allowed_congestion_control"
# INR_OPEN_CUR and INR_OPEN_MAX, linux/fs.h.
DEFAULT_DESCRIPTOR_LIMITS = (1024, 4096)
MODULES = Path("/sys/module")
# Of klogctl(3): print messages of all eight levels on the console.
KLOG_CONSOLE_LEVEL, ALL_LEVELS = 8, 8
# A parameter without a value is a switch that is on.
SWITCHES = {"": 1, "y": 1, "Y": 1, "on": 1, "n": 0, "N": 0, "off": 0}
COMMANDS = Path("/tmp/hosts")  # in the guest's tmpfs
BANNER = """
    sender ---- r1 ==== r2 ---- receiver        forward; == is the bottleneck
                 |      (reverse, symmetric)
                r3 ------------- receiver        reverse, asymmetric

Put a host's name before a command to run it there:
    sender ping -c 3 {receiver}
    r1 tc -s qdisc          receiver ip route
    receiver iperf3 -s -D;  sender iperf3 -c {receiver} -t 5;  sender ss -ti
The path: {path}, {rate_mbit:g} Mbit/s, RTT {rtt_ms:g} ms, buffer {buffer_packets} packets,
loss {loss_percent:g} %, {algorithm}. `exit` or Ctrl-D ends the shell.
"""
# Contexts that stay open until the power-off, because nothing needs to be taken down.
UNTIL_POWER_OFF = contextlib.ExitStack()


def serve(
    build: Callable[[], BareHosts], prepare: Callable[[BareHosts, Job], Callable[[Job], Result]]
) -> None:
    """Run a job, write its result or failure, and power off.

    `build` makes what all jobs have in common, the bare hosts. `prepare` does everything that does
    not depend on the seed, given the bare hosts and the snapshot's part of the job. It returns a
    function that does the rest with the whole job, and returns the result.
    """
    # Python collects garbage after a number of allocations, which depends on the imports, and each
    # collection reads the clock. This process runs for about a minute and makes little garbage.
    gc.disable()
    try:
        # If this file is missing, backends.virtual blames the instrument.
        (JOB / "started").touch()
        run, failure = None, None
        try:
            bare = build()
        except BaseException as error:
            failure = error  # of every fork's job
        _wait(BARE)
        try:
            if failure is None:
                run = prepare(bare, json.loads((JOB / "template.json").read_text()))
        except BaseException as error:
            failure = error
        _wait(PREPARED)
        job = json.loads((JOB / "job.json").read_text())
        if run is None:
            raise failure or AssertionError
        write_result(run(job), JOB / "result.json")
    except BaseException as error:
        write_failure(error, JOB / "result.json")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.sync()
        ctypes.CDLL(None).reboot(RB_POWER_OFF)


def _wait(word: str) -> None:
    """Wait to be forked; return in each fork. No file of the job's folder may be open.

    A guest that does not fork continues at once, or, with snapshots, at the same time.
    """
    if SNAPSHOT.exists():
        sleep_until(WAIT_NS[word])
        SNAPSHOT.write_text(word)
    (JOB / "started").touch()


def bare_hosts() -> BareHosts:
    """Make the hosts and links of the path."""
    hosts.write_sysctl("net.ipv4.tcp_mem", TCP_MEM_PAGES)
    return UNTIL_POWER_OFF.enter_context(measure.bare_hosts(disposable=True))


def prepare(bare: BareHosts, spec: Job) -> Callable[[Job], Result]:
    """Set up the hosts, if the job needs them."""
    if spec["kind"] == "command":
        return _command
    condition = Condition.from_json(spec["condition"])
    require_parameters(condition.parameters, MODULES)
    _allow(make_plan(condition, 0).algorithms)
    shell = spec["kind"] == "shell"
    ready = UNTIL_POWER_OFF.enter_context(stage(bare, condition, loaded=not shell))
    if shell:
        return lambda job: {"status": run_shell(ready, job["seed"], job["command"], JOB)}
    log = KernelLog()
    printed = log.read()
    return lambda job: replicate(ready, job, spec.get("boot", ()), log, printed)


def _allow(algorithms: set[str]) -> None:
    """Allow the hosts' network namespaces to use restricted algorithms of the kernel.

    An algorithm without TCP_CONG_NON_RESTRICTED (net/tcp.h), such as DCTCP or Vegas, is restricted.
    A later check refuses algorithms that the kernel lacks, by name.
    """
    available = set(hosts.read_sysctl("net.ipv4.tcp_available_congestion_control").split())
    allowed = hosts.read_sysctl(ALLOWED_SYSCTL).split()
    missing = sorted((algorithms & available) - set(allowed))
    if missing:
        hosts.write_sysctl(ALLOWED_SYSCTL, " ".join([*allowed, *missing]))


def require_parameters(text: str, modules: Path) -> dict[str, str]:
    """Return the values of the axis `parameters`, read back; refuse one that was not taken."""
    values = {}
    for word in parameters.boot_words(text):
        name, _, expected = word.partition("=")
        module, _, parameter = name.partition(".")
        file = modules / module / "parameters" / parameter
        if not file.is_file():
            raise LosslabError(f"the kernel must have the parameter {name}, found no {file}")
        value = values[name] = file.read_text().strip()
        if _value(value) != _value(expected):
            reason = "the module changed it"
            try:
                file.write_text(expected)  # the kernel says why
            except OSError as error:
                reason = f"{errno.errorcode.get(error.errno or 0)}, {error.strerror}"
            raise LosslabError(
                f"the kernel must take {name}={expected}, found {value} ({reason})",
                hint="the module's source says which values it takes",
            )
    return values


def parameter_violations(boot: Sequence[str], modules: Path) -> Iterator[str]:
    """Yield a violation for each module's parameter that has another value than at the boot.

    `boot` has words of the kernel's command line; `modules` is the folder /sys/module.
    """
    for word in boot:
        name, _, expected = word.partition("=")
        module, dot, parameter = name.replace("-", "_").partition(".")
        file = modules / module / "parameters" / parameter
        if dot and file.is_file():
            value = file.read_text().strip()
            if _value(expected) != _value(value):
                yield f"the kernel's parameter {name} must be {expected or 'set'}, found {value}"


def _value(text: str) -> str | int:
    """Return a parameter's value, which the kernel may write differently."""
    if text in SWITCHES:
        return SWITCHES[text]
    try:
        return int(text, 0)
    except ValueError:
        return text


def _command(job: Job) -> Result:
    # Mininet needs a low limit (topology.DESCRIPTOR_LIMIT), a program the kernel's default.
    resource.setrlimit(resource.RLIMIT_NOFILE, DEFAULT_DESCRIPTOR_LIMITS)
    subprocess.run(job["command"], cwd=JOB, check=True)
    return {"done": True}


def run_shell(ready: Stage, seed: int, command: str | None, folder: Path) -> int:
    """Run a command (output to output.txt), or a shell on the console; return its exit status."""
    condition = ready.condition
    plan = make_plan(condition, seed)
    hosts.shape(plan.hosts, ready.handles)
    violations = hosts.deviations(plan.hosts, hosts.read_back(plan.hosts, ready.handles))
    COMMANDS.mkdir()
    for host in HOSTS:
        path = COMMANDS / host
        network = f"/proc/{ready.nodes[host].pid}/ns/net"
        path.write_text(f'#!/bin/sh\nexec nsenter --net={network} -- "$@"\n')
        path.chmod(0o755)
    environment = os.environ | {"PATH": f"{COMMANDS}:{os.environ['PATH']}", "TERM": "vt100"}
    if command is not None:
        with (folder / "output.txt").open("w") as out:
            return subprocess.run(
                ["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env=environment, check=False,
            ).returncode  # fmt: skip
    banner = BANNER.format(receiver=RECEIVER_ADDRESS, **condition.to_json())
    banner += "".join(f"\nWARNING: {violation}" for violation in violations)
    start = Path("/tmp/bashrc")
    start.write_text(f"cat <<'BANNER'\n{banner}\nBANNER\nPS1='losslab> '\n")
    with Path("/dev/tty0").open("r+b", buffering=0) as terminal:
        return subprocess.run(
            ["setsid", "--ctty", "--wait", "bash", "--rcfile", str(start), "-i"],
            stdin=terminal, stdout=terminal, stderr=terminal, env=environment, check=False,
        ).returncode  # fmt: skip


def replicate(
    ready: Stage, job: Job, boot: Sequence[str], log: KernelLog, printed: Sequence[Message]
) -> Result:
    """Measure one replicate into the job's `raw` folder; `boot` as of `parameter_violations`.

    The kernel's log continues after the messages that the guest has `printed` before, which are
    kept if the kernel has modules of the user.
    """
    if job.get("modules"):
        (JOB / BOOT_LOG).write_text("".join(f"{message.line}\n" for message in printed))
    # At once, because a crash would lose what waits. Messages begin with the time since the boot,
    # by which `campaign.replicate` knows a console to keep.
    time = MODULES / "printk/parameters/time"
    time.write_text("Y")
    ctypes.CDLL(None).klogctl(KLOG_CONSOLE_LEVEL, None, ALL_LEVELS)
    result = measure.replicate(ready, job, JOB)
    time.write_text("N")  # not for the message of the power-off
    result["reasons"] = [*result["reasons"], *parameter_violations(boot, MODULES)]
    result["messages"] = {
        "earlier": [message.line for message in printed if message.level <= WARNING],
        "warnings": [message.line for message in log.read() if message.level <= WARNING],
        "lost": log.lost,
    }
    if ready.condition.parameters != NONE:
        read = require_parameters(ready.condition.parameters, MODULES)
        result["machine"]["parameters"] = read
    result["machine"]["tcp_mem"] = hosts.read_sysctl("net.ipv4.tcp_mem")
    return result


if __name__ == "__main__":
    serve(bare_hosts, prepare)
