"""Numbers of a cell's replicates: goodput over time, and names of flows."""

import numpy as np
import pytest

from losslab.campaign.tables import FLOW_NAMES, flow_names, other_windows


def intervals(*rows):
    t_s, goodput_mbit = np.array(rows, float).T
    return {"t_s": t_s, "goodput_mbit": goodput_mbit}


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
    lines = [f"1-{n},cubic,data,{10_000 + n}," for n in range(12, 1, -1)]
    # The last is an upload, over whose connection the sender receives.
    lines += ["2-1,bbr,data,10050,30000", "1-1,bbr,data,10001,", "0-1,bbr,back,10060,"]
    table = ["name,algorithm,direction,source_port,size_bytes", *lines]
    (tmp_path / "flows.csv").write_text("\n".join(table) + "\n")
    found = flow_names(tmp_path)
    background = {port: name for port, name in found.items() if port not in FLOW_NAMES}
    # Flows without a size come first.
    assert list(background.values()) == ["bbr 1-1", *(f"cubic 1-{n}" for n in range(2, 10))]
    assert background["10009"] == "cubic 1-9"
