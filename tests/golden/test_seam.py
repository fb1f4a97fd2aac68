"""Recorded cells of every app give the recorded tables: measuring modules and R use equal names."""

import csv
import io
import json
import re

import pytest

from losslab.emulation.app import apps
from losslab.reading import read_yaml
from losslab.study.condition import Condition
from tests.golden import seam


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("seam")


@pytest.fixture(scope="module")
def made(folder):
    """Return the text of every table of the recorded cells, by path."""
    return seam.tables(folder / "made")


@pytest.fixture(scope="module")
def cells(folder):
    """Return the recorded cells in the layout of `losslab cell`."""
    return seam.unpack(folder / "cells")


def test_seam_records_every_cell_and_app(folder, cells):
    wanted = seam.load_study(seam.project(folder / "project")).cells
    assert {cell.condition.app for cell in wanted} == set(apps())
    assert {path.name for path in cells.iterdir()} == {cell.name for cell in wanted}
    for cell in wanted:
        found = json.loads((cells / cell.name / "cell.json").read_text())
        assert Condition.from_json(found["condition"]) == cell.condition
        assert len(found["replicates"]) == cell.stopping.minimum


def test_seam_tables_equal_the_recorded_ones(made):
    recorded = {str(path.relative_to(seam.EXPECTED)) for path in seam.EXPECTED.rglob("*.csv")}
    assert set(made) == recorded
    for name, text in made.items():
        assert text == (seam.EXPECTED / name).read_text(), f"{name} differs: {seam.__doc__}"


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_seam_has_every_verdict_and_kind_of_row(made):
    verdicts = rows(made["claims.csv"])
    assert {row["verdict"] for row in verdicts} == {
        "reproduced", "not reproduced", "inconclusive", "not measured",
    }  # fmt: skip
    [invalid] = rows(made["tables/seam/invalid.csv"])
    assert "curl on receiver must exit with 0, found 28" in invalid["reasons"]
    assert {row["flow"] for row in rows(made["summary/seam/flows.csv"])} == {"first", "competitor"}


def test_claims_and_r_use_existing_metrics(root, made):
    """A metric that no app has is an outdated name."""
    known = {row["metric"] for row in rows(made["summary/seam/statistics.csv"])}
    claimed = {
        claim["metric"]
        for path in root.glob("studies/*/claims.yaml")
        for claim in read_yaml(path)["claims"]
        if "metric" in claim
    }
    assert claimed - known == set()
    read_in_r = set()
    for path in [*(root / "analysis").rglob("*.R"), *(root / "studies").rglob("*.R")]:
        if "tests" not in path.relative_to(root).parts:
            text = path.read_text()
            for condition in re.findall(r"metric (?:==|%in%) (?:c\([^)]*\)|\"\w+\")", text):
                read_in_r |= set(re.findall(r"\"(\w+)\"", condition))
            vectors = ["measured_metrics", *re.findall(r"metric %in% (\w+)\b(?!\()", text)]
            for vector in re.findall(rf"(?:{'|'.join(vectors)}) <- c\([^)]*\)", text):
                read_in_r |= set(re.findall(r"\"(\w+)\"", vector))
    assert len(read_in_r) > 15
    assert read_in_r - known == set()
