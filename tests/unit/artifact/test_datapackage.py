"""Data Package of an archive: a Table Schema for each table."""

import csv
import json

from losslab.artifact import datapackage
from tests.unit.artifact.conftest import listed


def test_every_table_of_the_campaign_has_its_columns(campaign):
    datapackage.describe(campaign, "config/quick.yaml", listed(campaign), "2026-01-31")
    package = json.loads((campaign / "datapackage.json").read_text())
    found = {each["path"]: each["schema"] for each in package["resources"]}
    assert set(found) == {"results/claims.csv", "results/tables/origin.csv"}
    assert len({each["name"] for each in package["resources"]}) == len(found)
    for path, schema in found.items():
        with (campaign / path).open(newline="") as file:
            header = next(csv.reader(file))
        assert [field["name"] for field in schema["fields"]] == header
        assert {field["type"] for field in schema["fields"]} <= {"string", "number", "integer"}


def test_tables_of_replicates_have_one_schema_per_file_name(campaign):
    datapackage.describe(campaign, "config/quick.yaml", listed(campaign), "2026-01-31")
    package = json.loads((campaign / "datapackage.json").read_text())
    (field,) = package["replicateTables"]["tcp.csv"]["fields"]
    assert (field["name"], field["type"], field["unit"]) == ("t_s", "number", "s")
    assert list(package["replicateTables"]) == ["tcp.csv"]
