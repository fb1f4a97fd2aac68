"""Path schedules: phases of rates, delays, loss and outages."""

import math

import pytest

from losslab.errors import LosslabError
from losslab.reading import read_yaml
from losslab.study import design, schedule, studyfiles

START = {"rate_mbit": 20.0, "rtt_ms": 40.0, "loss_percent": 0.0}


def test_change_keeps_unnamed_values():
    first, slow, far = schedule.phases("at_s=10,rate_mbit=2+at_s=15,rtt_ms=80", START)
    assert (first.begin_s, first.end_s, first.values) == (0.0, 10.0, START)
    assert (slow.end_s, slow.values) == (15.0, START | {"rate_mbit": 2.0})
    assert far.values == {"rate_mbit": 2.0, "rtt_ms": 80.0, "loss_percent": 0.0}
    assert far.end_s == math.inf
    assert schedule.until([first, slow, far], 20.0)[-1].end_s == 20.0


def test_outage_is_a_phase_within_other_phases():
    found = schedule.phases("at_s=2,outage_s=3+at_s=4,loss_percent=1", START)
    assert [(p.begin_s, p.outage, p.values["loss_percent"]) for p in found] == [
        (0.0, False, 0.0), (2.0, True, 0.0), (4.0, True, 1.0), (5.0, False, 1.0),
    ]  # fmt: skip


def test_list_of_changes_becomes_an_axis_value():
    text = schedule.to_text([{"at_s": 10, "rate_mbit": 2}, {"at_s": 15, "outage_s": 0.5}])
    assert text == "at_s=10,rate_mbit=2+at_s=15,outage_s=0.5"
    assert schedule.parse(text) == [
        {"at_s": 10, "rate_mbit": 2}, {"at_s": 15, "outage_s": 0.5},
    ]  # fmt: skip


def test_study_may_name_its_changes(root):
    study = read_yaml(root / "studies/loss/study.yaml")
    study["changes"] = {"step": [{"at_s": 2, "rate_mbit": 5}, {"at_s": 3, "outage_s": 0.5}]}
    study["blocks"] = {"main": {"algorithm": "cubic", "changes": ["none", "step"]}}
    design.check_schema(study, "study", "loss.yaml")
    found = [point["changes"] for point in studyfiles.block_grid(study, study["blocks"]["main"])]
    assert found == ["none", "at_s=2,rate_mbit=5+at_s=3,outage_s=0.5"]
    study["changes"]["step"].append({"at_s": 4})
    with pytest.raises(LosslabError, match=r"changes\.step\.2: "):
        design.check_schema(study, "study", "loss.yaml")
