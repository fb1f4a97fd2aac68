"""`losslab entry`: measure an algorithm that a pull request brings, with seeds of its commit.

First it is compiled, and has one short run with losses: a compiler's error, a crash or an endless
loop ends the entry with its reason. Then all criteria of RFC 9743 are measured.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from losslab import cellspec
from losslab.campaign.cellrun import SELF_TEST
from losslab.campaign.instrument import kernel_of
from losslab.campaign.results import write_json
from losslab.errors import LosslabError
from losslab.processes import QUOTED_LINES, attempt
from losslab.reading import UsageError, out_folder, read_json, whole_option, write_text
from losslab.repository import find
from losslab.study.names import load_algorithms
from losslab.tools.conform import table

COMMENT = "comment.md"
# The whole suite takes three CPU-minutes; the algorithm's code may make each run far longer.
LIMIT_MIN = 40
# A run in which losses, a full queue and slow start happen.
FIRST_RUN = ("--loss-percent", "1", "--rate-mbit", "20", "--rtt-ms", "40", "--duration-s", "10")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `entry`."""
    command = commands.add_parser("entry")
    command.add_argument("name", help="algorithm, a folder of algorithms/")
    command.add_argument("--commit", required=True, help="commit that the seeds are drawn from")
    command.add_argument(
        "--limit-min", type=whole_option("limit-min", 1, 24 * 60), default=LIMIT_MIN,
        help=f"time that all runs may take (default {LIMIT_MIN} min)",
    )  # fmt: skip
    command.add_argument(
        "--out", type=out_folder, required=True,
        help=f"folder of NAME.json, {COMMENT} and the runs; finished runs are kept",
    )  # fmt: skip
    command.set_defaults(run=_entry)


def _entry(options: argparse.Namespace) -> int:
    if not options.commit.strip():
        raise UsageError("--commit must be a text that seeds can be drawn from, found none")
    out: Path = options.out.resolve()
    cellspec.refuse_not_own(out)
    cellspec.make_own(out, "losslab entry")
    try:
        record = measured(options.name, options.commit, out, 60 * options.limit_min)
    except LosslabError as error:
        name = table.quoted(options.name)
        fenced = str(error).replace("```", "'''")
        write_text(out / COMMENT, f"**{name}** has no row:\n\n```text\n{fenced}\n```\n")
        raise
    write_json(record, out / f"{options.name}.json")
    write_text(out / COMMENT, table.markdown(record))
    print((out / COMMENT).read_text(), end="")
    return 0


def measured(name: str, commit: str, out: Path, limit_s: float) -> dict[str, Any]:
    """Compile, try and judge an algorithm; return its record.

    Raises LosslabError with what the compiler, the first run or the suite says if it has none.
    """
    folder = find(f"algorithms/{name}")
    rows = {row["name"] for row in load_algorithms(find("config/algorithms.tsv"))}
    if name not in rows:
        hint = f"`losslab new algorithm {name} --from FOLDER` writes folder and row"
        raise UsageError(f"config/algorithms.tsv must have a row of {name}, found none", hint=hint)
    if folder.is_dir():
        _losslab(["kernel", "--algorithm", name], limit_s)
    first = out / "first"
    shutil.rmtree(first, ignore_errors=True)
    _losslab(["measure", "--algorithm", name, *FIRST_RUN, "--out", first], limit_s)
    file = out / "judged.json"
    suite = ["conform", table.SUITE, name, "--seeds-of", commit]
    _losslab([*suite, "--out", out / "judged", "--record", file], limit_s)
    record: dict[str, Any] = read_json(file)
    file.unlink()
    # By its name, because the default kernel may change.
    record["kernel"] = kernel_of(replace(SELF_TEST, algorithm=name)).name
    for row in record["cases"]:  # folders of this machine
        row["seeds"] = [
            {key: value for key, value in result.items() if key != "folder"}
            for result in row["seeds"]
        ]
    return record


def _losslab(words: Sequence[str | Path], limit_s: float) -> None:
    """Run a command of losslab in a process of its own, which a time limit can end."""
    done = attempt([sys.executable, "-m", "losslab.cli", *words], limit_s=limit_s)
    if not done.good:
        lines = done.err.strip().splitlines()[-QUOTED_LINES:]
        raise LosslabError(f"`losslab {words[0]}` must succeed, found:\n" + "\n".join(lines))
