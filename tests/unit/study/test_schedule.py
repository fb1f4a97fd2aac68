"""Path schedules: phases of rates, delays, loss and outages."""

import dataclasses
import math

import pytest

from losslab.errors import LosslabError
from losslab.reading import read_yaml
from losslab.study import design, schedule, studyfiles
from tests.unit.study.test_condition import CONDITION

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
    study = read_yaml(root / "config/studies/loss.yaml")
    study["changes"] = {"step": [{"at_s": 2, "rate_mbit": 5}, {"at_s": 3, "outage_s": 0.5}]}
    study["blocks"] = {"main": {"algorithm": "cubic", "changes": ["none", "step"]}}
    design.check_schema(study, "study", "loss.yaml")
    found = [point["changes"] for point in studyfiles.block_grid(study, study["blocks"]["main"])]
    assert found == ["none", "at_s=2,rate_mbit=5+at_s=3,outage_s=0.5"]
    study["changes"]["step"].append({"at_s": 4})
    with pytest.raises(LosslabError, match=r"changes\.step\.2: "):
        design.check_schema(study, "study", "loss.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rate_mbit=2", "each of the changes must set at_s"),
        ("at_s=2", "at least one of rate_mbit"),
        ("at_s=2,rate=2", "found 'rate=2'"),
        ("at_s=2,at_s=3,rate_mbit=2", "found a second at_s in 'at_s=3'"),
        ("at_s=2,rate_mbit=fast", "must be a finite number, found 'fast'"),
        ("at_s=2,rate_mbit=inf", "must be a finite number"),
        ("at_s=2,outage_s=0", "outage_s of changes must be positive"),
        ("at_s=0,rate_mbit=2", "after 0 s"),
        ("at_s=3,rate_mbit=2+at_s=2,rate_mbit=3", "ascending order"),
        ("at_s=3,outage_s=2+at_s=4,outage_s=1", "must not overlap, found one until 5 s"),
    ],
)
def test_mistake_in_a_schedule_is_named(text, words):
    with pytest.raises(LosslabError, match=words.replace("(", r"\(")):
        schedule.phases(text, START)


QUIET = dataclasses.replace(CONDITION, loss_percent=0, rtt_ms=20, duration_s=10)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"changes": "at_s=10,rate_mbit=2"}, "must come before the run's end at 10 s, found one"),
        ({"changes": "at_s=8,outage_s=2"}, "must come before the run's end"),
        ({"changes": "at_s=8,rate_mbit=0"}, "from 8 s: rate_mbit must be in [0.01, 10000], found"),
        ({"changes": "at_s=8,rtt_ms=0"}, "must keep rtt_ms above 0"),
        ({"changes": "at_s=8,rate_mbit=1", "trace": "cellular"}, "not set rate_mbit"),
        ({"changes": "at_s=8,rtt_ms=30", "sender_delay_ms": 5}, "none with sender_delay_ms"),
        ({"changes": "fast"}, "(as in at_s=10,rate_mbit=2+"),
        (
            {"changes": "at_s=8,rtt_ms=4", "reorder_percent": 1, "reorder_ms": 5},
            "from 8 s: reorder_ms must be at most half of rtt_ms (2)",
        ),
    ],
)
def test_condition_reports_mistakes_in_its_changes(values, words):
    [problem] = dataclasses.replace(QUIET, **values).problems()
    assert words in problem
