import pytest

from losslab.emulation.schemes import SCHEMES, Ack, make_scheme
from losslab.emulation.schemes.bbr import STARTUP_GAIN


def ack(sequence, rtt_ms, now_ms=1000.0, in_flight=0):
    return Ack(sequence, now_ms - rtt_ms, now_ms - rtt_ms / 2, now_ms, in_flight)


def feed(scheme, rtts_ms):
    now_ms = 0.0
    for sequence, rtt_ms in enumerate(rtts_ms):
        scheme.on_sent(sequence, now_ms)
        now_ms += rtt_ms
        scheme.on_ack(ack(sequence, rtt_ms, now_ms))
    return scheme


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_keeps_a_positive_window(name):
    scheme = make_scheme(name)
    assert scheme.window_packets() >= 1
    feed(scheme, [40, 45, 60, 300, 2000, 2000, 2000, 50, 40, 40])
    assert scheme.window_packets() >= 1
    assert scheme.pacing_gap_ms() >= 0
    assert scheme.timeout_ms() > 0


def test_aimd_follows_late_rtts_and_cuts_their_deviation_to_whole_milliseconds():
    scheme = make_scheme("aimd,rtt_gain=4,add=1,multiply=2")
    feed(scheme, [50, 50])
    assert scheme.window_packets() == 4.25
    assert scheme.timeout_ms() == pytest.approx(50 + 4 * 37.5)
    feed(scheme, [250])
    assert scheme.window_packets() == 2.125
    scheme = make_scheme("aimd,rtt_gain=4,beta=1,alpha=0")
    feed(scheme, [50, 57.9])
    assert scheme.timeout_ms() == pytest.approx(50 + 4 * 7)


def test_threshold_halves_at_every_late_acknowledgement_below_a_packet_too():
    scheme = make_scheme("threshold,threshold_ms=160")
    feed(scheme, [159.9, 160, 160, 160])
    assert scheme.window_packets() == 4.25 / 8
    # The sender then waits for its timeout, and does not halve the window any more.
    feed(scheme, [160])
    assert scheme.window_packets() == 4.25 / 8


def test_ewma_window_is_rate_times_minimum_rtt():
    scheme = make_scheme("ewma,alpha=1,scale=2")
    for sequence in range(4):
        scheme.on_sent(sequence, 0.0)
    for sequence in range(4):
        scheme.on_ack(ack(sequence, 40.0 + sequence))
    # The last packet's rate: four deliveries in 43 ms; the minimum RTT is 40 ms.
    assert scheme.window_packets() == pytest.approx(2 * 4 / 43 * 40)


@pytest.mark.parametrize(
    ("rtts_ms", "window"),
    [([100, 99], 10 + 3 / 10), ([100, 110], 10 * (1 - 0.8 * 10 / 80)), ([100, 250], 5)],
)
def test_timely_follows_the_gradient_between_its_limits(rtts_ms, window):
    assert feed(make_scheme("timely"), rtts_ms).window_packets() == pytest.approx(window)


def test_bbr_leaves_startup_when_the_rate_stops_growing_or_cycles_without_it():
    scheme = make_scheme("bbr,tuned=0")
    startup_gap_ms = scheme.pacing_gap_ms()
    feed(scheme, [40.0] * 60)
    # At least five packets per RTT, in one of the cycle's stages.
    gains = [40 / 5 / gain for gain in (1.25, 0.75, 1.0)]
    assert any(scheme.pacing_gap_ms() == pytest.approx(gap) for gap in gains)
    assert startup_gap_ms != scheme.pacing_gap_ms()
    # Five packets per RTT, which counts as 1 ms until one is measured.
    assert make_scheme("bbr,startup=0,tuned=0").pacing_gap_ms() == pytest.approx(1 / 5 / 1.25)
    assert make_scheme("bbr,tuned=0").pacing_gap_ms() == pytest.approx(1 / 5 / STARTUP_GAIN)


def test_bbr_forgets_the_minimum_rtt_after_its_window():
    for settings, min_ms in (("rtt_window_ms=200", 80.0), ("rtt_window_ms=0", 40.0)):
        # Acknowledgements are at least 100 ms apart: a window of 200 ms ends without the first RTT.
        scheme = feed(make_scheme(f"bbr,startup=0,tuned=0,{settings}"), [40, 90, 80, 95])
        # Without a measured rate: five packets per minimum RTT, twice that in flight.
        assert scheme.pacing_gap_ms() * 5 * scheme._gain() == pytest.approx(min_ms)
