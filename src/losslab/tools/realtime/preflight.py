"""Requirements of real time on this machine, and how to meet them.

`losslab doctor` shows them. A cell on this machine's own kernel is refused if one is not met. Every
cell imports this module, but few use it; its functions therefore import further modules themselves.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab import processes
from losslab.backends.base import COMMON, Finding
from losslab.errors import LosslabError
from losslab.study.condition import Condition
from losslab.study.names import algorithms_of

if TYPE_CHECKING:
    from losslab.emulation.qdiscs import Qdisc

# The condition of most cells in real time: only losslab's own kernels have exact links.
USUAL = replace(COMMON, shaper="tbf")
PROBE_TIMEOUT_S = 20.0
DEFAULT_SOCKET = Path("/var/run/docker.sock")
ALGORITHMS_ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
TOOLS = ("nsenter", "setpriv", "tc", "ip", "bash", "iperf3", "curl", "python3")
ALTERNATIVES = (
    "a condition without delay and loss needs neither netem nor fq: --rtt-ms 0 --rate-mbit 10 "
    "--shaper tbf; a guest has both: --where guest"
)


def require(root: Path, condition: Condition, containers: bool) -> dict[str, str]:
    """Refuse a machine that cannot measure a condition in real time; list what is missing.

    `root` is the root folder of the job's image. Return the engine's versions, if containers are
    used.
    """
    missing = [f for f in host(root, condition, containers) if f.required and not f.good]
    if missing:
        raise LosslabError(
            "this machine must meet the requirements of measuring on its own kernel, found:\n"
            + "\n".join(f.line() for f in missing),
            hint="or measure in a guest, which meets them: `--where guest`",
        )
    if not containers:
        return {}
    engine = ask_engine("/info")
    return {
        "version": engine["ServerVersion"],
        "storage": engine["Driver"],
        "cgroup": f"{engine['CgroupDriver']} v{engine.get('CgroupVersion', '1')}",
    }


def host(
    image_root: Path | None, condition: Condition = USUAL, containers: bool = True
) -> Iterator[Finding]:
    """Yield the requirements of a condition on this machine's own kernel."""
    from losslab.emulation.hosts import ACCURATE_ECN_SYSCTL
    from losslab.emulation.shaping import path_qdiscs

    root = os.geteuid() == 0
    yield Finding("root", root, "yes" if root else "no", "run as root (sudo)")
    if containers:
        yield from _docker()
    yield Finding(
        "engine image (Containernet)" if containers else "host image",
        image_root is not None, str(image_root or "not built"),
        "make containernet" if containers else "make setup",
    )  # fmt: skip
    if image_root is not None:
        folders = [image_root / "usr/bin", image_root / "usr/sbin"]
        absent = [name for name in TOOLS if not any((at / name).exists() for at in folders)]
        yield Finding(
            "tools in the image", not absent, f"without {', '.join(absent)}" if absent else "all",
            "make containernet" if containers else "make setup",
        )  # fmt: skip
    for qdisc in {q.kind: q for q in path_qdiscs(condition, 1)}.values():
        yield kernel_qdisc(qdisc, root, image_root)
    if condition.ecn == "accurate":
        known = Path("/proc/sys", *ACCURATE_ECN_SYSCTL.split(".")).exists()
        yield Finding(
            "Accurate ECN in this machine's kernel", known, "yes" if known else "no",
            "Linux 7.0 or newer, or ecn on",
        )  # fmt: skip
    path = ALGORITHMS_ALLOWED
    allowed = path.read_text().split() if path.exists() else []
    missing = sorted(algorithms_of(condition) - set(allowed))
    modules = "; ".join(f"modprobe tcp_{name}" for name in missing)
    yield Finding(
        "algorithms allowed to namespaces", not missing, ", ".join(allowed) or "none",
        f"{modules}; sysctl -w "
        f"net.ipv4.tcp_allowed_congestion_control='{' '.join([*allowed, *missing])}'",
    )  # fmt: skip


def _docker() -> Iterator[Finding]:
    from http.client import HTTPException

    try:
        engine = ask_engine("/info")
    except (LosslabError, OSError, HTTPException, ValueError) as error:
        message = error.message if isinstance(error, LosslabError) else error
        where = os.environ.get("DOCKER_HOST", DEFAULT_SOCKET)
        yield Finding(
            "Docker's engine", False, f"no response from {where} ({message})",
            "apt-get install docker.io, systemctl start docker",
        )  # fmt: skip
        return
    driver, version = engine.get("CgroupDriver", "none"), engine.get("CgroupVersion", "1")
    yield Finding("Docker's engine", True, engine.get("ServerVersion", "?"))
    yield Finding(
        "its control groups", driver in ("cgroupfs", "systemd"), f"{driver}, version {version}",
        "start the engine as root: without control groups, losslab cannot find a container's "
        "programs",
    )  # fmt: skip


def ask_engine(path: str) -> Any:
    """Return the JSON reply of this machine's Docker engine to GET; OSError without a reply."""
    from http.client import HTTPConnection
    from socket import AF_UNIX, SOCK_STREAM, socket

    connection = HTTPConnection("localhost", timeout=PROBE_TIMEOUT_S)
    address = str(socket_path())
    try:
        connection.sock = socket(AF_UNIX, SOCK_STREAM)
        connection.sock.settimeout(PROBE_TIMEOUT_S)
        connection.sock.connect(address)
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def socket_path() -> Path:
    """Return the socket of this machine's engine; refuse a DOCKER_HOST on another machine."""
    address = os.environ.get("DOCKER_HOST", f"unix://{DEFAULT_SOCKET}")
    if not address.startswith("unix://"):
        raise LosslabError(
            f"Docker's engine must be on this machine, found DOCKER_HOST={address}",
            hint="unset DOCKER_HOST, or set it to unix:///var/run/docker.sock",
        )
    return Path(address.removeprefix("unix://"))


def kernel_qdisc(qdisc: Qdisc, root: bool, image_root: Path | None = None) -> Finding:
    """Try to create a qdisc in a new network namespace, with tc from the image or this machine."""
    kind = qdisc.kind
    requirement = f"sch_{kind} in this machine's kernel"
    if kind == "netem":
        requirement += ", and a tc that knows its seed"
    image_tc = ["chroot", str(image_root), "tc"] if image_root else ["tc"]
    if not (root and shutil.which("unshare") and shutil.which(image_tc[0])):
        state = "cannot be tested without root, unshare and tc"
        return Finding(requirement, False, state, "run as root")
    # clsact, which has no parent, has a handle of its own besides the root qdisc.
    place = "root handle 10:" if qdisc.parent else f"handle {qdisc.handle}"
    lines = [f"qdisc add dev lo {place} {kind} {qdisc.arguments}", *qdisc.more]
    done = processes.attempt(
        ["unshare", "--net", *image_tc, "-batch", "-"],
        text="\n".join(lines).replace(f"dev {qdisc.where.name} ", "dev lo "),
        limit_s=PROBE_TIMEOUT_S,
    )
    message = done.err.strip()
    good = done.good and not message
    fix = ": ".join(qdisc.needs) if qdisc.needs else f"modprobe sch_{kind}, Linux 6.6 or newer"
    if kind in ("netem", "fq"):
        fix += f" (a kernel without it: {ALTERNATIVES})"
    state = "works" if good else message.splitlines()[0] if message else "fails"
    return Finding(requirement, good, state, fix)
