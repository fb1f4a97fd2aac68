"""Measure the golden conditions on every kernel, and say what differs from the default one.

    python -m bench.kernels                        all kernels that are built, a table
    python -m bench.kernels --only bare cake --kernel 6.1 7.2
    python -m bench.kernels --write                into docs/reference/kernels.md

Kernels enter no seed: what differs is the kernel's doing. A condition that asks for an algorithm
which a kernel does not have is an error there, and in the table.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import golden
from losslab.errors import LosslabError
from losslab.instrument import kernel, kernels
from losslab.study.metrics import primary_names

PAGE = golden.ROOT / "docs" / "reference" / "kernels.md"
HEAD = """\
# Kernels side by side

The golden conditions, some seconds each of everything that a path can have, on every kernel of
`config/kernels.toml`: one replicate with the same seed on each, as
`python -m bench.kernels --write` measured it and wrote this page. In brackets, how many of the
replicate's raw files have the same bytes as on {default}. Where all have, the kernels do the same
to the nanosecond; where none has, they may still have the same answer: one replicate tells nothing
of that, and `make report CONFIG=config/kernels.yaml` does, with ten.

Linux 6.1's netem takes no seed: it loses other packets, and in conditions of a second or two what
it loses at the start decides the number (a lost SYN takes the whole of one). A kernel with BBRv3
has it in place of BBR.

"""


@dataclass(frozen=True)
class Row:
    """A condition on a kernel."""

    condition: str
    kernel: str
    found: str  # a number, or why there is none
    same: str  # how many of the default's files have the same bytes


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print the table; 1 where something could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    built = [name for name, which in kernels.known().items() if kernel.existing(which=which)]
    parser.add_argument("--kernel", nargs="+", choices=built, default=built)
    parser.add_argument(
        "--only", nargs="+", metavar="CONDITION", help="of tests/golden/golden.yaml"
    )
    parser.add_argument("--timeout-s", type=float, default=golden.TIMEOUT_S)
    parser.add_argument("--csv", type=Path, help="write the table there, too")
    parser.add_argument("--write", action="store_true", help="into the documentation")
    options = parser.parse_args(words)
    if options.write and (options.only or options.kernel != built):
        parser.error("--write is for a page of all conditions on all kernels")
    chosen = [
        g
        for g in golden.load().conditions.values()
        if g.backend == golden.VIRTUAL and (not options.only or g.name in options.only)
    ]
    names = list(dict.fromkeys([kernels.default().name, *options.kernel]))
    missing = [name for name in kernels.known() if name not in built]
    head = ("condition", "kernel", "found", "same files")
    widths = [
        max(map(len, texts))
        for texts in (
            [head[0], *(g.name for g in chosen)],
            [head[1], *names],
            ["0.000 goodput_mbit"],
        )
    ]
    table, rows = [head], []
    print(_line(head, widths))
    with tempfile.TemporaryDirectory(prefix="losslab-kernels-") as folder:
        for row in measured(chosen, names, Path(folder), options.timeout_s):
            rows.append(row)
            table.append((row.condition, row.kernel, row.found, row.same))
            print(_line(table[-1], widths), flush=True)
    for name in missing:
        print(f"not built: {name}; `{kernels.get(name).command(kernel.PLAIN)}`")
    if options.csv:
        options.csv.write_text("".join(",".join(row) + "\n" for row in table))
    if options.write:
        PAGE.write_text(page(rows, names))
    return 1 if any(row[2].startswith("error") for row in table) else 0


def page(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Write the page of the documentation: a row for each condition, a column for each kernel.

    Args:
        rows: Of every condition on every kernel.
        names: The kernels, the default one first.
    """
    known = kernels.known()
    labels = [known[name].label for name in names]
    found = {(row.condition, row.kernel): row for row in rows}
    lines = [
        "| " + " | ".join(("condition", "metric", *labels)) + " |",
        "| --- | --- |" + " ---: |" * len(names),
    ]
    for condition in dict.fromkeys(row.condition for row in rows):
        its = [found[condition, name] for name in names]
        metric = its[0].found.partition(" ")[2]
        cells = []
        for row in its:
            number = row.found.partition(" ")[0]
            same = "" if row.kernel == names[0] else f" ({row.same.replace(' of ', '/')})"
            cells.append("cannot be measured" if number == "error:" else number + same)
        lines.append("| " + " | ".join((condition, f"`{metric}`", *cells)) + " |")
    return HEAD.format(default=labels[0]) + "\n".join(lines) + "\n"


def _line(texts: Sequence[str], widths: Sequence[int]) -> str:
    padded = [text.ljust(width) for text, width in zip(texts, [*widths, 0], strict=True)]
    return "  ".join(padded).rstrip()


def measured(
    goldens: Sequence[golden.Golden], names: Sequence[str], folder: Path, timeout_s: float
) -> Iterator[Row]:
    """Measure each condition on each kernel, the default one first.

    Args:
        goldens: The conditions.
        names: The kernels.
        folder: An existing folder.
        timeout_s: Limit of each in s of wall time.
    """
    jobs = [(each, name) for each in goldens for name in names]
    reference: dict[str, str] = {}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        runs = pool.map(lambda job: _measured(*job, folder, timeout_s), jobs)
        for (each, name), (words, digests) in zip(jobs, runs, strict=True):
            reference = digests if name == names[0] else reference
            yield Row(each.name, name, words, _same(reference, digests))


def _measured(
    condition: golden.Golden, name: str, folder: Path, timeout_s: float
) -> tuple[str, dict[str, str]]:
    """Return a condition's number on a kernel, or why there is none, and its files' digests."""
    on = golden.Golden(condition.name, f"{condition.measure} --kernel {name}")
    try:
        out = golden.measure(on, folder / f"{condition.name}-{name}", timeout_s)
    except LosslabError as error:
        print(f"{condition.name} on {name}: {error}", file=sys.stderr, flush=True)
        return "error: " + error.message.splitlines()[0][:60], {}
    summary: Mapping[str, Any] = json.loads((out / "manifest.json").read_text())["summary"]
    metric = next(each for each in primary_names() if summary.get(each) is not None)
    # The manifest says which kernel it was, whatever came of it.
    digests = {
        file: digest
        for file, digest in golden.digests(out).items()
        if not file.startswith("manifest.json")
    }
    return f"{summary[metric]:.3f} {metric}", digests


def _same(reference: Mapping[str, str], found: Mapping[str, str]) -> str:
    same = sum(reference.get(file) == digest for file, digest in found.items())
    return f"{same} of {len(reference)}"


if __name__ == "__main__":
    sys.exit(main())
