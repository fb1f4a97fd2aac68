"""Warnings about runs whose halves differ, and about runs that are too short."""

import pytest

from losslab.campaign import halves
from losslab.campaign.results import read_cell
from losslab.study.condition import Condition
from tests import sealed

CUBIC = Condition("cubic", rate_mbit=20, rtt_ms=40, loss_percent=1, duration_s=11, warmup_s=1)


def cell(folder, pairs, condition=CUBIC):
    """Write a cell with a run for each pair of goodputs: of the first and the second half."""
    for number, (first, second) in enumerate(pairs):
        manifest = {
            "cell": condition.to_json(), "seed": number, "instrument": {}, "valid": True,
            "reasons": [], "summary": {"goodput_mbit": (first + second) / 2},
        }  # fmt: skip
        text = f"t_s,goodput_mbit\n1,99\n6,{first}\n11,{second}\n"
        sealed.replicate(folder / str(number), manifest, {"intervals.csv": text})
    return read_cell(sealed.cell(folder, condition.to_json(), len(pairs)))


def test_start_that_decides_a_number_is_said_with_its_factor(tmp_path):
    pairs = [(10, 5), (11, 5), (10, 4.5), (9, 4.5), (10, 5)]
    (line,) = halves.of_cells([cell(tmp_path / "c", pairs)], lambda its: its.algorithm)
    assert line.startswith(
        "cubic: the start decides this number: the second half of the runs has less goodput by a "
        "factor of 2.08 (95 % CI 1.94 to 2.23, n = 5)"
    )
    assert line.endswith("--duration-s 22 --warmup-s 4.4")


@pytest.mark.parametrize(
    ("pairs", "warned"),
    [
        ([(10, 10.1)] * 5, False),  # significant, but small
        ([(10, 5), (5, 10), (10, 9), (8, 10), (10, 10)], False),  # large, but not significant
        ([(10, 5)], True),  # a run alone has no interval
        ([(10, 8)], False),
        ([(5, 10.1)] * 5, True),  # more goodput
    ],
)
def test_halves_that_may_be_equal_are_no_warning(tmp_path, pairs, warned):
    assert bool(halves.of_cells([cell(tmp_path / "c", pairs)])) == warned


def test_halves_of_a_path_that_changes_differ_by_intent(tmp_path):
    changing = Condition(**CUBIC.to_json() | {"changes": "at_s=6,rate_mbit=5"})
    assert halves.of_cells([cell(tmp_path / "c", [(10, 5)] * 5, changing)]) == []


def test_run_that_is_too_short_by_the_rule_is_said(tmp_path):
    slow = Condition(
        **CUBIC.to_json()
        | {"rtt_ms": 80, "rate_mbit": 50, "loss_percent": 0.02, "buffer_packets": 330}
    )
    (line,) = halves.of_cells([cell(tmp_path / "c", [(30, 30.1)] * 5, slow)])
    assert line.startswith("the start may decide this number, by up to a factor of 2")
    assert "measure 80 s with 16 s of warm-up, found 11 s with 1 s" in line
