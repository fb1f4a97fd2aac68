"""Measure the golden conditions on every kernel and compare with the default one.

    python -m bench.kernels                        all built kernels, as a table
    python -m bench.kernels --only bare cake --kernel 6.1 7.2
    python -m bench.kernels --write                write docs/reference/kernels.md

The kernel does not enter the seed: the kernel causes all differences. A condition with an algorithm
that a kernel lacks is an error there, and in the table.
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
# Kernels compared

This page compares the golden conditions on every kernel of `config/kernels.toml`. The golden
conditions are runs of a few seconds that cover every feature of a path. Each number is one
replicate, with the same seed on each kernel. `python -m bench.kernels --write` measured the
conditions and wrote this page.

In brackets: the number of the replicate's raw files that have the same bytes as on {default}. If
all files have, the two kernels behave the same to the nanosecond. If none has, the kernels may
still give the same result on average; one replicate cannot show that.
`make report CONFIG=config/kernels.yaml` compares five or ten replicates of each cell.

Linux 6.1's netem takes no seed, so it drops other packets. In conditions of one or two seconds, a
loss at the start determines the number: a lost SYN costs a whole second. A kernel with BBRv3 has
BBRv3 instead of BBR.

"""


@dataclass(frozen=True)
class Row:
    """A condition on a kernel."""

    condition: str
    kernel: str
    found: str  # the value, or the reason why there is none
    same: str  # number of files with the default kernel's bytes


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print the page; return 1 if a condition could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    built = [name for name, which in kernels.declared().items() if kernel.existing(which)]
    parser.add_argument("--kernel", nargs="+", choices=built, default=built)
    parser.add_argument(
        "--only", nargs="+", metavar="CONDITION", help="of tests/golden/golden.yaml"
    )
    parser.add_argument("--timeout-s", type=float, default=golden.TIMEOUT_S)
    parser.add_argument("--write", action="store_true", help="into the documentation")
    options = parser.parse_args(words)
    if options.write and (options.only or options.kernel != built):
        parser.error("--write is for a page of all conditions on all kernels")
    chosen = [
        each for each in golden.load().conditions.values()
        if each.backend == golden.VIRTUAL and (not options.only or each.name in options.only)
    ]  # fmt: skip
    names = list(dict.fromkeys([kernels.default().name, *options.kernel]))
    with tempfile.TemporaryDirectory(prefix="losslab-kernels-") as folder:
        rows = list(measured(chosen, names, Path(folder), options.timeout_s))
    for name in kernels.declared().keys() - set(built):
        print(f"not built: {name}; `{kernels.get(name).command}`", file=sys.stderr)
    if options.write:
        PAGE.write_text(page(rows, names))
    print(page(rows, names).removeprefix(HEAD.format(default=kernels.default().label)))
    return 1 if any(row.found.startswith("error") for row in rows) else 0


def page(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Return the documentation page: a row for each condition, a column for each kernel.

    Args:
        rows: Results of every condition on every kernel.
        names: Kernels, the default one first.
    """
    known = kernels.declared()
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


def measured(
    goldens: Sequence[golden.Golden], names: Sequence[str], folder: Path, timeout_s: float
) -> Iterator[Row]:
    """Measure each condition on each kernel, the default one first.

    `timeout_s` is the limit of each in s of wall time.
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
    """Return a condition's value on a kernel, or why there is none, and its files' digests."""
    on = golden.Golden(condition.name, f"{condition.measure} --kernel {name}")
    try:
        out = golden.measure(on, folder / f"{condition.name}-{name}", timeout_s)
    except LosslabError as error:
        print(f"{condition.name} on {name}: {error}", file=sys.stderr, flush=True)
        return "error: " + error.message.splitlines()[0][:60], {}
    summary: Mapping[str, Any] = json.loads((out / "manifest.json").read_text())["summary"]
    metric = next(each for each in primary_names() if summary.get(each) is not None)
    # The manifest names the kernel in any case.
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
