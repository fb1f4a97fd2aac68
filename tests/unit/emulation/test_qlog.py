"""Metrics of the qlog of QUIC stacks, in each form that the drafts have had."""

import json

import pytest

from losslab.emulation import qlog

POINT = {"vantage_point": {"type": "server"}}
EVENTS = [
    {"time": 0, "name": "transport:packet_sent", "data": {"raw": {"length": 1200}}},
    {"time": 5, "name": "recovery:metrics_updated", "data": {"smoothed_rtt": 20.5}},
    {"time": 9, "name": "recovery:packet_lost", "data": {}},
    {"time": 10, "name": "recovery:metrics_updated",
     "data": {"smoothed_rtt": 21.5, "congestion_window": 12000}},
]  # fmt: skip
FOUND = {"qlog_srtt_median_ms": 21.0, "qlog_cwnd_median_bytes": 12000, "qlog_lost_packets": 1}


def sequence(events, header=POINT):
    records = [{"qlog_version": "0.3", "trace": header}, *events]
    return "".join(f"\x1e{json.dumps(each)}\n" for each in records)


def lines(events):
    return "\n".join(map(json.dumps, [{"qlog_version": "0.4", "trace": POINT}, *events]))


def document(events):
    return json.dumps({"qlog_version": "0.3", "traces": [POINT | {"events": events}]})


def rows(events):
    """Return the form of the drafts 00 and 01."""
    fields = ["relative_time", "category", "event", "data"]
    its = [[e["time"], *e["name"].split(":"), e["data"]] for e in events]
    return json.dumps({"traces": [POINT | {"event_fields": fields, "events": its}]})


def renamed(events):
    """Return the names of the newest drafts."""
    names = {"recovery:metrics_updated": "quic:recovery_metrics_updated",
             "recovery:packet_lost": "quic:packet_lost"}  # fmt: skip
    return sequence([each | {"name": names.get(each["name"], each["name"])} for each in events])


@pytest.mark.parametrize("written", [sequence, lines, document, rows, renamed])
def test_metrics_are_the_same_in_each_form(tmp_path, written):
    file = tmp_path / "a.qlog"
    file.write_text(written(EVENTS))
    assert qlog.metrics([file], "server") == FOUND
    assert qlog.metrics([file], "client") == {}
    assert [event.ms for event in qlog.events(file)] == [0, 5, 9, 10]


@pytest.mark.parametrize("value", ["NaN", "-1", "1e400", "1" + "0" * 400, '"20"', "null", "[]"])
def test_value_that_is_no_number_is_none(tmp_path, value):
    file = tmp_path / "a.qlog"
    file.write_text(sequence(EVENTS[1:]).replace("20.5", value))
    assert qlog.metrics([file], "server")["qlog_srtt_median_ms"] == 21.5


def test_log_of_the_connection_that_sent_most_counts(tmp_path):
    for name, count in (("small", 0), ("large", 3)):
        its = [*EVENTS[:1] * count, *(EVENTS if count else EVENTS[:2])]
        (tmp_path / name).write_text(sequence(its))
    assert qlog.metrics([tmp_path / "small", tmp_path / "large"], "server") == FOUND


def test_time_since_the_event_before_adds_up(tmp_path):
    file = tmp_path / "a.qlog"
    header = POINT | {"common_fields": {"time_format": "relative_to_previous_event"}}
    file.write_text(sequence(EVENTS, header))
    assert [event.ms for event in qlog.events(file)] == [0, 5, 14, 24]


@pytest.mark.parametrize("kept", [0, 1, 40, 200, -30])
def test_truncated_log_has_the_events_before(tmp_path, kept):
    file = tmp_path / "a.qlog"
    file.write_text(sequence(EVENTS)[:kept])
    assert len([*qlog.events(file)]) < len(EVENTS)


@pytest.mark.parametrize("text", ["[" * 10**5, "{}", "null", "[1]", '{"traces": 1}', '{"name": 1}'])
def test_file_that_is_no_qlog_has_no_metrics(tmp_path, text):
    file = tmp_path / "a.qlog"
    file.write_text(text)
    assert qlog.metrics([file, tmp_path / "absent"], "server") == {}
    assert qlog.metrics([file], "") == {}
