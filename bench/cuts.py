"""Cut every golden condition at many instants: the future must equal the uncut replicate.

    python -m bench.cuts                       all golden conditions at 20 instants each
    python -m bench.cuts --only bbr --instants 5
    python -m bench.cuts --capacity            cost and memory of many futures of a 6 s run

The guest of each cut is a fork of the one before, so a single future shows all of a condition's
cuts. Conditions on kernels without cuts are skipped.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bench import golden
from losslab import cellspec, cli, runs
from losslab.campaign import packets, rerun
from losslab.campaign.instrument import instrument, video
from losslab.campaign.replicate import run
from losslab.errors import LosslabError
from losslab.study.condition import Condition
from losslab_timetravel import futures, whatif

INSTANTS = 20
# The first cut: earlier, a guest has no connection.
FIRST_S = 0.0001
# Capacity: a run of 6 s; futures of a cut in its middle, and just before its end, where a future
# has only its fixed cost; and futures that exist at once.
CAPACITY = Condition(
    algorithm="cubic",
    loss_percent=1,
    rtt_ms=40,
    rate_mbit=20,
    buffer_packets=66,
    duration_s=6,
    warmup_s=1,
)
SEED, MIDDLE_S, END_S = 7, 3.2, 5.9
COUNT, AT_ONCE = 64, 100
FIXED_CORE_S_MAX, MEMORY_GIB_MAX = 0.2, 8.0


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


@contextlib.contextmanager
def past(at_s: float) -> Iterator[tuple[futures.Past, Path]]:
    """Run the capacity's replicate up to a cut; yield the past and a folder."""
    tools = instrument(condition=CAPACITY)
    with tempfile.TemporaryDirectory(prefix="losslab-cuts-") as name:
        folder = Path(name)
        whole = run(CAPACITY, SEED, folder / "whole", tools)
        (folder / "past").mkdir()
        with futures.past(whole, (CAPACITY, tools, None), at_s, folder / "past") as found:
            yield found, folder


def cost(at_s: float) -> tuple[float, float]:
    """Return CPU time and wall time of each of `COUNT` futures, run on all CPUs."""
    with past(at_s) as (found, folder):
        snapshot = found.guest.snapshot
        begin_s, own_s, forks_s = time.monotonic(), time.process_time(), snapshot.forks_cpu_s
        wanted = [(futures.REDRAWN, folder / f"{n}", n) for n in range(1, COUNT + 1)]
        for future in found.run_all(wanted):
            rerun.require_result(future.manifest, f"the future {future.folder}")
        cpu_s = time.process_time() - own_s + snapshot.forks_cpu_s - forks_s
        return cpu_s / COUNT, (time.monotonic() - begin_s) / COUNT


def memory_gib() -> float:
    """Return the memory of `AT_ONCE` futures that wait at the same time, near their end."""
    with past(MIDDLE_S) as (found, folder), contextlib.ExitStack() as stack:
        before = _memory_gib()
        for number in range(AT_ONCE):
            (folder / str(number)).mkdir()
            order = f"cut {round(1e9 * (END_S - MIDDLE_S))}"
            stack.enter_context(found.guest.again(folder / str(number), [order]))
        return _memory_gib() - before


def _memory_gib() -> float:
    """Return the memory of all descendants of this process: guests' memory files, and their own."""
    children = defaultdict[int, list[int]](list)
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, _, rest = file.read_text().partition(" ")
            children[int(rest.rpartition(")")[2].split()[1])].append(int(pid))
    own_kib, files, waiting = 0, dict[tuple[int, int], int](), [*children[os.getpid()]]
    while waiting:
        pid = waiting.pop()
        waiting += children[pid]
        with contextlib.suppress(OSError):  # it may have just ended
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            # Without shared memory: that is the memory files, of which no part may be mapped.
            own = (line.split()[1] for line in lines if line.startswith(("Pss_Anon", "Pss_File")))
            own_kib += sum(map(int, own))
            for path in Path(f"/proc/{pid}/fd").iterdir():
                if "(deleted)" in os.readlink(path):
                    status = path.stat()
                    files[status.st_dev, status.st_ino] = status.st_blocks * 512
    return (own_kib * 1024 + sum(files.values())) / 2**30


def capacity() -> int:
    """Print cost and memory of futures; return 1 if they exceed the limits."""
    fixed_s, _ = cost(END_S)
    middle_s, wall_s = cost(MIDDLE_S)
    gib = memory_gib()
    print(
        f"{COUNT} futures of a run of {CAPACITY.duration_s:g} s: {fixed_s:.3f} core-s each if cut "
        f"at {END_S:g} s, {middle_s:.3f} core-s and {wall_s:.3f} s of wall time each if cut at "
        f"{MIDDLE_S:g} s\n{AT_ONCE} futures at once: {gib:.2f} GiB"
    )
    return 1 if fixed_s > FIXED_CORE_S_MAX or gib > MEMORY_GIB_MAX else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Check conditions; return 1 if a future differs."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.cuts", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these conditions")
    parser.add_argument("--instants", type=int, default=INSTANTS, help="cuts of each condition")
    parser.add_argument("--capacity", action="store_true", help="cost and memory of futures")
    options = parser.parse_args(arguments)
    if options.capacity:
        return capacity()
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
