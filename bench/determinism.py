"""Measure five different cells repeatedly and count the distinct outputs.

`python -m bench.determinism` makes 100 runs: each cell 20 times, half of them with every CPU of
the host busy. Besides the load, it varies other circumstances without effect: the clone's path, the
user, the environment, the number of CPUs, the limit of open files, the age of files, a copy of
kernel and image, compiled byte code beside the sources, and cold file caches. It prints the number
of distinct outputs per cell and exits with 1 unless each is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from losslab.campaign.folder import HOST_FILE
from losslab.instrument import image, kernel
from losslab.instrument.cache import cache_folder

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("src", "config", "workflow", "containers", "pyproject.toml")
NOBODY = 65534
# With two busy processes per CPU, each guest gets a third of one.
BUSY_PER_CPU = 2

CELLS = {
    "cubic, 1 % loss": "--algorithm cubic --loss-percent 1 --duration-s 4",
    "bbr, 5 % loss, asymmetric": "--algorithm bbr --loss-percent 5 --path asymmetric "
    "--duration-s 3",
    "video, cubic, 8 % loss": "--algorithm cubic --loss-percent 8 --app ffmpeg --duration-s 4",
    "bbr against cubic": "--algorithm bbr --competitor cubic --rate-mbit 20 --rtt-ms 20 "
    "--buffer-packets 33 --duration-s 10",
    "reno, 0.3 % loss both ways": "--algorithm reno --loss-percent 0.3 --loss-direction both "
    "--rtt-ms 40 --rate-mbit 50 --duration-s 10",
}


@dataclass(frozen=True)
class Setting:
    """Circumstances of a run that must not affect its output."""

    name: str
    clone: Path
    user: int | None = None
    cpus: int | None = None
    open_files: int | None = None
    environment: tuple[tuple[str, str], ...] = ()
    touch: bool = False
    cold: bool = False


def settings(work: Path) -> list[Setting]:
    """Return the settings that this machine supports."""
    other = work / "another clone, with a longer path and spaces"
    compiled = work / "compiled"
    for clone in (other, compiled):
        clone.mkdir()
        for name in NEEDED:
            source = ROOT / name
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(source, clone / name, ignore=ignored)
            else:
                shutil.copy(source, clone / name)
    found = [
        Setting("as it is", ROOT),
        Setting("another clone", other),
        Setting(
            "another environment", ROOT,
            environment=(("TZ", "Asia/Tokyo"), ("LANG", "de_DE.UTF-8"), ("PYTHONHASHSEED", "7"),
                         ("HOME", str(work)), ("LOSSLAB_SCRATCH", str(work))),
        ),
        Setting("one CPU", ROOT, cpus=1),
        Setting("few open files", ROOT, open_files=100),
        Setting(
            "a copied cache", ROOT, environment=(("LOSSLAB_CACHE", str(_copied_cache(work))),)
        ),
        Setting("touched files", other, touch=True),
    ]  # fmt: skip
    # Byte code by the guest's own Python, like that of a host with the same Python.
    built = image.existing()
    if os.geteuid() == 0 and built is not None:
        root, src = built / "root", compiled / "src"
        script = f"mount --bind '{src}' '{root}/mnt/losslab' && chroot '{root}' python3 -m "
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script + "compileall -q /mnt/losslab"], check=False
        )
        if done.returncode == 0 and list(src.rglob("*.pyc")):
            found.append(Setting("byte code beside the sources", compiled))
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):
            Path("/proc/sys/vm/drop_caches").write_text("1\n")
            found.append(Setting("cold file caches", ROOT, cold=True))
        if _readable_by_others(ROOT) and _readable_by_others(cache_folder()):
            found.append(Setting("another user", ROOT, user=NOBODY))
    return found


def _copied_cache(work: Path) -> Path:
    """Copy kernel and image as `cp -r` does: new files with new times, in another order."""
    cache = work / "cache"
    for built in (kernel.target(), image.target()):
        target = cache / built.relative_to(cache_folder())
        shutil.copytree(built, target, symlinks=True, copy_function=shutil.copy)
    return cache


def _readable_by_others(folder: Path) -> bool:
    return all(p.stat().st_mode & 0o001 for p in (folder, *folder.parents))


def digest(folder: Path) -> str:
    """Hash all output of a run except the file that describes the host."""
    total = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.name != HOST_FILE:
            total.update(f"{path.name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:12]


def measure(words: str, setting: Setting, out: Path) -> str:
    """Run one replicate under a setting; return the digest of its files."""
    out.parent.mkdir(parents=True)
    command = [sys.executable, "-m", "losslab.cli", "measure", *words.split(), "--seed", "7"]
    command += ["--warmup-s", "1", "--out", str(out)]
    if setting.user is not None:
        os.chown(out.parent, setting.user, setting.user)
        ids = (f"--reuid={setting.user}", f"--regid={setting.user}", "--clear-groups")
        command = ["setpriv", *ids, *command]
    if setting.cpus is not None:
        command = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0))), *command]
    if setting.open_files is not None:
        command = ["sh", "-c", f'ulimit -Sn {setting.open_files}; exec "$@"', "sh", *command]
    if setting.touch:
        for path in (setting.clone / "src").rglob("*.py"):
            path.touch()
    if setting.cold:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    environment = os.environ | {
        "LOSSLAB_CACHE": str(cache_folder()),
        "PYTHONPATH": str(setting.clone / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        **dict(setting.environment),
    }
    done = subprocess.run(
        command, cwd=setting.clone, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{setting.name}: {done.stderr}")
    return digest(out)


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
    parser.add_argument("--runs", type=int, default=20, help="runs per cell, half under load")
    options = parser.parse_args(arguments)
    outputs: dict[str, dict[str, int]] = {name: {} for name in CELLS}
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="losslab-determinism-") as name:
        work = Path(name)
        work.chmod(0o755)
        circumstances = settings(work)
        print("circumstances:", ", ".join(s.name for s in circumstances), flush=True)
        idle, loaded = options.runs - options.runs // 2, options.runs // 2
        for half, count in (("idle", idle), ("under load", loaded)):
            load = busy_host() if half == "under load" else contextlib.nullcontext()
            # Cells run in parallel, one per CPU, and are part of each other's load.
            with load, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
                jobs = {
                        (cell, number): pool.submit(
                            measure, words, circumstances[number % len(circumstances)],
                            work / half / f"{index}-{number}" / "out",
                        )
                        for number in range(count)
                        for index, (cell, words) in enumerate(CELLS.items())
                    }  # fmt: skip
                for (cell, number), job in jobs.items():
                    found = job.result()
                    if found not in outputs[cell] and outputs[cell]:
                        where = circumstances[number % len(circumstances)].name
                        print(f"DIFFERENT: {cell}, {half}, {where}", flush=True)
                    outputs[cell][found] = outputs[cell].get(found, 0) + 1
    width = max(map(len, CELLS))
    print(f"{'cell':{width}}  idle  loaded  distinct outputs")
    for cell, found in outputs.items():
        print(f"{cell:{width}}  {idle:4}  {loaded:6}  {len(found)}")
    total = sum(sum(found.values()) for found in outputs.values())
    print(f"{total} runs in {(time.monotonic() - begin) / 60:.1f} minutes")
    return 0 if all(len(found) == 1 for found in outputs.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
