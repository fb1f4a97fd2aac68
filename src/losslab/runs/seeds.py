"""Seeds of a command line, and what is done for each of them, in their order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from losslab import cellspec, interrupts
from losslab.backends.snapshot import Snapshots
from losslab.reading import UsageError

SEEDS_MAX = 100_000

End = TypeVar("End")


def parsed(text: str) -> list[int]:
    """Return the seeds of a text such as `1,5,9:12`, each once; UsageError if it is none."""
    found = dict[int, None]()
    for part in text.split(","):
        words = part.split(":")
        if len(words) > 2 or not all(word.isdecimal() and word.isascii() for word in words):
            raise UsageError(
                f"seeds must be whole numbers or ranges, found {part!r:.60}",
                hint="write 7, 1:100 or 1,5,9:12",
            )
        first, last = (cellspec.SEED(words[at]) for at in (0, -1))
        if last < first or last - first >= SEEDS_MAX:
            raise UsageError(
                f"a range of seeds must rise and have at most {SEEDS_MAX} seeds, found {part:.60}"
            )
        found |= dict.fromkeys(range(first, last + 1))
    return list(found)


def in_order(
    run: Callable[[int, Snapshots], End],
    seeds: Sequence[int],
    cores: int,
    is_last: Callable[[End], bool],
) -> Iterator[End]:
    """Run each seed, `cores` at a time; yield the ends in the order of the seeds.

    The first end that `is_last` is the last one. Each of the threads has a snapshot, of which its
    seeds are forks.
    """
    todo, lock, stopped = iter(seeds), threading.Lock(), threading.Event()
    ends: dict[int, Future[End]] = {seed: Future() for seed in seeds}

    def work() -> None:
        with Snapshots() as snapshots:
            while not stopped.is_set():
                with lock:
                    seed = next(todo, None)
                if seed is None:
                    return
                try:
                    end = run(seed, snapshots)
                except BaseException as error:
                    stopped.set()
                    ends[seed].set_exception(error)
                    return
                if is_last(end):
                    stopped.set()
                ends[seed].set_result(end)

    with ThreadPoolExecutor(min(cores, len(seeds))) as pool:
        for _ in range(min(cores, len(seeds))):
            pool.submit(work)
        try:
            for seed in seeds:
                end = ends[seed].result()
                yield end
                if is_last(end):
                    return
        except BaseException:
            stopped.set()
            with interrupts.ending_threads():
                pool.shutdown(cancel_futures=True)
            raise
