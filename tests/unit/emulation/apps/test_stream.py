"""The app `stream`: its patterns, results and checks, from the reports of its programs."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from losslab.emulation.apps import stream
from losslab.emulation.plan import make_plan
from losslab.emulation.programs import Timeline
from losslab.errors import LosslabError
from losslab.study.axes import plain
from tests.unit.study.test_condition import CONDITION

# A flow that starts at 0.1 s on a link of 1 Gbit/s, for 10 s.
STREAM = replace(CONDITION, app="stream", duration_s=10, warmup_s=1)
TIMELINE, S = Timeline(origin_ns=0, started_s={"stream": 0.1}), 10**9
APP, NOT_READ = stream.FEATURE, {"complete_ns": None}


@given(
    st.lists(st.floats(0.001, 9.9), max_size=20, unique_by=plain),
    st.lists(st.one_of(st.none(), st.floats(0.001, 1000), st.just(0.0)), min_size=21, max_size=21),
)
def test_any_pattern_is_read_as_it_was_written(times, rates):
    given = list(zip([0.0, *sorted(times)], rates, strict=False))
    text = ",".join(f"{plain(t)}={'max' if rate is None else plain(rate)}" for t, rate in given)
    condition = replace(STREAM, app_pattern=text)
    assert condition.problems() == []
    found = stream.steps(condition)
    assert len(found) == len(given)
    for (at_s, rate), (expected_s, expected) in zip(found, given, strict=True):
        assert at_s == pytest.approx(expected_s)
        assert rate is expected is None or math.isclose(rate, expected)
    assert json.loads(json.dumps(found)) == [list(step) for step in found]


@pytest.fixture
def measured(tmp_path):
    """Write a run's logs and samples at 8 Mbit/s; return its summary and violations."""

    def run(condition, sent=None, read=None, steps=None):
        plan = make_plan(condition, 7)
        pattern = stream.steps(condition)
        report = {
            "started_ns": S // 10, "ended_ns": 10 * S, "how": "finished",
            "told_bytes": 10**6, "acked_bytes": 10**6 + 1,
            "steps": [
                {"begin_s": at_s, "due_bytes": rate, "sent_bytes": 10**6, "refusals": 0}
                for at_s, rate in pattern
            ] if steps is None else steps,
        }  # fmt: skip
        received = {"bytes": 10**6, "first_ns": S // 5, "complete_ns": 2 * S}
        received |= read or {}
        if received["complete_ns"] is None:
            del received["complete_ns"]
        for name, its in (("sender", report | (sent or {})), ("receiver", received)):
            (tmp_path / f"{name}.log").write_text(json.dumps({"40001": its}))
        rows = [f"{n / 10},40001,{min(10**6, n * 10**5)},3" for n in range(101)]
        text = "\n".join(["t_s,flow,delivered_bytes,retransmits", *rows]) + "\n"
        (tmp_path / "tcp.csv").write_text(text)
        return APP.collect(plan, tmp_path, TIMELINE), list(APP.violations(plan, tmp_path))

    return run


def test_flow_with_a_size_has_its_completion_time_and_goodput(measured):
    summary, violations = measured(replace(STREAM, size_kb=1000))
    assert violations == []
    assert summary["completion_s"] == pytest.approx(1.9)
    assert summary["first_byte_s"] == pytest.approx(0.1)
    assert summary["goodput_mbit"] == pytest.approx(8 / 1.9)
    assert summary["source_kept_percent"] is None
    # An unfinished flow has its goodput until the end, and no completion time.
    summary, violations = measured(replace(STREAM, size_kb=2000), {"how": "stopped"}, NOT_READ)
    assert violations == []
    assert summary["completion_s"] is None
    assert summary["goodput_mbit"] == pytest.approx(8 / 9.9)
    # W9: what the receiver read after the end is not complete by the end.
    late = {"complete_ns": 10 * S + 1}
    summary, _ = measured(replace(STREAM, size_kb=1000), {"how": "stopped"}, late)
    assert summary["completion_s"] is None
    assert summary["goodput_mbit"] == pytest.approx(8 / 9.9)


STEP = {"begin_s": 0.0, "due_bytes": 10**6, "sent_bytes": 10**6, "refusals": 0}


@pytest.mark.parametrize(
    ("step", "kept"),
    [({}, 100), ({"sent_bytes": 600_000, "refusals": 3}, 60)],
)
def test_source_that_the_network_slows_is_valid_and_counted(measured, step, kept):
    condition = replace(STREAM, app_rate_mbit=8)
    summary, violations = measured(condition, steps=[STEP | step])
    assert violations == []
    assert summary["source_kept_percent"] == pytest.approx(kept)


@pytest.mark.parametrize(
    ("axes", "change", "violation"),
    [
        ({"app_rate_mbit": 8}, {"steps": [STEP | {"sent_bytes": 999_999}]}, "must send"),
        ({"app_rate_mbit": 8}, {"steps": [STEP | {"sent_bytes": 1_000_001}]}, "must send"),
        ({"app_rate_mbit": 8}, {"steps": []}, "1 steps, found 0"),
        ({"app_pattern": "0=8,2=max"}, {"steps": [STEP, STEP]}, "2000000 bytes must be due"),
        ({}, {"read": {"bytes": 999_999}}, "must read"),
        ({}, {"read": {"bytes": 1_000_001}}, "must read"),
        ({"size_kb": 2000}, {}, "2000000 bytes to its end"),
    ],
)
def test_source_that_does_not_do_what_it_should_is_a_violation(measured, axes, change, violation):
    _, violations = measured(replace(STREAM, **axes), **change)
    assert [each for each in violations if violation in each]


@pytest.mark.parametrize(
    ("axes", "mbit"),
    [
        ({"app_rate_mbit": 4}, 4),
        ({"app_pattern": "0=max,1=0,6=5"}, 102),
        ({"size_kb": 10_000}, 8),
        # A response of 8 Mbit takes 8 ms at 1 Gbit/s, the path's RTT, and the thinking.
        ({"response_kb": 1000, "think_ms": 72, "rtt_ms": 20}, 80),
        ({"response_kb": 1000, "requests": 5}, 4),
        ({}, None),
    ],
)
def test_expected_rate_is_the_patterns_mean(axes, mbit):
    assert APP.expected_mbit(replace(STREAM, **axes), 1000) == mbit


ASKED = replace(STREAM, response_kb=50, think_ms=500, request_bytes=100)


def asked(*times):
    """Return the requests at some times in s, each with a response after its time in ms."""
    return [
        {"sent_ns": round(at_s * S), "first_ns": round(at_s * S) + 10**7,
         "done_ns": round(at_s * S + ms * 1e6), "bytes": 50_000}
        for at_s, ms in times
    ]  # fmt: skip


# Every 0.6 s, each answered after 0.1 s; the first is within the warm-up.
REQUESTS = asked(*((0.6 * n, 100) for n in range(1, 21)))


def answers(requests, change=None):
    """Return what both ends of `requests` report."""
    octets = sum(each["bytes"] for each in requests)
    sent = {"told_bytes": octets, "acked_bytes": octets + 1, "asked_bytes": 100 * len(requests)}
    return sent | (change or {}), NOT_READ | {"bytes": octets, "requests": requests}


def test_requests_have_their_response_times_after_the_warm_up(measured, tmp_path):
    requests = [*REQUESTS[:15], *asked((9.6, 300))]
    summary, violations = measured(ASKED, *answers(requests))
    assert (summary["requests_done"], summary["response_median_ms"]) == (15, 100.0)
    assert (summary["response_p95_ms"], summary["response_first_byte_median_ms"]) == (300.0, 10.0)
    assert [each for each in violations if "must follow 500 ms" not in each] == []
    rows = (tmp_path / "requests.csv").read_text().splitlines()
    assert rows[1] == "1,0.600000,10.000000,100.000000,50000"


def test_w9_only_requests_that_are_answered_before_the_end_count(measured):
    """W9: responses that came after the end counted, too."""
    within = [*REQUESTS[:15], *asked((9.6, 390))]
    beyond = [*REQUESTS[:15], *asked((9.6, 410))]
    assert measured(ASKED, *answers(within))[0]["requests_done"] == 15
    summary, violations = measured(ASKED, *answers(beyond))
    assert (summary["requests_done"], summary["response_p95_ms"]) == (14, 100.0)
    assert violations == []


def test_w7_median_of_two_responses_is_their_mean(measured):
    """W7: of responses of 454 and 566 ms, the median was 454."""
    requests = asked((1.2, 454), (2.154, 566))
    assert measured(ASKED, *answers(requests))[0]["response_median_ms"] == pytest.approx(510)


def test_client_that_keeps_its_pattern_is_valid_with_an_open_request(measured):
    requests = [*REQUESTS[:3], {"sent_ns": REQUESTS[3]["sent_ns"], "bytes": 7}]
    assert measured(ASKED, *answers(requests, {"told_bytes": 200_000}))[1] == []


@pytest.mark.parametrize(
    ("axes", "requests", "change", "violation"),
    [
        ({}, asked((1, 100), (1.59, 100)), {}, "request 2 must follow 500 ms"),
        ({}, asked((1, 100), (1.603, 100)), {}, "request 2 must follow 500 ms"),
        ({"requests": 1}, REQUESTS[:2], {}, "must ask 1 times, found 2"),
        ({}, [REQUESTS[0] | {"bytes": 49_999}, *REQUESTS[1:2]], {}, "request 1 must be answered"),
        ({}, REQUESTS[:2], {"asked_bytes": 201}, "must get 2 requests"),
        ({}, REQUESTS[:2], {"told_bytes": 100_001}, "must send 100000 bytes for 2 requests"),
        ({}, REQUESTS[:2], {"asked_bytes": 300}, "must send 150000 bytes"),
    ],
)
def test_client_or_server_that_breaks_its_pattern_is_a_violation(
    measured, axes, requests, change, violation
):
    _, violations = measured(replace(ASKED, **axes), *answers(requests, change))
    assert [each for each in violations if violation in each]


def test_i3_flow_without_a_connection_is_a_reason_and_no_crash(tmp_path):
    """An outage at the start: the receiver accepted nothing, and its report had no flow."""
    (tmp_path / "sender.log").write_text(json.dumps({str(stream.SOURCE_PORT): {}}))
    (tmp_path / "receiver.log").write_text("{}")
    with pytest.raises(LosslabError, match=r"found none in receiver\.log"):
        stream._reports(tmp_path)
