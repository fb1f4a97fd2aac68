"""Damaged, edited, exchanged or lost results, and their repair by the next start.

All kinds of damage are done to one campaign, each to its own replicate or table. One start of the
workflow must restore every byte and report what it makes again.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.faults.kit import SNAKEMAKE, Outcome, first_line, run

# Two cells whose replicates take a fraction of a second, with a replicate for each kind of damage.
CELLS = ("cubic_loss9_symmetric_iperf3", "cubic_loss10_symmetric_iperf3")
CAMPAIGN = """\
studies:
  loss:
    main:
      only: {{ algorithm: cubic, path: symmetric, app: iperf3, loss_percent: [9, 10] }}
      replicates: {replicates}
      duration_s: 1
      warmup_s: 0.1
"""
TARGETS = ("results/claims.csv", "results/summary/loss.csv")
# Files that differ between two starts without any damage.
NOT_COMPARED = ("host.json",)


def _edit(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    if old not in content:
        raise AssertionError(f"{path} must contain {old!r} to be edited")
    path.write_bytes(content.replace(old, new, 1))


def _flip(path: Path) -> None:
    octets = bytearray(path.read_bytes())
    octets[len(octets) // 2] ^= 1
    path.write_bytes(octets)


def _link(path: Path) -> None:
    elsewhere = path.parents[4] / f"elsewhere-{path.name}"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _summary(path: Path) -> None:
    record = json.loads(path.read_text())
    record["summary"]["goodput_mbit"] = 211852.0
    path.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def _swap(folder: Path) -> None:
    """Exchange a replicate with the one of the same number in the other cell."""
    (other,) = (cell for cell in folder.parents[1].iterdir() if cell != folder.parent)
    spare = folder.with_name("spare")
    folder.rename(spare)
    (other / folder.name).rename(folder)
    spare.rename(other / folder.name)


def _power_failure(folder: Path) -> None:
    for path in folder.glob("*.*"):
        if path.name not in ("manifest.json", "host.json"):
            path.write_bytes(b"")


# Damage to a replicate's folder; each kind has a number.
REPLICATES: dict[str, Callable[[Path], object]] = {
    "a raw file is emptied": lambda f: (f / "tcp.csv").write_bytes(b""),
    "a raw file loses its end": lambda f: (f / "queue.csv").write_bytes(
        (f / "queue.csv").read_bytes()[:-3]
    ),
    "a bit of a raw file flips": lambda f: _flip(f / "sender.log"),
    "a raw file is deleted": lambda f: (f / "tcp.csv").unlink(),
    "a file is added": lambda f: (f / "notes.txt").write_text("mine\n"),
    "a raw file becomes a link": lambda f: _link(f / "ping.csv"),
    "a digit of a goodput is edited": lambda f: _edit(f / "intervals.csv", b".", b"9."),
    "a manifest's goodput is edited": lambda f: _summary(f / "manifest.json"),
    "a manifest is emptied": lambda f: (f / "manifest.json").write_bytes(b""),
    "a manifest is deleted": lambda f: (f / "manifest.json").unlink(),
    "a manifest is a list": lambda f: (f / "manifest.json").write_text("[]"),
    "host.json is edited": lambda f: _edit(f / "host.json", b'"attempt": 1', b'"attempt": 7'),
    "host.json is deleted": lambda f: (f / "host.json").unlink(),
    "a replicate is deleted": shutil.rmtree,
    "a replicate is swapped with another cell's": _swap,
    "power fails: empty raw files beside a whole manifest": _power_failure,
}  # fmt: skip
# Damage to other results, below `results`.
OTHERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a cell's goodput is edited": (
        "cells/loss/{0}*/cell.json",
        lambda p: _edit(p, b'"goodput_mbit": ', b'"goodput_mbit": 9'),
    ),
    "a cell's result is emptied": ("cells/loss/{1}*/cell.json", lambda p: p.write_bytes(b"")),
    "a table of replicates is edited": (
        "summary/loss_replicates.csv",
        lambda p: _edit(p, b",TRUE,", b",FALSE,"),
    ),
    "a table of intervals is deleted": ("summary/loss_intervals.csv", Path.unlink),
    "a table of statistics is edited": ("summary/loss.csv", lambda p: _edit(p, b".", b"1.")),
    "the table of claims is edited": (
        "claims.csv",
        lambda p: _edit(p, b"not measured", b"reproduced"),
    ),
}


@dataclass(frozen=True)
class Repaired:
    """Outcome of one start after all damage."""

    words: str
    status: int
    wrong: frozenset[str]  # files that differ from the measured ones


def results_of(results: Path) -> dict[str, bytes]:
    """Read the results that one start of the workflow must restore: cells, tables and claims."""
    kept = ("cells", "summary", "claims.csv")
    files = (path for name in kept for path in (results / name, *(results / name).rglob("*")))
    return {
        str(path.relative_to(results)): path.read_bytes()
        for path in files
        if path.is_file() and path.name not in NOT_COMPARED
    }


@functools.cache
def repaired() -> Repaired:
    """Measure the campaign, damage it in every way, and start the workflow again."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="losslab-damage-")))
        config = folder / "small.yaml"
        config.write_text(CAMPAIGN.format(replicates=len(REPLICATES)))
        command = [
            *SNAKEMAKE, "--cores", "2", "--configfile", config, "--directory", folder, *TARGETS,
        ]  # fmt: skip
        first = run(*command)
        if first.returncode != 0:
            raise AssertionError(first.stdout + first.stderr)
        results = folder / "results"
        before = results_of(results)
        (cell,) = (results / "cells/loss").glob(f"{CELLS[0]}*")
        for number, damage in enumerate(REPLICATES.values()):
            damage(cell / str(number))
        for pattern, damage in OTHERS.values():
            (path,) = results.glob(pattern.format(*CELLS))
            damage(path)
        again = run(*command)
        after = results_of(results)
    every = before.keys() | after.keys()
    wrong = frozenset(name for name in every if before.get(name) != after.get(name))
    return Repaired(again.stdout + again.stderr, again.returncode, wrong)


def _fault(name: str, mine: Callable[[str], bool]) -> Callable[[Path], Outcome]:
    """Return the fault of a kind of damage.

    Args:
        name: Kind of damage.
        mine: Whether it damaged a file, given by its path below results.
    """

    def fault(_: Path) -> Outcome:
        found = repaired()
        wrong = sorted(filter(mine, found.wrong))
        return Outcome(
            f"{name}, then the same command again",
            first_line(found.words, "note: making") or "it was made again",
            f"{wrong} differs from the measurement" if wrong else "nothing",
            good=found.status == 0 and not wrong and "Traceback" not in found.words,
        )

    return fault


def _of_replicate(number: int) -> Callable[[str], bool]:
    return lambda name: name.startswith("cells/") and name.split("/")[3] == str(number)


def _of_file(pattern: str) -> Callable[[str], bool]:
    wanted = pattern.format(*CELLS)
    return lambda name: Path(name).match(wanted)


def _word(name: str) -> str:
    """Return a kind of damage as a word of the command line."""
    return re.sub(r"[^a-z0-9]+", "_", name)


FAULTS: dict[str, Callable[[Path], Outcome]] = {
    _word(name): _fault(name, _of_replicate(number)) for number, name in enumerate(REPLICATES)
} | {_word(name): _fault(name, _of_file(pattern)) for name, (pattern, _) in OTHERS.items()}
