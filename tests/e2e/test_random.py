"""Random conditions of a fresh seed: no invariant is violated, and few runs are invalid."""

import pytest

from bench.random.__main__ import main

pytestmark = pytest.mark.nightly

CELLS = 12


def test_random_conditions_violate_no_invariant(capsys):
    """The output has the seed, and the command that repeats each violation."""
    status = main(["--cells", str(CELLS)])
    text = capsys.readouterr().out
    print(text)
    assert text.startswith("seed ")
    assert status == 0, text
