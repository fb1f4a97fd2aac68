"""Pauses: random times, checked values, and a path schedule of their own."""

import math
import statistics
from dataclasses import replace
from itertools import pairwise

import pytest

from losslab.emulation.path import pauses
from losslab.emulation.plan import make_plan
from losslab.errors import LosslabError
from losslab.study.condition import Condition

TEXT = "per_s=2,min_ms=1,max_ms=16"
CONDITION = Condition(
    algorithm="cubic", rtt_ms=20.0, rate_mbit=50.0, duration_s=30.0, pauses=TEXT
)  # fmt: skip


def lengths_ms(found):
    return [(end_s - begin_s) * 1e3 for begin_s, end_s in found]


def test_pauses_are_drawn_from_the_seed_and_do_not_overlap():
    found = pauses.drawn(TEXT, 30, 1)
    assert found == pauses.drawn(TEXT, 30, 1) != pauses.drawn(TEXT, 30, 2)
    assert all(end_s < begin_s for (_, end_s), (begin_s, _) in pairwise(found))
    assert found[-1][1] < 30


def test_pauses_have_the_stated_rate_and_lengths():
    found = pauses.drawn(TEXT, 20_000, 1)
    gaps_s = [begin_s - end_s for (_, end_s), (begin_s, _) in pairwise(found)]
    # The deviation of an exponential distribution is its mean.
    assert statistics.mean(gaps_s) == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(len(gaps_s)))
    assert statistics.stdev(gaps_s) == pytest.approx(0.5, rel=0.05)
    lengths = lengths_ms(found)
    assert min(lengths) >= 0.999
    assert max(lengths) <= 16.001
    # A Pareto distribution with exponent 1, cut at 16 ms: P(X > x) = (1 / x - 1 / 16) / (15 / 16).
    for length_ms in (2, 4, 8):
        share = sum(each > length_ms for each in lengths) / len(lengths)
        expected = (1 / length_ms - 1 / 16) / (15 / 16)
        assert share == pytest.approx(expected, abs=4 * math.sqrt(0.25 / len(lengths)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("per_s=1,min_ms=1", "must set per_s, min_ms and max_ms"),
        ("per_s=1,min_ms=4,max_ms=2", "min_ms between 0.1 and max_ms"),
        ("per_s=0,min_ms=1,max_ms=2", "a positive per_s"),
        ("per_s=1,min_ms=1,longest=2", "keys of pauses must be among per_s, min_ms, max_ms"),
    ],
)
def test_wrong_pauses_are_refused(text, words):
    with pytest.raises(LosslabError, match=words):
        pauses.parse(text)
    assert any(words in problem for problem in replace(CONDITION, pauses=text).problems())


@pytest.mark.parametrize(
    ("per_s", "rate_mbit", "duration_s", "words"),
    [
        (200, 5, 2, "per_s of pauses must be at most 1.03 with rate_mbit 5 and duration_s 2"),
        (20, 10_000, 3600, "per_s of pauses must be at most 0.278 with rate_mbit 10000"),
        (1, 5, 2, None),
    ],
)
def test_pauses_whose_refilled_buckets_would_be_seen_are_refused(
    per_s, rate_mbit, duration_s, words
):
    text = f"per_s={per_s},min_ms=1,max_ms=2"
    axes = {"rate_mbit": rate_mbit, "duration_s": duration_s, "pauses": text, "changes": "none"}
    problems = replace(CONDITION, **axes).problems()
    assert len(problems) == bool(words)
    assert all(words in problem for problem in problems)


def test_pauses_that_follow_at_once_keep_their_order(monkeypatch):
    class Draws:
        def expovariate(self, rate):
            return 1e-9

        def random(self):
            return 0.0

    monkeypatch.setattr(pauses.random, "Random", lambda seed: Draws())
    found = pauses.drawn("per_s=1,min_ms=1,max_ms=2", 0.01, 7)
    times = [at_s for pause in found for at_s in pause]
    assert times == sorted(set(times))
    assert times[0] > 0


def test_pauses_exclude_other_rates_of_the_path():
    its = replace(CONDITION, changes="at_s=10,rate_mbit=2")
    assert any("pauses must be none with changes" in problem for problem in its.problems())
    listed = replace(CONDITION, drop_list="data 12").problems()
    assert any("drop_list excludes pauses" in problem for problem in listed)
    assert not CONDITION.problems()


def test_link_stops_in_each_pause_and_has_its_rate_between_them():
    steps = make_plan(CONDITION, 7).parts["changes"].steps
    times = [step.phase.begin_s for step in steps]
    assert times == [at_s for pause in pauses.drawn(TEXT, 30, 7) for at_s in pause]
    rates = [step.phase.values["rate_mbit"] for step in steps]
    assert rates == [pauses.PAUSED_MBIT, 50.0] * (len(steps) // 2)
    tbf = next(q for q in steps[-1].then if q.kind == "tbf")
    assert tbf.expected["rate"] == 50e6 / 8


def test_run_without_a_pause_keeps_its_path():
    plan = make_plan(replace(CONDITION, duration_s=1.0, pauses="per_s=0.001,min_ms=1,max_ms=2"), 1)
    assert plan.parts["changes"].steps == []
    assert plan.hosts_at_end == plan.hosts
