"""Golden conditions on other processor models, compared byte by byte.

A virtual machine per model boots under QEMU and measures conditions of `bench.golden`: one per
app, and a trace-driven link. A condition takes some minutes per model. No root and no /dev/kvm
are needed.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import golden
from losslab.campaign.folder import HOST_FILE
from losslab.errors import LosslabError
from losslab.instrument import image, kernel
from losslab.instrument.cache import cache_folder
from tests.acceptance import machine
from tests.acceptance.options import Options

# Intel with AVX2, AMD, and the baseline of x86-64 with nothing later than SSE3.
MODELS = ("Haswell", "EPYC", "qemu64")
# Every app, a trace-driven link with the kernel's TCP, and the video encoder's bytes.
CONDITIONS = ("cubic-loss", "datagram-bbr", "trace-cubic", "video-720p", "web")
# An emulated processor is about twenty times slower than this machine's. A real one that exceeds
# this time for one condition hangs.
TIMEOUT_S = 1500.0
BOOT_S = 300.0
# Half of the memory is /dev/shm for the guest's memory: a sparse file of at most 2 GiB.
MEMORY_MB = 5120


def missing(_: Options) -> str:
    """Return why this machine can emulate none; empty if it can."""
    return "" if shutil.which(machine.EMULATOR) else "needs QEMU: scripts/packages.sh machine"


def compare(options: Options) -> None:
    """Measure the conditions on each model; `--out` keeps their files.

    Raises:
        LosslabError: A byte differs.
    """
    with tempfile.TemporaryDirectory(prefix="losslab-processors-") as name:
        different = _compare(MODELS, CONDITIONS, Path(name), options.out)
    if different:
        raise LosslabError(f"every file must have the recorded bytes, found {different} conditions "
                           "that differ")  # fmt: skip


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
    base = machine.build_base(machine.PACKAGES)
    disk = _pack(work, {each.backend for each in goldens})
    different = 0
    for model in models:
        share = kept / model
        share.mkdir()
        outcome = machine.boot(
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
    return different


def _pack(work: Path, backends: set[str]) -> Path:
    """Pack the sources, and the kernels and images of backends, on a disk."""
    built = [image.target(), kernel.target()]
    built += [image.target(image.ENGINE)] if golden.CONTAINERNET in backends else []
    trees = {f"cache/{folder.relative_to(cache_folder())}": folder for folder in built}
    return machine.pack(machine.sources() | trees, work / "data.img")


def _command(names: Sequence[str]) -> str:
    """Return the command that measures the conditions in order and copies their files back."""
    return (
        "cd /data/losslab && LOSSLAB_CACHE=/data/cache PYTHONPATH=src python3 -m bench.golden "
        f"--jobs 1 --timeout-s {TIMEOUT_S:g} --keep /data/cells --only {' '.join(names)}\n"
        "status=$?; cp -r /data/cells /share/; exit $status"
    )
