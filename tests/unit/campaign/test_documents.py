"""Manifests, cell.json and host.json from elsewhere: any content is read or refused."""

import json

import pytest

from losslab import cli
from losslab.campaign import documents
from losslab.reading import UsageError
from tests.sealed import HOST
from tests.unit.study.test_condition import CONDITION

MANIFEST = {
    "backend": "virtual", "cell": CONDITION.to_json(), "seed": 1, "summary": {"goodput_mbit": 1.5},
    "instrument": {"kernel": {"version": "6.12"}}, "valid": True, "reasons": [],
}  # fmt: skip
ROW = {key: MANIFEST[key] for key in ("seed", "summary", "instrument", "valid", "reasons")}
CELL = {
    "study": "loss", "block": "main", "cell": "a", "condition": CONDITION.to_json(),
    "replicates": [ROW],
}  # fmt: skip


def written(tmp_path, data):
    path = tmp_path / "data.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def test_documents_of_losslab_are_read_with_unknown_keys(tmp_path):
    for read, data in (
        (documents.read_manifest, MANIFEST),
        (documents.read_cell, CELL),
        (documents.read_host, HOST),
    ):
        assert read(written(tmp_path, data | {"later": 1})) == data | {"later": 1}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"backend": "ns3"}, "backend: 'ns3' is not one of"),
        ({"backend": ["virtual"]}, "backend"),
        ({"instrument": {"where": "moon"}}, "instrument.where"),
        ({"instrument": None}, "instrument"),
        ({"seed": 1.0}, "a seed must be a whole number, found 1.0"),
        ({"seed": True}, "seed"),
        ({"seed": -1}, "seed"),
        ({"seed": 10**30}, "seed"),
        ({"summary": {"goodput_mbit": "5"}}, "summary.goodput_mbit"),
        ({"reasons": "none"}, "reasons"),
        ({"captures": ["../x"]}, "captures"),
        ({"cell": {"algorithm": "cubic", "speed": 1}}, "unknown condition keys: 'speed'"),
        ({"cell": {}}, "a condition must set algorithm"),
        ({"cell": CONDITION.to_json() | {"rtt_ms": "20"}}, "rtt_ms must be a finite number"),
    ],
)
def test_manifest_with_an_invalid_value_is_refused(tmp_path, change, words):
    with pytest.raises(UsageError, match=words):
        documents.read_manifest(written(tmp_path, MANIFEST | change))


@pytest.mark.parametrize("missing", list(MANIFEST))
def test_manifest_without_a_key_is_refused(tmp_path, missing):
    rest = {key: value for key, value in MANIFEST.items() if key != missing}
    with pytest.raises(UsageError, match=f"'{missing}' is a required property"):
        documents.read_manifest(written(tmp_path, rest))


@pytest.mark.parametrize("name", ["..", "a/b", "", "a\n"])
def test_cell_name_that_is_no_folder_name_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match="cell: "):
        documents.read_cell(written(tmp_path, CELL | {"cell": name}))


@pytest.mark.parametrize("text", ["{}", "[]", "null", "{", "1", '{"seed": 1e400}'])
@pytest.mark.parametrize("command", [["rerun"], ["export", "--qlog"]])
def test_commands_refuse_a_malformed_manifest(tmp_path, capsys, command, text):
    assert cli.main([*command, str(written(tmp_path, text))]) == 2
    assert "losslab: error: " in capsys.readouterr().err


def test_condition_out_of_range_is_not_run_again(tmp_path, capsys):
    far = MANIFEST | {"cell": CONDITION.to_json() | {"rtt_ms": 1e9}}
    assert cli.main(["rerun", str(written(tmp_path, far))]) == 2
    assert "rtt_ms must be in" in capsys.readouterr().err
