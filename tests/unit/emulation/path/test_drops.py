"""Checks of drop lists."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from losslab.emulation import droplist
from losslab.emulation.path.drops import FEATURE
from losslab.emulation.plan import make_plan
from losslab.study.condition import Condition
from tests.unit.emulation.test_checks import violations
from tests.unit.study.test_condition import CONDITION

HEAD = "direction,number,listed,outcome,t_s,bytes\n"


@pytest.mark.parametrize(
    ("lines", "counts"),
    [
        (["data,12,1,dropped,0.5,1514", "data,99,1,absent,,"], (0, 0)),
        (["data,12,1,passed,,"], (1, 0)),
        (["data,12,1,dropped,0.5,1514", "data,20,0,dropped,0.6,66"], (0, 1)),
        # Acknowledgements have no list here, and may be lost at random.
        (["data,12,1,dropped,0.5,1514", "ack,20,0,dropped,0.6,66"], (0, 0)),
    ],
)
def test_packets_other_than_those_listed_are_counted(lines, counts, tmp_path, monkeypatch):
    text = HEAD + "\n".join(lines) + "\n"
    monkeypatch.setattr(droplist, "write", lambda *args: args[-1].write_text(text))
    run = SimpleNamespace(timeline=SimpleNamespace(origin_ns=0))
    condition = Condition(algorithm="cubic", rtt_ms=20.0, drop_list="data 12,99")
    its = FEATURE.of(condition)
    found = its.note(make_plan(condition, 1), SimpleNamespace(run=run), tmp_path).counts
    assert (found["listed_passed"], found["unlisted_dropped"]) == counts
    said = [*its.violations(SimpleNamespace(traffic=SimpleNamespace(others=found)))]
    assert bool(said) == any(counts)


@pytest.mark.parametrize(
    ("drop_list", "invalid"), [("data 12", False), ("data none", False), ("ack 3", True)]
)
def test_listed_directions_are_not_checked_for_the_share_of_random_losses(drop_list, invalid):
    condition = replace(CONDITION, drop_list=drop_list)
    others = {"listed_passed": 0, "unlisted_dropped": 0}
    found = violations(condition, loss_drops=2_000, received=97_990, others=others)
    assert [each.startswith("loss must be") for each in found] == [True] * invalid
