"""The models of the study `predictions`, against formulas that they do not contain."""

import math
import random
from statistics import fmean

import pytest

from bench import predictions
from losslab.reading import read_yaml
from losslab.repository import ROOT


@pytest.mark.parametrize(
    ("rtt_s", "windows"), [(0.1, (12, 38, 187, 1054)), (0.01, (12, 38, 120, 379))]
)
def test_average_windows_are_those_of_the_rfcs_tables(rtt_s, windows):
    found = [predictions.average_window(loss, rtt_s) for loss in (1e-2, 1e-3, 1e-4, 1e-5)]
    # The tables have Reno's constant as 1.2, equation 3 has 1.2247.
    assert found == pytest.approx(windows, rel=0.03)


def test_long_runs_of_cubic_have_the_window_of_random_losses():
    draws = random.Random(1)
    path = {"loss": 3e-4, "rtt_s": 0.1, "rate_mbit": 1000, "buffer_bdp": 1, "aggregates": False}
    runs = [predictions.cubic_mbit(draws, duration_s=3000, **path) for _ in range(5)]
    # Random losses give a larger mean than periodic ones (analysis/R/models.R has 1.13 to 1.23).
    periodic = predictions.mbit_of(predictions.average_window(3e-4, 0.1), 0.1)
    assert 0.95 < fmean(runs) / periodic < 1.35


def test_lost_aggregates_are_fewer_losses():
    path = {"loss": 2.5e-4, "rtt_s": 0.06, "rate_mbit": 1000, "buffer_bdp": 1, "duration_s": 60}
    single, whole = (
        fmean(predictions.cubic_mbit(random.Random(i), aggregates=on, **path) for i in range(50))
        for on in (False, True)
    )
    assert whole > 5 * single


def test_selective_repeat_fills_its_window_and_waits_for_the_oldest_packet():
    path = {"rtt_s": 0.05, "window_packets": 100}
    full = predictions.selective_repeat(random.Random(1), loss=0, **path)
    assert full == pytest.approx(predictions.mbit_of(100, 0.05), rel=0.01)
    # A window of one packet takes 1 / (1 - p) round trips for each.
    one = predictions.selective_repeat(random.Random(1), loss=0.2, rtt_s=1, window_packets=1)
    assert one == pytest.approx(predictions.mbit_of(1, 1) * 0.8, rel=0.02)
    # In a large window, some packet is almost always lost, so the edge waits a round trip more.
    large = predictions.selective_repeat(
        random.Random(1), loss=0.01, rtt_s=1, window_packets=5000, packets=100_000
    )
    assert 0.4 < large / predictions.mbit_of(5000, 1) < 0.55


def test_models_stand_in_the_reasons_of_the_claims():
    claims = {c["id"]: c for c in read_yaml(ROOT / "studies/predictions/claims.yaml")["claims"]}
    for loss in (0.1, 0.25, 0.5, 1, 2, 5):
        rate = predictions.selective_repeat(
            random.Random(1), loss=loss / 100, rtt_s=0.05, window_packets=262_140 / 1448
        )
        claim = claims[f"window-{loss:g}"]
        assert f"{rate:.4g} Mbit/s" in claim["limit_because"]
        assert claim["at_least"] == pytest.approx(0.8 * rate, abs=0.06)
    for claim in claims.values():
        assert claim["evidence"] == "predicted"
        assert math.inf > claim["at_most"] > claim["at_least"] > 0
