"""Appendix of an archive."""

from losslab.artifact import appendix
from tests.unit.artifact.conftest import RUNS, listed


def test_appendix_is_made_from_the_data(campaign):
    text = appendix.text(campaign, listed(campaign), RUNS, "config/quick.yaml", "all")
    assert "3 valid replicates of 1 cells" in text
    assert "measured on A box" in text
    assert "2 claims: 1 reproduced, 1 not measured" in text
    row = next(line for line in text.splitlines() if "loss/one" in line)
    assert row == (
        "| loss/one: CUBIC loses \\| much. | 70 | 76.15 [74.2, 77.9] % | 10 | reproduced | "
        "`losslab claims loss` |"
    )
