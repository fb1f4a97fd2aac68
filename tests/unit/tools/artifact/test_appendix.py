"""Appendix of an archive: headings of the venues' templates, claims, experiments and two pages."""

import re
import shutil
import string
import subprocess

import pytest
import yaml

from losslab.campaign import plan
from losslab.errors import LosslabError
from losslab.repository import ROOT
from losslab.study import design
from losslab.tools.artifact import appendix, major
from losslab.tools.artifact.remake import path_of

MAJOR = """\
claims:
  - { claim: loss/cubic-10, item: Figure 3_a }
  - { claim: map/row-4, item: Table 2 }
"""


@pytest.fixture(scope="module")
def quick():
    return plan.load_campaign(ROOT / "config/campaigns/quick.yaml", ROOT)


@pytest.fixture
def majors(tmp_path):
    (tmp_path / "major.yaml").write_text(MAJOR)
    return major.read_major(tmp_path / "major.yaml")


def write(campaign, runs, quick, majors, venue="acm", seconds=60, anonymous=False):
    packing = appendix.Packing(
        "config/campaigns/quick.yaml", "2026-01-31", 5_000_000, True, seconds, venue, anonymous
    )
    return appendix.write(campaign, runs, quick, majors, packing)


@pytest.mark.parametrize("venue", appendix.VENUES)
def test_appendix_of_a_venue_has_its_headings_and_all_claims_and_experiments(
    campaign, runs, quick, majors, venue
):
    write(campaign, runs, quick, majors, venue)
    text = (campaign / appendix.TEX).read_text()
    assert "campaign \\texttt{config/campaigns/quick.yaml}: 3 valid runs of 1 conditions" in text
    assert len(re.findall(r"\\sub(?:sub)?section\{(.*)\}$", text, re.M)) >= 11
    # As Typst reads it.
    plain = appendix.convert(text, "latex", "plain")
    assert re.findall(r"^\(([CE]\d)\)$", plain, re.M) == ["C1", "C2", "C3", "E1", "E2", "E3"]


@pytest.fixture(params=["pdflatex", "typst"])
def program(request, monkeypatch):
    """Let one program make the PDF."""
    if request.param == "typst":
        monkeypatch.setattr(appendix.shutil, "which", lambda _: None)
    elif shutil.which("pdflatex") is None:
        pytest.skip("needs Debian's texlive-latex-base")


@pytest.mark.parametrize("venue", appendix.VENUES)
def test_appendix_of_eight_claims_has_two_pages(campaign, runs, quick, venue, program):
    """The claims are losslab's own; their sentences stand for the longest in the repository."""
    majors = major.read_major()
    assert 5 <= 1 + len(majors) <= 8
    head = (campaign / "results/claims.csv").read_text().splitlines()[0]
    sentence = "In the paper's condition 1 % loss costs CUBIC 70 % or more of its throughput " * 2
    rows = [
        f"{m.study},{m.claim},{sentence},slide 1,order,70,76.15,74.2,77.9,10,Mbit/s,at least 70,"
        "theirs,,reproduced,,,,none"
        for m in majors
    ]
    (campaign / "results/claims.csv").write_text("\n".join([head, *rows, ""]))
    write(campaign, runs, quick, majors, venue)
    appendix.typeset(campaign)
    assert (campaign / appendix.PDF).read_bytes().startswith(b"%PDF")


def test_longer_appendix_is_refused(tmp_path, program):
    (tmp_path / appendix.TEX).write_text(
        r"\documentclass{article}\begin{document}1" + "\n\nmore words" * 400 + r"\end{document}"
    )
    with pytest.raises(LosslabError, match=r"must have 2 pages at most, found [3-9]"):
        appendix.typeset(tmp_path)


def test_escaped_text_stays_as_it_is():
    plain = f'1. {string.punctuation} a_b_c *a* ~b~ `c` -- "d" it\'s <e> $1$ ${{f}} @g ... #h'
    filled = appendix.convert(appendix.escaped(plain), "markdown", "markdown", "--wrap=none")
    assert appendix.convert(filled, "markdown", "plain", "--wrap=none") == f"{plain}\n"


def test_our_bytes_and_the_sources_are_separate_claims(campaign, runs, quick, majors):
    write(campaign, runs, quick, majors)
    items = dict(
        re.findall(r"\\item\[\((C\d)\)\]\n(.*)$", (campaign / appendix.TEX).read_text(), re.M)
    )
    assert list(items) == ["C1", "C2", "C3"]
    assert "same bytes" in items["C1"]
    assert "ratio" not in items["C1"]
    assert items["C2"] == (
        r"CUBIC loses 5 \% \& more\_. Ours: 76.2 {[}74.2, 77.9{]} \%, n=10; source: 70 \%; "
        r"ratio 1.09; limit: at least 70; reproduced. Proven by E2; shown in Figure 3\_a."
    )
    # The signs do not break from their numbers.
    assert r"Ours: \(-1.1\) {[}\(-1.2\), \(-1\){]}, n=10; source: \(-1\); ratio 1.10" in items["C3"]


def test_experiments_have_the_cells_of_their_claims_and_the_recorded_minutes(
    campaign, runs, quick, majors
):
    [loss, _] = major.experiments(quick.config, majors)
    # One of three made-up runs of 30 s is of a cell that C2 needs.
    run = appendix.Run(f"results/{path_of(loss.cells[0])}/0", *list(vars(runs[0]).values())[1:])
    line = write(campaign, [run, *runs[1:]], quick, majors)
    folder = campaign / "experiments"
    assert {path.name for path in folder.iterdir()} == {
        "E1.sh", "E2.sh", "E2.yaml", "E3.sh", "E3.yaml", "all.sh", "major-claims.yaml",
        "packing.json",
    }  # fmt: skip
    text = (campaign / appendix.TEX).read_text()
    # E1: 60 s of verification, and a sample of all three runs.
    minutes = re.findall(r"\((E\d)\)\]\n\\emph\{(.*?)\} \{\[\}(.*?)\{\]\}", text)
    assert minutes == [
        ("E1", "The archive", "1 human-minute + 2.5 compute-minutes"),
        ("E2", "Study loss: C2", "1 human-minute + 0.5 compute-minutes"),
        ("E3", "Study map: C3", "1 human-minute + 0.0 compute-minutes"),
    ]
    assert line == "3 experiments, 0.05 compute-hours (at most 5)"
    cells = design.load_cells(yaml.safe_load((folder / "E3.yaml").read_text()), ROOT)
    assert {cell.condition.algorithm for cell in cells} == {"bbr", "cubic"}
    # The same cells, with as many and as long runs: the bytes are the campaign's.
    assert set(cells) < set(quick.cells)
    subprocess.run(["sh", "-n", *folder.glob("*.sh")], check=True)
    assert "losslab claims map/row-4 --claims" in (folder / "E3.sh").read_text()


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ("[{ claim: loss/bbr-latency, item: a }]", "must have a number .*loss/bbr-latency"),
        ("[{ claim: quic/quic-clean, item: a }]", "that the campaign measures.*quic/quic-clean"),
        ("[{ claim: loss/cubic-01, item: a }]", "found loss/cubic-01; did you mean"),
        ("[{ claim: none/any, item: a }]", "must be one of "),
        ("[{ claim: loss/cubic-10 }]", "'item' is a required property"),
        ("[]", "claims"),
    ],
)  # fmt: skip
def test_claims_that_cannot_be_shown_are_refused(campaign, runs, quick, tmp_path, claims, words):
    (tmp_path / "major.yaml").write_text(f"claims: {claims}\n")
    with pytest.raises(LosslabError, match=f"(?s){words}"):
        write(campaign, runs, quick, major.read_major(tmp_path / "major.yaml"))


def test_experiments_of_more_than_five_hours_are_refused(campaign, runs, quick, majors):
    with pytest.raises(LosslabError, match=r"5 compute-hours at most, found 6\.0: E1 6\.0, "):
        write(campaign, runs, quick, majors, seconds=6 * 3600)


@pytest.fixture
def packed(campaign, runs, quick, majors, monkeypatch):
    """Return an archive's folder with its appendix."""
    monkeypatch.setattr(appendix, "measured", lambda *_: runs)
    write(campaign, runs, quick, majors)
    (campaign / appendix.INSTRUMENTS).mkdir()
    return campaign


@pytest.mark.parametrize("anonymous", [False, True])
def test_f5_changed_number_of_an_appendix_is_found(packed, quick, runs, majors, anonymous):
    """The archive's digests can be renewed by anybody who changes a number."""
    packing = appendix.PACKING
    if anonymous:
        shutil.rmtree(packed / appendix.EXPERIMENTS)
        write(packed, runs, quick, majors, anonymous=True)
        tex = packed / appendix.TEX
        tex.write_text(tex.read_text().replace("A box", appendix.SUBSTITUTE))
    assert appendix.differences(packed, quick, 5_000_000) == []
    for name, old, new in (
        (appendix.TEX, "Ours: 76.2", "Ours: 79.2"),
        (appendix.EXPERIMENTS / "E2.sh", "losslab", "echo losslab"),
        (packing, '"result_bytes": 5000000', '"result_bytes": 1'),
    ):
        text = (packed / name).read_text()
        assert old in text
        (packed / name).write_text(text.replace(old, new, 1))
        (finding,) = appendix.differences(packed, quick, 5_000_000)
        assert (finding.stage, finding.path) == ("appendix", str(name))
        assert new in finding.what
        (packed / name).write_text(text)
    (packed / packing).unlink()
    (finding,) = appendix.differences(packed, quick, 5_000_000)
    assert "cannot be made again" in finding.what


def test_claim_that_a_campaign_does_not_measure_names_the_option_for_others(quick, majors):
    with pytest.raises(LosslabError) as error:
        major.experiments({**quick.config, "studies": {}}, majors)
    assert "--claims FILE" in error.value.hint
    assert "report/major-claims.yaml" in error.value.hint
