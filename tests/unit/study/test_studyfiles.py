"""Suites: scenarios become blocks; mistakes are refused before anything runs."""

import re
import shutil

import pytest
import yaml

from losslab.errors import LosslabError
from losslab.reading import read_yaml
from losslab.study import design, studyfiles
from losslab.study.studyfiles import declared_values


@pytest.fixture
def rfc(root):
    return studyfiles.load_suite("rfc9743", root)


def test_every_section_of_rfc_9743_is_covered_or_excluded(rfc):
    """Sections 5 to 7 of RFC 9743 contain its requirements."""
    asked = [f"5.1.{n}" for n in range(1, 6)] + [f"5.2.{n}" for n in range(1, 4)]
    asked += ["5.3.1", "5.3.2", *(f"6.{n}" for n in range(1, 5)), *(f"7.{n}" for n in range(1, 12))]
    assert [each["section"] for each in rfc["sections"]] == asked


def test_blocks_of_a_suite_have_the_tested_algorithms_and_buffers_in_packets(rfc):
    made = studyfiles.blocks(rfc, ["vegas"])
    assert {p["algorithm"] for p in made["beside-cubic"]} == {"vegas"}
    assert {p["competitor"] for p in made["rack"]} == {"vegas"}
    # 10 Mbit/s times 40 ms are 400,000 bits, or 33.03 packets.
    assert [p["buffer_packets"] for p in studyfiles.blocks(rfc, ["bbr"])["fifo"]] == [7, 33, 264]
    made = studyfiles.blocks(rfc, ["bbr3", "bbr"], {"bbr3": "6.12-bbr3"})
    assert {point["algorithm"] for point in made["two-queues"]} == {"bbr"}
    assert {point["algorithm"] for point in made["fifo"]} == {"bbr3", "bbr"}


@pytest.mark.parametrize("algorithm", ["bbr3", "gaimd"])
@pytest.mark.parametrize("form", studyfiles.FORMS)
def test_every_algorithm_can_be_scored(root, algorithm, form):
    config = {"studies": {"score": form}, "algorithms": [algorithm, "reno"]}
    found = {cell.condition.algorithm for cell in design.load_cells(config, root)}
    assert {algorithm, "reno"} <= found


def test_campaign_may_name_other_algorithms_and_a_form(root, rfc):
    runs = {"score": {"collapse": studyfiles.runs(rfc, studyfiles.QUICK)["collapse"]}}
    cells = design.load_cells({"studies": runs, "algorithms": ["gaimd", "reno"]}, root)
    assert [cell.condition.algorithm for cell in cells] == ["gaimd", "reno"]
    own = design.load_cells({"studies": runs}, root)
    assert "vegas" in [cell.condition.algorithm for cell in own]
    cells = design.load_cells({"studies": {"score": "quick"}, "algorithms": ["reno"]}, root)
    assert {cell.block for cell in cells} == set(studyfiles.runs(rfc, studyfiles.QUICK))
    with pytest.raises(LosslabError, match="names no suite"):
        design.load_cells({"studies": {"loss": "quick"}}, root)


def case(suite):
    return suite["cases"]["backs-off"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s["not_covered"].pop(), "section .* must either have cases"),
        (lambda s: case(s).update(over="nowhere"), "over must name scenarios, found nowhere"),
        (lambda s: case(s).update(where={"loss_percent": 7}), "must select a cell of the quick"),
        (
            lambda s: s["scenarios"]["two-queues"].pop("not_quick"),
            "must select a cell of the quick",
        ),
        (lambda s: s["scenarios"]["fifo"].update(not_quick="It is."), "should not be valid under"),
        (
            lambda s: s["scenarios"]["two-queues"]["points"].update(rate_mbit=0.5)
            or case(s).update(over="two-queues", where={"rate_mbit": 20}),
            "case backs-off: where must select a cell, found none",
        ),
        (lambda s: case(s)["expect"][0].update(at_least=1), "cases.backs-off"),
        (lambda s: s["scenarios"]["fifo"]["points"].update(bufer_bdp=1), "bufer_bdp"),
        (lambda s: case(s).update(section="9.9"), "section must be one of .* found 9.9"),
        (
            lambda s: case(s)["expect"][0].update(metric="goodput_mbits"),
            "did you mean goodput_mbit",
        ),
    ],
)
def test_mistakes_in_a_suite_are_refused(root, rfc, tmp_path, change, words):
    copy = tmp_path / "suites" / "broken"
    copy.mkdir(parents=True)
    broken = yaml.safe_load((root / "suites/rfc9743/suite.yaml").read_text())
    change(broken)
    (copy / "suite.yaml").write_text(yaml.safe_dump(broken))
    with pytest.raises(LosslabError, match=re.compile(words, re.DOTALL)):
        studyfiles.load_suite("broken", tmp_path)


def test_study_of_a_suite_has_no_blocks(root, tmp_path):
    for folder in ("config", "studies", "suites"):
        shutil.copytree(root / folder, tmp_path / folder)
    path = tmp_path / "studies/score/study.yaml"
    path.write_text(path.read_text() + "blocks: { more: { algorithm: cubic } }\n")
    with pytest.raises(LosslabError, match="blocks"):
        studyfiles.load_study("score", tmp_path)


STUDY = {
    "defaults": {"rtt_ms": 20},
    "blocks": {
        "main": {"algorithm": ["cubic", "bbr"], "loss_percent": [0, 0.1], "competitor": "same"},
        "small": [{"algorithm": "reno", "rtt_ms": 5}],
    },
}


def test_values_of_all_blocks_are_declared():
    found = declared_values([STUDY])
    assert found["block"] == ["main", "small"]
    assert set(found["algorithm"]) >= {"cubic", "bbr", "reno"}
    assert set(found["loss_percent"]) >= {"0", "0.1"}
    assert "20" in found["rtt_ms"]
    assert "5" in found["rtt_ms"]
    # The names that grids give to values are replaced, and axes that no block sets have defaults.
    assert set(found["competitor"]) == {"none", "cubic", "bbr"}
    assert found["queue"] == ["fifo"]


@pytest.fixture
def copy(root, tmp_path):
    for folder in ("config", "studies", "suites"):
        shutil.copytree(root / folder, tmp_path / folder)
    return tmp_path


def studies(copy):
    return design.load_studies(read_yaml(copy / "config/campaigns/quick.yaml"), copy)


def test_every_study_has_its_files_and_a_figure_is_a_file(root, copy):
    assert len(studyfiles.study_names(root)) >= 7
    design.check_files(studies(copy), copy)
    (copy / "studies/loss/figures/new.R").write_text("draw <- function(data) NULL\n")
    assert "new" in next(study for study in studies(copy) if study.name == "loss").figures


@pytest.mark.parametrize("file", ["studies/loss/chapter.qmd", "studies/loss/tables.R"])
def test_missing_file_of_a_study_is_named(copy, file):
    (copy / file).unlink()
    with pytest.raises(LosslabError, match=f"files of study loss are missing: {file}"):
        design.check_files(studies(copy), copy)


def test_studies_follow_others_in_a_campaign(root, copy):
    shutil.copytree(root / "tests/fixtures/study/studies/tiny", copy / "studies/tiny")
    quick = read_yaml(copy / "config/campaigns/quick.yaml")
    names = [study.name for study in design.load_studies(quick, copy)]
    assert "tiny" not in names
    others = [s.name for s in design.load_studies(quick | {"others": True}, copy)][len(names) :]
    assert others == ["kernels", "quic", "tiny"]
    full = design.load_studies(read_yaml(copy / "config/config.yaml"), copy)
    assert [len(study.cells) for study in full if study.name == "tiny"] == [4]


def test_runs_of_following_studies_are_checked(root, copy):
    text = (root / "tests/fixtures/study/studies/tiny/study.yaml").read_text()
    path = copy / "studies/tiny/study.yaml"
    path.parent.mkdir()
    path.write_text(text.replace("warmup_s: 0", "warmupp_s: 0"))
    with pytest.raises(LosslabError, match=r"`runs` of study tiny .*\n.*warmupp_s"):
        design.load_studies(read_yaml(copy / "config/config.yaml"), copy)
