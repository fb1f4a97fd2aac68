"""Values of the axis `flows`, and refused ones."""

import argparse
import dataclasses

import pytest

from losslab.errors import LosslabError
from losslab.reading import read_yaml
from losslab.study import background, design, dictionary
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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cubic,", "must be none or ALGORITHM"),
        ("cubic,count=many", "count of flows must be a finite number"),
        ("cubic,count=2.5", "count of flows must be a whole number"),
        ("cubic,count=1,count=2", "set each key once"),
        ("cubic,algorithm=bbr", "set each key once"),
        ("cubic,count=0", "count of flows must be at least 1"),
        ("cubic,start_s=12", "must start and end within the run's 10 s"),
        ("cubic,start_s=4,end_s=3", "must start and end within"),
        ("cubic,count=5,every_s=3", "found 0 to 12 s for the starts"),
        ("cubic,rtt_ms=0.1", "rtt_ms of flows must be at least the path's"),
        ("cubic,rate_mbit=0", "rate_mbit of flows must be positive"),
        ("cubic,rate_mbit=1,size_kb=5", "both rate_mbit and size_kb, found size_kb 5"),
        ("cubic,size_kb=0", "size_kb of flows must be positive"),
        ("cubic,arrivals_per_s=5", "needs size_kb"),
        ("cubic,size_kb=5,sizes=pareto", "needs arrivals_per_s"),
        ("cubic,arrivals_per_s=5,size_kb=5,sizes=normal", "sizes of flows must be one of"),
        ("cubic,over=third", "over of flows must be one of"),
        ("cubic,count=1001", "number of flows must be at most 1000"),
        ("cubic,arrivals_per_s=600,size_kb=1", "number of short flows must be at most 5000"),
    ],
)
def test_impossible_flows_are_refused(text, found):
    assert any(found in problem for problem in condition(text).problems())


@pytest.mark.parametrize(
    ("more", "count"),
    [
        ({}, 0), ({"competitor": "bbr"}, 1), ({"queue": "two-fifos"}, 1),
        ({"app": "datagram", "scheme": "fixed,window=3"}, 1),
    ],
)  # fmt: skip
def test_flows_conflict_with_some_axes(more, count):
    assert len(condition("same", **more).problems()) == count


def test_names_of_algorithms_are_checked():
    assert NAMES.problems(condition("bbr+same")) == []
    [problem] = NAMES.problems(condition("ten"))
    assert "found 'ten'" in problem
    assert background.algorithms("bbr+same,count=3+cubic") == {"bbr", "cubic"}


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
    study = read_yaml(root / "config/studies/loss.yaml")
    spec = {"algorithm": "same", "sizes": "pareto", "over": "both", "direction": "back"}
    study["flows"] = {"all": [spec | {name: 1 for name in background.KEYS if name not in spec}]}
    design.check_schema(study, "study", "loss.yaml")
    study["flows"]["all"][0]["colour"] = 1
    with pytest.raises(LosslabError, match="'colour' was unexpected"):
        design.check_schema(study, "study", "loss.yaml")
    study["flows"]["all"] = [{"count": 2}]
    with pytest.raises(LosslabError, match="'algorithm' is a required property"):
        design.check_schema(study, "study", "loss.yaml")


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--flow", "algorithm=cubic,start_s=2"], "cubic,start_s=2"),
        (["--flow", "start_s=2,algorithm=cubic", "--flow", "bbr"], "cubic,start_s=2+bbr"),
        (["--flows", "same", "--flow", "bbr"], "same+bbr"),
        ([], "none"),
    ],
)
def test_flows_are_set_on_the_command_line(options, found):
    parser = argparse.ArgumentParser()
    dictionary.add_options(parser)
    assert parser.parse_args(["--algorithm", "cubic", *options]).flows == found
