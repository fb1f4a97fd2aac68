"""What the containernet backend needs of this machine, each with the command that mends it.

`losslab doctor` shows all of it; before a cell on the host, what is missing is refused.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.backends import containernet
from losslab.build import image, kernel
from losslab.errors import LosslabError

PROBE_TIMEOUT_S = 20.0
ALGORITHMS_ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
# What a cell sets up, as `tc` says it: shaping.py.
QDISCS = {
    "netem": "limit 10 delay 1ms seed 1",
    "fq": "",
    "tbf": "rate 1mbit burst 3000 limit 3000",
}
TOOLS = ("nsenter", "tc", "ip", "bash", "ifconfig", "iperf3", "ffmpeg", "curl", "python3")


@dataclass(frozen=True)
class Finding:
    """One thing that a backend needs: whether it is there, what was found, what mends it."""

    what: str
    good: bool
    found: str
    remedy: str = ""
    required: bool = True

    def line(self) -> str:
        """Format for a terminal."""
        mark = "ok     " if self.good else ("MISSING" if self.required else "missing")
        text = f"  {mark}  {self.what}: {self.found}"
        return text if self.good or not self.remedy else f"{text}\n           -> {self.remedy}"


def require(engine_root: Path) -> dict[str, str]:
    """Refuse a machine that cannot measure in containers of its own engine.

    Returns:
        The engine's versions.

    Raises:
        LosslabError: with everything that is missing.
    """
    missing = [f for f in host(engine_root) if f.required and not f.good]
    if missing:
        raise LosslabError(
            "this machine must have what the containernet backend needs, found:\n"
            + "\n".join(f.line() for f in missing),
            hint="or measure in a guest, which brings all of it: `--where guest`",
        )
    engine = _engine()
    return {
        "version": engine["ServerVersion"],
        "storage": engine["Driver"],
        "cgroup": f"{engine['CgroupDriver']} v{engine.get('CgroupVersion', '1')}",
    }


def guest() -> Iterator[Finding]:
    """Say what running containers in a guest needs."""
    for what, found in (
        ("kernel that runs containers", kernel.existing(kernel.CONTAINERS)),
        ("engine image (Docker, Containernet)", image.existing(image.ENGINE)),
        ("host image", image.existing()),
    ):
        yield Finding(what, found is not None, str(found or "not built"), "make containernet")


def host(engine_root: Path | None) -> Iterator[Finding]:
    """Say what running containers on this machine's own kernel needs."""
    root = os.geteuid() == 0
    yield Finding("root", root, "yes" if root else "no", "run as root (sudo)")
    yield from _docker()
    yield Finding(
        "engine image (Containernet)", engine_root is not None, str(engine_root or "not built"),
        "make containernet",
    )  # fmt: skip
    if engine_root is not None:
        absent = [t for t in TOOLS if not _tool(engine_root, t)]
        yield Finding(
            "tools in the image", not absent, f"without {', '.join(absent)}" if absent else "all",
            "make containernet",
        )  # fmt: skip
    for kind in QDISCS:
        yield kernel_qdisc(kind, root, engine_root)
    path = ALGORITHMS_ALLOWED
    allowed = path.read_text().split() if path.exists() else []
    needed = {"reno", "cubic", "bbr"}
    yield Finding(
        "algorithms allowed to namespaces", needed <= set(allowed), ", ".join(allowed) or "none",
        "modprobe tcp_bbr; sysctl -w "
        f"net.ipv4.tcp_allowed_congestion_control='{' '.join(sorted(needed))}'",
    )  # fmt: skip


def _docker() -> Iterator[Finding]:
    """Ask the engine, without a client program."""
    try:
        engine = _engine()
    except (LosslabError, OSError, http.client.HTTPException, ValueError) as error:
        words = error.message if isinstance(error, LosslabError) else error
        where = os.environ.get("DOCKER_HOST", containernet.DEFAULT_SOCKET)
        yield Finding(
            "Docker's engine", False, f"no answer from {where} ({words})",
            "apt-get install docker.io, systemctl start docker",
        )  # fmt: skip
        return
    driver, version = engine.get("CgroupDriver", "none"), engine.get("CgroupVersion", "1")
    yield Finding("Docker's engine", True, engine.get("ServerVersion", "?"))
    yield Finding(
        "its control groups", driver in ("cgroupfs", "systemd"), f"{driver}, version {version}",
        "start the engine as root: without control groups programs cannot be told apart",
    )  # fmt: skip


class _Connection(http.client.HTTPConnection):
    """HTTP over the engine's socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PROBE_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PROBE_TIMEOUT_S)
        self.sock.connect(str(self._path))


def _engine() -> dict[str, Any]:
    """Return what the engine says of itself (GET /info)."""
    connection = _Connection(containernet.socket_path())
    try:
        connection.request("GET", "/info")
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        return answer
    finally:
        connection.close()


def _tool(root: Path, name: str) -> bool:
    return any((root / folder / name).exists() for folder in ("usr/bin", "usr/sbin"))


def kernel_qdisc(kind: str, root: bool, engine_root: Path | None = None) -> Finding:
    """Try to make a qdisc in a network namespace of its own, with the image's tc or this one's."""
    what = f"sch_{kind} in this machine's kernel"
    if kind == "netem":
        what += ", and a tc that knows its seed"
    image_tc = ["chroot", str(engine_root), "tc"] if engine_root else ["tc"]
    if not (root and shutil.which("unshare") and shutil.which(image_tc[0])):
        return Finding(what, False, "cannot be tried without root, unshare and tc", "run as root")
    qdisc = f"qdisc add dev lo root {kind} {QDISCS[kind]}".split()
    done = subprocess.run(
        ["unshare", "--net", *image_tc, *qdisc],
        capture_output=True,
        text=True,
        check=False,
        timeout=PROBE_TIMEOUT_S,
    )
    words = done.stderr.strip()
    good = done.returncode == 0 and not words
    return Finding(
        what, good, "works" if good else words.splitlines()[0] if words else "fails",
        f"modprobe sch_{kind}, Linux 6.6 or newer (a kernel without it: --where guest, or the "
        "virtual backend, which need neither)",
    )  # fmt: skip
