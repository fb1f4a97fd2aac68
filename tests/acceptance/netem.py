"""Run losslab on a kernel that has netem and fq: Debian's own, in an emulated machine.

    python -m tests.vm.netem --out FOLDER -- measure --where host --algorithm bbr \\
        --loss-percent 1 --rate-mbit 1 --rtt-ms 80 --out /share/my-run

runs `losslab measure ...` there as root; /share is FOLDER. With --docker an engine runs there, too.

    python -m tests.vm.netem --out FOLDER --campaign config/realtime-netem.yaml
    snakemake --configfile config/realtime-netem.yaml --directory FOLDER --cores 2

measures a campaign's cells in real time there; the workflow goes on from them. An emulated
processor is some twenty times slower than a real one: what is measured in its real time is good at
rates of a few Mbit/s only, and the checks say when it is not. On a machine that has other things to
do, `chrt -r 10 python -m tests.vm.netem ...` (as root) comes before them.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from bench import vm
from losslab.errors import LosslabError
from losslab.instrument import image, kernel
from losslab.instrument.cache import ROOT, cache_folder
from losslab.study import design

TOOLS = ["iproute2", "procps"]
DOCKER = ["docker.io", "iptables"]
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
START_ENGINE = """
modprobe overlay
dockerd --bridge=none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false \\
    >/share/dockerd.log 2>&1 &
while [ ! -S /var/run/docker.sock ]; do sleep 0.2; done
"""


def run(script: str, share: Path, docker: bool = False, timeout_s: float = TIMEOUT_S) -> vm.Outcome:
    """Run a shell script in a new machine, as root, where `losslab` is a command.

    Args:
        script: What to run.
        share: An existing folder, the machine's /share.
        docker: Start an engine first.
        timeout_s: Limit in s of wall time.

    Raises:
        LosslabError: something has not been built, or the machine did not come to the script's end.
    """
    built = [kernel.existing(), image.existing()]
    built += [image.existing(image.ENGINE)] if docker else []
    if not all(built):
        raise LosslabError(
            "kernel and images must be built first, found some missing",
            hint="run `make containernet`" if docker else "run `make setup`",
        )
    base = vm.build_base([*vm.PACKAGES, *TOOLS, *(DOCKER if docker else [])])
    with tempfile.TemporaryDirectory(prefix="losslab-vm-", dir=share) as name:
        trees = vm.sources()
        for folder in filter(None, built):
            trees[f"cache/{folder.relative_to(cache_folder())}"] = folder
        disk = vm.pack(trees, Path(name) / "data.img")
        return vm.boot(
            base,
            SET_UP + (START_ENGINE if docker else "") + script,
            share,
            disks={"/data": disk},
            cpus=2,
            memory_mb=MEMORY_MB,
            timeout_s=timeout_s,
        )


def campaign_script(path: Path) -> str:
    """Write the commands that measure a campaign's cells in real time, as the workflow would."""
    lines = []
    for cell in design.load_cells(design.load_yaml(path), ROOT):
        if cell.real_time:
            stopping = cell.stopping
            words = [
                "losslab", "cell", "--study", cell.study, "--block", cell.block,
                "--condition", json.dumps(cell.condition.to_json(), sort_keys=True),
                "--replicates", str(stopping.least), "--backend", cell.backend,
                "--where", cell.where,
                "--out", f"/share/results/cells/{cell.study}/{cell.name}/cell.json",
            ]  # fmt: skip
            if stopping.half_width_percent is not None:
                words += ["--max-replicates", str(stopping.most)]
                words += ["--half-width-percent", str(stopping.half_width_percent)]
            lines.append(shlex.join(words))
    return "\n".join(lines)


def main() -> int:
    """Run one command, or a campaign's cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the machine's /share")
    parser.add_argument("--docker", action="store_true", help="with an engine")
    parser.add_argument("--campaign", type=Path, help="a configuration, in place of words")
    parser.add_argument("--timeout-s", type=float, default=TIMEOUT_S, help="of wall time")
    parser.add_argument("words", nargs="*", help="of `losslab`")
    options = parser.parse_args()
    if bool(options.words) == bool(options.campaign):
        parser.error("either --campaign or the words of a losslab command must be given")
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        script = shlex.join(["losslab", *options.words])
        if options.campaign:
            script = campaign_script(options.campaign)
        outcome = run(script, options.out, options.docker, options.timeout_s)
    except LosslabError as error:
        print(f"netem: error: {error}", file=sys.stderr)
        return 1
    print(outcome.console, end="")
    shutil.rmtree(options.out / vm.CONTROL)
    return outcome.status


if __name__ == "__main__":
    sys.exit(main())
