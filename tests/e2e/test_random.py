"""Random conditions: no run violates a bound of physics, and few are invalid."""

import os

from bench.random.__main__ import main
from tests.conftest import RANDOM_SEED

CELLS = 12


def test_random_conditions_violate_no_bound(capsys):
    """The output has the command that repeats each violation."""
    status = main(["--cells", str(CELLS), "--seed", os.environ[RANDOM_SEED], "--jobs", "1"])
    text = capsys.readouterr().out
    print(text)
    assert text.startswith(f"seed {os.environ[RANDOM_SEED]}\n")
    assert status == 0, text
