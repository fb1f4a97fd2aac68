"""Guests spread over the processors."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path

import pytest

from losslab.backends.resources import PLACES_PER_CPU, own_cpu

CPUS = [3, 5]


@pytest.mark.parametrize("guests", [1, 2, 3, 4, 7, 2 * PLACES_PER_CPU])
def test_no_processor_has_two_guests_more_than_another(tmp_path: Path, guests: int) -> None:
    with contextlib.ExitStack() as stack:
        held = Counter(stack.enter_context(own_cpu(tmp_path / "cpus", CPUS)) for _ in range(guests))
    counts = [held[cpu] for cpu in CPUS]
    assert sum(counts) == guests
    assert max(counts) - min(counts) <= 1


def test_one_that_is_left_is_taken_next(tmp_path: Path) -> None:
    with own_cpu(tmp_path / "cpus", CPUS) as first:
        with own_cpu(tmp_path / "cpus", CPUS) as second:
            pass
        with own_cpu(tmp_path / "cpus", CPUS) as third:
            assert (first, second, third) == (3, 5, 5)


def test_more_guests_than_are_counted_have_one_of_them(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(2 * PLACES_PER_CPU):
            stack.enter_context(own_cpu(tmp_path / "cpus", CPUS))
        assert stack.enter_context(own_cpu(tmp_path / "cpus", CPUS)) in CPUS
