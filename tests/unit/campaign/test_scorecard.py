"""Scorecards: what they hold, and when one is worse than another."""

import copy

import pytest

from losslab.campaign import scorecard
from losslab.errors import LosslabError
from losslab.study import suite


def row(algorithm, criterion, value, low="", high="", **more):
    """One of the table of criteria."""
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
def asked(root):
    return suite.load_suite("rfc9743", root)


@pytest.fixture
def card(asked):
    """Two criteria: one wants little, one much."""
    little = next(c for c in asked["criteria"] if "at_most" in c)
    much = next(c for c in asked["criteria"] if "at_least" in c)
    asked["criteria"] = [little, much]
    rows = [
        row("mine", little, 2, 1, 3), row("mine", much, 50, 45, 55),
        row("cubic", little, 6, 5, 7), row("cubic", much, 90, 85, 95, verdict="misses"),
    ]  # fmt: skip
    return scorecard.scorecard(asked, "quick", ["mine"], rows, CELLS)


def test_a_card_has_every_criterion_with_baselines_limits_and_runs(card):
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


def test_a_table_has_a_line_per_criterion_and_the_sum(card):
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
        # At most: more is worse, once the intervals are apart.
        (0, {"value": 4, "low": 2.9, "high": 5}, False),
        (0, {"value": 4, "low": 3.1, "high": 5}, True),
        (0, {"value": 0.5, "low": 0.4, "high": 0.6}, False),
        # At least: less is worse.
        (1, {"value": 40, "low": 38, "high": 44}, True),
        (1, {"value": 40, "low": 38, "high": 46}, False),
        (1, {"value": 60, "low": 58, "high": 62}, False),
        # By less than a hundredth it is no change, however narrow the intervals.
        (1, {"value": 49.6, "low": 44.9, "high": 44.99}, False),
        # Without an interval the verdict decides.
        (0, {"value": 9, "low": None, "high": None, "verdict": "misses"}, True),
        (0, {"value": 9, "low": None, "high": None, "verdict": "meets"}, False),
        # What had a number and has none.
        (0, {"value": None, "low": None, "high": None, "reason": "invalid"}, True),
    ],
)
def test_worse_is_beyond_the_intervals(card, number, values, is_worse):
    found = scorecard.worse(changed(card, number, **values), card)
    assert bool(found) == is_worse
    assert all(words.startswith("mine, ") for words in found)


def test_baselines_may_change(card):
    assert scorecard.worse(changed(card, 2, value=60, low=59, high=61), card) == []


def test_other_forms_and_other_algorithms_do_not_compare(card):
    with pytest.raises(LosslabError, match="one form to compare, found quick now and full"):
        scorecard.worse(card, card | {"form": "full"})
    other = copy.deepcopy(card)
    for each in other["criteria"]:
        each["algorithm"] = "other"
    with pytest.raises(LosslabError, match="must have mine"):
        scorecard.worse(card, other)


def test_what_is_no_scorecard_is_refused(tmp_path):
    path = tmp_path / "scorecard.json"
    with pytest.raises(LosslabError, match="must exist"):
        scorecard.load(path)
    path.write_text('{"format": 2}')
    with pytest.raises(LosslabError, match="'criteria' is a required property"):
        scorecard.load(path)
