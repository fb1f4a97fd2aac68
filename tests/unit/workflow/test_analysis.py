"""R files on which each table and figure depends."""

import dataclasses

import pytest

from losslab.errors import LosslabError
from losslab.workflow.analysis import Analysis, require_defined_once


@pytest.fixture
def project(tmp_path, campaign):
    """Return the R analysis of two studies' scripts."""
    for name, text in {
        "R/look.R": "look <- 1\n",
        "figures.R": "draw()\n",
        "tabulate.R": "write()\n",
        "studies/loss/helpers.R": "helper <- 2\n",
        "studies/loss/tables.R": "tables <- 3\n",
        "studies/loss/figures/one.R": "one <- 4\n",
        "studies/loss/figures/two.R": "two <- 5\n",
        "studies/map/gains.R": "gain <- 6\n",
    }.items():
        path = tmp_path / "analysis" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    study = dataclasses.replace(campaign.studies["loss"], figures=["one", "two"])
    return Analysis({"loss": study}, tmp_path)


@pytest.mark.parametrize(
    ("name", "redrawn"),
    [
        ("studies/loss/figures/one.R", {"figures"}),
        ("studies/loss/tables.R", {"tables"}),
        ("studies/loss/helpers.R", {"figures", "tables"}),
        ("R/look.R", {"figures", "tables"}),
        ("figures.R", {"figures"}),
        ("studies/map/gains.R", set()),
    ],
)
def test_changed_r_code_redraws_its_dependents(project, tmp_path, name, redrawn):
    def digests():
        tables, figures = [project.table_code("loss")], project.figure_code("loss")
        return {
            "tables": project.code_digest("tabulate.R", "loss", code=tables),
            "figures": project.code_digest("figures.R", "loss", code=figures),
        }

    path = tmp_path / "analysis" / name
    before, text = digests(), path.read_text()
    path.write_text(text + "# A comment\n")
    assert digests() == before
    path.write_text(text + "changed <- 1\n")
    assert {what for what, its in digests().items() if its != before[what]} == redrawn


def test_r_functions_must_be_defined_once(tmp_path):
    one, two = tmp_path / "one.R", tmp_path / "inner" / "one.R"
    two.parent.mkdir()
    one.write_text("red <- 1\n")
    two.write_text("blue <- 2\n")
    with pytest.raises(LosslabError, match=r"unique names, found one.R in"):
        require_defined_once([one, two])
    other = two.rename(tmp_path / "other.R")
    require_defined_once([one, other])
    other.write_text("blue <- function() {\n  red <- 2\n}\n")
    require_defined_once([one, other])
    other.write_text("red <- 2\n")
    with pytest.raises(LosslabError, match=r"found red in .*one.R and .*other.R"):
        require_defined_once([one, other])
