"""Every fault of the fault list: explained to the user, and nothing lost."""

import pytest

from bench import faults


@pytest.mark.parametrize("name", faults.FAULTS)
def test_fault(name, tmp_path):
    try:
        outcome = faults.FAULTS[name](tmp_path)
    except faults.SkippedError as reason:
        pytest.skip(str(reason))
    assert outcome.good, outcome
    assert outcome.lost == "nothing", outcome
    assert outcome.saw
