"""CPU of a replicate in this tree and in another, in turn: `python -m bench.pairs OTHER`.

    git worktree add ../before HEAD~20 && make -C ../before setup
    python -m bench.pairs ../before --pairs 10
    python -m bench.pairs --state --pairs 30     in this tree, with the captured state and without

A replicate's CPU is the difference between `losslab.sweep` with nine replicates and with one,
divided by eight; it has the kernel's and all programs' CPU, in and outside of the guest. Both trees
run pinned to one processor. With `--state`, it is that of one replicate: its fork of a snapshot,
and this process. The last column is the median of the pairs' ratios, with the smallest
and the largest.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from losslab import cellspec
from losslab.backends.snapshot import Snapshot, Snapshots
from losslab.campaign.instrument import at_first_use, instrument
from losslab.campaign.replicate import run
from losslab.emulation.capture import STATE

Pairs = list[list[float]]
ROOT = Path(__file__).resolve().parents[1]
FEW, MANY = 1, 9
# What the quick campaign measures most, by a name for the table.
KINDS: dict[str, dict[str, Any]] = {
    "cubic, 5 % loss": {"algorithm": "cubic", "loss_percent": 5, "rate_mbit": 20, "rtt_ms": 20},
    "cubic": {"algorithm": "cubic", "rate_mbit": 20, "rtt_ms": 20, "buffer_packets": 100},
    "bbr": {"algorithm": "bbr", "rate_mbit": 20, "rtt_ms": 20, "buffer_packets": 100},
    "bbr, 100 Mbit/s": {"algorithm": "bbr", "rate_mbit": 100, "rtt_ms": 20, "buffer_packets": 165},
    "two flows": {"algorithm": "bbr", "competitor": "cubic", "rate_mbit": 20, "rtt_ms": 20},
    "web": {"algorithm": "cubic", "app": "web", "rate_mbit": 5, "rtt_ms": 50, "duration_s": 30},
    "video": {"algorithm": "cubic", "app": "ffmpeg", "loss_percent": 1},
    "scheme": {"algorithm": "own", "app": "datagram", "scheme": "bbr", "trace": "cellular"},
    "quic": {"algorithm": "cubic", "app": "quic", "rate_mbit": 20, "rtt_ms": 20},
}  # fmt: skip


def cpu_s(tree: Path, axes: dict[str, Any], replicates: int, processor: int) -> float:
    """Return the CPU time of a sweep's processes in s."""
    with tempfile.TemporaryDirectory() as folder:
        call = f"losslab.sweep(**{axes}, replicates={replicates}, cores=1, out='{folder}/out')"
        command = [tree / ".venv/bin/python", "-c", f"import losslab; {call}"]
        words, before = ["taskset", "-c", str(processor), *command], os.times()
        done = subprocess.run(words, check=False, cwd=tree, capture_output=True, text=True)
        after = os.times()
    if done.returncode:
        sys.exit(f"{call} must succeed in {tree}, found:\n{done.stderr}")
    return sum(after[2:4]) - sum(before[2:4])  # user and system time of ended children


def replicate_s(tree: Path, axes: dict[str, Any], processor: int) -> float:
    """Return the CPU time of one replicate in s."""
    many, few = (cpu_s(tree, axes, count, processor) for count in (MANY, FEW))
    return (many - few) / (MANY - FEW)


def in_trees(trees: Sequence[Path], axes: dict[str, Any], count: int) -> Pairs:
    """Return the CPU time of a replicate in two trees, in turn."""
    processor = min(os.sched_getaffinity(0))
    return [[replicate_s(tree, axes, processor) for tree in trees] for _ in range(count)]


def with_state(axes: dict[str, Any], count: int) -> Pairs:
    """Return the CPU time of a replicate without and with the captured state, in turn."""
    condition = cellspec.condition(axes)
    at_first_use(condition)
    tools, seen = instrument(condition=condition), list[Snapshot]()

    class Kept(Snapshots):
        def get(self, purpose: object, boot: Any) -> tuple[Snapshot, float]:
            found = super().get(purpose, boot)
            seen[:] = [found[0]]
            return found

    with Kept() as snapshots, tempfile.TemporaryDirectory() as folder:

        def measured(captures: list[str]) -> float:
            before = seen[0].forks_cpu_s if seen else 0.0
            begin, out = time.process_time(), Path(folder, "out")
            made = run(condition, 1, out, tools, snapshots=snapshots, captures=captures)
            assert made["valid"], made["reasons"]
            own = time.process_time() - begin
            shutil.rmtree(out)
            return own + seen[0].forks_cpu_s - before

        measured([STATE])  # boots and sets up
        return [[measured([]), measured([STATE])] for _ in range(count)]


def main() -> None:
    """Measure all kinds, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("other", type=Path, nargs="?", help="another checkout with a .venv")
    what.add_argument("--state", action="store_true", help="with the captured state, and without")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--only", choices=KINDS, nargs="+", default=list(KINDS))
    arguments = parser.parse_args()
    for kind in arguments.only:
        if arguments.state:
            pairs = with_state(KINDS[kind], arguments.pairs)
        else:
            pairs = in_trees((arguments.other.resolve(), ROOT), KINDS[kind], arguments.pairs)
        ratios = sorted(now / other for other, now in pairs)
        other, now = (statistics.median(values) for values in zip(*pairs, strict=True))
        print(
            f"{kind}: {other:.3f} s, now {now:.3f} s, ratio {statistics.median(ratios):.2f} "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f}), n = {len(pairs)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
