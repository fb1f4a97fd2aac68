"""Pauses: random times, checked values, and a path schedule of their own."""

import math
import statistics
from dataclasses import replace
from itertools import pairwise

import pytest

from losslab.emulation.path import pauses
from losslab.emulation.plan import make_plan
from losslab.study.condition import Condition

TEXT = "per_s=2,min_ms=1,max_ms=16"
CONDITION = Condition(
    algorithm="cubic", rtt_ms=20.0, rate_mbit=50.0, duration_s=30.0, pauses=TEXT,
    shaper="link",
)  # fmt: skip


def lengths_ms(found):
    return [(end_s - begin_s) * 1e3 for begin_s, end_s in found]


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


def test_run_without_a_pause_keeps_its_path():
    plan = make_plan(replace(CONDITION, duration_s=1.0, pauses="per_s=0.001,min_ms=1,max_ms=2"), 1)
    assert plan.parts["changes"].steps == []
    assert plan.hosts_at_end == plan.hosts
