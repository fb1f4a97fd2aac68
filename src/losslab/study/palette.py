"""Colours of further algorithms: distinct from each other, and dark enough for white paper.

`config/algorithms.tsv` declares the colour of each algorithm once, for the report, `losslab plot`
and the explorer.
"""

from __future__ import annotations

from collections.abc import Collection

# In the order of use. Each had, in Oklab, the largest distance of all colours with enough contrast
# from the repository's colours and those before it; tests/unit/study/test_palette.py checks both.
COLOURS = (
    "#CC00EE", "#EE0066", "#AA44AA", "#0044AA", "#8844EE", "#006666", "#EE44CC", "#00AA00",
    "#4466EE", "#6688AA", "#AA8866", "#008800", "#666600", "#AA4466", "#8800AA", "#6644AA",
    "#EE6666", "#CC0088", "#8866AA", "#EE0000", "#AA66EE", "#662288", "#0088EE", "#884444",
    "#008888", "#884488", "#AA00CC", "#AA4400", "#CC0044",
)  # fmt: skip


def next_colour(used: Collection[str]) -> str:
    """Return the first of `COLOURS` that is not in use; one of them again if all are."""
    return next((each for each in COLOURS if each not in used), COLOURS[len(used) % len(COLOURS)])
