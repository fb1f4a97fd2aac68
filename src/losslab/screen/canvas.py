"""Lines in a terminal: Braille characters, eight dots each, as high and wide as asked for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

# Unicode 2800-28FF: a bit per dot, by column and row within a character.
EMPTY = 0x2800
BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
DOTS_WIDE, DOTS_HIGH = 2, 4
# Eighths of a block, for bars.
EIGHTHS = " ▏▎▍▌▋▊▉█"


def strip(
    t_s: Sequence[float],
    values: Sequence[float | None],
    span_s: tuple[float, float],
    top: float,
    width: int,
    height: int,
) -> list[str]:
    """Draw a line from 0 to `top` as rows of text, the highest first.

    Where several values fall into a column of dots all of it between the least and the greatest is
    drawn, so that no peak is lost; from one column to the next the line goes on.

    Args:
        t_s: Times, rising.
        values: What to draw; None is a gap.
        span_s: First and last time of the strip.
        top: The value of the uppermost dot, above 0.
        width: Characters in a row.
        height: Rows.
    """
    cells = [[EMPTY] * width for _ in range(height)]
    rows = height * DOTS_HIGH
    before: tuple[int, int] | None = None  # the last column drawn, and its last row
    for column, heights in _columns(t_s, values, span_s, top, width * DOTS_WIDE, rows):
        low, high = min(heights), max(heights)
        if before is not None and before[0] == column - 1:
            low, high = min(low, before[1]), max(high, before[1])
        for row in range(low, high + 1):
            down = rows - 1 - row
            line, character = cells[down // DOTS_HIGH], column // DOTS_WIDE
            line[character] |= BITS[column % DOTS_WIDE][down % DOTS_HIGH]
        before = column, heights[-1]
    return ["".join(map(chr, line)).replace(chr(EMPTY), " ") for line in cells]


def _columns(
    t_s: Sequence[float],
    values: Sequence[float | None],
    span_s: tuple[float, float],
    top: float,
    columns: int,
    rows: int,
) -> Iterator[tuple[int, list[int]]]:
    """Sort values into columns of dots, as rows of dots from 0 at the bottom."""
    begin, end = span_s
    scale = columns / (end - begin)

    # Samples that are further apart than columns: the line is as long as its time.
    before: tuple[int, int] | None = None
    filled: list[tuple[int, int]] = []
    for time, value in zip(t_s, values, strict=True):
        if value is None or not begin <= time <= end:
            before = None
            continue
        place = min(int((time - begin) * scale), columns - 1)
        if before is not None:
            filled += [(between, before[1]) for between in range(before[0] + 1, place)]
        before = place, round(min(value / top, 1.0) * (rows - 1))
        filled.append(before)
    for place, group in itertools.groupby(filled, key=lambda pair: pair[0]):
        yield place, [row for _, row in group]


def bar(share: float, width: int) -> str:
    """Draw a bar, its length a share of `width` characters; what is not nothing is seen."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    eighths = max(eighths, 1) if share > 0 else 0
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def round_up(value: float) -> float:
    """Return the next of 1, 2, 5, 10, 20 ... that is no less, for the top of an axis."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(f"{int(value)}") - 1) if value >= 1 else 0.1
    while power > value:
        power /= 10
    return next(step * power for step in (1, 2, 5, 10, 20) if step * power >= value * (1 - 1e-9))
