"""Comparing result sets that two versions of the code measured."""

import pytest

from losslab.campaign import diff
from tests.unit.campaign.cells import write_cell


@pytest.mark.parametrize(
    ("values", "digests", "verdict", "problems"),
    [
        ([100.0] * 5, ("aa", "bb"), diff.Verdict.SAME_BYTES, 0),
        ([101.0] * 5, ("aa", "bb"), diff.Verdict.UNEQUAL, 0),
        ([101.0] * 5, ("aa", "aa"), diff.Verdict.UNEQUAL, 2),
    ],
    ids=["same bytes", "other bytes", "other bytes of the same code"],
)
def test_versions_of_the_code_are_compared_by_what_they_measured(
    tmp_path, values, digests, verdict, problems
):
    sets = tmp_path / "a", tmp_path / "b"
    for folder, measured, code in zip(sets, ([100.0] * 5, values), digests, strict=True):
        write_cell(folder, "cell", measured, instrument={}, fingerprint={"digest": code})
    (found,) = diff.compare_sets(*sets).cells
    # Those of manifest.json and tcp.csv, where the same code must have left the same bytes.
    assert (found.verdict, len(found.problems)) == (verdict, problems)
