"""Metrics of background flows; every check of a flow can fail."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from losslab.emulation.flows import outcome
from losslab.emulation.goodput import Deliveries
from losslab.emulation.plan import make_plan
from losslab.emulation.programs import Timeline
from losslab.errors import LosslabError
from losslab.study import metrics
from tests.unit.study.test_condition import CONDITION

DURATION_S, WARMUP_S = 10.0, 1.0
ORIGIN_NS = 5_000_000_000


def condition(flows, **more):
    more = {"duration_s": DURATION_S, "warmup_s": WARMUP_S, "rate_mbit": 100.0} | more
    return dataclasses.replace(CONDITION, flows=flows, **more)


def made(flows="same,count=2", **more):
    return make_plan(condition(flows, **more), 7, "video.mp4")


def reports(plan, rates_mbit, **changes):
    """Return both programs' reports on flows with the given rates."""
    sent, received = {}, {}
    for stream, rate in zip(plan.background.streams, rates_mbit, strict=True):
        octets = stream.size_bytes or round(rate * 1e6 / 8 * (stream.end_s - stream.start_s))
        port = str(stream.source_port)
        how = "stopped" if stream.bulk else "finished"
        sent[port] = {
            "started_ns": ORIGIN_NS + round(stream.start_s * 1e9),
            "ended_ns": ORIGIN_NS + round(stream.end_s * 1e9),
            "how": how, "algorithm": stream.algorithm, "told_bytes": octets,
            "acked_bytes": octets + 2, "retransmits": 3, "busy_s": 10.0,
            "rwnd_limited_s": 0.0, "sndbuf_limited_s": 1.0,
        } | changes  # fmt: skip
        received[port] = {
            "bytes": octets, "how": how,
            "ended_ns": ORIGIN_NS + round((stream.start_s + 0.25) * 1e9),
        }  # fmt: skip
    return sent, received


def collected(
    folder, plan, rates_mbit, own=10.0, edit=None, own_late_s=0.0, real_time=False, summary=None,
    **changes,
):  # fmt: skip
    """Collect from made-up files; all flows have constant rates, the foreground flow `own`."""
    sent, received = reports(plan, rates_mbit, **changes)
    if edit:
        edit(sent, received)
    (folder / "flows-sender.log").write_text(json.dumps(sent))
    (folder / "flows-receiver.log").write_text(json.dumps(received))
    rows = ["t_s,flow,delivered_bytes"]
    own_port = plan.flows[0].source_port
    streams = [(own_port, 0.0, DURATION_S, own)] if own_port else []
    streams += [
        (s.source_port, s.start_s, s.end_s, rate)
        for s, rate in zip(plan.background.streams, rates_mbit, strict=True)
    ]
    for number in range(int(DURATION_S * 10) + 1):
        for port, start_s, end_s, rate in streams:
            if start_s <= number / 10 <= end_s:
                octets = round(rate * 1e6 / 8 * (number / 10 - start_s))
                rows.append(f"{number / 10},{port},{octets}")
    (folder / "tcp.csv").write_text("\n".join(rows) + "\n")
    summary = summary or {"goodput_mbit": own, "total_goodput_mbit": own}
    timeline = Timeline(ORIGIN_NS, {plan.app: plan.starts[0].at_s + own_late_s})
    return outcome.collect(plan.background, summary, plan, folder, timeline, real_time=real_time)


def test_shares_cover_flows_that_run_together(tmp_path):
    found = collected(tmp_path, made(), [30.0, 20.0]).summary
    expected = {
        "flows_goodput_mbit": 50, "total_goodput_mbit": 60, "flow_goodput_min_mbit": 10,
        "flow_goodput_median_mbit": 20, "flow_goodput_max_mbit": 30, "share_of_fair": 0.5,
        "jain_index": 60**2 / (3 * 1400), "starved_flows": 0, "flows_retransmits": 6,
    }  # fmt: skip
    assert {n: found[n] for n in expected} == pytest.approx(expected, rel=1e-3)
    assert found["time_to_fairness_s"] is None  # the index is always 0.857
    lines = (tmp_path / "flows.csv").read_text().splitlines()
    assert lines[0].startswith("name,algorithm,direction,source_port")
    assert {line.split(",")[2] for line in lines[1:]} == {"data"}
    assert len(lines) == 3
    assert collected(tmp_path, made(), [90.0, 90.0], own=1.0).summary["starved_flows"] == 1
    assert collected(tmp_path, made(), [9.0, 11.0]).summary["time_to_fairness_s"] == 1.0
    # A10: Jain's index was 1.0 for two flows that delivered nothing.
    found = collected(tmp_path, made(), [0.0, 0.0], own=0.0).summary
    assert {found[n] for n in ("jain_index", "starved_flows", "share_of_fair")} == {None}


def test_total_goodput_of_other_apps_covers_the_flows_window(tmp_path):
    """A video's own throughput lasts until its last frame, here twice the run's time.

    losslab does not know the ports of a user's programs; it counts what reaches the receiver.
    """
    plan = made("same", app="ffmpeg", rate_mbit=5.0, rtt_ms=20.0)
    summary = {"throughput_mbit": 2.0, "ended_s": DURATION_S}
    found = collected(tmp_path, plan, [4.0], 0.5, summary=summary)
    assert found.summary["total_goodput_mbit"] == pytest.approx(4.5, rel=0.02)
    assert found.first_mbit == pytest.approx(4.5, rel=0.02)
    plan = made("same", app="command", sender_command="nc", receiver_command="nc")
    summary = {"goodput_mbit": 20.0, "ended_s": DURATION_S}
    found = collected(tmp_path, plan, [30.0], summary=summary)
    assert found.summary["total_goodput_mbit"] == pytest.approx(50, rel=1e-3)


def test_fairness_covers_the_time_in_which_all_flows_run_and_no_flow_with_a_rate(tmp_path):
    """An ended flow does not count as a flow without goodput."""
    found = collected(tmp_path, made("same,start_s=2,end_s=5+same,end_s=8"), [10.0, 10.0]).summary
    assert found["jain_index"] == pytest.approx(1, abs=1e-3)
    assert found["flows_goodput_mbit"] == pytest.approx((3 + 7) / 9 * 10, rel=0.03)
    apart = collected(tmp_path, made("same,end_s=4+same,start_s=5"), [10.0, 10.0]).summary
    assert "jain_index" not in apart
    found = collected(tmp_path, made("same+bbr,rate_mbit=2"), [10.0, 10.0])
    assert found.summary["jain_index"] == pytest.approx(1.0)
    found = collected(tmp_path, made("bbr,rate_mbit=2"), [2.0])
    assert found.summary["flows_goodput_mbit"] == pytest.approx(2.0, rel=0.01)
    assert not {"jain_index", "short_flows"} & set(found.summary)
    assert [e.bulk for e in found.evidence] == [False]


def test_each_bottleneck_limits_its_own_flows(tmp_path):
    """Flows over different bottlenecks may together exceed the rate of either."""
    flows = "same,over=first+same,over=second"
    plan = made(flows, rate_mbit=50.0, second_rate_mbit=50.0, rtt_ms=0.44)
    found = collected(tmp_path, plan, [40.0, 35.0])
    assert found.summary["total_goodput_mbit"] == pytest.approx(85, rel=0.01)
    assert found.first_mbit < 50.5
    assert found.violations == []
    rates = [45.0 if s.over == "second" else 5.0 for s in plan.background.streams]
    [reason] = collected(tmp_path, plan, rates).violations
    assert reason.startswith("flows over the second bottleneck must stay below its 50 Mbit/s")


def test_flows_with_a_size_have_completion_times(tmp_path):
    plan = made("same,count=4,size_kb=100,every_s=1,start_s=2")
    found = collected(tmp_path, plan, [0.0] * 4).summary
    assert (found["short_flows"], found["short_unfinished"]) == (4, 0)
    for name in ("fct_mean_s", "fct_median_s", "fct_p95_s", "fct_p99_s"):
        assert found[name] == pytest.approx(0.25)
    assert found["flows_goodput_mbit"] == pytest.approx(4 * 0.8 / 9, rel=0.05)
    assert "jain_index" not in found

    def unfinished(sent, received):
        port = str(plan.background.streams[0].source_port)
        sent[port] |= {"how": "stopped", "acked_bytes": 5}
        received[port] |= {"how": "ECONNRESET", "bytes": 70}

    found = collected(tmp_path, plan, [0.0] * 4, edit=unfinished)
    assert (found.summary["short_unfinished"], found.violations) == (1, [])


def sized(start_s, end_s, its, size_bytes=1_000_000):
    """Return the record of a flow with a size, all of it acknowledged."""
    stream = made("same,size_kb=1000").background.streams[0]
    sent = {"how": "finished", "told_bytes": size_bytes, "acked_bytes": size_bytes + 1}
    return outcome.FlowRecord(stream, sent, {}, start_s, end_s, its)


@pytest.mark.parametrize(
    ("start_s", "end_s", "octets"),
    [
        (2.0, 9.0, 1_000_000),  # all of it within the window from 1 to 10 s
        (3.01, 3.05, 1_000_000),  # between two samples
        (0.2, 0.9, 0),  # before the warm-up's end
        (0.5, 9.0, 950_000),
        (0.5, 12.0, 550_000),
        (2.0, 12.0, 600_000),
    ],
)
def test_goodput_of_a_sized_flow_counts_the_bytes_acknowledged_in_the_window(
    start_s, end_s, octets
):
    """A7: bytes after the end counted, too, spread evenly over the flow's life (+28 %)."""
    before = 50_000 if start_s < 1 < end_s else 0
    until = 600_000 if end_s > 10 else 1_000_000
    # The kernel counts the SYN, too, and a FIN after the last byte.
    octets_and_more = [0, before + (before > 0), until + 1, 1_000_002]
    its = Deliveries([0.0, 1.0, 10.0, 11.0], octets_and_more)
    record = sized(start_s, end_s, None if (start_s, end_s) == (3.01, 3.05) else its)
    assert record.carried_mbit(made()) == pytest.approx(octets * 8 / 1e6 / 9)


@given(
    st.floats(0, 10), st.floats(0, 10), st.lists(st.integers(0, 10_000), min_size=3, max_size=30)
)
def test_sized_flow_never_has_more_than_its_samples_in_the_window(start_s, lasts_s, steps):
    """A7: the goodput is that of the samples at the window's ends, up to the last sample."""
    times = [start_s + lasts_s * n / len(steps) for n in range(len(steps) + 1)]
    octets = [sum(steps[:n]) for n in range(len(steps) + 1)]
    end_s = start_s + lasts_s
    record = sized(start_s, end_s, Deliveries(times, octets), octets[-1])
    found = record.carried_mbit(made()) * 9 * 1e6 / 8
    inside = sum(step for t_s, step in zip(times[1:], steps, strict=True) if t_s <= 10.001)
    last = steps[-1] + 1 if end_s <= 10 else 1  # the SYN's
    assert -0.01 <= found <= inside + last + 0.01


@pytest.mark.parametrize(
    ("end_s", "how", "acked", "at_warmup", "at_end", "octets"),
    [
        # Complete just after the warm-up: the sample has a FIN that the final count leaves out.
        (1.0004, "finished", 30_001, 30_002, 30_002, 0),
        # A short last packet that is selectively acknowledged counts as a full one in samples.
        (1.05, "finished", 30_001, 30_700, 30_002, 0),
        # Stopped behind a gap: the final count has no selectively acknowledged bytes.
        (10.0, "stopped", 5_001, 20_001, 25_001, 5_000),
        (5.0, "finished", 30_001, 10_001, 30_002, 20_000),
    ],
)
def test_w8_sized_flow_across_the_warm_up_loses_no_goodput(
    end_s, how, acked, at_warmup, at_end, octets
):
    """W8: samples and the final count differ in the SYN, the FIN and selective acknowledgements."""
    stream = made("same,size_kb=30").background.streams[0]
    sent = {"how": how, "told_bytes": 30_000, "acked_bytes": acked}
    its = Deliveries([0.5, 1.0, 10.0], [1, at_warmup, max(at_warmup, at_end)])
    record = outcome.FlowRecord(stream, sent, {"how": how}, 0.5, end_s, its)
    assert record.carried_mbit(made()) == pytest.approx(octets * 8 / 1e6 / 9)


def test_w8_upload_that_ended_before_the_warm_up_has_no_goodput():
    """W8: the program takes no mark of a flow that has ended, so all of its bytes counted."""
    plan = made("same,size_kb=30,direction=back", reverse_rate_mbit=10.0)
    [stream] = plan.background.back_streams
    sent = {"how": "finished", "told_bytes": 30_000, "acked_bytes": 30_001, "marked_bytes": 0}
    record = outcome.FlowRecord(stream, sent, {"how": "finished"}, 0.2, 0.6, None)
    assert record.carried_mbit(plan) == 0
    assert record.row(plan).startswith("1-1,cubic,back,")


@pytest.mark.parametrize(
    ("flows", "edit", "found"),
    [
        ("same", lambda s, r: r.clear(), "must deliver at least"),
        ("same", lambda s, r: r["10001"].update(bytes=r["10001"]["bytes"] + 1), "must deliver"),
        ("same", lambda s, r: s["10001"].update(min_rtt_ms=0.3), "an RTT of at least 0.44 ms"),
        ("same", lambda s, r: s["10001"].pop("how"), "must be started and ended"),
        (
            "same,size_kb=1",  # not all of its size
            lambda s, r: [its["10001"].update(told_bytes=999, bytes=999) for its in (s, r)],
            "must deliver",
        ),
    ],
)
def test_unaccounted_bytes_of_a_flow_are_a_violation(tmp_path, flows, edit, found):
    assert collected(tmp_path, made(flows), [10.0]).violations == []
    (reason,) = collected(tmp_path, made(flows), [10.0], edit=edit).violations
    assert reason.startswith("flow 1-1 ")
    assert found in reason


@pytest.mark.parametrize(("found", "early"), [(87.0, False), (87.2, True), (86.0, True)])
def test_rtt_of_a_time_stamp_may_be_a_millisecond_early(tmp_path, found, early):
    """TCP takes the RTT of retransmitted segments from time stamps, in whole milliseconds."""
    plan = made("same,rtt_ms=87.38")
    reasons = collected(
        tmp_path, plan, [10.0], edit=lambda s, r: s["10001"].update(min_rtt_ms=found)
    ).violations
    text = f"flow 1-1 must have an RTT of at least 87.38 ms, found {found:g} ms"
    assert reasons == ([text] if early else [])


def test_every_flows_algorithm_is_recorded(tmp_path):
    bulk, sized = collected(tmp_path, made("same+bbr,size_kb=5"), [5.0, 5.0]).evidence
    assert (bulk.wanted, bulk.found, bulk.bulk) == ("cubic", ["cubic"], True)
    assert bulk.buffer_limited_share == 0.1
    assert (sized.wanted, sized.found, sized.bulk) == ("bbr", ["bbr"], False)
    bulk, sized = collected(
        tmp_path, made("same+bbr,size_kb=5"), [5.0, 5.0], algorithm="reno"
    ).evidence
    assert (bulk.found, sized.found) == (["reno"], ["reno"])


def test_silent_program_of_flows_is_an_error(tmp_path):
    plan = made("same")
    collected(tmp_path, plan, [5.0])
    (tmp_path / "flows-sender.log").write_text("Traceback")
    with pytest.raises(LosslabError, match="must be a JSON report"):
        outcome.collect(plan.background, {}, plan, tmp_path, Timeline(ORIGIN_NS, {"iperf3": 0.0}))


def test_late_start_of_a_flow_is_a_violation(tmp_path):
    def late(sent, received):
        sent["10001"]["started_ns"] += 2_000_000

    plan = made("same")
    [reason] = collected(tmp_path, plan, [10.0], edit=late).violations
    assert reason.startswith("flow 1-1 must start at 0.1")
    [reason] = collected(tmp_path, plan, [10.0], own_late_s=0.02).violations
    assert reason.startswith("iperf3 must start at 0.1")
    # In real time the machine's load decides when programs start.
    assert collected(tmp_path, plan, [10.0], edit=late, real_time=True).violations == []


def test_flows_of_each_label_have_metrics_of_their_own(tmp_path):
    """A label is the algorithm, or what the user gives; all flows of a label count together."""
    plan = made("cubic,size_kb=100,start_s=2,count=2+bbr,start_s=2+same+reno,label=cubic")
    records, times = [], [0.0, 1.0, 10.0]
    for number, stream in enumerate(plan.background.streams, 1):
        received = {"how": "finished", "ended_ns": 6 * 10**9, "first_ns": 3 * 10**9, "bytes": 10**5}
        sent = {
            "how": "stopped" if stream.name == "1-2" else "finished", "started_ns": 2 * 10**9,
            "acked_bytes": 10**5 + 1, "told_bytes": 10**5,
        }  # fmt: skip
        its = Deliveries(times, [0, 0, 9 * 125_000 * number])
        records.append(outcome.FlowRecord(stream, sent, received, stream.start_s, 9.0, its))
    found = outcome.of_labels(records, plan)
    assert {name.split("_")[1] for name in found} == {"bbr", "cubic", "same"}
    assert all(metrics.get(name) for name in found)
    assert (found["flows_cubic_fct_mean_s"], found["flows_cubic_short_unfinished"]) == (4.0, 1)
    assert found["flows_bbr_first_byte_median_s"] == 1.0
    assert "flows_bbr_fct_mean_s" not in found
    names = [stream.name for stream in plan.background.streams]
    assert found["flows_bbr_goodput_mbit"] == pytest.approx(names.index("2-1") + 1)
    # Only with a label does the receiver note first bytes.
    assert "--size" in plan.background.flow.listener.command
    assert "--size" not in made("cubic+bbr").background.flow.listener.command


def test_w7_median_is_the_mean_of_the_two_middle_values(tmp_path):
    """W7: with two flows, the median was the minimum."""
    plan = made("same,count=2,size_kb=100,every_s=1,start_s=2")

    def later(sent, received):
        received[str(plan.background.streams[1].source_port)]["ended_ns"] += 10**9

    found = collected(tmp_path, plan, [0.0] * 2, edit=later).summary
    assert found["fct_median_s"] == pytest.approx((0.25 + 1.25) / 2)
    assert found["flows_same_fct_median_s"] == found["fct_median_s"]
