"""The table of algorithms: its page, and the row in a comment."""

import json
import re

import pytest

from losslab import cli
from losslab.instrument import kernels
from losslab.reading import UsageError
from losslab.repository import ROOT
from losslab.tools.conform import table

RECORDED = ROOT / "recorded/algorithms"
EVIL = '<script>alert("1")</script>'


@pytest.fixture(scope="module")
def records():
    return [table.read(file) for file in sorted(RECORDED.glob("*.json"))]


def test_recorded_rows_are_of_a_commits_seeds_and_name_no_folder_of_a_machine(records):
    assert records
    for record in records:
        assert re.fullmatch("[0-9a-f]{40}", record["seeds_of"])
        assert record["kernel"] != kernels.DEFAULT
        assert all("folder" not in result for row in record["cases"] for result in row["seeds"])


def test_page_has_an_address_for_each_algorithm_and_each_criterion(records):
    page = table.page(records)
    for record in records:
        name = record["algorithm"]
        assert f'<details id="algorithm/{name}">' in page
        for row in record["cases"]:
            assert page.count(f'id="case/rfc9743/{row["case"]}/{name}"') == 1
    targets = re.findall(r'href="#([^"]+)"', page)
    assert targets
    assert all(f'id="{target}"' in page for target in targets)


def test_row_has_the_four_numbers_with_their_intervals(records):
    [record] = (record for record in records if record["algorithm"] == "gaimd")
    [wired] = (row for row in record["cases"] if row["case"] == "wired")
    number = wired["seeds"][0]["steps"][0]["number"]
    text = f"{number['value']:.3g} ({number['low']:.3g} to {number['high']:.3g})"
    assert f"| {text} |" in table.markdown(record)
    assert f"<td>{text}</td>" in table.page([record])


def test_markup_of_an_author_is_shown_and_has_no_effect(records, campaign_folder):
    folder = campaign_folder / "algorithms/gaimd"
    folder.mkdir(parents=True)
    (folder / "algorithm.toml").write_text(f"source = '{EVIL}'\nlicence = '{EVIL}'\n")
    [record] = (record for record in records if record["algorithm"] == "gaimd")
    changed = json.loads(json.dumps(record))
    changed["cases"][0] |= {"verdict": "FAIL", "title": EVIL}
    changed["cases"][0]["seeds"][0]["why"] = f"a `code` | {EVIL}\n\n# heading @someone"
    page = table.page([changed])
    assert "<script>" not in page
    assert page.count("&lt;script&gt;") == 4
    row = f"- {changed['cases'][0]['case']}: `a 'code' \\| {EVIL} # heading @someone`"
    assert row in table.markdown(changed).splitlines()


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("gaimd", {"suite": "bbr-draft"}, "must be of rfc9743 and gaimd, found bbr-draft"),
        ("other", {}, "must be of rfc9743 and other, found rfc9743 and gaimd"),
        ("gaimd", {"cases": []}, "must have all cases of rfc9743"),
    ],
)
def test_record_of_another_suite_or_algorithm_is_refused(tmp_path, name, change, words):
    data = json.loads((RECORDED / "gaimd.json").read_text())
    (tmp_path / f"{name}.json").write_text(json.dumps(data | change))
    with pytest.raises(UsageError, match=words):
        table.read(tmp_path / f"{name}.json")


def test_entry_without_a_commit_is_refused_before_it_runs(tmp_path, capsys):
    assert cli.main(["entry", "gaimd", "--commit", " ", "--out", str(tmp_path / "entry")]) == 2
    assert "--commit must be a text that seeds can be drawn from" in capsys.readouterr().err
    assert not (tmp_path / "entry").exists()


def test_command_writes_the_page(tmp_path, capsys):
    assert cli.main(["entries", str(RECORDED), "--out", str(tmp_path / "algorithms.html")]) == 0
    assert (tmp_path / "algorithms.html").read_text().startswith("<!DOCTYPE html>")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert cli.main(["entries", str(empty), "--out", str(tmp_path / "none.html")]) == 2
    assert "must have records NAME.json, found none" in capsys.readouterr().err
