"""Lines and bars of characters."""

import pytest

from losslab.screen import canvas


def dots(rows):
    """The dots that are set, as (column, row from the bottom)."""
    found = set()
    for line, row in enumerate(rows):
        for place, character in enumerate(row):
            bits = 0 if character == " " else ord(character) - canvas.EMPTY
            for x in range(2):
                for y in range(4):
                    if bits & canvas.BITS[x][y]:
                        found.add((2 * place + x, 4 * len(rows) - 1 - (4 * line + y)))
    return found


def test_a_line_goes_from_the_lowest_to_the_uppermost_dot():
    rows = canvas.strip([0, 1, 2, 3], [0, 1, 2, 3], (0, 4), 3, 2, 1)
    assert dots(rows) == {(0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (3, 2), (3, 3)}


def test_no_peak_is_lost_where_samples_share_a_column():
    rows = canvas.strip([0, 0.1, 0.2, 0.9], [0, 7, 0, 0], (0, 2), 7, 1, 2)
    assert {row for column, row in dots(rows) if column == 0} == set(range(8))


def test_a_gap_stays_a_gap_and_a_pause_does_not():
    gap = canvas.strip([0, 3, 7], [0, None, 0], (0, 8), 1, 4, 1)
    assert dots(gap) == {(0, 0), (7, 0)}
    pause = canvas.strip([0, 7], [0, 0], (0, 8), 1, 4, 1)
    assert dots(pause) == {(column, 0) for column in range(8)}


def test_what_is_out_of_the_span_is_not_drawn_and_what_is_too_high_is_at_the_top():
    assert dots(canvas.strip([-1, 9], [1, 1], (0, 8), 1, 4, 1)) == set()
    assert dots(canvas.strip([0], [99], (0, 8), 1, 4, 1)) == {(0, 3)}


@pytest.mark.parametrize(
    ("share", "drawn"),
    [(0, ""), (0.001, "▏"), (0.5, "█████"), (0.55, "█████▌"), (1, "█" * 10), (2, "█" * 10)],
)
def test_a_bars_length_is_its_share_and_little_is_not_nothing(share, drawn):
    assert canvas.bar(share, 10) == drawn


@pytest.mark.parametrize(
    ("value", "top"),
    [(0, 1), (0.03, 0.05), (0.9, 1), (1, 1), (1.1, 2), (9, 10), (10, 10), (283, 500), (947, 1000)],
)
def test_an_axis_ends_at_a_round_number_that_is_no_less(value, top):
    assert canvas.round_up(value) == pytest.approx(top)
