"""Delta debugging: the smallest part of a list that still shows a symptom."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def minimise(items: Sequence[int], shows: Callable[[Sequence[int]], bool]) -> list[int]:
    """Return a 1-minimal sublist that shows a symptom: without any one item it does not.

    The algorithm is ddmin (Zeller and Hildebrandt, IEEE TSE 28(2), 2002), on the shortest prefix
    that bisection finds. A 1-minimal list need not be the smallest.

    Args:
        items: A list that shows the symptom.
        shows: Whether a sublist, in the order of the items, shows it; called once for each.
    """
    known: dict[tuple[int, ...], bool] = {}

    def bad(part: Sequence[int]) -> bool:
        key = tuple(part)
        if key not in known:
            known[key] = shows(part)
        return known[key]

    if bad([]):
        return []
    found = [*items[: _prefix(items, bad)]]
    parts = 2
    while len(found) > 1:
        size = -(-len(found) // parts)
        chunks = [found[at : at + size] for at in range(0, len(found), size)]
        rests = [[item for item in found if item not in chunk] for chunk in chunks]
        if (chunk := next(filter(bad, chunks), None)) is not None:
            found, parts = chunk, 2
        elif (rest := next(filter(bad, rests), None)) is not None:
            found, parts = rest, max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(len(found), 2 * parts)
    return found


def _prefix(items: Sequence[int], bad: Callable[[Sequence[int]], bool]) -> int:
    """Return the length of a prefix that shows the symptom, while one shorter by 1 does not."""
    low, high = 0, len(items)
    while high - low > 1:
        middle = (low + high) // 2
        if bad(items[:middle]):
            high = middle
        else:
            low = middle
    return high
