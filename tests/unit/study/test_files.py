"""A study's files are looked for under its name; what is missing is told before anything runs."""

import shutil

import pytest

from losslab.errors import LosslabError
from losslab.study import design, files


@pytest.fixture
def copy(root, tmp_path):
    for folder in ("config", "analysis", "report"):
        shutil.copytree(root / folder, tmp_path / folder)
    return tmp_path


def studies(copy):
    return design.load_studies(design.load_yaml(copy / "config/quick.yaml"), copy)


def test_every_study_has_its_files(root, copy):
    assert len(files.known(root)) >= 7
    files.check(studies(copy), copy)


@pytest.mark.parametrize(
    "file",
    ["report/_loss.qmd", "analysis/studies/loss/tables.R", "analysis/studies/loss/figures/cwnd.R"],
)
def test_a_file_that_is_not_there_is_named(copy, file):
    (copy / file).unlink()
    with pytest.raises(LosslabError, match=f"study loss must have its files, found no {file}"):
        files.check(studies(copy), copy)


def test_a_figure_that_no_one_names_is_told(copy):
    (copy / "analysis/studies/loss/figures/new.R").write_text("draw <- function(data) NULL\n")
    with pytest.raises(LosslabError, match="found files of new besides"):
        files.check(studies(copy), copy)


def test_others_follow_where_a_campaign_wants_them(root, copy):
    shutil.copy(root / "tests/fixtures/study/config/studies/tiny.yaml", copy / "config/studies")
    quick = design.load_yaml(copy / "config/quick.yaml")
    names = [study.name for study in design.load_studies(quick, copy)]
    assert "tiny" not in names
    others = [s.name for s in design.load_studies(quick | {"others": True}, copy)][len(names) :]
    assert others == ["kernels", "quic", "tiny"]
    full = design.load_studies(design.load_yaml(copy / "config/config.yaml"), copy)
    assert [len(study.cells) for study in full if study.name == "tiny"] == [4]


def test_how_others_run_is_checked_as_in_a_campaign(root, copy):
    text = (root / "tests/fixtures/study/config/studies/tiny.yaml").read_text()
    path = copy / "config/studies/tiny.yaml"
    path.write_text(text.replace("warmup_s: 0", "warmupp_s: 0"))
    with pytest.raises(LosslabError, match=r"`runs` of .*tiny.yaml .*\n.*warmupp_s"):
        design.load_studies(design.load_yaml(copy / "config/config.yaml"), copy)
