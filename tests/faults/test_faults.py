"""Faults of the fault list: each is explained to the user, and nothing is lost."""

import re

import pytest

from bench import faults
from bench.faults import damage

# All damage is done to one campaign: another worker would measure it again.
FAULTS = [
    pytest.param(name, marks=[pytest.mark.xdist_group("damage")] if name in damage.FAULTS else [])
    for name in faults.FAULTS
]


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name, tmp_path):
    try:
        outcome = faults.FAULTS[name](tmp_path)
    except faults.SkippedError as reason:
        pytest.skip(str(reason))
    # pytest shortens a value that it shows, and the end may have the cause.
    assert outcome.good, f"{outcome.done}: {outcome.lost}; {outcome.saw}"
    assert outcome.lost == "nothing", outcome
    # Each has a text, and shows the line that it looked for.
    assert outcome.saw
    assert not re.match(r"[^:]*: *(;|$)", outcome.saw)
