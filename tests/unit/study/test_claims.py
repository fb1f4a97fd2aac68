"""Claims and published numbers: mistakes are refused before anything is measured."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from losslab.errors import LosslabError
from losslab.reading import read_yaml
from losslab.study import claims, studyfiles

# Claims in which tests make mistakes; they do not change with the study's own claims.
LOSS = """\
study: loss
since: 1.0.0
claims:
  - id: cubic-symmetric-1-percent
    sentence: 1 % loss costs CUBIC 60 % or more.
    source: a test
    kind: change_percent
    evidence: own
    where: { block: main, app: iperf3, algorithm: cubic, path: symmetric, loss_percent: 1 }
    against: { loss_percent: 0 }
    at_most: -60
    limit_is: ours
    limit_because: A test's.
  - id: cubic-asymmetric-1-percent
    sentence: So it is on the asymmetric path.
    source: a test
    kind: change_percent
    evidence: own
    where: { block: main, app: iperf3, algorithm: cubic, path: asymmetric, loss_percent: 1 }
    against: { loss_percent: 0 }
    at_most: -60
    limit_is: ours
    limit_because: A test's.
  - id: cubic-symmetric-monotonic
    sentence: It falls with every percent.
    source: a test
    kind: largest_rise_percent
    evidence: own
    where: { block: main, app: iperf3, algorithm: cubic, path: symmetric, loss_percent: [2, 3, 4] }
    along: loss_percent
    at_most: 0
    limit_is: ours
    limit_because: A test's.
"""


@pytest.fixture
def copy(root, tmp_path):
    """Return a copy of the studies, claims and published numbers."""
    shutil.copytree(root / "studies", tmp_path / "studies")
    (tmp_path / "studies/loss/claims.yaml").write_text(LOSS)
    return tmp_path


def replace(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def refusal(copy, study):
    with pytest.raises(LosslabError) as error:
        claims.check([study], copy)
    return str(error.value)


def test_every_claims_file_is_valid(root):
    claims.check(studyfiles.study_names(root), root)


MISTAKES = read_yaml(Path(__file__).with_name("mistakes.yaml"))


@pytest.mark.parametrize("case", MISTAKES, ids=lambda case: case["says"])
def test_mistake_in_a_claim_names_its_place_and_what_would_be_right(copy, case):
    study = case["study"]
    replace(copy / "studies" / study / "claims.yaml", case["text"], case["mistake"])
    message = refusal(copy, study)
    assert f"studies/{study}/claims.yaml, claim " in message
    assert case["says"] in message


@pytest.mark.parametrize("content", ["study: loss\nclaims: []\n", "claims: [{id: a}]\n", "- a\n"])
def test_malformed_claims_file_is_refused(copy, content):
    (copy / "studies/loss/claims.yaml").write_text(content)
    assert "studies/loss/claims.yaml" in refusal(copy, "loss")


def test_series_of_no_cell_and_study_of_another_file_are_refused(copy):
    study = copy / "studies/loss/study.yaml"
    replace(study, "time_series:\n  - {", "time_series:\n  - { rtt_ms: 7,")
    assert "time_series of study loss must select cells: rtt_ms must be" in refusal(copy, "loss")
    replace(study, "study: loss", "study: other")
    assert "must be the name of its folder" in refusal(copy, "loss")


def test_claims_of_another_study_are_refused(copy):
    replace(copy / "studies/loss/claims.yaml", "study: loss", "study: cloud")
    assert "study must be loss" in refusal(copy, "loss")


def test_study_may_have_no_claims(copy):
    (copy / "studies/loss/claims.yaml").unlink()
    assert "does not exist" in refusal(copy, "loss")


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("cubic,symmetric,0,", "cubci,symmetric,0,", 2, "algorithm must be one of cubic, bbr"),
        (
            "cubic,symmetric,1,",
            "cubic,symetric,1,",
            3,
            "path: 'symetric' is not one of .'symmetric', 'asymmetric'",
        ),
        ("cubic,symmetric,1,", "cubic,symmetric,0.11,", 3, "loss_percent must be one of 0, 1, 2"),
        ("235.513105", "235,5", 3, "one for each column"),
        ("235.513105", "about 235", 3, "mean must be a number without a unit, found 'about 235'"),
        ("cubic,symmetric,1,", "cubic,symmetric,1%,", 3, "loss_percent must be a number without"),
        ("slide", "slid", 2, "'slid' was unexpected(.|\n)*schema.yaml lists every column"),
    ],
)
def test_mistake_in_a_published_table_is_named(copy, old, new, line, words):
    path = copy / "studies/loss/published.csv"
    replace(path, old, new)
    message = refusal(copy, "loss")
    assert message.startswith(f"{path}, line {line}")
    assert re.search(words, message)


def test_study_may_have_published_numbers(copy):
    path = copy / "studies/loss/published.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0] + ",wobble_ms", *(f"{line},0.5" for line in lines[1:])]))
    assert "'wobble_ms' was unexpected" in refusal(copy, "loss")
    study = copy / "studies/loss/study.yaml"
    replace(study, "tables:", "published_numbers: [wobble_ms]\ntables:")
    claims.check(["loss"], copy)
    replace(path, "0.5\n", "half\n")
    assert "line 2: wobble_ms must be a number without a unit, found 'half'" in refusal(
        copy, "loss"
    )


def test_kinds_of_claims_equal_the_codes(root):
    schema = yaml.safe_load((root / "workflow/schemas/claims.schema.yaml").read_text())
    kinds = schema["properties"]["kind"]["enum"]
    code = (root / "analysis/R/claims.R").read_text()
    listed = code[code.index("claim_kinds <- list(") : code.index("\n)\n")]
    assert kinds == re.findall(r"^  (\w+) = function", listed, re.MULTILINE)
    assert kinds == list(claims.NEEDS)


def test_cause_needs_cells_that_differ_in_one_axis_from_a_step_before():
    base = {"block": "a", "rtt_ms": 10, "loss_percent": 1, "pauses": "none", "shaper": "tbf"}
    points = [
        base,
        base | {"block": "b", "rtt_ms": 20},
        base | {"block": "c", "rtt_ms": 20, "loss_percent": 0},
        base | {"block": "d", "shaper": "link", "pauses": "per_s=1"},
        base | {"block": "e", "shaper": "link"},
    ]

    def problems(*blocks, **last):
        """List the problems of a reason whose last sentence states the cause."""
        value = {"kind": "value", "at_least": 1}
        reason = [{"shown_by": value | {"where": {"block": block}}} for block in blocks]
        reason[-1] = {"shown_by": reason[-1]["shown_by"] | last, "cause": True}
        return claims._reason_problems({"where": {"block": "a"}, "reason": reason}, points, [])

    for blocks in ("b", "e", "ed", "bc"):
        assert problems(*blocks) == [], blocks
    # Its scatter would be over that of "a", from which it differs in two axes.
    own = {"block": "a", "rtt_ms": 10, "loss_percent": 1}
    assert "in a single axis" in "".join(problems("b", "c", kind="scatter_ratio", against=own))
    # "a" is the claim's own, and "c" and "d" differ in two axes from it.
    for blocks in ("a", "c", "d", "cd", "bd"):
        [problem] = problems(*blocks)
        assert "in a single axis" in problem, blocks
