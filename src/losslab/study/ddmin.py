"""Delta debugging: the smallest part of a list that still shows a symptom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field


def minimise(
    items: Sequence[int], shows: Callable[[Sequence[int]], bool], at_once: int = 1
) -> list[int]:
    """Return a 1-minimal sublist that shows a symptom: without any one item it does not.

    The algorithm is ddmin (Zeller and Hildebrandt, IEEE TSE 28(2), 2002), on the shortest prefix
    that bisection finds. A 1-minimal list need not be the smallest. `shows` is called once for each
    sublist, for up to `at_once` of them at the same time, in threads.
    """
    with ThreadPoolExecutor(at_once) as pool:
        return _Search(shows, at_once, pool).minimise(items)


def shortest_prefix(
    items: Sequence[int], shows: Callable[[Sequence[int]], bool], at_once: int = 1
) -> list[int]:
    """Return a prefix that shows a symptom, while one shorter by 1 does not; see `minimise`."""
    with ThreadPoolExecutor(at_once) as pool:
        return [*items[: _Search(shows, at_once, pool).prefix(items)]]


@dataclass
class _Search:
    shows: Callable[[Sequence[int]], bool]
    at_once: int
    pool: ThreadPoolExecutor
    known: dict[tuple[int, ...], bool] = field(default_factory=dict)

    def first(self, parts: Sequence[Sequence[int]]) -> int | None:
        """Return the place of the first part that shows the symptom; None if none does."""
        for begin in range(0, len(parts), self.at_once):
            keys = [tuple(part) for part in parts[begin : begin + self.at_once]]
            new = [key for key in dict.fromkeys(keys) if key not in self.known]
            self.known.update(zip(new, self.pool.map(self.shows, new), strict=True))
            for place, key in enumerate(keys, begin):
                if self.known[key]:
                    return place
        return None

    def minimise(self, items: Sequence[int]) -> list[int]:
        if self.first([[]]) is not None:
            return []
        found = [*items[: self.prefix(items)]]
        parts = 2
        while len(found) > 1:
            size = -(-len(found) // parts)
            chunks = [found[at : at + size] for at in range(0, len(found), size)]
            rests = [[item for item in found if item not in chunk] for chunk in chunks]
            if (at := self.first(chunks)) is not None:
                found, parts = chunks[at], 2
            elif (at := self.first(rests)) is not None:
                found, parts = rests[at], max(parts - 1, 2)
            elif size == 1:
                break
            else:
                parts = min(len(found), 2 * parts)
        return found

    def prefix(self, items: Sequence[int]) -> int:
        """Return the length of a prefix that shows the symptom, while one shorter by 1 does not."""
        low, high = 0, len(items)
        while high - low > 1:
            points = self.at_once + 1
            lengths = sorted({low + (high - low) * n // points for n in range(1, points)} - {low})
            at = self.first([items[:length] for length in lengths])
            if at is None:
                low = lengths[-1]
            else:
                low, high = [low, *lengths][at], lengths[at]
        return high
