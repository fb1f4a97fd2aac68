"""CPU of a replicate in this tree and in another, in turn: `python -m bench.pairs OTHER`.

    git worktree add ../before HEAD~20 && make -C ../before setup
    python -m bench.pairs ../before --pairs 10

A replicate's CPU is the difference between `losslab.sweep` with nine replicates and with one,
divided by eight; it has the kernel's and all programs' CPU, in and outside of the guest. Both trees
run pinned to one processor. The last column is the median of the pairs' ratios, with the smallest
and the largest.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FEW, MANY = 1, 9
# What the quick campaign measures most, by a name for the table.
KINDS = {
    "cubic, 5 % loss": "algorithm='cubic', loss_percent=5, rate_mbit=20, rtt_ms=20",
    "cubic": "algorithm='cubic', rate_mbit=20, rtt_ms=20, buffer_packets=100",
    "bbr": "algorithm='bbr', rate_mbit=20, rtt_ms=20, buffer_packets=100",
    "bbr, 100 Mbit/s": "algorithm='bbr', rate_mbit=100, rtt_ms=20, buffer_packets=165",
    "two flows": "algorithm='bbr', competitor='cubic', rate_mbit=20, rtt_ms=20",
    "web": "algorithm='cubic', app='web', rate_mbit=5, rtt_ms=50, duration_s=30",
    "video": "algorithm='cubic', app='ffmpeg', loss_percent=1",
    "scheme": "algorithm='own', app='datagram', scheme='bbr', trace='cellular'",
    "quic": "algorithm='cubic', app='quic', rate_mbit=20, rtt_ms=20",
}


def cpu_s(tree: Path, axes: str, replicates: int, processor: int) -> float:
    """Return the CPU time of a sweep's processes in s."""
    with tempfile.TemporaryDirectory() as folder:
        call = f"losslab.sweep({axes}, replicates={replicates}, cores=1, out='{folder}/out')"
        command = [tree / ".venv/bin/python", "-c", f"import losslab; {call}"]
        words, before = ["taskset", "-c", str(processor), *command], os.times()
        done = subprocess.run(words, check=False, cwd=tree, capture_output=True, text=True)
        after = os.times()
    if done.returncode:
        sys.exit(f"{call} must succeed in {tree}, found:\n{done.stderr}")
    return sum(after[2:4]) - sum(before[2:4])  # user and system time of ended children


def replicate_s(tree: Path, axes: str, processor: int) -> float:
    """Return the CPU time of one replicate in s."""
    many, few = (cpu_s(tree, axes, count, processor) for count in (MANY, FEW))
    return (many - few) / (MANY - FEW)


def main() -> None:
    """Measure all kinds, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("other", type=Path, help="another checkout with a .venv")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--only", choices=KINDS, nargs="+", default=list(KINDS))
    arguments = parser.parse_args()
    processor, trees = min(os.sched_getaffinity(0)), (arguments.other.resolve(), ROOT)
    for kind in arguments.only:
        pairs = [
            [replicate_s(tree, KINDS[kind], processor) for tree in trees]
            for _ in range(arguments.pairs)
        ]
        ratios = sorted(now / other for other, now in pairs)
        other, now = (statistics.median(values) for values in zip(*pairs, strict=True))
        print(
            f"{kind}: {other:.3f} s, now {now:.3f} s, ratio {statistics.median(ratios):.2f} "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f}), n = {len(pairs)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
