import itertools
import statistics

import pytest

from losslab.emulation.link import tracelink
from losslab.errors import LosslabError


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


def test_trace_survives_a_round_trip():
    times = [0, 3, 3, 10]
    assert tracelink.parse(tracelink.write(times), "") == times


def test_trace_repeats_from_its_end():
    assert list(itertools.islice(tracelink.opportunities([2, 2, 10]), 7)) == [
        2,
        2,
        10,
        12,
        12,
        20,
        22,
    ]


def test_drawn_trace_has_the_sources_length_and_mean():
    times = tracelink.generate(1)
    assert times[-1] == 140_000
    assert tracelink.mean_mbit(times) == pytest.approx(58_655 * 1500 * 8 / 140e6, rel=1e-12)
    assert len(times) == 58_655
    assert len(tracelink.generate(1, mean=tracelink.MEAN_BACK_MBIT)) == 69_367
    assert times == sorted(times)


def test_trace_is_described():
    # 1500 bytes per second except for a gap of 2 s: rates 0 and 1 per half second.
    found = tracelink.describe([1000, 2000, 4000, 5000])
    assert found["trace_mbit"] == pytest.approx(4 * 1500 * 8 / 5e6)
    assert found["trace_gap_max_ms"] == 2000
    assert found["trace_gaps_percent"] == 100


def test_same_seed_draws_the_same_trace():
    assert tracelink.generate(1) == tracelink.generate(1)
    assert tracelink.generate(1) != tracelink.generate(2)


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
