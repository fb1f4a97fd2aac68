"""Comparing replicates byte by byte, and result sets cell by cell."""

import json

import pytest

from losslab.campaign import diff, rerun
from losslab.errors import LosslabError
from tests.unit.study.test_condition import CONDITION


def write_replicate(folder, value, console=False):
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"value": value}))
    (folder / "tcp.csv").write_text(f"t,cwnd\n0,10\n1,{value}\n")
    (folder / "host.json").write_text(str(folder))
    if console:
        (folder / "console.log").write_text("words of the host")


def write_cell(root, name, values, seeds=None, valid=True):
    folder = root / "cells" / "loss" / name
    for number, value in enumerate(values):
        write_replicate(folder / str(number), value)
    rows = [
        {"seed": seed, "valid": valid, "summary": {"goodput_mbit": value}}
        for seed, value in zip(seeds or range(len(values)), values, strict=True)
    ]
    (folder / "cell.json").write_text(json.dumps({"replicates": rows}))


def test_equal_replicates_agree_whatever_the_host(tmp_path):
    write_replicate(tmp_path / "a", 5)
    write_replicate(tmp_path / "b", 5, console=True)
    found = rerun.compare(tmp_path / "a", tmp_path / "b")
    assert found.whole
    assert found.same == ["manifest.json", "tcp.csv"]


def test_the_first_differing_line_and_missing_files_are_named(tmp_path):
    write_replicate(tmp_path / "a", 5)
    write_replicate(tmp_path / "b", 6)
    (tmp_path / "b" / "ping.csv").touch()
    found = rerun.compare(tmp_path / "a", tmp_path / "b")
    assert found.different["tcp.csv"] == "line 3: '1,5', '1,6'"
    assert "only in" in found.different["ping.csv"]
    assert not found.whole


def test_another_instrument_is_named():
    then = {"kernel": {"hash": "aa"}, "image": {"hash": "cc"}, "source": "ee"}
    now = {"kernel": {"hash": "bb"}, "image": {"hash": "cc"}, "source": "ff", "engine": {}}
    assert rerun.instrument_differences(then, now) == [
        "engine was not there, is {}",
        "kernel: hash was aa, is bb",
        "source was ee, is ff",
    ]


def test_what_differs_is_named_where_the_hash_does_not():
    then = {"image": {"hash": "cc", "packages": {"curl": "8.14-1", "git": "2"}}}
    now = {"image": {"hash": "cc", "packages": {"curl": "8.14-2", "git": "2"}}}
    assert rerun.instrument_differences(then, now) == [
        "image: packages: curl was 8.14-1, is 8.14-2"
    ]


BAD_NUMBER = json.dumps({"cell": CONDITION.to_json() | {"rtt_ms": "20"}, "seed": 1})


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"cell": {"loss": 1}, "seed": 1}', '{"seed": 1}', BAD_NUMBER]
)
def test_what_is_no_manifest_is_refused(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(LosslabError, match=r"must be the manifest\.json of a replicate"):
        rerun.load_manifest(tmp_path)


def verdicts(comparison):
    return {cell.cell: cell.verdict for cell in comparison.cells}


def test_result_sets_are_compared_cell_by_cell(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    write_cell(a, "same", [1, 2, 3])
    write_cell(b, "same", [1, 2, 3])
    write_cell(a, "noise", [100, 110, 90, 105])
    write_cell(b, "noise", [104, 95, 92, 108])
    write_cell(a, "faster", [100, 110, 90, 105])
    write_cell(b, "faster", [200, 220, 180, 211])
    write_cell(a, "short", [1])
    write_cell(b, "short", [2])
    write_cell(a, "lonely", [1])
    found = diff.compare_sets(a, b)
    assert verdicts(found) == {
        "loss/same": "same bytes",
        "loss/noise": "no difference",
        "loss/faster": "differs",
        "loss/short": "too few",
    }
    assert found.only_in_first == ["loss/lonely"]
    assert not found.agree
    text = diff.table(found)
    assert "only in A: loss/lonely" in text
    assert "1 differs" in text


def test_pairs_see_what_the_scatter_of_seeds_hides(tmp_path):
    a, b, c = (tmp_path / name for name in "abc")
    values = [10, 200, 50, 400, 90]
    more = [value * 1.02 for value in values]
    write_cell(a, "cell", values)
    write_cell(b, "cell", more)
    write_cell(c, "cell", more, seeds=range(10, 15))
    assert verdicts(diff.compare_sets(a, b)) == {"loss/cell": "differs"}
    assert verdicts(diff.compare_sets(a, c)) == {"loss/cell": "no difference"}


def test_invalid_replicates_are_not_compared(tmp_path):
    write_cell(tmp_path / "a", "cell", [1, 2, 3])
    write_cell(tmp_path / "b", "cell", [7, 8, 9], valid=False)
    assert verdicts(diff.compare_sets(tmp_path / "a", tmp_path / "b")) == {"loss/cell": "too few"}


def test_a_folder_without_cells_is_refused(tmp_path):
    with pytest.raises(LosslabError, match="must hold measured cells"):
        diff.compare_sets(tmp_path, tmp_path)
