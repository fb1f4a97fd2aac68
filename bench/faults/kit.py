"""Helpers of the faults: commands, campaigns of one small block."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from losslab.campaign.folder import HOST_FILE
from losslab.campaign.plan import Plan, Planned
from losslab.instrument import image, kernel
from losslab.instrument.cache import cache_folder
from losslab.study import design
from losslab.study.condition import Condition
from losslab.study.stopping import StoppingRule

ROOT = Path(__file__).resolve().parents[2]
LOSSLAB = [sys.executable, "-m", "losslab.cli"]
SNAKEMAKE = [str(Path(sys.executable).parent / "snakemake")]
# A cell that takes a second or two on an idle machine.
QUICK = ["--algorithm", "cubic", "--loss-percent", "5", "--duration-s", "1", "--warmup-s", "0.1"]
CONDITION = {
    "algorithm": "cubic", "loss_percent": 5, "path": "symmetric", "app": "iperf3",
    "rtt_ms": 0.44, "rate_mbit": 1000, "buffer_packets": 1000, "duration_s": 1, "warmup_s": 0.1,
}  # fmt: skip
# Limit of any wait: with twenty other jobs per CPU, Snakemake alone takes minutes to start.
WAIT_S = 600.0
# Replicates of a campaign of two cells, which must not end while a fault breaks something.
REPLICATES = 12
# A report takes minutes on two idle CPUs, which tests share.
COMMAND_TIMEOUT_S = 1800.0
# A hanging guest is ended at its own time limit, twice.
RUN_LIMIT_S = 1200.0


class SkippedError(Exception):
    """Fault that this machine cannot inject."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a fault, and whether it was as expected."""

    done: str
    saw: str
    lost: str = "nothing"
    good: bool = True


def run(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command; return its output."""
    return subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, cwd=ROOT,
        timeout=COMMAND_TIMEOUT_S, **options,
    )  # type: ignore[call-overload,no-any-return]  # fmt: skip


def start(command: list[str], words: Path) -> subprocess.Popen[bytes]:
    """Start a command whose output goes to a file."""
    with words.open("wb") as out:
        return subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT)


def status_of(job: subprocess.Popen[bytes]) -> int:
    """Wait for a command and return its exit status; kill it if it hangs."""
    try:
        return job.wait(RUN_LIMIT_S)
    finally:
        job.kill()


def first_line(text: str, having: str) -> str:
    """Return the first line of a text that contains a word."""
    return next((line.strip() for line in text.splitlines() if having in line), "")


def contents(folder: Path) -> dict[str, bytes]:
    """Read a replicate's files except the one that describes the host."""
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.name != HOST_FILE}


def wait_for(holds: Callable[[], object], what: str) -> None:
    """Poll until a condition holds."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {WAIT_S:g} s")
        time.sleep(0.05)


def cell_command(results: Path, replicates: int) -> list[str]:
    """Plan a cell in a results folder; return the command of its job."""
    rule = StoppingRule(replicates, replicates)
    cell = design.Cell("loss", "main", Condition.from_json(CONDITION), rule)
    planned = Planned(cell, "", recorded=False)
    Plan({("loss", cell.name): planned}, {"loss": []}, {"loss": {}}, None).write(results)
    return [*LOSSLAB, "cell", f"loss/{cell.name}", "--results", str(results)]


def cell_folder(results: Path) -> Path:
    """Return the folder of the cell of `cell_command`."""
    (cell,) = Plan.read(results).cells.values()
    return results / cell.folder


def descendants(pid: int) -> list[int]:
    """Return the descendants of a process."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def guest_of(pid: int, generations: int = 3) -> int | None:
    """Return the kernel process of the guest of a losslab process's job.

    In a cell, it is a fork of the cell's snapshot, which is a fork of the base snapshot: three
    generations. `losslab measure` boots one guest. It leads a process group, unlike its own
    processes.
    """

    def is_kernel(number: int) -> bool:
        return Path(f"/proc/{number}/exe").resolve().parent.parent == cache_folder() / "kernel"

    def parent(number: int) -> int:
        return int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])

    for child in descendants(pid):
        with contextlib.suppress(OSError):
            line = [child]
            while len(line) < generations:
                line.append(parent(line[-1]))
            if os.getpgid(child) == child and all(map(is_kernel, line)):
                return child
    return None


def campaign(folder: Path) -> list[str]:
    """Return the command that measures a campaign of one small block into a folder."""
    config = folder / "small.yaml"
    block = f"{{replicates: {REPLICATES // 2}, duration_s: 1, warmup_s: 0.1}}"
    config.write_text(f"studies:\n  loss:\n    main: {block}\n")
    cells = design.load_cells(design.load_yaml(config), ROOT)
    begins = tuple(f"cubic_loss{percent}_symmetric_iperf3_" for percent in (8, 9))
    names = [cell.name for cell in cells if cell.name.startswith(begins)]
    return [
        *SNAKEMAKE, "--cores", "1", "--configfile", str(config), "--directory", str(folder),
        *(f"results/cells/loss/{name}/cell.json" for name in names),
    ]  # fmt: skip


def finished_replicates(folder: Path) -> dict[Path, dict[str, bytes]]:
    """Read every finished replicate of a campaign."""
    # STUDY/CELL/N: unfinished replicates are in hidden folders, which may be gone at any time.
    manifests = (folder / "results" / "cells").glob("*/*/[0-9]*/manifest.json")
    return {manifest.parent: contents(manifest.parent) for manifest in manifests}


@dataclass(frozen=True)
class Restored:
    """A campaign that lost a part of its environment for some time."""

    words: str  # output of the first start
    stopped: bool  # it ended with an error, and all its replicates are valid
    resumed: bool  # the second start completed it without changing them

    def outcome(self, done: str, word: str) -> Outcome:
        """Return the outcome: the output must have a line with `word`, and a fix below it."""
        return Outcome(
            done,
            f"it stopped: {first_line(self.words, 'losslab: error:')}; then it continued",
            "nothing" if self.resumed else "a finished replicate changed, or a row is wrong",
            good=self.stopped and self.resumed and word in self.words and "  -> " in self.words
            and "Traceback (most" not in self.words,
        )  # fmt: skip


def break_and_restore(
    folder: Path,
    broken: contextlib.AbstractContextManager[None],
    environment: dict[str, str] | None = None,
) -> Restored:
    """Start a campaign, break something after its first replicate, restore it, and start again.

    Args:
        folder: Folder of the campaign.
        broken: Breaks the environment, and restores it when the campaign has ended.
        environment: Environment variables of the campaign.
    """
    environment = os.environ | (environment or {})
    with (folder / "words").open("w") as out:
        first = subprocess.Popen(
            campaign(folder), cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, env=environment
        )
        wait_for(lambda: finished_replicates(folder) or first.poll(), "the first replicate")
        with broken:
            status = first.wait(timeout=WAIT_S)
    before = finished_replicates(folder)
    valid = [json.loads(files["manifest.json"])["valid"] for files in before.values()]
    rows = list((folder / "results").rglob("cell.json"))
    again = run(*campaign(folder), env=environment)
    after = finished_replicates(folder)
    whole = len(after) == REPLICATES and all(
        json.loads(files["manifest.json"])["valid"] for files in after.values()
    )
    kept = all(after.get(path) == files for path, files in before.items())
    return Restored(
        (folder / "words").read_text(),
        stopped=status != 0 and all(valid) and 0 < len(valid) < REPLICATES and len(rows) < 2,
        resumed=again.returncode == 0 and whole and kept,
    )


@dataclass(frozen=True)
class Cache:
    """A cache that may be broken."""

    folder: Path
    kernel: Path
    image: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that make losslab use it."""
        return {"LOSSLAB_CACHE": str(self.folder)}


def own_cache(folder: Path) -> Cache:
    """Return a cache with this project's kernel and image.

    Its files are hard links where possible: replace a file to change it.
    """
    cache, made = folder / "cache", []
    for built in (kernel.existing(), image.existing()):
        if built is None:
            raise SkippedError("kernel and image must be built")
        target = cache / built.relative_to(cache_folder())
        target.parent.mkdir(parents=True)
        if run("cp", "-al", built, target).returncode != 0:
            shutil.rmtree(target, ignore_errors=True)
            run("cp", "-a", built, target)
        made.append(target)
    return Cache(cache, *made)


def patched(changes: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run losslab after changing its code at run time."""
    code = f"import sys; {changes}; from losslab.cli import main; sys.exit(main(sys.argv[1:]))"
    return run(sys.executable, "-c", code, *words)
