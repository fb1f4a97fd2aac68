"""Errors name what a misspelt word may stand for."""

import dataclasses

import pytest

import losslab
from losslab import cli
from losslab.errors import LosslabError, did_you_mean
from losslab.reading import read_config
from losslab.repository import ROOT
from losslab.study import claims, design, schemas
from losslab.study.condition import AXES
from tests.unit.study.test_claims import LOSS
from tests.unit.study.test_condition import CONDITION

RUN = {"replicates": 2, "duration_s": 3, "warmup_s": 1}


def test_only_similar_names_are_suggested():
    assert did_you_mean("FQCODEL", ["fifo", "fq_codel"]) == "; did you mean fq_codel?"
    assert did_you_mean("quick", ["fifo", "fq_codel"]) == ""


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (["measure", "--algorithm", "cubik", "--out", "x"], "did you mean cubic?"),
        (["measure", "--algorithm", "cubic", "--flows", "bbrr", "--out", "x"], "mean bbr or bbr3?"),
        (["measure", "--algorithm", "cubic", "--queue", "fqcodel", "--out", "x"], "mean fq_codel"),
        (["measure", "--algorithm", "cubic", "--los-percent", "1", "--out", "x"],
         "unrecognized arguments: --los-percent 1; did you mean --loss-percent"),
        (["sweep", "--algorithm", "cubic", "--queue", "fqcodel", "--out", "x"], "mean fq_codel"),
        (["measre"], "did you mean measure?"),
        (["cells", "los"], "did you mean loss?"),
        (["cells", "--config", f"{ROOT}/config/quik.yaml"], f"mean {ROOT}/config/quick.yaml or "),
        (["score", "bbbr", "--quick", "--out", "x"], "found bbbr; did you mean bbr"),
    ],
)  # fmt: skip
def test_misspelt_word_on_the_command_line_has_a_suggestion(capsys, words, suggestion):
    try:
        status = cli.main(words)
    except SystemExit as end:
        status = end.code
    error = capsys.readouterr().err
    assert status == 2
    assert suggestion in error
    assert len(error.splitlines()) <= 2


def test_misspelt_key_and_value_of_a_file_have_a_suggestion():
    selector = {"studies": {"loss": {"main": {**RUN, "only": {"los_percent": 1}}}}}
    assert schemas.problems(selector, "config")[0].endswith("; did you mean loss_percent?")
    setting = {"studies": {"loss": {"main": {"replicats": 2, "duration_s": 3, "warmup_s": 1}}}}
    assert "did you mean replicates" in schemas.problems(setting, "config")[0]
    assert "did you mean fq_codel" in AXES["queue"].problems("fqcodel")[0]


@pytest.mark.parametrize(
    ("studies", "suggestion"),
    [
        ({"lss": {"main": RUN}}, "did you mean loss?"),
        ({"loss": {"mian": RUN}}, "you mean main?"),
        ({"loss": {"main": {**RUN, "only": {"algorithm": "cubik", "app": "iperf3"}}}},
         "found none with algorithm cubik; did you mean cubic[?]\n"),
    ],
)  # fmt: skip
def test_misspelt_study_block_and_value_have_a_suggestion(root, studies, suggestion):
    with pytest.raises(LosslabError, match=suggestion):
        design.load_studies({"studies": studies}, root)


def test_misspelt_axis_in_python_has_a_suggestion(tmp_path):
    with pytest.raises(losslab.UsageError, match=r"found algoritm; did you mean algorithm\?"):
        losslab.measure(algoritm="bbr", out=tmp_path / "run")
    with pytest.raises(losslab.UsageError, match=r"found los_percent; did you mean loss_percent\?"):
        losslab.sweep(algorithm="bbr", los_percent=[0, 1], out=tmp_path / "sweep")
    with pytest.raises(losslab.UsageError, match=r"found algoritm; did you mean algorithm\?"):
        losslab.Results(tmp_path, ()).runs(algoritm="bbr")


def test_configuration_of_another_name_has_no_suggestion(tmp_path):
    (tmp_path / "mine.yaml").touch()
    with pytest.raises(losslab.UsageError, match=r"/quick\.yaml does not exist$"):
        read_config(tmp_path / "quick.yaml")


def test_unknown_block_of_a_claim_is_reported_once(root, tmp_path):
    path = tmp_path / "loss.yaml"
    path.write_text(LOSS.replace("block: main", "block: mian", 1))
    points = claims.design_points(design.load_study("loss", root))
    with pytest.raises(LosslabError) as error:
        claims.check_claims(path, "loss", points)
    assert str(error.value).count("found mian; did you mean main?") == 1


def test_competitor_of_a_video_is_refused_with_flows_as_the_alternative():
    video = dataclasses.replace(CONDITION, app="ffmpeg", competitor="bbr")
    assert video.problems() == [
        "competitor needs the app iperf3 or web, found ffmpeg; with ffmpeg, use flows instead, "
        "such as flows bbr"
    ]
    datagram = dataclasses.replace(video, app="datagram", scheme="template")
    assert not any("use flows" in problem for problem in datagram.problems())
