"""Recorded cells of every app become the recorded numbers: what measures and R agree on names."""

import csv
import io
import json
import re

import pytest

from losslab.campaign import recompute
from losslab.emulation import hosts
from losslab.emulation.plan import make_plan
from losslab.study import features
from losslab.study.condition import Condition
from losslab.study.design import load_yaml
from tests.golden import seam

REPLICATES = sorted(
    str(path.parent.relative_to(seam.CELLS)) for path in seam.CELLS.rglob("manifest.json*")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("seam")


@pytest.fixture(scope="module")
def made(folder):
    """Every table of the recorded cells, by its path."""
    return seam.tables(folder / "made")


@pytest.fixture(scope="module")
def cells(folder):
    """The recorded cells, as `losslab cell` left them."""
    return seam.unpack(folder / "cells")


def test_every_cell_and_app_is_recorded(folder, cells):
    wanted = seam.load_study(seam.project(folder / "project")).cells
    assert {cell.condition.app for cell in wanted} == set(features.apps())
    assert {path.name for path in cells.iterdir()} == {cell.name for cell in wanted}
    for cell in wanted:
        found = json.loads((cells / cell.name / "cell.json").read_text())
        assert Condition.from_json(found["condition"]) == cell.condition
        assert len(found["replicates"]) == cell.stopping.least


def test_the_tables_are_those_that_were_recorded(made):
    recorded = {str(path.relative_to(seam.EXPECTED)) for path in seam.EXPECTED.rglob("*.csv")}
    assert set(made) == recorded
    for name, text in made.items():
        assert text == (seam.EXPECTED / name).read_text(), f"{name} differs: {seam.__doc__}"


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_every_app_has_a_verdict_and_every_kind_of_row_is_there(made):
    verdicts = rows(made["claims.csv"])
    assert {row["verdict"] for row in verdicts} == {
        "reproduced", "differs", "undecided", "not measured",
    }  # fmt: skip
    [invalid] = rows(made["tables/seam_invalid.csv"])
    assert "curl on receiver must exit with 0, found 28" in invalid["reasons"]
    assert {row["flow"] for row in rows(made["summary/seam_flows.csv"])} == {"first", "competitor"}


@pytest.mark.parametrize("name", REPLICATES)
def test_a_replicate_is_summed_up_as_it_was(cells, name):
    """Its raw files, and the state that was read back, make the summary that they made then."""
    manifest = json.loads((cells / name / "manifest.json").read_text())
    found = recompute.recompute(cells / name, manifest)
    # Some were recorded before a program's command line was another one.
    of_then = {
        "another plan than its condition and seed give",
        "other commands than its condition gives",
    }
    assert set(found.problems) <= of_then
    assert found.metrics | found.counted | found.not_recomputed == set(manifest["summary"])
    assert found.not_recomputed == set()
    assert found.confirmed == manifest["valid"]  # curl's end is in no raw file
    plan = make_plan(Condition.from_json(manifest["cell"]), manifest["seed"])
    assert hosts.deviations(plan.hosts, manifest["observed"]["state"]) == []


def test_claims_and_r_look_at_metrics_that_some_cell_has(root, made):
    """A metric that no app has is a name that was left behind."""
    known = {row["metric"] for row in rows(made["summary/seam.csv"])}
    claimed = {
        claim["metric"]
        for path in (root / "report" / "claims").glob("*.yaml")
        for claim in load_yaml(path)["claims"]
        if "metric" in claim
    }
    assert claimed - known == set()
    looked_at = set()
    for path in (root / "analysis").rglob("*.R"):
        if "tests" not in path.parts:
            text = path.read_text()
            for condition in re.findall(r"metric (?:==|%in%) (?:c\([^)]*\)|\"\w+\")", text):
                looked_at |= set(re.findall(r"\"(\w+)\"", condition))
            vectors = ["measured_metrics", *re.findall(r"metric %in% (\w+)\b(?!\()", text)]
            for vector in re.findall(rf"(?:{'|'.join(vectors)}) <- c\([^)]*\)", text):
                looked_at |= set(re.findall(r"\"(\w+)\"", vector))
    assert len(looked_at) > 15
    assert looked_at - known == set()
