"""Colours of algorithms."""

import itertools
import math

import pytest

from losslab.reading import UsageError
from losslab.study import names

# Minimum contrast of graphical objects with their background (WCAG 2.1, 1.4.11).
MIN_CONTRAST = 3.0
# Minimum distance in Oklab: three just-noticeable differences of 0.02 each, with a margin, because
# lines are thin.
MIN_DISTANCE = 0.08


def rgb(colour):
    return tuple(int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))


def contrast(colour):
    """Return a colour's contrast with white, from 1 to 21 (WCAG 2.2)."""
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb(colour)
    )
    return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)


def oklab(colour):
    """Return lightness and two colour axes in Oklab (B. Ottosson, 2020) of a colour in sRGB."""
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb(colour)
    )
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


def test_contrast_is_wcags():
    assert contrast("#000000") == pytest.approx(21)
    assert contrast("#FFFFFF") == pytest.approx(1)
    assert contrast("#F0E442") < 1.5  # pale yellow on white


def test_colours_print_well_and_stay_apart(root):
    rows = names.load_algorithms(root / "config" / "algorithms.tsv")
    colours = [*(row["colour"] for row in rows), *names.COLOURS]
    assert [each for each in colours if contrast(each) < MIN_CONTRAST] == []
    for one, other in itertools.combinations(colours, 2):
        assert math.dist(oklab(one), oklab(other)) > MIN_DISTANCE, (one, other)


def test_no_two_controls_share_a_colour(root):
    rows = names.drawn_controls(root / "config" / "algorithms.tsv")
    assert {"cubic", "ewma", "fixed"} <= {row["name"] for row in rows}
    colours = [row["colour"] for row in rows]
    assert len({*colours}) == len(colours)


def test_used_colours_are_not_given_again():
    assert names.next_colour([]) == names.COLOURS[0]
    assert names.next_colour(names.COLOURS[:5]) == names.COLOURS[5]
    assert names.next_colour(names.COLOURS) in names.COLOURS


def test_two_algorithms_with_one_colour_are_refused(tmp_path):
    path = tmp_path / "algorithms.tsv"
    head = "name\tlabel\tcolour\tshape\tkernel\n"
    path.write_text(f"{head}a\tA\t#0072B2\t1\tdefault\nb\tB\t#0072B2\t2\tdefault\n")
    with pytest.raises(UsageError, match=r"colours must be unique in .*, found #0072B2") as error:
        names.load_algorithms(path)
    assert error.value.hint[-7:] == names.COLOURS[0]
