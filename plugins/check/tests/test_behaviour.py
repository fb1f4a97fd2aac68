"""Effects of a change on cells: bytes, paired differences, Holm's method, and the record."""

import math

import pytest

from losslab.errors import LosslabError
from losslab.study.condition import Condition
from losslab_check import behaviour
from losslab_check.behaviour import Baseline, Run

METRICS = ("goodput_mbit", "retransmits")


def runs(goodputs, retransmits=0.0, tag="a", reasons=()):
    return [
        Run(seed, f"{tag}{value}", list(reasons), {"goodput_mbit": value,
                                                  "retransmits": float(retransmits)})
        for seed, value in enumerate(goodputs)
    ]  # fmt: skip


BEFORE = [10.0, 10.2, 9.9, 10.1, 10.0, 9.8]


def test_cell_with_the_same_bytes_is_not_reported():
    assert behaviour.compare({"x": runs(BEFORE)}, {"x": runs(BEFORE)}, METRICS) == []


def test_cell_with_other_bytes_is_reported_without_a_moved_metric():
    [found] = behaviour.compare({"x": runs(BEFORE)}, {"x": runs(BEFORE, tag="b")}, METRICS)
    assert found.changed == [0, 1, 2, 3, 4, 5]
    assert [each.verdict for each in found.differences] == ["", ""]


def test_paired_difference_is_found_and_has_a_direction():
    after = [value * 0.9 for value in BEFORE]
    [found] = behaviour.compare({"x": runs(BEFORE)}, {"x": runs(after, 7)}, METRICS)
    by_metric = {each.metric: each for each in found.differences}
    assert by_metric["goodput_mbit"].verdict == behaviour.WORSE
    assert by_metric["goodput_mbit"].ratio == pytest.approx(0.9)
    # A mean of 0 has no ratio, but a difference.
    assert by_metric["retransmits"].verdict == behaviour.WORSE
    assert by_metric["retransmits"].ratio is None
    assert by_metric["retransmits"].difference_interval == (7.0, 7.0)


def test_significant_difference_below_one_percent_is_ignored():
    after = [value * 0.995 for value in BEFORE]
    [found] = behaviour.compare({"x": runs(BEFORE)}, {"x": runs(after)}, METRICS)
    assert found.differences[0].p_adjusted < 0.05
    assert found.differences[0].verdict == ""


def test_p_values_are_adjusted_for_all_changed_cells():
    after = [9.8, 10.1, 9.85, 9.8, 9.8, 9.85]
    [alone] = behaviour.compare({"x": runs(BEFORE)}, {"x": runs(after)}, METRICS)
    names = [f"cell {n}" for n in range(20)]
    many = behaviour.compare(
        {name: runs(BEFORE) for name in names}, {name: runs(after) for name in names}, METRICS
    )
    p = alone.differences[0].p_value
    assert alone.differences[0].p_adjusted == pytest.approx(2 * p)
    assert many[0].differences[0].p_adjusted == pytest.approx(min(1, 40 * p))


def test_run_that_became_invalid_has_its_reasons_and_no_value():
    after = runs(BEFORE, tag="b", reasons=["the guest's console must show no warning"])
    [found] = behaviour.compare({"x": runs(BEFORE)}, {"x": after}, METRICS)
    assert found.reasons == ["the guest's console must show no warning"]
    assert found.differences == []


def test_json_has_no_infinite_number():
    after = [math.nextafter(value, 20) for value in BEFORE]
    [row] = behaviour.as_json(behaviour.compare({"x": runs(BEFORE)}, {"x": runs(after)}, METRICS))
    assert row["differences"][0]["ratio_interval"] is not None
    found = behaviour.Difference("x", "goodput_mbit", 5, 1, 1, math.inf, (0.0, math.inf), None, 1.0)
    change = behaviour.CellChange("x", [0], 5, [], [found])
    [row] = behaviour.as_json([change])
    assert row["differences"][0]["ratio"] is None
    assert row["differences"][0]["ratio_interval"] == [0.0, None]


def test_cell_that_ends_with_a_lost_guest_is_reported():
    lost = [Run(0, "lost", ["a panic"], {})]
    [found] = behaviour.compare({"x": runs(BEFORE)}, {"x": lost}, METRICS)
    assert (found.changed, found.runs, found.reasons) == ([0], 1, ["a panic"])


CONDITION = Condition(algorithm="cubic", rtt_ms=10)


def test_record_is_read_if_the_results_are_still_its_own(tmp_path, monkeypatch):
    baseline = Baseline(tmp_path / "baseline.json", "ci")
    assert baseline.read({"x": CONDITION}, {"x": 5}) == {}
    baseline.write({"x": CONDITION}, {"x": runs(BEFORE)})
    assert baseline.read({"x": CONDITION}, {"x": 5}) == {"x": runs(BEFORE)[:5]}
    assert baseline.read({"x": CONDITION}, {"x": 7}) == {}, "it has too few runs"
    assert baseline.read({"y": CONDITION}, {"y": 5}) == {}
    baseline.write({"y": CONDITION}, {"y": runs(BEFORE)})
    assert set(baseline.read({"x": CONDITION, "y": CONDITION}, {"x": 5, "y": 5})) == {"x", "y"}
    monkeypatch.setattr(behaviour, "_fingerprint", lambda _: "another")
    assert baseline.read({"x": CONDITION}, {"x": 5}) == {}


def test_damaged_record_is_refused(tmp_path):
    baseline = Baseline(tmp_path / "baseline.json", "ci")
    baseline.file.write_text('{"format": 1}')
    with pytest.raises(LosslabError, match=r"baseline\.schema\.yaml"):
        baseline.read({"x": CONDITION}, {"x": 5})


def test_digest_covers_results_and_not_the_instrument():
    manifest = {"files": {"tcp.csv": "1"}, "summary": {}, "observed": {}, "reasons": []}
    same = manifest | {"instrument": {"kernel": "another"}, "fingerprint": {}}
    assert behaviour.digest(manifest) == behaviour.digest(same)
    assert behaviour.digest(manifest) != behaviour.digest(manifest | {"summary": {"x": 1}})
