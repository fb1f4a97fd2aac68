"""The rule of the length of runs, against the condition that showed its need."""

from dataclasses import replace

import pytest

from losslab.study import runlength
from losslab.study.condition import AXES, Condition

# A sweep of 10 s gave 34.2 Mbit/s, one of 70 s 15.0 Mbit/s.
SLOW = Condition("cubic", rate_mbit=50, rtt_ms=80, loss_percent=0.02, buffer_packets=330)


def test_defaults_are_those_of_the_axes():
    defaults = [AXES[name].default for name in runlength.LENGTH_AXES]
    assert defaults == [runlength.DEFAULT_S, runlength.DEFAULT_WARMUP_S]


def test_start_decides_a_short_run_of_cubic_with_little_loss():
    assert runlength.bias(SLOW, 1, 10) > 1
    assert runlength.bias(SLOW, 14, 70) < 0.1
    length = runlength.needed(SLOW)
    assert (length.duration_s, length.warmup_s, length.enough) == (80, 16, True)
    assert length.reason.startswith("a cycle of CUBIC's window takes 4.1 s here")
    assert "by up to a factor of 2.5" in runlength.too_short(SLOW)
    assert runlength.too_short(replace(SLOW, duration_s=80, warmup_s=16)) == ""


def test_endless_window_is_that_of_the_standards():
    """CUBIC: RFC 9438, section 5.1. Reno: RFC 9438, section 4.3, with 1.5 / p."""
    for algorithm, loss in (("cubic", 0.02), ("cubic", 0.3), ("reno", 0.05), ("reno", 1)):
        condition = replace(SLOW, algorithm=algorithm, loss_percent=loss)
        (flow,) = runlength._fluids(condition)
        path = runlength._path(condition)
        mean = runlength._steady_window(algorithm == "cubic", path)
        assert flow.rate * path.rtt_s == pytest.approx(mean, rel=0.15), (algorithm, loss)


@pytest.mark.parametrize(
    "axes",
    [
        {"algorithm": "cubic"},
        {"algorithm": "cubic", "rate_mbit": 20, "rtt_ms": 40, "loss_percent": 1},
        {"algorithm": "bbr", "rate_mbit": 50, "rtt_ms": 80, "loss_percent": 0.02},
        # Without a model: the path changes, or the app is no bulk flow.
        {"algorithm": "cubic", "rtt_ms": 80, "loss_percent": 0.01, "changes": "at_s=4,rate_mbit=5"},
        {"algorithm": "cubic", "rtt_ms": 80, "loss_percent": 0.01, "app": "web"},
    ],
)
def test_default_length_stays_where_it_suffices(axes):
    conditions, note = runlength.with_length([Condition(**axes)], False, False)
    assert (conditions, note) == ([Condition(**axes)], "")


def test_shares_of_flows_need_time_to_converge():
    alone = Condition("cubic", rate_mbit=100, rtt_ms=40, buffer_packets=333)
    assert runlength.needed(alone).duration_s == 10
    for competing in (replace(alone, competitor="cubic"), replace(alone, flows="bbr,count=1")):
        length = runlength.needed(competing)
        assert length.duration_s == 80
        assert "shares converge with a time constant" in length.reason


def test_compared_conditions_have_one_length_and_own_values_stay():
    both = [SLOW, replace(SLOW, algorithm="bbr")]
    longer, note = runlength.with_length(both, False, False)
    assert [(each.duration_s, each.warmup_s) for each in longer] == [(80, 16)] * 2
    assert note.startswith("runs of 80 s with 16 s of warm-up instead of 10 s and 1 s: a cycle of")
    own_warmup, _ = runlength.with_length([replace(SLOW, warmup_s=3)], False, True)
    assert (own_warmup[0].duration_s, own_warmup[0].warmup_s) == (80, 3)
    assert runlength.with_length(both, True, False) == (both, "")


def test_default_length_has_a_limit_which_the_note_names():
    reno = Condition("reno", rate_mbit=1000, rtt_ms=100)
    assert runlength.needed(reno).duration_s == 640
    (longer,), note = runlength.with_length([reno], False, False)
    assert longer.duration_s == 80
    assert note.endswith("The rule needs more than 80 s")
