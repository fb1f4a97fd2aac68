"""`losslab score`: what it asks of the workflow, and what it refuses."""

import json

import pytest
from jsonschema import Draft202012Validator

from losslab import cli, score
from losslab.study import design, suite


def test_an_unknown_algorithm_is_refused(capsys, tmp_path):
    assert cli.main(["score", "nobody", "--quick", "--out", str(tmp_path)]) == 2
    assert "found nobody" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_estimate_measures_nothing(capsys, tmp_path):
    out = tmp_path / "card"
    assert cli.main(["score", "gaimd", "--quick", "--estimate", "--out", str(out)]) == 0
    assert "min of measuring on" in capsys.readouterr().err
    assert not out.exists()


def test_one_algorithm_in_its_quick_form_takes_less_than_a_quarter_of_an_hour(root):
    campaign = score.plan(suite.load_suite("rfc9743", root), suite.QUICK, ["gaimd"])
    assert campaign["algorithms"] == ["gaimd", "reno", "cubic", "bbr"]
    assert score.minutes(design.load_cells(campaign, root), cores=2) < 15


def test_the_schema_is_one_and_refuses_others():
    published = score.published_schema()
    Draft202012Validator.check_schema(published)
    assert not Draft202012Validator(published).is_valid(json.loads("{}"))


@pytest.mark.parametrize("kind", ["algorithm", "comparison"])
def test_pages_have_their_documents(root, kind):
    assert (root / score.PAGES / f"{kind}.qmd").is_file()
