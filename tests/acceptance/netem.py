"""Cells in real time on a kernel with netem and fq: Debian's, in an emulated machine.

An emulated processor is about twenty times slower than a real one: measurements in its real time
are valid at rates of a few Mbit/s only, and checks detect when they are not. On a busy machine,
`chrt -r 10 python -m tests.acceptance netem` (as root) gives it priority.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
from pathlib import Path

from losslab.errors import LosslabError
from losslab.instrument import image, kernel
from losslab.instrument.cache import cache_folder
from losslab.repository import ROOT
from losslab.study import design
from tests.acceptance import machine
from tests.acceptance.options import Options

TOOLS = ["iproute2", "procps"]
MEMORY_MB = 3072
TIMEOUT_S = 3600.0

SET_UP = """
set -e
export LOSSLAB_CACHE=/data/cache PYTHONPATH=/data/losslab/src:/data/losslab
export PYTHONDONTWRITEBYTECODE=1
for module in tcp_bbr sch_netem sch_fq; do modprobe $module; done
sysctl -qw net.ipv4.tcp_allowed_congestion_control='reno cubic bbr'
losslab() { python3 -m losslab.cli "$@"; }
cd /data/losslab
"""


def run(script: str, share: Path) -> machine.Outcome:
    """Run a shell script in a new machine, as root, with the command `losslab`.

    Args:
        script: Shell script.
        share: Existing folder that the machine mounts on /share.

    Raises:
        LosslabError: A part is not built, or the machine ended before the script.
    """
    built = [kernel.existing(), image.existing()]
    if not all(built):
        raise LosslabError(
            "kernel and images must be built first, found some missing",
            hint="run `make setup`",
        )
    base = machine.build_base([*machine.PACKAGES, *TOOLS])
    with tempfile.TemporaryDirectory(prefix="losslab-vm-", dir=share) as name:
        trees = machine.sources()
        for folder in filter(None, built):
            trees[f"cache/{folder.relative_to(cache_folder())}"] = folder
        disk = machine.pack(trees, Path(name) / "data.img")
        return machine.boot(
            base,
            SET_UP + script,
            share,
            disks={"/data": disk},
            cpus=2,
            memory_mb=MEMORY_MB,
            timeout_s=TIMEOUT_S,
        )


def campaign_script(path: Path) -> str:
    """Return the commands that measure a campaign's cells in real time, like the workflow."""
    lines = []
    for cell in design.load_cells(design.load_yaml(path), ROOT):
        if cell.real_time:
            stopping = cell.stopping
            words = [
                "losslab", "cell", "--study", cell.study, "--block", cell.block,
                "--condition", json.dumps(cell.condition.to_json(), sort_keys=True),
                "--replicates", str(stopping.minimum), "--backend", cell.backend,
                "--where", cell.where,
                "--out", f"/share/results/cells/{cell.study}/{cell.name}/cell.json",
            ]  # fmt: skip
            if stopping.half_width_percent is not None:
                words += ["--max-replicates", str(stopping.maximum)]
                words += ["--half-width-percent", str(stopping.half_width_percent)]
            lines.append(shlex.join(words))
    return "\n".join(lines)


# Checks that a slow emulated machine may fail.
OF_TIME = (
    "RTT of the idle path",
    "the RTT beyond",
    "the lateness of timers",
    "the bottleneck must",
)
CELL = (
    "measure --where host --algorithm bbr --rate-mbit 1 --rtt-ms 160 --buffer-packets 30 "
    "--loss-percent 2 --duration-s 8 --out /share/out"
)


def missing(_: Options) -> str:
    """Return why this machine can emulate none; empty if it can."""
    if os.geteuid() != 0:
        return "needs root"
    if not shutil.which(machine.EMULATOR):
        return "needs QEMU: scripts/packages.sh machine"
    return "" if kernel.existing() and image.existing() else "needs kernel and image: make setup"


def one_cell(options: Options) -> None:
    """Measure a cell in real time with netem's delay and loss; the machine must be unchanged.

    Raises:
        LosslabError: The result differs.
    """
    command = f"python3 -m bench.host_state -- python3 -m losslab.cli {CELL}"
    console = run(command, options.out).console
    manifest = json.loads((options.out / "out" / "manifest.json").read_text())
    summary, qdiscs = manifest["summary"], manifest["observed"]["state"]["sender"]["qdiscs"]
    found = {
        "no reason but of time": all(r.startswith(OF_TIME) for r in manifest["reasons"]),
        "fq on the sender": "fq" in [qdisc["kind"] for qdisc in qdiscs],
        "an RTT of 160 to 170 ms": 160 <= summary["rtt_ms"] < 170,
        "lost packets": summary["loss_packets"] > 0,
        "no unexplained packets": summary["unexplained_packets"] == 0,
        "Debian's kernel": manifest["machine"]["kernel"].endswith("-amd64"),
        # Kernel modules of unused protocols, for example, must not be loaded.
        "nothing left behind": "nothing left behind" in console,
    }
    if wrong := [what for what, good in found.items() if not good]:
        raise LosslabError(f"the machine must show {', '.join(wrong)}, found otherwise:\n{console}")


def campaign(options: Options) -> None:
    """Measure a campaign's cells in real time; `--out` keeps them for the workflow.

    Raises:
        LosslabError: A cell has no result.
    """
    assert options.campaign is not None
    ended = run(campaign_script(options.campaign), options.out)
    print(ended.console, end="")
    shutil.rmtree(options.out / machine.CONTROL)
    if ended.status:
        raise LosslabError(f"every cell must have a result, found status {ended.status}")
