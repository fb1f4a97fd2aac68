"""Traces and logs of trace-driven links, and the oracle of their rules on small traces."""

import itertools
import statistics

import pytest

from losslab.emulation.link import tracelink
from losslab.emulation.link.tracelink import summarise
from losslab.errors import LosslabError
from tests.mahimahi import TraceLink


def test_packet_that_does_not_fit_goes_on_at_the_next_opportunity():
    lines = []
    link = TraceLink([2, 4, 7], 2, lines.append)
    for size in (900, 900, 900):
        link.arrive(size, 0)
    link.advance(7)
    assert lines == [
        "0 + 900", "0 + 900", "0 + 900", "0 d 1 900", "2 - 900 2", "4 - 900 4",
    ]  # fmt: skip
    # What is left of 4 ms is lost, and so is 7 ms; the trace repeats from 7 ms.
    link.arrive(1500, 8)
    link.advance(9)
    assert lines[-1] == "9 - 1500 1"


@pytest.mark.parametrize(
    ("departures", "excess"),
    [
        # One packet that was sent in part before the window.
        (["4 - 1500 1", "5 - 1500 1", "9 - 1500 1"], 0),
        (["5 - 1500 1", "5 - 1500 1"], 1500),
        # The opportunities of 4 and 5 ms pass unused, and cannot be made up for.
        (["9 - 1500 1", "9 - 1500 1", "9 - 1500 1"], 3000),
        (["3 - 40 1"], 40),
    ],
)
def test_window_in_which_more_departed_than_the_trace_allows_is_found(departures, excess):
    lines = ["0 + 1500", *departures, "9 d 1 1500"]
    assert tracelink.excess_bytes(lines, [6, 7, 11], 2) == excess


def test_packets_after_the_run_do_not_count():
    lines = ["50 - 1500 50", "100 + 1500", "110 - 1500 10", "5000 + 1500", "5900 - 1500 900"]
    found = summarise(lines, begin_ms=90, end_ms=1090)
    assert found["queue_delay_p95_ms"] == 10
    # The throughput is of the requested time, not of the busy time.
    assert found["link_throughput_mbit"] == pytest.approx(1500 * 8 / 1e6)
    assert summarise(["5 + 100"]) == {}


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


def test_most_opportunities_are_those_of_the_busiest_window_of_the_repeating_trace():
    times = [0, 3, 4, 4, 10]
    at = [next_ms for next_ms, _ in zip(tracelink.opportunities(times), range(60), strict=False)]
    for length_ms in (0, 0.5, 1, 3, 7, 9, 10, 13, 27):
        counts = [sum(start <= ms <= start + length_ms for ms in at) for start in at[:20]]
        assert tracelink.most_opportunities(times, length_ms) == max(counts), length_ms
