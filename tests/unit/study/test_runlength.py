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
    assert "by up to a factor of 2.4" in runlength.too_short(SLOW)
    assert runlength.too_short(replace(SLOW, duration_s=80, warmup_s=16)) == ""
    # The default is long enough here, and needs no reason.
    short = Condition("cubic", rate_mbit=20, rtt_ms=40, loss_percent=1, duration_s=4)
    assert ":" not in runlength.too_short(short)
    assert runlength.too_short(short).endswith(
        "measure 10 s with 1 s of warm-up, found 4 s with 1 s"
    )


def test_start_that_is_forgotten_needs_no_longer_runs():
    """Cycles of 0.44 s needed "more than 2560 s": those of another start stayed 6 % shorter."""
    path = Condition("cubic", rate_mbit=20, rtt_ms=40, loss_percent=0.5, buffer_packets=66)
    assert runlength.needed(path) == runlength.RunLength(10, 1)
    assert runlength.too_short(replace(path, duration_s=20, warmup_s=4)) == ""
    assert runlength.bias(path, 0, 1) > 1
    large = replace(path, rate_mbit=263, rtt_ms=9.2, loss_percent=0.519, buffer_packets=49)
    assert runlength.needed(large).duration_s == 10


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
        # Without a model: the path changes, or the app is no bulk flow.
        {"algorithm": "cubic", "rtt_ms": 80, "loss_percent": 0.01, "changes": "at_s=4,rate_mbit=5"},
        {"algorithm": "cubic", "rtt_ms": 80, "loss_percent": 0.01, "app": "web"},
        {"algorithm": "bbr", "rtt_ms": 80, "loss_percent": 0.01, "app": "web"},
    ],
)
def test_default_length_stays_where_it_suffices(axes):
    conditions, note = runlength.with_length([Condition(**axes)], False, False)
    assert (conditions, note) == ([Condition(**axes)], "")


@pytest.mark.parametrize(
    ("algorithm", "rtt_ms", "duration_s"),
    [("bbr", 20, 12), ("bbr", 150, 12), ("bbr3", 20, 12), ("bbr,full_bw_cnt=2", 20, 12),
     ("bbr", 600, 20)],
)  # fmt: skip
def test_runs_of_bbr_alone_have_as_many_pauses_as_endless_ones(algorithm, rtt_ms, duration_s):
    """Runs of 10 s end before the first PROBE_RTT: 6 of 6 had 1.3 to 2.4 % more than of 80 s."""
    name, _, parameters = algorithm.partition(",")
    axes = {"rate_mbit": 20, "rtt_ms": rtt_ms, "buffer_packets": 70, "parameters": parameters}
    condition = Condition(name, **{key: value for key, value in axes.items() if value})
    length = runlength.needed(condition)
    assert (length.duration_s, length.enough) == (duration_s, True)
    assert length.reason.startswith(f"BBR pauses every {5 if name == 'bbr3' else 10} s to measure")
    # A run of 10 s is too long by a pause, and not worth a warning.
    assert runlength.too_short(condition) == "" or rtt_ms > 500


def test_model_of_the_pauses_fits_runs_of_10_and_20_s():
    """Goodput of runs of a length over that of 40 s, seed 1: 5.78 to 48 Mbit/s, 11.9 to 72 ms."""
    for rtt_ms, ten, twenty in ((11.9, 1.0168, 1.0056), (27.9, 1.0185, 1.0059),
                                (72.2, 1.0232, 1.0091)):  # fmt: skip
        condition = Condition("bbr", rate_mbit=20, rtt_ms=rtt_ms, buffer_packets=20)
        forty = runlength._bias_of_probes(condition, 8, 40)
        for length, measured in (((1, 10), ten), ((4, 20), twenty)):
            modelled = runlength._bias_of_probes(condition, *length) - forty
            assert modelled == pytest.approx(measured - 1, abs=0.005)


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
