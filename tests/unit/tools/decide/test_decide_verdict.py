"""Verdicts of `losslab decide` on made-up tables of values by seed."""

import math
import re

import pytest

from losslab.study.intervals import t_quantile
from losslab.tools.decide.verdict import (
    UNIMPORTANT,
    Answer,
    Verdict,
    answer,
    change,
    compare,
    headline,
)


def values(*means, spread=0.02, n=8):
    """Return made-up values of choices a, b, ... with these means; seeds shift all of them."""
    return {
        name: {
            seed: mean * math.exp(0.3 * seed + place * spread * (-1) ** seed) for seed in range(n)
        }
        for place, (name, mean) in enumerate(zip("abc", means, strict=False))
    }


@pytest.mark.parametrize(
    ("table", "more_is_better", "verdict"),
    [
        (values(10, 12), True, Verdict.BETTER),
        (values(10, 12), False, Verdict.WORSE),
        (values(12, 10), True, Verdict.WORSE),
        (values(10, 10), True, Verdict.NO_MATTER),
        (values(10, 12, spread=0.5), True, Verdict.INCONCLUSIVE),
        # Significant, but the mean is within 5 % and the interval is not.
        (values(10, 10.4, spread=0.015), True, Verdict.INCONCLUSIVE),
        (values(10, 12, n=4), True, Verdict.NOT_MEASURED),
        ({"a": dict.fromkeys(range(5), 0.0), "b": dict.fromkeys(range(5), 0.0)}, True,
         Verdict.NO_MATTER),
        ({"a": dict.fromkeys(range(5), 0.0), "b": {n: 2.0 + n for n in range(5)}}, False,
         Verdict.WORSE),
        ({"a": {}, "b": {}}, True, Verdict.NOT_MEASURED),
    ],
)  # fmt: skip
def test_choice_is_judged_by_its_interval_and_5_percent(table, more_is_better, verdict):
    assert compare("b", "a", table, more_is_better).verdict is verdict


def test_common_seeds_are_paired():
    table = values(10, 12)
    del table["b"][3]
    found = compare("b", "a", table, True)
    assert found.n == 7
    low, high = found.ratio.interval
    # The seeds' own variation is not in the interval.
    assert high / low < 1.1


def test_difference_that_does_not_matter_is_that_of_the_reports_decisions(root):
    text = (root / "analysis/R/decisions.R").read_text()
    (share,) = re.findall(r"^unimportant_share <- (.*)$", text, re.MULTILINE)
    assert math.log(1 + float(share)) == UNIMPORTANT


@pytest.mark.parametrize("mean", [10.0, 10.2, 12.0, 14.0])
def test_recommended_number_of_runs_is_the_least_that_decides(mean):
    found = compare("b", "a", values(10, mean, spread=0.4), True)
    assert found.verdict is Verdict.INCONCLUSIVE
    distance = abs(math.log(found.ratio.value))
    needed = distance if distance > UNIMPORTANT else UNIMPORTANT - distance
    low, high = map(math.log, found.ratio.interval)
    deviation = (high - low) / 2 * math.sqrt(found.n) / t_quantile(0.95, found.n - 1)

    def half_width(n):
        return t_quantile(0.95, n - 1) * deviation / math.sqrt(n)

    total = found.n + found.more_runs
    assert half_width(total) < needed <= half_width(total - 1)


def test_difference_at_5_percent_recommends_no_number_of_runs():
    found = answer("ab", values(10, 10.49, spread=0.5, n=30), True)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.more_runs is None
    assert "too close" in str(found)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (values(10, 20, 30), Answer(Verdict.BETTER, ("c",))),
        (values(10, 20, 20, spread=0.01), Answer(Verdict.BETTER, ("b", "c"))),
        (values(10, 10, 10, spread=0.01), Answer(Verdict.NO_MATTER, ("a", "b", "c"))),
    ],
)
def test_best_of_three_choices_is_worse_than_no_other(table, expected):
    assert answer("abc", table, True) == expected


BBR, CUBIC = Answer(Verdict.BETTER, ("bbr",)), Answer(Verdict.BETTER, ("cubic",))
EITHER = Answer(Verdict.NO_MATTER, ("cubic", "bbr"))
OPEN = Answer(Verdict.INCONCLUSIVE, ("cubic", "bbr"), 7)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"bulk": BBR, "video": BBR}, "Use bbr for bulk and video."),
        ({"bulk": BBR, "pages": EITHER},
         "Use bbr for bulk. For pages: does not matter."),
        ({"bulk": BBR, "pages": CUBIC}, "It depends on what users do: bbr for bulk, cubic for "
         "pages."),
        ({"bulk": Answer(Verdict.BETTER, ("bbr", "reno"))},
         "Use bbr or reno for bulk."),
        ({"bulk": EITHER}, "It does not matter: no choice differs by more than 5 %. Keep cubic."),
        ({"bulk": OPEN}, "No decision. For bulk: inconclusive between cubic and bbr: about 7 more "
         "runs would decide."),
    ],
)  # fmt: skip
def test_headline_says_which_choice_for_which_use(answers, said):
    assert headline(answers, "cubic") == said


@pytest.mark.parametrize(
    ("base", "other", "said"),
    [(BBR, BBR, ""), (BBR, CUBIC, "flips"), (BBR, EITHER, "flips"), (EITHER, BBR, "flips"),
     (BBR, OPEN, "no longer decided"), (OPEN, BBR, "decides"), (OPEN, OPEN, ""),
     (BBR, Answer(Verdict.NOT_MEASURED, ("cubic", "bbr")), "")],
)  # fmt: skip
def test_other_path_changes_a_decision_if_the_answer_differs(base, other, said):
    assert change(base, other) == said
