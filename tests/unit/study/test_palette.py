"""Colours of algorithms."""

import itertools

import pytest

from losslab.reading import UsageError
from losslab.study import names, palette


def test_contrast_is_wcags():
    assert palette.contrast("#000000") == pytest.approx(21)
    assert palette.contrast("#FFFFFF") == pytest.approx(1)
    assert palette.contrast("#F0E442") < 1.5  # pale yellow on white


def test_next_colours_print_well_and_stay_apart():
    used = []
    for _ in range(24):
        colour = palette.next_colour(used)
        assert palette.contrast(colour) >= palette.MIN_CONTRAST
        assert all(palette.distance(colour, each) > palette.MIN_DISTANCE for each in used)
        used.append(colour)


def test_repositorys_colours_print_well(root):
    rows = names.load_algorithms(root / "config" / "algorithms.tsv")
    assert [r["name"] for r in rows if palette.contrast(r["colour"]) < palette.MIN_CONTRAST] == []


def test_no_two_controls_share_a_colour(root):
    rows = names.drawn_controls(root / "config" / "algorithms.tsv")
    assert {"cubic", "ewma", "fixed"} <= {row["name"] for row in rows}
    colours = [row["colour"] for row in rows]
    for one, other in itertools.combinations(colours, 2):
        assert palette.distance(one, other) > palette.MIN_DISTANCE


def test_two_algorithms_with_similar_colours_are_refused(tmp_path):
    path = tmp_path / "algorithms.tsv"
    head = "name\tlabel\tcolour\tshape\tkernel\n"
    path.write_text(f"{head}a\tA\t#0072B2\t1\tdefault\nb\tB\t#0172B2\t2\tdefault\n")
    with pytest.raises(UsageError, match=r"colours must differ .* #0172B2 for b") as error:
        names.load_algorithms(path)
    assert palette.contrast(error.value.hint[-7:]) >= palette.MIN_CONTRAST
