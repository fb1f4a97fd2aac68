"""Measure golden conditions on processors that this machine is not, and compare the bytes.

    python -m bench.processors [--models Haswell EPYC qemu64] [--conditions NAME ...]

boots a virtual machine per processor model under QEMU's emulation, measures there what
`bench.golden` measures, one condition per app and a trace-driven link among them, and compares with
the recorded digests and with this machine's own files. It takes some minutes per condition and
model; needs no root and no /dev/kvm, but what scripts/packages.txt lists for a machine.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import golden, vm
from losslab.campaign.folder import HOST_FILE
from losslab.errors import LosslabError
from losslab.instrument import image, kernel
from losslab.instrument.cache import cache_folder

# Intel with AVX2; AMD; and what every x86-64 processor has, with nothing later than SSE3.
MODELS = ("Haswell", "EPYC", "qemu64")
# Every app, a trace-driven link under the kernel's TCP, and bytes that the video's encoder chose.
CONDITIONS = ("cubic-loss", "datagram-bbr", "trace-cubic", "video-720p", "web")
# An emulated processor is some twenty times slower than this machine's; a real one that takes
# longer than this for one condition hangs.
TIMEOUT_S = 1500.0
BOOT_S = 300.0
# Half of it is /dev/shm, where a guest's memory lies: 2 GiB at the most, sparse.
MEMORY_MB = 5120


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; return 1 where a byte differs."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.processors", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="MODEL")
    parser.add_argument("--conditions", nargs="+", default=CONDITIONS, metavar="NAME")
    parser.add_argument("--keep", type=Path, help="leave what was measured in this new folder")
    options = parser.parse_args(arguments)
    try:
        vm.require(vm.EMULATOR)
        with tempfile.TemporaryDirectory(prefix="losslab-processors-") as name:
            work = Path(name)
            kept = options.keep or work / "kept"
            kept.mkdir(parents=True)
            return _compare(options.models, options.conditions, work, kept)
    except (LosslabError, FileExistsError) as error:
        print(f"processors: error: {error}", file=sys.stderr)
        return 1


def _compare(models: Sequence[str], names: Sequence[str], work: Path, kept: Path) -> int:
    record = golden.load()
    goldens = golden.chosen(record, names)
    for backend in {each.backend for each in goldens}:
        for change in golden.instrument_changes(record, backend):
            raise LosslabError(
                f"the digests must be of the instrument at hand, found another: {change}",
                hint=f"run `{golden.RECORD_COMMAND}`",
            )
    here = kept / "here"
    here.mkdir()
    with golden.measuring(goldens, here) as runs:
        for run in runs.values():
            run.result()
    base = vm.build_base(vm.PACKAGES)
    disk = _pack(work, {each.backend for each in goldens})
    different = 0
    for model in models:
        share = kept / model
        share.mkdir()
        outcome = vm.boot(
            base, _command(names), share, {"/data": disk}, cpu=model, memory_mb=MEMORY_MB,
            timeout_s=BOOT_S + TIMEOUT_S * len(names),
        )  # fmt: skip
        for each in goldens:
            folder = share / "cells" / each.name
            if not folder.is_dir():
                print(f"{model}: {each.name}: not measured")
                different += 1
                continue
            host = json.loads((folder / HOST_FILE).read_text())
            changed = golden.differences(each.sha256, golden.digests(folder))
            different += bool(changed)
            said = f"DIFFERENT: {', '.join(changed)}" if changed else "the same bytes"
            print(f"{model}: {each.name}: {said} ({host['wall_s']:.0f} s, {host['host_cpu']})")
            for line in golden.first_lines(here / each.name, folder) if changed else []:
                print(f"    {line}")
        print(f"{model}: {outcome.wall_s:.0f} s", flush=True)
        if outcome.status != 0:
            print(outcome.console, file=sys.stderr, flush=True)
    print(f"{len(models) * len(goldens) - different} of {len(models) * len(goldens)} agree")
    return 1 if different else 0


def _pack(work: Path, backends: set[str]) -> Path:
    """Put the sources, the kernels and the images of backends on a disk."""
    built = [image.target()]
    built += [kernel.target()] if golden.VIRTUAL in backends else []
    if golden.CONTAINERNET in backends:
        built += [kernel.target(kernel.CONTAINERS), image.target(image.ENGINE)]
    trees = {f"cache/{folder.relative_to(cache_folder())}": folder for folder in built}
    return vm.pack(vm.sources() | trees, work / "data.img")


def _command(names: Sequence[str]) -> str:
    """Write what the machine does: measure the conditions one after the other, give them back."""
    return (
        "cd /data/losslab && LOSSLAB_CACHE=/data/cache PYTHONPATH=src python3 -m bench.golden "
        f"--jobs 1 --timeout-s {TIMEOUT_S:g} --keep /data/cells --only {' '.join(names)}\n"
        "status=$?; cp -r /data/cells /share/; exit $status"
    )


if __name__ == "__main__":
    sys.exit(main())
