"""Errors name what a misspelt word may stand for."""

import pytest

import losslab
from losslab.errors import LosslabError, did_you_mean
from losslab.reading import read_config
from losslab.study import claims, design
from tests.unit.study.test_claims import LOSS

RUN = {"replicates": 2, "duration_s": 3, "warmup_s": 1}


def test_only_similar_names_and_files_are_suggested(tmp_path):
    assert did_you_mean("FQCODEL", ["fifo", "fq_codel"]) == "; did you mean fq_codel?"
    assert did_you_mean("quick", ["fifo", "fq_codel"]) == ""
    (tmp_path / "mine.yaml").touch()
    with pytest.raises(losslab.UsageError, match=r"/quick\.yaml does not exist$"):
        read_config(tmp_path / "quick.yaml")


@pytest.mark.parametrize(
    ("word", "names", "name"),
    [
        ("loss", ["loss_percent", "queue"], "loss_percent"),
        ("rtt", ["rate_mbit", "rtt_ms"], "rtt_ms"),
        ("bandwidth_mbit", ["rate_mbit", "rtt_ms"], "rate_mbit"),
        ("--bandwidth", ["--rate-mbit", "--rtt-ms"], "--rate-mbit"),
        ("latency", ["rate_mbit", "rtt_ms"], "rtt_ms"),
        ("algo", ["algorithm", "app"], "algorithm"),
        ("--replicates", ["--seeds", "--out"], "--seeds"),
        ("--seeds", ["--replicates", "--out"], "--replicates"),
    ],
)
def test_beginning_of_a_name_or_another_word_for_it_is_suggested(word, names, name):
    assert did_you_mean(word, names) == f"; did you mean {name}?"


@pytest.mark.parametrize(
    ("studies", "suggestion"),
    [
        ({"lss": {"main": RUN}}, "did you mean loss?"),
        ({"loss": {"mian": RUN}}, "you mean main?"),
        ({"loss": {"main": {**RUN, "only": {"algorithm": "cubik", "app": "iperf3"}}}},
         "found cubik; did you mean cubic[?]\n"),
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


def test_unknown_block_of_a_claim_is_reported_once(root, tmp_path):
    path = tmp_path / "loss.yaml"
    path.write_text(LOSS.replace("block: main", "block: mian", 1))
    points = claims.design_points(design.load_study("loss", root))
    with pytest.raises(LosslabError) as error:
        claims.check_claims(path, "loss", points)
    assert str(error.value).count("found mian; did you mean main?") == 1
