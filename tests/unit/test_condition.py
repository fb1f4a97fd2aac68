import dataclasses

import pytest

from losslab.condition import Condition, derived_seed, replicate_seed

CONDITION = Condition(
    algorithm="cubic",
    loss_percent=1,
    path="symmetric",
    app="iperf3",
    rtt_ms=0.44,
    rate_mbit=1000,
    buffer_packets=1000,
)


def test_seeds_are_shared_between_algorithms_only():
    other = dataclasses.replace(CONDITION, algorithm="bbr")
    assert replicate_seed(CONDITION, 0) == replicate_seed(other, 0)
    assert replicate_seed(CONDITION, 0) != replicate_seed(CONDITION, 1)
    harder = dataclasses.replace(CONDITION, loss_percent=2)
    assert replicate_seed(CONDITION, 0) != replicate_seed(harder, 0)
    at_sender = dataclasses.replace(CONDITION, sender_delay_ms=0.4)
    assert replicate_seed(CONDITION, 0) != replicate_seed(at_sender, 0)


def test_two_algorithms_against_themselves_are_paired():
    cubic = dataclasses.replace(CONDITION, competitor="cubic")
    bbr = dataclasses.replace(CONDITION, algorithm="bbr", competitor="bbr")
    assert replicate_seed(cubic, 0) == replicate_seed(bbr, 0)
    assert replicate_seed(cubic, 0) != replicate_seed(CONDITION, 0)


def test_seeds_do_not_drift():
    # A change here changes every published number.
    assert replicate_seed(CONDITION, 0) == 736078600


def test_over_a_trace_everyone_meets_the_same_one():
    kernel = dataclasses.replace(CONDITION, trace="cellular", app="iperf3", queue="codel")
    scheme = dataclasses.replace(
        CONDITION, trace="cellular", app="datagram", scheme="timely", queue="fifo"
    )
    assert replicate_seed(kernel, 3) == replicate_seed(scheme, 3)
    assert replicate_seed(kernel, 3) != replicate_seed(kernel, 4)
    assert derived_seed(7, "kernel") == 1435303113


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("loss_percent", 120, "loss_percent"),
        ("loss_percent", -1, "loss_percent"),
        ("duration_s", -5, "duration_s"),
        ("warmup_s", 10, "warmup_s"),
        ("rtt_ms", -1, "rtt_ms must be in"),
        ("buffer_packets", 0, "buffer_packets"),
        ("path", "round", "path"),
        ("sender_delay_ms", 0.5, "sender_delay_ms"),
        ("video", "128x64", "needs the app ffmpeg"),
        ("video", "4k", "video must be one of"),
        ("app", "telnet", "app"),
    ],
)
def test_impossible_values_are_named(field, value, word):
    problems = dataclasses.replace(CONDITION, **{field: value}).problems()
    assert any(word in problem for problem in problems)


def test_json_round_trip_refuses_unknown_keys():
    assert Condition.from_json(CONDITION.to_json()) == CONDITION
    with pytest.raises(KeyError, match="rtt"):
        Condition.from_json(CONDITION.to_json() | {"rtt": 3})
