"""Files of a study, found by its name; missing ones are refused before anything runs."""

import shutil

import pytest

from losslab.errors import LosslabError
from losslab.study import design, studyfiles


@pytest.fixture
def copy(root, tmp_path):
    for folder in ("config", "analysis", "report"):
        shutil.copytree(root / folder, tmp_path / folder)
    return tmp_path


def studies(copy):
    return design.load_studies(design.load_yaml(copy / "config/quick.yaml"), copy)


def test_every_study_has_its_files(root, copy):
    assert len(studyfiles.study_names(root)) >= 7
    design.check_files(studies(copy), copy)


@pytest.mark.parametrize(
    "file",
    ["report/_loss.qmd", "analysis/studies/loss/tables.R", "analysis/studies/loss/figures/cwnd.R"],
)
def test_missing_file_of_a_study_is_named(copy, file):
    (copy / file).unlink()
    with pytest.raises(LosslabError, match=f"files of study loss are missing: {file}"):
        design.check_files(studies(copy), copy)


def test_unlisted_figure_is_reported(copy):
    (copy / "analysis/studies/loss/figures/new.R").write_text("draw <- function(data) NULL\n")
    with pytest.raises(LosslabError, match="found other files: new"):
        design.check_files(studies(copy), copy)


def test_studies_follow_others_in_a_campaign(root, copy):
    shutil.copy(root / "tests/fixtures/study/config/studies/tiny.yaml", copy / "config/studies")
    quick = design.load_yaml(copy / "config/quick.yaml")
    names = [study.name for study in design.load_studies(quick, copy)]
    assert "tiny" not in names
    others = [s.name for s in design.load_studies(quick | {"others": True}, copy)][len(names) :]
    assert others == ["kernels", "quic", "tiny"]
    full = design.load_studies(design.load_yaml(copy / "config/config.yaml"), copy)
    assert [len(study.cells) for study in full if study.name == "tiny"] == [4]


def test_runs_of_following_studies_are_checked(root, copy):
    text = (root / "tests/fixtures/study/config/studies/tiny.yaml").read_text()
    path = copy / "config/studies/tiny.yaml"
    path.write_text(text.replace("warmup_s: 0", "warmupp_s: 0"))
    with pytest.raises(LosslabError, match=r"`runs` of .*tiny.yaml .*\n.*warmupp_s"):
        design.load_studies(design.load_yaml(copy / "config/config.yaml"), copy)
