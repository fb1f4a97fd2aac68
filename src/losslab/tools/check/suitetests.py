"""Tests of a suite (`commands`), run on both sides of a change with the same seeds.

A test's verdict is its exit status. Its bytes are what it printed, its packets, its TCP events, and
when it ended: they show a change that the verdict does not see.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tabulate import tabulate

from losslab.instrument import kernels
from losslab.reading import CONTROL
from losslab.repository import find
from losslab.runs import seeds
from losslab.runs.command import (
    FAILED,
    PASSED,
    End,
    condition_of,
    first_differences,
    prepared,
)
from losslab.study.condition import DEFAULT_IMAGE, DEFAULT_KERNEL
from losslab.tools.check.cells import Cell, Side

# The name of all tests for --only, as that of a scenario.
GROUP = "commands"
LIMIT_S, TIMEOUT_S = 3600.0, 600.0  # virtual time of a test, and its wall time
CHANGED = "bytes changed"
TAIL_LINES = 10


@dataclass(frozen=True)
class SuiteTest:
    """A command of a suite.

    Attributes:
        command: Text for a shell.
        status: Exit status with which it passes.
        seeds: Seeds of its runs.
        bring: Files and folders that it gets, beside those of a changed program.
        image: Image of its guest.
        kernel: Kernel that is changed.
        limit_s: Virtual time after which it has failed.
    """

    command: str
    status: int
    seeds: tuple[int, ...]
    bring: tuple[str, ...]
    image: str
    kernel: str
    limit_s: float

    @property
    def cell(self) -> Cell:
        """Its instrument, as that of a cell of the app `command`."""
        return Cell(condition_of(self.image, self.kernel), 0)

    def words(self, bring: Path | None) -> tuple[list[str], list[str]]:
        """Return the command's words, and all that it gets on a side."""
        files = [*self.bring, *([] if bring is None else [str(bring)])]
        return ["sh", "-c", self.command], files

    def again(self, side: Side, bring: Path | None, seed: int) -> str:
        """Return the command that runs it again on a side."""
        command, files = self.words(bring)
        named = [
            *(word for file in files for word in ("--bring", file)),
            *(("--image", self.image) if self.image != DEFAULT_IMAGE else ()),
            *(("--kernel", self.kernel) if self.kernel != DEFAULT_KERNEL else ()),
        ]
        text = shlex.join(["losslab", "run", "--seeds", str(seed), *named, "--", *command])
        if side.files and any(side.files.iterdir()):
            return f"{kernels.REPLACED_FILES}={shlex.quote(str(side.files))} {text}"
        return text


def plan(suite: Mapping[str, Any], kernel: str) -> dict[str, SuiteTest]:
    """Return a suite's commands by their names for --only, such as `commands/handshake`."""
    return {
        f"{GROUP}/{name}": SuiteTest(
            row["command"],
            row.get("status", 0),
            tuple(range(1, row.get("seeds", 1) + 1)),
            tuple(str(find(path)) for path in row.get("bring", ())),
            row.get("image", DEFAULT_IMAGE),
            kernel,
            row.get("limit_s", LIMIT_S),
        )
        for name, row in suite.get(GROUP, {}).items()
    }


def run(test: SuiteTest, side: Side, bring: Path | None, cores: int) -> list[End]:
    """Run a command with each seed on a side; a run passes with the status that it must have."""
    words, files = test.words(bring)
    with (
        side.active(),
        prepared(words, files, test.image, test.kernel, test.limit_s, TIMEOUT_S, 1) as ready,
    ):
        ends = seeds.in_order(
            lambda seed, snapshots: ready.once(seed, snapshots, records=True),
            test.seeds, cores, lambda _: False,
        )  # fmt: skip
        return [judged(end, test.status) for end in ends]


def judged(end: End, status: int) -> End:
    """Return an end with its verdict by the expected exit status.

    A test that losslab ended, or in whose guest the kernel warned, has failed in any case.
    """
    by_status = end.why in ("", f"exit status {end.status}")
    if by_status and end.status == status:
        return replace(end, verdict=PASSED, why="")
    found = f"exit status {end.status}, must be {status}" if by_status else end.why
    return replace(end, verdict=FAILED, why=found)


def compared(name: str, before: Sequence[End], after: Sequence[End], again: str) -> dict[str, Any]:
    """Return a test's row of the report; `again` repeats its first failed or changed run."""
    pairs = [*zip(before, after, strict=True)]
    changed = [new.seed for old, new in pairs if not same(old, new)]
    failed = [[end for end in side if end.verdict != PASSED] for side in (before, after)]
    verdict = FAILED if failed[1] else CHANGED if changed else PASSED
    row: dict[str, Any] = {
        "name": name,
        "verdict": verdict,
        "seeds": len(pairs),
        "failed_before": [end.seed for end in failed[0]],
        "failed": [end.seed for end in failed[1]],
        "changed": changed,
        "first_difference": [],
        "output": [],
        "why": failed[1][0].why if failed[1] else "",
        "command": again if verdict != PASSED else "",
    }
    if changed:
        old, new = next(pair for pair in pairs if pair[1].seed == changed[0])
        row["first_difference"] = first_differences(old, new) or [
            f"it ended after {old.virtual_s:.9f} s in A, {new.virtual_s:.9f} s in B"
        ]
    if failed[1]:
        lines = failed[1][0].output.decode(errors="replace").splitlines()[-TAIL_LINES:]
        row["output"] = [CONTROL.sub("?", line) for line in lines]
    return row


def first_seed(before: Sequence[End], after: Sequence[End]) -> int:
    """Return the seed to look at: the first that fails, else the first with other bytes."""
    failed = [end.seed for end in after if end.verdict != PASSED]
    changed = [b.seed for a, b in zip(before, after, strict=True) if not same(a, b)]
    return [*failed, *changed, after[0].seed][0]


def same(one: End, other: End) -> bool:
    """Return whether two runs have the same bytes, packets, events, status and duration."""
    return one.same(other) and (one.packets, one.events) == (other.packets, other.events)


def rows(
    tests: Mapping[str, SuiteTest], sides: Sequence[tuple[Side, Path | None]], cores: int
) -> list[dict[str, Any]]:
    """Run tests on both sides, before and after the change; return their rows of the report."""
    found = []
    for name, test in tests.items():
        before, after = (run(test, side, bring, cores) for side, bring in sides)
        again = test.again(*sides[1], first_seed(before, after))
        found.append(compared(name, before, after, again))
    return found


def failures(found: Sequence[Mapping[str, Any]], bytes_too: bool) -> Iterator[str]:
    """Yield what fails: tests that passed before, and with `bytes_too` those with other bytes."""
    for row in found:
        if new := [seed for seed in row["failed"] if seed not in row["failed_before"]]:
            seeds_text = ", ".join(map(str, new))
            yield f"{row['name']}: failed with seed {seeds_text}, passed before: {row['why']}"
        elif bytes_too and row["changed"]:
            yield f"{row['name']}: {len(row['changed'])} of {row['seeds']} runs have other bytes"


def headline(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the counts of verdicts, in words."""
    counts = dict.fromkeys((PASSED, FAILED, CHANGED), 0)
    for row in found:
        counts[row["verdict"]] += 1
    text = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return f"{len(found)} tests: {text}"


def markdown(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the report's table of tests, and what failed or changed."""
    if not found:
        return
    table = [
        (
            row["name"],
            row["verdict"] if row["verdict"] == PASSED else f"**{row['verdict']}**",
            _count(row["seeds"] - len(row["failed_before"]), row["seeds"]),
            _count(row["seeds"] - len(row["failed"]), row["seeds"]),
            _count(len(row["changed"]), row["seeds"]),
        )
        for row in found
    ]
    head = ("test", "", "passed before", "passed after", "other bytes")
    yield str(tabulate(table, head, tablefmt="github", disable_numparse=True))
    for row in found:
        if row["verdict"] == PASSED:
            continue
        lines = [f"{row['why']}"] if row["why"] else []
        lines += [f"    | {line}" for line in row["output"]]
        lines += ["A: before the change, B: after it", *row["first_difference"]] * bool(
            row["changed"]
        )
        yield "\n".join([
            f"<details><summary>{row['name']}: {row['verdict']}</summary>", "", "```", *lines,
            "```", "", "Repeat it after the change:", "", "```", row["command"], "```", "",
            "</details>",
        ])  # fmt: skip


def _count(count: int, total: int) -> str:
    return f"{count} of {total}"
