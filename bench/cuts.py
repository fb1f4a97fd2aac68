"""Cut every golden condition at many instants: the future must equal the uncut replicate.

    python -m bench.cuts                       all golden conditions at 20 instants each
    python -m bench.cuts --only bbr --instants 5

The guest of each cut is a fork of the one before, so a single future shows all of a condition's
cuts. Conditions on kernels without cuts are skipped.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench import golden
from losslab import cellspec, cli, runs
from losslab.campaign import packets, rerun
from losslab.campaign.instrument import video
from losslab.campaign.replicate import run
from losslab.errors import LosslabError
from losslab_timetravel import futures, whatif

INSTANTS = 20
# The first cut: earlier, a guest has no connection.
FIRST_S = 0.0001


def instants(duration_s: float, count: int) -> list[float]:
    """Return times spread over a run, from `FIRST_S` to shortly before its end."""
    if count == 1:
        return [duration_s / 2]
    step_s = (0.999 * duration_s - FIRST_S) / (count - 1)
    return [FIRST_S + step_s * number for number in range(count)]


def check(words: str, folder: Path, count: int) -> str | None:
    """Measure a condition, cut it, and compare; return why it cannot be cut, or None.

    Args:
        words: The words of `losslab measure`.
        folder: An existing empty folder.
        count: Number of cuts.

    Raises:
        LosslabError: The future differs from the uncut replicate.
    """
    arguments = ["measure", *shlex.split(words), "--out", str(folder / "whole")]
    options = cli.parser(arguments).parse_args(arguments)
    condition = runs.condition_of(options)
    tools = cellspec.instrument(options, condition)
    if not tools.cuts:
        return "its kernel has no cuts"
    film = video(condition, tools)
    captures = packets.links(options.capture, condition)
    whole = run(condition, options.seed, folder / "whole", tools, film, captures=captures)
    rerun.require_result(whole, "the uncut replicate")
    first_s, *later = instants(condition.duration_s, count)
    with contextlib.ExitStack() as stack:
        (folder / "0").mkdir()
        prepared = condition, tools, film
        past = stack.enter_context(futures.past(whole, prepared, first_s, folder / "0"))
        guest, before_s = past.guest, first_s
        for number, at_s in enumerate(later, 1):
            (folder / str(number)).mkdir()
            order = f"cut {round(1e9 * (at_s - before_s))}"
            guest = stack.enter_context(guest.again(folder / str(number), [order]))
            before_s = at_s
        its = replace(past, guest=guest).run(futures.UNTOUCHED, folder / "future")
    whatif.require_same(folder / "whole", its.folder, whole)
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Check conditions; return 1 if a future differs."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.cuts", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these conditions")
    parser.add_argument("--instants", type=int, default=INSTANTS, help="cuts of each condition")
    options = parser.parse_args(arguments)
    failed = 0
    for each in golden.chosen(golden.load(), options.only):
        with tempfile.TemporaryDirectory(prefix="losslab-cuts-") as name:
            try:
                reason = check(each.measure, Path(name), options.instants)
                found = f"skipped: {reason}" if reason else f"same bytes, {options.instants} cuts"
            except LosslabError as error:
                failed, found = failed + 1, f"DIFFERENT: {error}"
        print(f"{each.name}: {found}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
