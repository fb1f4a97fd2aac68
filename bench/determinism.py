"""Measure five golden conditions repeatedly and count the distinct outputs.

`python -m bench.determinism` makes 100 runs: each condition 20 times, half of them with every CPU
of the host busy. Besides the load, it varies other circumstances without effect: the clone's path,
the user, the environment, the number of CPUs, the limit of open files, and a copied cache.
It prints the number of distinct outputs per condition and exits with 1 unless each is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from bench import golden
from bench.golden import ROOT
from losslab.instrument import image, kernel
from losslab.instrument.cache import cache_folder

NEEDED = ("src", "config", "workflow", "containers", "pyproject.toml")
NOBODY = 65534
# With two busy processes per CPU, each guest gets a third of one.
BUSY_PER_CPU = 2

CELLS = ("cubic-loss", "bbr-asymmetric", "video-720p", "competitor", "loss-both-ways")


@dataclass(frozen=True)
class Setting:
    """Circumstances of a run that must not affect its output."""

    clone: Path = ROOT
    before: tuple[str, ...] = ()  # a program that starts losslab
    user: int | None = None
    environment: tuple[tuple[str, str], ...] = ()


def settings(work: Path) -> dict[str, Setting]:
    """Return the settings that this machine supports."""
    other = work / "another clone, with a longer path and spaces"
    for name in NEEDED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, other / name)
    # As `cp -r` does: new files with new times, in another order.
    cache = work / "cache"
    for built in (kernel.part().target(), image.part().target()):
        target = cache / built.relative_to(cache_folder())
        shutil.copytree(built, target, symlinks=True, copy_function=shutil.copy)
    cpu = str(min(os.sched_getaffinity(0)))
    found = {
        "as it is": Setting(),
        "another clone": Setting(other),
        "another environment": Setting(
            environment=(("TZ", "Asia/Tokyo"), ("LANG", "de_DE.UTF-8"), ("PYTHONHASHSEED", "7"),
                         ("HOME", str(work)), ("LOSSLAB_SCRATCH", str(work))),
        ),
        "one CPU": Setting(before=("taskset", "--cpu-list", cpu)),
        "few open files": Setting(before=("sh", "-c", 'ulimit -Sn 100; exec "$@"', "sh")),
        "a copied cache": Setting(environment=(("LOSSLAB_CACHE", str(cache)),)),
    }  # fmt: skip
    readable = [p for each in (ROOT, cache_folder()) for p in (each, *each.parents)]
    if os.geteuid() == 0 and all(p.stat().st_mode & 0o001 for p in readable):
        ids = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        found["another user"] = Setting(before=("setpriv", *ids), user=NOBODY)
    return found


def measure(words: str, setting: Setting, out: Path) -> str:
    """Run one replicate under a setting; return the digests of its files."""
    out.parent.mkdir(parents=True)
    if setting.user is not None:
        os.chown(out.parent, setting.user, setting.user)
    command = [*setting.before, sys.executable, "-m", "losslab.cli", "measure", *shlex.split(words)]
    command += ["--out", str(out)]
    environment = os.environ | {
        "LOSSLAB_CACHE": str(cache_folder()), "PYTHONPATH": str(setting.clone / "src"),
        **dict(setting.environment),
    }  # fmt: skip
    done = subprocess.run(
        command, cwd=setting.clone, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return json.dumps(golden.digests(out))


@contextlib.contextmanager
def busy_host() -> Iterator[None]:
    """Keep every CPU busy."""
    count = BUSY_PER_CPU * len(os.sched_getaffinity(0))
    processes = [
        subprocess.Popen([sys.executable, "-c", "while True: sum(range(10**6))"])
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign and print its table."""
    parser = argparse.ArgumentParser(prog="python -m bench.determinism", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="of each, half under load")
    options = parser.parse_args(arguments)
    outputs: dict[str, Counter[str]] = {name: Counter() for name in CELLS}
    idle, loaded = options.runs - options.runs // 2, options.runs // 2
    with tempfile.TemporaryDirectory(prefix="losslab-determinism-") as name:
        work = Path(name)
        work.chmod(0o755)
        its, conditions = settings(work), golden.load().conditions
        print("circumstances:", ", ".join(its), flush=True)
        for half, count in (("idle", idle), ("under load", loaded)):
            load = busy_host() if half == "under load" else contextlib.nullcontext()
            # Cells run in parallel, one per CPU, and are part of each other's load.
            with load, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
                jobs = []
                for number, (index, cell) in product(range(count), enumerate(CELLS)):
                    circumstance = [*its][number % len(its)]
                    out = work / half / f"{index}-{number}" / "out"
                    job = pool.submit(measure, conditions[cell].measure, its[circumstance], out)
                    jobs.append((cell, circumstance, job))
                for cell, circumstance, job in jobs:
                    outputs[cell][job.result()] += 1
                    if outputs[cell][job.result()] == 1 and len(outputs[cell]) > 1:
                        print(f"DIFFERENT: {cell}, {half}, {circumstance}", flush=True)
    width = max(map(len, CELLS))
    print(f"{'condition':{width}}  idle  loaded  distinct outputs")
    for cell, found in outputs.items():
        print(f"{cell:{width}}  {idle:4}  {loaded:6}  {len(found)}")
    return 0 if all(len(found) == 1 for found in outputs.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
