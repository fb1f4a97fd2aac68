"""Numbers of a cell's replicates: goodput over time, and names of flows."""

import numpy as np
import pytest

from losslab.campaign.tables import FLOW_NAMES, flow_names, one_second_means, other_windows


def intervals(*rows):
    t_s, goodput_mbit = np.array(rows, float).T
    return {"t_s": t_s, "goodput_mbit": goodput_mbit}


def tenths(rates, start_s=0.0):
    return intervals(*((start_s + (i + 1) / 10, rate) for i, rate in enumerate(rates)))


def test_mean_of_a_second_is_the_mean_of_its_intervals():
    rows = tenths([10] * 5 + [30] * 5 + [50] * 10)
    assert one_second_means(rows, 0, 2) == [(1, pytest.approx(20)), (2, pytest.approx(50))]


def test_warm_up_and_time_after_the_end_do_not_count():
    rows = tenths([900] * 10 + [10] * 10 + [20] * 10 + [900] * 5)
    assert one_second_means(rows, 1, 3) == [(2, pytest.approx(10)), (3, pytest.approx(20))]


def test_interval_belongs_to_the_second_of_its_middle():
    # The flow started 0.04 s late: its intervals end at 0.14 s, 0.24 s and so on.
    rows = tenths([10] * 10 + [20] * 10, start_s=0.04)
    # The tenth interval ends at 1.04 s; its middle is 0.99 s.
    assert one_second_means(rows, 0, 2) == [(1, pytest.approx(10)), (2, pytest.approx(20))]


def test_last_tenth_may_be_missing():
    rows = tenths([10] * 19)
    assert one_second_means(rows, 0, 2) == [(1, pytest.approx(10)), (2, pytest.approx(10))]


def test_other_windows_weigh_intervals_by_their_overlap():
    rows = intervals((1, 10), (2, 20), (4, 30), (5, 90))
    # The window from 1 s to 4 s is halved within the interval from 2 s to 4 s; 5 s is outside.
    found = other_windows(rows, 1, 4)
    assert found == pytest.approx({
        "early_goodput_mbit": (20 + 0.5 * 30) / 1.5, "late_goodput_mbit": 30,
        "whole_goodput_mbit": (10 + 20 + 60) / 4,
    })  # fmt: skip
    assert other_windows({}, 1, 4) == {}


def test_background_flows_are_named_by_algorithm_and_number(tmp_path):
    assert flow_names(tmp_path) == FLOW_NAMES
    lines = [f"1-{n},cubic,{10_000 + n}," for n in range(12, 1, -1)]
    lines += ["2-1,bbr,10050,30000", "1-1,bbr,10001,"]
    table = ["name,algorithm,source_port,size_bytes", *lines]
    (tmp_path / "flows.csv").write_text("\n".join(table) + "\n")
    found = flow_names(tmp_path)
    background = {port: name for port, name in found.items() if port not in FLOW_NAMES}
    # Flows without a size come first.
    assert list(background.values()) == ["bbr 1-1", *(f"cubic 1-{n}" for n in range(2, 10))]
    assert background["10009"] == "cubic 1-9"
