"""Colours of algorithms: distinct from each other, and dark enough for print on white paper.

`config/algorithms.tsv` declares the colour of each algorithm once, for the report, `losslab plot`
and the explorer.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection

# Minimum contrast of graphical objects with their background (WCAG 2.1, 1.4.11).
MIN_CONTRAST = 3.0
# Minimum distance in Oklab: three just-noticeable differences of 0.02 each, with a margin, because
# lines are thin.
MIN_DISTANCE = 0.08
# Steps of a candidate's red, green and blue.
STEPS = range(0x00, 0x100, 0x22)


def contrast(colour: str) -> float:
    """Return the contrast ratio of a colour (#RRGGBB) with white, by WCAG 2.1."""
    red, green, blue = _linear(colour)
    return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)


def distance(one: str, other: str) -> float:
    """Return the distance of two colours as people see it, in Oklab."""
    return math.dist(_oklab(one), _oklab(other))


def next_colour(used: Collection[str]) -> str:
    """Return the colour that prints well and differs most from the nearest one in use."""
    return max(_candidates(), key=lambda each: min((distance(each, u) for u in used), default=0.0))


@functools.cache
def _candidates() -> tuple[str, ...]:
    colours = (f"#{r:02X}{g:02X}{b:02X}" for r, g, b in itertools.product(STEPS, repeat=3))
    # Not too dark, because all dark colours look black in thin lines.
    return tuple(c for c in colours if contrast(c) >= MIN_CONTRAST and _oklab(c)[0] >= 0.4)


def _linear(colour: str) -> tuple[float, float, float]:
    """Return linear red, green and blue in [0, 1] of a colour in sRGB (IEC 61966-2-1)."""
    encoded = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in encoded
    )
    return red, green, blue


@functools.cache
def _oklab(colour: str) -> tuple[float, float, float]:
    """Return lightness and two colour axes in Oklab (B. Ottosson, 2020)."""
    red, green, blue = _linear(colour)
    long, medium, short = (
        math.cbrt(x * red + y * green + z * blue)
        for x, y, z in (
            (0.4122214708, 0.5363325363, 0.0514459929),
            (0.2119034982, 0.6806995451, 0.1073969566),
            (0.0883024619, 0.2817188376, 0.6299787005),
        )
    )
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )
