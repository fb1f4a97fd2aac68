"""Values of the axis `flows`, and refused ones."""

import dataclasses

import pytest

from losslab.errors import LosslabError
from losslab.reading import read_yaml
from losslab.study import background, design
from losslab.study.background import Group, parse, to_text
from losslab.study.condition import replicate_seed
from losslab.study.names import Names
from tests.unit.study.test_condition import CONDITION

NAMES = Names({"cubic": "default", "bbr": "default"})
RUN = {"replicates": 1, "duration_s": 5, "warmup_s": 1}


def condition(flows, **more):
    return dataclasses.replace(CONDITION, **({"duration_s": 10.0} | more), flows=flows)


def test_flows_survive_a_round_trip():
    assert parse("none") == ()
    assert parse("same,count=9+bbr,start_s=2,rtt_ms=40") == (
        Group("same", count=9),
        Group("bbr", start_s=2.0, rtt_ms=40.0),
    )
    text = "same,count=9+bbr,start_s=2.5,end_s=4,size_kb=30,arrivals_per_s=5,sizes=pareto"
    assert "+".join(group.text() for group in parse(text)) == text
    assert to_text([{"algorithm": "same", "count": 2}, {"algorithm": "bbr"}]) == "same,count=2+bbr"


def test_background_flows_do_not_change_seeds_and_have_short_unique_names():
    alone, beside = condition("none"), condition("same,count=9+cubic,start_s=2.5")
    assert replicate_seed(alone, 3) == replicate_seed(beside, 3)
    assert beside.slug() == f"{alone.slug()}_flows-same-count9-and-cubic-start-s2.5"
    one, other = (condition("+".join(["same,count=2,start_s=1"] * n)).slug() for n in (4, 5))
    assert one != other
    assert len(one) < 160


def test_study_names_flows_and_crosses_them():
    study = {
        "study": "x", "defaults": {"algorithm": "cubic", "rtt_ms": 20},
        "flows": {"two": [{"algorithm": "same", "count": 2}]},
        "blocks": {"main": {"algorithm": ["cubic", "bbr"], "flows": ["none", "two", "bbr"]}},
    }  # fmt: skip
    cells = design.study_cells(study, {"main": RUN}, NAMES)
    assert [cell.condition.flows for cell in cells] == ["none", "same,count=2", "bbr"] * 2


def test_schema_has_every_key_of_flows(root):
    study = read_yaml(root / "studies/loss/study.yaml")
    spec = {"algorithm": "same", "sizes": "pareto", "over": "both", "direction": "back"}
    spec["label"] = "pages"
    study["flows"] = {"all": [spec | {name: 1 for name in background.KEYS if name not in spec}]}
    design.check_schema(study, "study", "loss.yaml")
    study["flows"]["all"][0]["colour"] = 1
    with pytest.raises(LosslabError, match="'colour' was unexpected"):
        design.check_schema(study, "study", "loss.yaml")
    study["flows"]["all"] = [{"count": 2}]
    with pytest.raises(LosslabError, match="'algorithm' is a required property"):
        design.check_schema(study, "study", "loss.yaml")


def test_pools_are_refused_with_the_new_form():
    with pytest.raises(LosslabError, match="no pools any more") as error:
        background.parse("bbr,size_kb=20,pool=1+cubic")
    assert "label=" in error.value.hint


def test_label_names_the_flows_in_metrics():
    first, second, third = background.parse("bbr+bbr,label=pages+same")
    assert [group.name for group in (first, second, third)] == ["bbr", "pages", "same"]
    assert second.text() == "bbr,label=pages"
