"""Croissant description of an archive's tables."""

import csv
import hashlib
import json
import shutil

import pytest

from losslab.artifact import croissant
from losslab.study import dictionary
from tests.unit.artifact.conftest import listed


@pytest.fixture
def described(campaign):
    croissant.describe(campaign, "config/quick.yaml", listed(campaign), "2026-01-31")
    return json.loads((campaign / croissant.FILE).read_text())


def test_every_table_of_the_campaign_is_described(described, campaign):
    files = {each["contentUrl"]: each for each in described["distribution"]}
    assert set(files) == {"results/claims.csv", "results/tables/origin.csv"}
    for path, file in files.items():
        content = (campaign / path).read_bytes()
        assert file["sha256"] == hashlib.sha256(content).hexdigest()
        assert file["contentSize"] == f"{len(content)} B"


def test_columns_have_the_types_and_meanings_of_the_data_dictionary(described, campaign):
    for records in described["recordSet"]:
        sources = {field["source"]["fileObject"]["@id"] for field in records["field"]}
        (path,) = sources
        with (campaign / path).open(newline="") as file:
            header = next(csv.reader(file))
        assert [f["source"]["extract"]["column"] for f in records["field"]] == header
        for field, column in zip(records["field"], dictionary.describe(path, header), strict=True):
            assert field["description"].startswith(column.description)
            assert (field["dataType"] == "sc:Float") == (column.type == "number")
    identifiers = [f["@id"] for records in described["recordSet"] for f in records["field"]]
    assert len(set(identifiers)) == len(identifiers)


def test_croissants_own_reader_accepts_it_and_reads_the_rows(described, campaign):
    mlcroissant = pytest.importorskip("mlcroissant", reason="scripts/group.sh croissant")
    dataset = mlcroissant.Dataset(str(campaign / croissant.FILE))
    assert not dataset.metadata.issues.errors
    rows = list(dataset.records(record_set="tables-origin"))
    assert [row["tables-origin/what"] for row in rows] == [b"A box"]
    shutil.rmtree(campaign / "results/tables")
    with pytest.raises(Exception, match="origin"):
        list(mlcroissant.Dataset(str(campaign / croissant.FILE)).records("tables-origin"))
