"""`losslab score`: its campaign, exit status and refused requests, and its scorecard."""

import copy
import csv
import json
import sys

import pytest
from jsonschema import Draft202012Validator

from losslab import cli
from losslab.errors import LosslabError
from losslab.instrument import analysis
from losslab.reading import read_yaml
from losslab.study import design, studyfiles
from losslab.study.names import algorithms_of
from losslab.study.schemas import SCHEMAS
from losslab_score import score


def test_unknown_algorithm_is_refused(capsys, tmp_path):
    assert cli.main(["score", "nobody", "--quick", "--out", str(tmp_path)]) == 2
    assert "found nobody" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_estimate_measures_nothing(capsys, tmp_path):
    out = tmp_path / "card"
    assert cli.main(["score", "gaimd", "--quick", "--estimate", "--out", str(out)]) == 0
    assert "idle cores" in capsys.readouterr().err
    assert not out.exists()


def test_score_without_snakemake_is_refused_before_it_begins(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "snakemake", None)
    monkeypatch.setattr(score, "FOR_CAMPAIGNS", "install losslab with its extra `campaign`")
    out = tmp_path / "card"
    assert cli.main(["score", "gaimd", "--quick", "--out", str(out)]) == 1
    assert capsys.readouterr().err == (
        "losslab: error: losslab score needs Snakemake, found none\n"
        "  -> install losslab with its extra `campaign`\n"
    )
    assert not out.exists()
    assert cli.main(["score", "gaimd", "--quick", "--estimate", "--out", str(out)]) == 0


@pytest.mark.parametrize(("part", "missing"), [("missing_r_packages", ["ragg"]), ("renderer", "")])
def test_score_without_r_or_a_renderer_is_refused_before_it_begins(
    monkeypatch, capsys, tmp_path, part, missing
):
    monkeypatch.setattr(analysis, part, lambda: missing)
    out = tmp_path / "card"
    assert cli.main(["score", "gaimd", "--quick", "--out", str(out)]) == 1
    assert "losslab score needs" in capsys.readouterr().err
    assert not out.exists()


def test_quick_score_of_one_algorithm_takes_less_than_15_minutes(root):
    campaign = score.plan(studyfiles.load_suite("rfc9743", root), studyfiles.QUICK, ["gaimd"])
    assert campaign["algorithms"] == ["gaimd", "reno", "cubic", "bbr"]
    assert score.minutes(design.load_cells(campaign, root), cores=2) < 15


def test_scorecard_schema_refuses_other_documents():
    published = read_yaml(SCHEMAS / "scorecard.schema.yaml")
    Draft202012Validator.check_schema(published)
    assert not Draft202012Validator(published).is_valid(json.loads("{}"))


@pytest.mark.parametrize("kind", ["algorithm", "comparison"])
def test_pages_of_the_score_have_their_documents(root, kind):
    assert (root / score.PAGES / f"{kind}.qmd").is_file()


def test_algorithm_with_parameters_is_scored_once_and_is_no_baseline(root):
    assert score.with_parameters(["a,x=1,y=2", "cubic"], ["cubic"]) == {"a": "x=1,y=2", "cubic": ""}
    for names in (["a,x=1", "a,x=2"], ["cubic,hystart=0"]):
        with pytest.raises(LosslabError, match="each algorithm once") as error:
            score.with_parameters(names, ["cubic"])
        assert "losslab new algorithm" in error.value.hint
    selected = studyfiles.load_suite("rfc9743", root)
    cells = design.load_cells(score.plan(selected, "quick", ["vegas,alpha=3"]), root)
    tested = {c.condition.parameters for c in cells if "vegas" in algorithms_of(c.condition)}
    assert tested == {"vegas.alpha=3"}
    assert {c.condition.parameters for c in cells} == {"none", "vegas.alpha=3"}


def write_table(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def scored(root, tmp_path, monkeypatch):
    """Return a function that scores an algorithm with one criterion, a number from 0 to 100."""
    criterion = next(
        c for c in studyfiles.load_suite("rfc9743", root)["criteria"] if c["id"] == "wired"
    )

    def run(value, name, *words):
        row = {key: criterion[key] for key in ("section", "title", "metric", "unit")} | {
            "algorithm": "vegas", "criterion": "wired", "value": value, "low": value - 1,
            "high": value + 1, "n": 5, "at_least": criterion["at_least"], "at_most": "NA",
            "limit_is": "ours", "limit_because": "why", "verdict": "inconclusive", "absent": "NA",
            "cells": "a",
        }  # fmt: skip

        def measure(campaign, out, cores):
            assert campaign["algorithms"][0] == "vegas"
            write_table(out / score.CRITERIA, [row])
            write_table(out / score.CELLS, [{"cell": "a", "n_replicates": 5, "n_valid": 5}])

        monkeypatch.setattr(score, "measure", measure)
        monkeypatch.setattr(score, "write_pages", lambda card, out: [])
        return cli.main(["score", "vegas", "--quick", "--out", str(tmp_path / name), *words])

    return run


def test_exit_status_says_whether_the_score_is_worse_than_recorded(scored, tmp_path, capsys):
    assert scored(90, "recorded") == 0
    against = ("--against", str(tmp_path / "recorded" / score.CARD))
    # Overlapping intervals, then better, then worse.
    assert scored(88.5, "like", *against) == 0
    assert scored(99, "better", *against) == 0
    assert "must agree with" not in capsys.readouterr().err
    assert scored(80, "worse", *against) == 1
    said = capsys.readouterr().err
    assert "criteria must agree with" in said
    assert "vegas, wired (6.3): was 90 [89, 91] % of the link, is 80 [79, 81]" in said
    # The scorecard is written anyway.
    assert json.loads((tmp_path / "worse" / score.CARD).read_text())["tested"] == ["vegas"]


def test_recorded_score_of_another_form_is_refused_before_measuring(scored, tmp_path, capsys):
    assert scored(90, "recorded") == 0
    path = tmp_path / "recorded" / score.CARD
    path.write_text(json.dumps(json.loads(path.read_text()) | {"form": "full"}))
    assert scored(90, "again", "--against", str(path)) == 1
    assert "scorecards must have the same form" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()


def row(algorithm, criterion, value, low="", high="", **more):
    """Return a row of the table of criteria."""
    text = {name: criterion[name] for name in ("section", "title", "metric", "unit")}
    side = "at_most" if "at_most" in criterion else "at_least"
    sides = {"at_most": "", "at_least": "", side: str(criterion[side])}
    return {
        "algorithm": algorithm, "criterion": criterion["id"], **text, **sides,
        "value": str(value), "low": str(low), "high": str(high), "n": "5",
        "limit_is": "ours", "limit_because": "why", "verdict": "meets", "absent": "",
        "cells": "a b", **more,
    }  # fmt: skip


CELLS = [{"cell": name, "n_replicates": "5", "n_valid": "4"} for name in ("a", "b")]


@pytest.fixture
def rfc(root):
    return studyfiles.load_suite("rfc9743", root)


@pytest.fixture
def card(rfc):
    """Return a scorecard with two criteria: a maximum and a minimum."""
    little = next(c for c in rfc["criteria"] if "at_most" in c)
    much = next(c for c in rfc["criteria"] if "at_least" in c)
    rfc["criteria"] = [little, much]
    rows = [
        row("mine", little, 2, 1, 3), row("mine", much, 50, 45, 55),
        row("cubic", little, 6, 5, 7), row("cubic", much, 90, 85, 95, verdict="misses"),
    ]  # fmt: skip
    return score.scorecard(rfc, "quick", {"mine": "gain=3"}, rows, CELLS)


def test_scorecard_has_criteria_with_baselines_limits_and_runs(card):
    assert card["tested"] == ["mine"]
    assert card["parameters"] == {"mine": "gain=3"}
    assert [each["algorithm"] for each in card["criteria"]] == ["mine", "mine", "cubic", "cubic"]
    first = card["criteria"][0]
    assert (first["value"], first["low"], first["high"], first["n"]) == (2, 1, 3, 5)
    assert list(first["limit"]) == ["at_most"]
    assert first["baselines"]["cubic"]["value"] == 6
    assert first["runs"][0] == {
        "cell": "a",
        "folder": "results/cells/score/a",
        "replicates": 5,
        "valid": 4,
        "rerun": "losslab rerun results/cells/score/a/0",
    }
    # A baseline is not compared with itself.
    assert "cubic" not in card["criteria"][2]["baselines"]


def test_scorecard_table_has_a_line_per_criterion_and_totals(card):
    text = score.table(card)
    assert "2 [1, 3]" in text
    assert text.endswith("2 meets")


def changed(card, number, **values):
    other = copy.deepcopy(card)
    other["criteria"][number].update(values)
    return other


@pytest.mark.parametrize(
    ("number", "values", "is_worse"),
    [
        (0, {}, False),
        # Maximum: a larger value is worse if the confidence intervals are disjoint.
        (0, {"value": 4, "low": 2.9, "high": 5}, False),
        (0, {"value": 4, "low": 3.1, "high": 5}, True),
        (0, {"value": 0.5, "low": 0.4, "high": 0.6}, False),
        # Minimum: a smaller value is worse.
        (1, {"value": 40, "low": 38, "high": 44}, True),
        (1, {"value": 40, "low": 38, "high": 46}, False),
        (1, {"value": 60, "low": 58, "high": 62}, False),
        # A difference below 1 % is no change, even with disjoint confidence intervals.
        (1, {"value": 49.6, "low": 44.9, "high": 44.99}, False),
        # Without a confidence interval the verdict decides.
        (0, {"value": 9, "low": None, "high": None, "verdict": "misses"}, True),
        (0, {"value": 9, "low": None, "high": None, "verdict": "meets"}, False),
        # A missing value that was there before is worse.
        (0, {"value": None, "low": None, "high": None, "reason": "invalid"}, True),
    ],
)
def test_worse_means_disjoint_intervals(card, number, values, is_worse):
    found = score.regressions(changed(card, number, **values), card)
    assert bool(found) == is_worse
    assert all(words.startswith("mine, ") for words in found)


def test_changed_baselines_are_not_worse(card):
    assert score.regressions(changed(card, 2, value=60, low=59, high=61), card) == []


def test_scorecards_of_other_forms_or_algorithms_are_not_compared(card):
    with pytest.raises(LosslabError, match="same form to compare, found quick now and full"):
        score.regressions(card, card | {"form": "full"})
    other = copy.deepcopy(card)
    for each in other["criteria"]:
        each["algorithm"] = "other"
    with pytest.raises(LosslabError, match="must have mine"):
        score.regressions(card, other)


def test_malformed_scorecard_is_refused(tmp_path):
    path = tmp_path / "scorecard.json"
    with pytest.raises(LosslabError, match="does not exist"):
        score.load(path)
    path.write_text('{"format": 2}')
    with pytest.raises(LosslabError, match="'criteria' is a required property"):
        score.load(path)
