"""Rules of the trace-driven link on small traces, exact to the millisecond."""

import itertools
import os
import re
import socket
import statistics
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from losslab.emulation.link import forward, tracelink
from losslab.emulation.link.queues import CoDel, DropTail, FqCoDel, flow_of, queue_of
from losslab.emulation.link.tracelink import (
    TraceLink,
    summarise,
)
from losslab.errors import LosslabError


def link(times, queue=None):
    lines = []
    return TraceLink(times, DropTail() if queue is None else queue, lines.append), lines


@pytest.mark.parametrize(("queue", "taken"), [("fifo", 2), ("bfifo", 3)])
def test_packet_and_byte_limits_differ_for_small_packets(queue, taken):
    trace_link, lines = link([50], queue_of(queue, 2))
    for _ in range(4):
        trace_link.arrive(bytes(1000), 0)
    assert lines.count("0 + 1000") == 4
    assert lines.count("0 d 1 1000") == 4 - taken


def codel_drops(arrivals_per_ms, duration_ms):
    """Return the times of drops on a link of one packet per millisecond with such arrivals."""
    trace_link, lines = link(list(range(1, 1001)), CoDel())
    for ms in range(duration_ms):
        for _ in range(arrivals_per_ms(ms)):
            trace_link.arrive(bytes(1500), ms)
    return [int(line.split()[0]) for line in lines if " d " in line]


def test_codel_passes_a_burst_and_drops_faster_from_a_standing_queue():
    assert codel_drops(lambda ms: 40 if ms == 0 else 0, 200) == []
    drops = codel_drops(lambda ms: 21 if ms == 0 else 1, 600)
    # Above 5 ms since the first departure; drops begin an interval later, then at interval/sqrt(n).
    assert drops[0] == pytest.approx(107, abs=3)
    gaps = [b - a for a, b in itertools.pairwise(drops)]
    assert gaps[0] == pytest.approx(100, abs=2)
    assert gaps[1] == pytest.approx(100 / 2**0.5, abs=2)
    assert gaps[2] == pytest.approx(100 / 3**0.5, abs=2)


def standing(queue, arrivals_per_ms, duration_ms=4000):
    """Return the mean delay in the last half, and the share dropped, at a packet per ms."""
    trace_link, lines = link(list(range(1, 1001)), queue)
    due = 0.0
    for ms in range(duration_ms):
        due += arrivals_per_ms
        while due >= 1:
            trace_link.arrive(bytes(1500), ms)
            due -= 1
    words = [line.split() for line in lines]
    late = [each for each in words if int(each[0]) > duration_ms / 2]
    delays = [int(each[3]) for each in late if each[1] == "-"]
    kinds = [each[1] for each in late]
    return statistics.fmean(delays), kinds.count("d") / kinds.count("+")


def test_pie_holds_its_target_drops_the_excess_and_passes_a_burst():
    delay_ms, dropped = standing(queue_of("pie", 1000, seed=7), 1.25, 40_000)
    assert delay_ms == pytest.approx(15, abs=3)
    assert dropped == pytest.approx(0.2, abs=0.02)
    assert standing(queue_of("pie target 40ms", 1000, seed=7), 1.25, 40_000)[0] == pytest.approx(
        40, abs=6
    )
    assert standing(queue_of("pie", 1000, seed=7), 0.95) == (pytest.approx(1, abs=0.5), 0)
    trace_link, lines = link(list(range(1, 1001)), queue_of("pie", 1000, seed=7))
    for _ in range(60):
        trace_link.arrive(bytes(1500), 0)
    trace_link.advance(100)
    assert not any(" d " in line for line in lines)


RED = "red limit 302800 min 25233 max 75699 avpkt 1514 burst 28 probability 0.02"


def test_red_keeps_its_average_between_its_thresholds():
    """At an excess below its largest probability; above it, the average reaches its maximum."""
    delay_ms, dropped = standing(queue_of(RED, seed=7, mbit=12), 1.01, 20_000)
    assert 25233 < delay_ms * 1514 < 75699
    assert dropped == pytest.approx(0.01, abs=0.004)
    delay_ms, dropped = standing(queue_of(RED, seed=7, mbit=12), 1.25)
    assert delay_ms * 1514 == pytest.approx(75699, rel=0.15)
    assert dropped == pytest.approx(0.2, abs=0.05)


def test_codel_has_its_parameters():
    slow, fast = (
        standing(queue_of(f"codel limit 900 target {target}"), 1.01, 20_000)[0]
        for target in ("20ms", "1000us")
    )
    assert fast < slow


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cake", "must be one of fifo, bfifo, codel, fq_codel, pie, red, own"),
        ("sfq limit 100", "options of none with numbers, found 'limit 100'"),
        ("codel target 5ms ecn", "options of limit, target, interval with numbers, found 'ecn'"),
        ("pie tupdate 0ms", "tupdate of pie must be above 0"),
        ("red limit 9000 min 3000 max 2000 burst 9", "min < max"),
        ("red min 3000 max 9000 burst 9", "must have a limit"),
        ("red limit 90000 min 30280 max 60000 burst 19", "at least min / avpkt"),
    ],
)
def test_queue_that_no_trace_has_is_refused(text, said):
    with pytest.raises(LosslabError, match=re.escape(said)):
        queue_of(text)


def test_packets_after_the_run_do_not_count():
    lines = ["50 - 1500 50", "100 + 1500", "110 - 1500 10", "5000 + 1500", "5900 - 1500 900"]
    found = summarise(lines, begin_ms=90, end_ms=1090)
    assert found["queue_delay_p95_ms"] == 10
    # The throughput is of the requested time, not of the busy time.
    assert found["link_throughput_mbit"] == pytest.approx(1500 * 8 / 1e6)
    assert summarise(["5 + 100"]) == {}


def test_ending_link_delivers_its_queue(monkeypatch):
    """The device may hold packets while the link's own queue is empty."""
    tun, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    stop, stopped = os.pipe()
    trace_link, _ = link(list(range(1, 1001)))
    write, numbers = os.write, iter(range(1, 5))

    def depart(descriptor, content):
        # A sender that is clocked by arrivals sends next.
        number = next(numbers, None)
        if number is not None:
            other.send(bytes([number]) * 1500)
        return write(descriptor, content)

    with tun, other:
        other.send(bytes(1500))
        os.write(stopped, b"x")
        monkeypatch.setattr(forward.os, "write", depart)
        forward.forward(trace_link, tun.fileno(), stop, time.monotonic_ns())
        other.setblocking(False)
        assert [other.recv(1500)[0] for _ in range(5)] == [0, 1, 2, 3, 4]
    os.close(stop)
    os.close(stopped)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "more than 0 ms"),
        ("0\n0\n", "more than 0 ms"),
        ("1\n2\nx\n", "line 3"),
        ("1\n\n2\n", "line 2"),
        ("5\n4\n", "found 4 after 5"),
        ("1.5\n", "line 1"),
        ("-1\n", "line 1"),
        ("1\n2 \n", "line 2"),
        ("1\r\n2\r\n", "line 1"),
        ("1\n2\n\n", "line 3"),
        # Memory and time of the link and of `describe` grow with these.
        ("1\n9999999999999\n", "at most 86400000 ms, which is a day"),
        ("1\n400000\n", "an opportunity every 300000 ms"),
        ("\ufeff1\n", "line 1"),
        ("1\n\0\n", "line 2"),
        ("1e3\n", "line 1"),
    ],
)
def test_malformed_trace_is_refused_with_its_line(text, word):
    with pytest.raises(LosslabError, match=word) as error:
        tracelink.parse(text, "my.trace")
    assert "my.trace" in str(error.value)


def test_drawn_trace_has_the_sources_length_and_mean():
    times = tracelink.generate(1)
    assert times == tracelink.generate(1) != tracelink.generate(2)
    assert times[-1] == 140_000
    assert tracelink.mean_mbit(times) == pytest.approx(58_655 * 1500 * 8 / 140e6, rel=1e-12)
    assert len(times) == 58_655
    assert len(tracelink.generate(1, mean=tracelink.MEAN_BACK_MBIT)) == 69_367
    assert times == sorted(times)


def test_drawn_traces_vary_like_the_source():
    """Ten traces match in spread and autocorrelation of rates over 0.5 s, and in long gaps."""
    spreads, memories, gaps = [], [], []
    for seed in range(10):
        times = tracelink.generate(seed)
        rates = [0] * 280
        for ms in times:
            rates[min(ms // 500, 279)] += 2
        mean = statistics.fmean(rates)
        spreads.append(statistics.pstdev(rates) / mean)
        pairs = zip(rates, rates[2:], strict=False)
        covariance = sum((a - mean) * (b - mean) for a, b in pairs) / len(rates)
        memories.append(covariance / statistics.pvariance(rates))
        long = sum(b - a for a, b in itertools.pairwise(times) if b - a > 100)
        gaps.append(100 * long / times[-1])
    assert statistics.fmean(spreads) == pytest.approx(0.66, abs=0.2)
    assert statistics.fmean(memories) == pytest.approx(0.77, abs=0.12)
    assert statistics.fmean(gaps) == pytest.approx(3.2, abs=1.6)


def test_capacity_is_that_of_the_opportunities_in_the_part_used():
    times = [2, 5, 10]
    assert tracelink.capacity_bytes(times, 0, 10, 0) == 3 * 1500
    assert tracelink.capacity_bytes(times, 2.5, 12, 0) == 3 * 1500
    # From 5 ms on: 5, 10, 12, 15 and 20 ms of the trace.
    assert tracelink.capacity_bytes(times, 0, 15, 5) == 5 * 1500
    # An outage has no capacity.
    assert tracelink.capacity_bytes([1, 1000], 1.5, 999, 0) == 0


def test_packets_wait_behind_the_link_only_if_the_trace_is_faster():
    times = sorted(3 * [*range(1, 1001)])  # 36 Mbit/s, and 36.3 Mbit/s with Ethernet headers
    assert tracelink.wait_behind_ms(times, 36.4) == pytest.approx(1.0, abs=0.01)
    assert tracelink.wait_behind_ms(times, 18.2) == pytest.approx(1000, rel=0.01)


def ip_packet(flow, number=0, size=1500):
    """Return an IPv4 packet of TCP with the flow's number as source port."""
    head = bytes([0x45, *[0] * 8, 6, 0, 0, 10, 0, 1, 1, 10, 0, 3, 2])
    return head + flow.to_bytes(2, "big") + bytes([20, 81]) + number.to_bytes(size - 24, "big")


def test_full_fq_codel_drops_from_the_longest_queue():
    trace_link, lines = link([1000], FqCoDel(20))
    trace_link.arrive(ip_packet(2, 0), 0)
    for number in range(20):
        trace_link.arrive(ip_packet(1, number), 0)
    assert [line for line in lines if " d " in line] == ["0 d 1 1500"] * 10
    assert len(trace_link.queue) == 11
    assert trace_link.advance(1000) == [ip_packet(2, 0)]


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(40, 1500)), max_size=120))
def test_fq_codel_neither_loses_nor_reorders_packets_of_a_flow(arrivals):
    trace_link, lines = link(range(5, 3000, 5), FqCoDel(30))
    sent, left = [], []
    for number, (flow, size) in enumerate(arrivals):
        sent.append(ip_packet(flow, number, size))
        left += trace_link.arrive(sent[-1], number)
    left += trace_link.advance(2999)
    assert not trace_link.busy
    assert len(left) + sum(" d " in line for line in lines) == len(sent)
    for flow in range(1, 6):
        its = [packet for packet in left if flow_of(packet) == flow_of(ip_packet(flow))]
        assert its == sorted(its, key=sent.index)
