"""Families of seeds: other draws for the same cells."""

from dataclasses import replace

import pytest

from losslab.errors import LosslabError
from losslab.study import design
from losslab.study.condition import replicate_seed, seed_of
from tests.unit.study.test_condition import BARE

SMALL = {"loss": {"main": {"replicates": 5, "duration_s": 2, "warmup_s": 1}}}


def test_the_first_family_has_the_seeds_of_earlier_versions():
    assert [seed_of(BARE, n) for n in range(20)] == [replicate_seed(BARE, n) for n in range(20)]


def test_families_share_no_seed():
    seeds = [seed_of(BARE, number, family) for family in (1, 2, 3) for number in range(100)]
    assert len(set(seeds)) == 300
    assert all(0 < seed < 2**31 for seed in seeds)


def test_algorithms_share_the_seeds_of_a_family():
    other = replace(BARE, algorithm="bbr" if BARE.algorithm != "bbr" else "cubic")
    assert seed_of(BARE, 3, 2) == seed_of(other, 3, 2)


def test_every_cell_of_a_campaign_has_its_family(root):
    cells = design.load_cells({"studies": SMALL}, root)
    fresh = design.load_cells({"studies": SMALL, "seed_family": 2}, root)
    assert {cell.seed_family for cell in cells} == {1}
    assert {cell.seed_family for cell in fresh} == {2}
    assert [cell.name for cell in cells] == [cell.name for cell in fresh]


@pytest.mark.parametrize("family", [0, 1.5, "2"])
def test_an_invalid_family_is_refused(root, family):
    with pytest.raises(LosslabError, match="seed_family"):
        design.load_cells({"studies": SMALL, "seed_family": family}, root)
