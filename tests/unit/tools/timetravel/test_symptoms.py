"""Symptoms of made-up replicates."""

import csv
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from losslab.reading import UsageError
from losslab.study.condition import Condition
from losslab.tools.conform import runs
from losslab.tools.timetravel import symptoms
from losslab.tools.timetravel.futures import UNTOUCHED, Future

CONDITION = Condition(algorithm="cubic", rtt_ms=40, rate_mbit=10, duration_s=6, warmup_s=1)
STEP_S = 0.1


def replicate(folder: Path, *rates_mbit: float) -> Path:
    """Write samples of a flow with these rates, each for a second, and of a smaller flow."""
    folder.mkdir()
    delivered, rows = 1.0, []
    for number in range(int(len(rates_mbit) / STEP_S)):
        t_s = STEP_S * (1 + number)
        delivered += STEP_S * rates_mbit[int((t_s - STEP_S / 2) // 1)] * 1e6 / 8
        rows += [(f"{t_s:.6f}", "40001", round(delivered)), (f"{t_s:.6f}", "40100", 5)]
    with (folder / "tcp.csv").open("w", newline="") as out:
        csv.writer(out).writerows([("t_s", "flow", "delivered_bytes"), *rows])
    return folder


def future(folder, at_s=0.0, timeouts=0, **summary):
    state = {"sender": {"counters": {symptoms.COUNTER: timeouts}}}
    manifest = {"summary": summary, "observed": {"state": state}}
    return Future(UNTOUCHED, None, at_s, folder, manifest, [])


def test_the_stall_is_the_longest_time_without_delivered_data_if_it_is_long_enough(tmp_path):
    found = symptoms.stall(replicate(tmp_path / "run", 8, 8, 0, 8, 8, 8), CONDITION)
    assert found.text == "stall of 1.100 s at 2.000 s"
    longer = future(replicate(tmp_path / "longer", 8, 8, 0, 0, 8, 8))
    shorter = future(replicate(tmp_path / "shorter", 8, 8, 8, 8, 8, 8))
    assert [found.shows(each, shorter) for each in (longer, shorter)] == [True, False]
    # Before the cut, everything is as it was.
    assert not found.shows(replace(longer, at_s=2.5), shorter)
    to_end = symptoms.stall(replicate(tmp_path / "end", 8, 8, 8, 8, 0, 0), CONDITION)
    assert to_end.text == "stall of 2.000 s at 4.000 s"
    with pytest.raises(UsageError, match=r"of at least 0\.12 s, 3 RTTs, found at most 0\.100 s"):
        symptoms.stall(replicate(tmp_path / "other", *[8] * 6), CONDITION)


def test_a_timeout_is_one_more_than_without_later_drops(tmp_path):
    run = replicate(tmp_path / "run", 8, 8, 0, 8, 8, 8)
    found = symptoms.timeout(run, CONDITION, future(run, timeouts=2).manifest)
    assert found.begin_s == 2.0
    assert found.shows(future(run, timeouts=2), future(run, timeouts=1))
    assert not found.shows(future(run, timeouts=2), future(run, timeouts=2))
    with pytest.raises(UsageError, match="found none"):
        symptoms.timeout(run, CONDITION, future(run).manifest)


@pytest.mark.parametrize(
    ("metric", "recorded", "lossless", "almost", "little"),
    [("fct_p99_s", 2.0, 1.0, 1.85, 1.5), ("goodput_mbit", 5.0, 9.0, 5.5, 7.0)],
)
def test_a_metric_is_as_bad_if_most_of_its_difference_remains(
    metric, recorded, lossless, almost, little
):
    found = symptoms.worse(metric, {metric: recorded}, {metric: lossless}, 6)
    without = future(Path(), **{metric: lossless})
    assert found.shows(future(Path(), **{metric: almost}), without)
    assert not found.shows(future(Path(), **{metric: little}), without)
    assert not found.shows(future(Path()), without)
    with pytest.raises(UsageError, match="must be worse than without any drop"):
        symptoms.worse(metric, {metric: lossless}, {metric: recorded}, 6)


def test_metrics_without_a_better_direction_are_refused():
    with pytest.raises(UsageError, match="of which more or less is better, found loss_packets"):
        symptoms.worse("loss_packets", {"loss_packets": 5}, {"loss_packets": 0}, 6)


SUITE = """
suite: own
title: Cases of a test
source: this file
defaults: { rate_mbit: 10, rtt_ms: 40, duration_s: 6, warmup_s: 1 }
cases:
  cut:
    title: Losses cut the bound
    trigger: 2
    set: { changes: "at_s={T},loss_percent=5" }
    holds: [{ total: lost_packets, from: T, above: 0 }]
    expect:
      - { step: 1, value: bound, at: end, below: 10 }
      - { step: 2, value: bound, at: begin, is: 10 }
"""
LOSSY = replace(CONDITION, changes="at_s=2,loss_percent=5")
STATE = {"captures": ["state"], "seed": 1, "summary": {}}


@pytest.fixture
def of_case(tmp_path, monkeypatch):
    """Write a suite; return a function that makes a future whose state is made up."""
    (tmp_path / ".losslab-folder").touch()
    file = tmp_path / "suites" / "own" / "suite.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(SUITE)
    monkeypatch.chdir(tmp_path)
    made = {}

    def future_with(lost=1, bound=10):
        folder = tmp_path / f"{lost}-{bound}"
        made[folder] = pd.DataFrame({
            "t_s": [1.0, 3.0, 5.0], "event": "ack", "ca_state": "open",
            "lost_packets": [0, 0, lost],
            "delivered_packets": [1, 2, 3], "sample_packets": 1, "bound": [10, 10, bound],
        })  # fmt: skip
        return future(folder)

    monkeypatch.setattr(runs, "rows_in", lambda folder, *_: made[folder])
    return future_with


def test_failure_of_a_case_remains_if_the_stimulus_holds_and_its_steps_fail(of_case):
    found = symptoms.failure(of_case().folder, LOSSY, STATE, "own/cut")
    assert (found.begin_s, found.until_s) == (2.0, 6)
    assert found.text == "case cut fails: bound at end is 10, must be below 10"
    assert found.shows(of_case(lost=5), of_case(lost=0))
    assert not found.shows(of_case(bound=9), of_case(lost=0))
    assert not found.shows(of_case(lost=0), of_case(lost=0))


@pytest.mark.parametrize(
    ("condition", "state", "bound", "message"),
    [
        (CONDITION, STATE, 10, "does not depend on losses"),
        (LOSSY, STATE | {"captures": []}, 10, "must have its state"),
        (LOSSY, STATE, 9, "found that it does not"),
    ],
)
def test_failure_that_is_not_there_or_does_not_depend_on_losses_is_refused(
    of_case, condition, state, bound, message
):
    with pytest.raises(UsageError, match=message):
        symptoms.failure(of_case(bound=bound).folder, condition, state, "own/cut")
