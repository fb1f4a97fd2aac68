"""Cells that the next start measures, with the reasons, and the kind of hosts of a campaign."""

import dataclasses
import re
from types import SimpleNamespace

import pytest

from losslab.campaign import fingerprint, plan, records
from losslab.campaign.plan import CampaignPlan, Planned
from losslab.campaign.results import DamagedError, read_cell
from losslab.instrument import image
from losslab.reading import UsageError
from losslab.study.condition import seed_of
from losslab.study.design import Cell
from losslab.study.intervals import StoppingRule
from tests import sealed
from tests.unit.study.test_condition import CONDITION

CELL = Cell("loss", "main", CONDITION, StoppingRule(1, 1))


@pytest.fixture
def results(tmp_path):
    """Return a results folder with the measured cell."""
    write(tmp_path / "results")
    return tmp_path / "results"


def write(results, cell=CELL, **more):
    folder = results / "cells" / cell.study / cell.name
    manifest = {
        "backend": "virtual", "cell": cell.condition.to_json(), "valid": True,
        "seed": seed_of(cell.condition, 0), "reasons": [],
        "summary": {"goodput_mbit": 9.5}, "instrument": {},
        "fingerprint": fingerprint.of(cell.condition, cell.backend, cell.where).to_json(),
    }  # fmt: skip
    sealed.replicate(folder / "0", manifest | more, {"tcp.csv": "t_s\n0.1\n"})
    return sealed.cell(folder, cell.condition.to_json(), 1, cell.study, cell.block)


def test_reasons_are_named(results):
    assert plan.to_measure([CELL], results) == []
    other = dataclasses.replace(CELL, condition=dataclasses.replace(CONDITION, rtt_ms=99.0))
    assert plan.reasons(other, results) == ["not measured yet"]
    write(results, seed=7)
    seed = seed_of(CONDITION, 0)
    assert plan.reasons(CELL, results) == [f"seed of replicate 0 7 instead of {seed}"]
    write(results, lost=True)
    assert plan.reasons(CELL, results) == ["a guest was lost"]


def test_changed_instrument_is_named(results, monkeypatch):
    its = fingerprint.of(CONDITION, "virtual", "guest")
    other = dataclasses.replace(its, parts={**its.parts, "kernel": "0"})
    monkeypatch.setattr(fingerprint, "of", lambda *_: other)
    assert plan.reasons(CELL, results) == ["kernel changed"]


def test_damage_is_an_error(results):
    (raw,) = results.rglob("tcp.csv")
    raw.write_text("")
    with pytest.raises(UsageError, match=r"is damaged: replicate 0: tcp\.csv has changed"):
        plan.to_measure([CELL], results)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"condition": dataclasses.replace(CONDITION, duration_s=29)}, "duration_s .* instead of"),
        ({"seed_family": 2}, "seed of replicate 0 .* instead of"),
        ({"block": "other"}, "block main instead of other"),
        ({"stopping": StoppingRule(2, 2)}, "1 replicates instead of those after which"),
        ({"stopping": StoppingRule(0, 0)}, "1 replicates instead of those after which"),
    ],
)
def test_cell_of_another_campaign_is_refused(results, change, problem):
    """Names have no durations and no seeds, so its folder has the same name."""
    other = dataclasses.replace(CELL, **change)
    (file,) = results.rglob("cell.json")
    assert plan.contradictions(read_cell(file).content, CELL) == []
    assert re.search(problem, plan.contradictions(read_cell(file).content, other)[0])


def test_cell_of_another_campaign_is_not_collected(results):
    other = Planned(dataclasses.replace(CELL, seed_family=2), "f", recorded=False)
    found = CampaignPlan({("loss", CELL.name): other}, {"loss": []}, {"loss": {}}, None)
    (raw,) = results.rglob("tcp.csv")
    raw.with_name("tcp.csv").write_text("t_s,flow\n")
    raw.with_name("intervals.csv").write_text("t_s,goodput_mbit\n")
    sealed.reseal(raw.parent)
    sealed.cell(raw.parents[1], CONDITION.to_json(), 1, "loss", "main")
    with pytest.raises(DamagedError, match="found another: seed of replicate 0") as error:
        records.of_plan(found, "loss", results)
    assert "delete this folder" in error.value.hint


def test_cell_may_end_with_a_lost_guest_or_without_an_instrument():
    rule = dataclasses.replace(CELL, stopping=StoppingRule(3, 3))
    content = {"study": "loss", "block": "main", "condition": CONDITION.to_json()}
    row = {"seed": seed_of(CONDITION, 0), "valid": False, "summary": {}, "lost": True}
    assert plan.contradictions(content | {"replicates": [row]}, rule) == []
    assert plan.contradictions(content | {"replicates": [], "absent": "no kernel"}, rule) == []
    assert plan.contradictions(content | {"replicates": []}, rule)


@pytest.mark.parametrize(("built", "kind"), [(None, "virtual"), ("engine", "containernet")])
def test_hosts_are_containers_where_their_image_is_built(built, kind, monkeypatch):
    monkeypatch.delenv(plan.HOSTS, raising=False)
    monkeypatch.setattr(image, "part", lambda name: SimpleNamespace(existing=lambda: built))
    assert plan.with_hosts({"studies": {}})["hosts"] == kind
    assert plan.with_hosts({"hosts": "virtual"})["hosts"] == "virtual"
    # Jobs on other machines have the choice of the first.
    monkeypatch.setenv(plan.HOSTS, "containernet")
    assert plan.with_hosts({"studies": {}})["hosts"] == "containernet"
    assert plan.with_hosts(["a"]) == ["a"]
