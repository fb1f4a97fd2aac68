"""Scorecards: content, and comparison with a recorded one."""

import copy

import pytest

from losslab.errors import LosslabError
from losslab.study import suite
from losslab_score import scorecard


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
    return suite.load_suite("rfc9743", root)


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
    return scorecard.scorecard(rfc, "quick", ["mine"], rows, CELLS)


def test_scorecard_has_criteria_with_baselines_limits_and_runs(card):
    assert card["tested"] == ["mine"]
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
    text = scorecard.table(card)
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
    found = scorecard.regressions(changed(card, number, **values), card)
    assert bool(found) == is_worse
    assert all(words.startswith("mine, ") for words in found)


def test_changed_baselines_are_not_worse(card):
    assert scorecard.regressions(changed(card, 2, value=60, low=59, high=61), card) == []


def test_scorecards_of_other_forms_or_algorithms_are_not_compared(card):
    with pytest.raises(LosslabError, match="same form to compare, found quick now and full"):
        scorecard.regressions(card, card | {"form": "full"})
    other = copy.deepcopy(card)
    for each in other["criteria"]:
        each["algorithm"] = "other"
    with pytest.raises(LosslabError, match="must have mine"):
        scorecard.regressions(card, other)


def test_malformed_scorecard_is_refused(tmp_path):
    path = tmp_path / "scorecard.json"
    with pytest.raises(LosslabError, match="does not exist"):
        scorecard.load(path)
    path.write_text('{"format": 2}')
    with pytest.raises(LosslabError, match="'criteria' is a required property"):
        scorecard.load(path)
