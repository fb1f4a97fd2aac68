"""The words of a check, on a made-up time line."""

import numpy as np
import pandas as pd
import pytest

from losslab.study.condition import Condition
from losslab.tools.conform import judge
from losslab.tools.conform.judge import FAIL, INCONCLUSIVE, NOT_OBSERVABLE, PASS
from losslab.tools.conform.timeline import Timeline

PHASES = ("SLOW", "UP", "DOWN", "PAUSE")
# Ten packets in a round of 0.1 s, in phases of a second; a phase has ten rounds.
ORDER = ("SLOW", "UP", "DOWN", "UP", "DOWN", "PAUSE", "UP")
STEP_S = 0.01


@pytest.fixture
def rows():
    """Return the rows of a flow whose second UP has a loss at 3.5 s and an undo at 3.6 s."""
    count = 100 * len(ORDER)
    at_s = np.arange(count) * STEP_S
    delivered = np.arange(count)
    phase = np.repeat(ORDER, 100)
    lost = np.where(at_s >= 3.495, 4, 0)
    return pd.DataFrame(
        {
            "t_s": at_s,
            "event": np.where(np.isclose(at_s, 3.6), "undo", "ack"),
            "ca_state": np.where((at_s >= 3.495) & (at_s < 3.605), "recovery", "open"),
            "delivered_packets": delivered,
            "lost_packets": lost,
            "sample_packets": np.minimum(delivered, 10),
            "app_limited": (at_s >= 0.995) & (at_s < 1.995),
            "in_flight_packets": 10,
            "phase": phase,
            "bound": np.where(at_s < 1.995, np.nan, np.where(at_s < 3.495, 100, 70)),
            "saved": np.where(at_s < 3.495, np.nan, 100),
        }
    )


@pytest.fixture
def line(rows):
    condition = Condition(
        algorithm="mine", loss_percent=0, path="symmetric", app="iperf3", rate_mbit=12, rtt_ms=100,
        changes="at_s=4,rate_mbit=1.2",
    )  # fmt: skip
    return Timeline(
        rows, condition, PHASES, {"CYCLE": ["UP", "DOWN"]}, ["PAUSE"], 3.0, {"goodput_mbit": 9.0}
    )


def verdict(check, line):
    assert list(judge.problems(check)) == []
    return judge.judge(check, line).verdict


CHECKS = [
    # Each check, one whose answer is the opposite, and what decides.
    ({"value": "bound", "at": "enter UP 2", "is": 100},
     {"value": "bound", "at": "leave UP 2", "is": 100}),
    ({"value": "bound", "at": "T", "set": True}, {"value": "bound", "at": "begin", "set": True}),
    ({"value": "saved", "at": "undo", "is": "bound at before recovery"},
     {"value": "saved", "at": "undo", "is": "bound at undo"}),
    ({"value": "bound", "at": "begin", "is": "bound at begin+0.5"},
     {"value": "bound", "at": "begin", "is": "bound at loss"}),
    ({"value": "rate", "at": "T", "near": 11.48, "share": 0.01},
     {"value": "rate", "at": "T+1", "near": 11.48, "share": 0.01}),
    ({"value": "path_bdp_packets", "at": "T", "near": 99.07, "share": 0.01},
     {"value": "path_bdp_packets", "at": "T+1", "near": 99.07, "share": 0.01}),
    ({"value": "phase", "at": "after undo", "is": "phase at T"},
     {"value": "phase", "at": "leave UP", "is": "phase at enter DOWN"}),
    ({"age": "bound", "at": "T", "near": 1, "share": 0.01},
     {"age": "bound", "at": "T", "above": 1.1}),
    ({"change": "bound", "from": "T", "to": "end", "at_least": -0.31, "at_most": -0.01},
     {"change": "bound", "from": "T", "to": "end", "at_least": -0.2}),
    ({"always": "app_limited", "during": "UP"}, {"always": "app_limited", "during": "UP 2"}),
    ({"never": "app_limited", "from": "enter UP 2"}, {"never": "app_limited", "from": "begin"}),
    ({"always": "phase", "is": "CYCLE", "during": "UP"},
     {"always": "phase", "is_not": "CYCLE", "during": "UP"}),
    ({"never": "phase", "is": "PAUSE", "to": "T"}, {"never": "phase", "is": "PAUSE", "from": "T"}),
    ({"sometimes": "bound", "from": "loss", "rounds": 2, "below": "0.75 bound at before T"},
     {"sometimes": "bound", "to": "loss", "below": 75}),
    ({"total": "lost_packets", "from": "T", "seconds": 1, "is": 4},
     {"total": "lost_packets", "from": "T", "seconds": 0.4, "is": 4}),
    ({"total": "lost_share", "during": "UP 2", "above": 0.02},
     {"total": "lost_share", "during": "UP", "above": 0.02}),
    ({"total": "rounds", "during": "UP", "at_least": 8, "at_most": 10},
     {"total": "rounds", "during": "UP", "above": 10}),
    ({"total": "seconds", "during": "UP", "is": 1},
     {"total": "seconds", "during": "UP", "above": 1.1}),
    ({"total": "goodput_mbit", "from": 1, "to": 2, "near": 1.158, "share": 0.01},
     {"total": "goodput_mbit", "from": 1, "to": 2, "at_least": "0.95 rate"}),
    ({"total": "batch_acks", "is": 1}, {"total": "batch_acks", "above": 1}),
    ({"event": "undo", "in": "recovery", "from": "T"},
     {"event": "undo", "in": "loss", "from": "T"}),
    ({"next": "DOWN", "of": "UP"}, {"next": "SLOW", "of": "UP"}),
    ({"next": "CYCLE", "of": "DOWN"}, {"next": "UP", "of": "SLOW", "seconds": 0.9}),
    ({"next": ["DOWN", "SLOW"], "of": "UP", "rounds": 11},
     {"next": "DOWN", "of": "UP", "rounds": 5}),
    ({"next": "DOWN", "of": "UP 2", "from": "loss", "seconds": 0.6},
     {"next": "DOWN", "of": "UP 2", "from": "T", "seconds": 0.6}),
    ({"next": "PAUSE", "of": "DOWN 2"}, {"next": "DOWN", "of": "SLOW"}),
    ({"metric": "goodput_mbit", "at_least": 9}, {"metric": "completion_s", "at_most": 100}),
    ({"phase": "CYCLE", "at": "end"}, {"phase": "CYCLE", "at": "begin"}),
    ({"phase": "UP", "at": "enter UP after PAUSE"}, {"phase": "UP", "at": "enter DOWN after UP"}),
    ({"any": [{"phase": "DOWN", "at": "T"}, {"phase": "UP", "at": "T"}]},
     {"any": [{"phase": "DOWN", "at": "T"}, {"phase": "SLOW", "at": "T"}]}),
]  # fmt: skip


@pytest.mark.parametrize(("holds", "fails"), CHECKS)
def test_check_passes_where_it_holds_and_fails_where_it_does_not(line, holds, fails):
    assert verdict(holds, line) == PASS
    assert verdict(fails, line) == FAIL


NOT_REACHED = [
    {"next": "DOWN", "of": "UP 3"},  # the run ends first
    {"next": "UP", "of": "DOWN 2"},  # a pause cuts it off
    {"next": "DOWN", "of": "UP 3", "seconds": 5},
    {"value": "bound", "at": "enter UP 4", "is": 1},  # not reached
    {"value": "bound", "at": "leave UP 3", "is": 1},
    {"value": "bound", "at": "after leave DOWN 2", "is": 1},
    {"change": "bound", "from": "begin", "to": "end", "above": 0},  # no value before
    {"change": "bound", "from": "end", "to": "T", "above": 0},
    {"never": "app_limited", "from": "end+1"},  # no event
    {"always": "app_limited", "from": 4.001, "to": 4.002},
    {"never": "app_limited", "from": "T", "to": "T+60"},  # after the end of the run
]
ABSENT = [
    {"value": "secret", "at": "T", "is": 1},
    {"always": "bound", "below": "secret"},
    {"phase": "PROBE_RTT", "at": "T"},
    {"next": "DOWN", "of": "PROBE_RTT"},
    {"total": "seconds", "during": "UP after PROBE_RTT", "above": 1},
    {"never": "phase", "is": "SLWO"},
    {"always": "phase", "above": 3},  # text has no order
    {"value": "bound", "at": "T", "is": "fast"},
]


@pytest.mark.parametrize("check", [*NOT_REACHED, *ABSENT])
def test_check_without_its_place_is_inconclusive_and_without_its_subject_not_observable(
    line, check
):
    assert verdict(check, line) == (NOT_OBSERVABLE if check in ABSENT else INCONCLUSIVE)


def test_alternatives_of_which_one_is_not_observable_do_not_fail(line):
    absent, wrong = ABSENT[0], {"phase": "DOWN", "at": "T"}
    assert verdict({"any": [absent, {"phase": "UP", "at": "T"}]}, line) == PASS
    assert verdict({"any": [absent, wrong]}, line) == INCONCLUSIVE
    assert verdict({"any": [absent, absent]}, line) == NOT_OBSERVABLE


def test_text_of_a_failure_has_what_was_found_and_what_is_wanted(line):
    found = judge.judge({"value": "bound", "at": "end", "at_least": "0.8 bound at T"}, line)
    assert found.text == "bound at end is 70, must be at least 0.8 bound at T (80)"
    found = judge.judge({"next": "SLOW", "of": "UP", "rounds": 2}, line)
    assert found.text.startswith("UP -> DOWN after 1 s")
    assert found.text.endswith("must be SLOW within 2 rounds")
    found = judge.judge({"never": "app_limited", "during": "UP"}, line)
    assert found.text == "app_limited during UP is yes, yes at 1 s, must be never set"


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        ({}, "must have one of"),
        ({"value": "bound", "next": "UP", "at": "T", "is": 1}, "must have one of"),
        ({"value": "bound", "at": "T"}, "must be compared"),
        ({"value": "bound", "is": 1}, "must have at"),
        ({"next": "UP"}, "must have of"),
        ({"metric": "goodputs_mbit", "at_least": 1}, "goodput"),
        ({"next": "UP", "of": "DOWN", "is": 1}, "must have only"),
        ({"value": "bound", "at": "entry UP", "is": 1}, "must be a point"),
        ({"value": "bound", "at": "T++1", "is": 1}, "must be a point"),
        ({"next": "UP", "of": "DOWN 0"}, "must be a phase"),
        ({"value": "bound", "at": "T", "near": 1}, "near and share"),
        ({"always": "bound", "during": "UP", "from": "T"}, "either during or from"),
        ({"always": "bound", "during": "UP", "rounds": 3}, "either during or rounds"),
        ({"value": "bound", "at": "T", "is": "bound at nowhere now"}, "must name a point"),
        ({"any": [{"value": "bound", "at": "T"}]}, "must be compared"),
        ({"never": "ca_state", "is": "recovry"}, "found recovry; did you mean recovery?"),
        ({"sometimes": "event", "is_not": 3}, "must be compared with one of ack, ca_state"),
    ],
)
def test_check_with_a_wrong_word_is_refused(check, problem):
    assert problem in "; ".join(judge.problems(check))


def outcomes(*verdicts):
    return [
        {"verdict": each, "text": each.lower(), "step": n} for n, each in enumerate(verdicts, 1)
    ]


@pytest.mark.parametrize(
    ("held", "steps", "wanted"),
    [
        ([PASS], [PASS, PASS], PASS),
        ([], [PASS, FAIL, NOT_OBSERVABLE], FAIL),
        ([], [PASS, NOT_OBSERVABLE], NOT_OBSERVABLE),
        ([PASS], [PASS, INCONCLUSIVE], INCONCLUSIVE),
        ([FAIL], [FAIL], INCONCLUSIVE),
        ([INCONCLUSIVE], [FAIL], INCONCLUSIVE),
        ([FAIL, NOT_OBSERVABLE], [FAIL], NOT_OBSERVABLE),
    ],
)
def test_case_fails_only_if_its_stimulus_held(held, steps, wanted):
    assert judge.verdict_of(outcomes(*held), outcomes(*steps))[0] == wanted


def test_reason_of_a_verdict_says_which_limit_is_ours():
    steps = [{"verdict": FAIL, "text": "rate is 1, must be 2", "step": 3, "ours": "2 Mbit/s"}]
    assert judge.verdict_of([], steps)[1] == "step 3: rate is 1, must be 2 (ours: 2 Mbit/s)"
