"""Values that studies declare."""

from losslab.study.studyfiles import declared_values

STUDY = {
    "defaults": {"rtt_ms": 20},
    "blocks": {
        "main": {"algorithm": ["cubic", "bbr"], "loss_percent": [0, 0.1], "competitor": "same"},
        "small": [{"algorithm": "reno", "rtt_ms": 5}],
    },
}


def test_values_of_all_blocks_are_declared():
    found = declared_values([STUDY])
    assert found["block"] == ["main", "small"]
    assert set(found["algorithm"]) >= {"cubic", "bbr", "reno"}
    assert set(found["loss_percent"]) >= {"0", "0.1"}
    assert "20" in found["rtt_ms"]
    assert "5" in found["rtt_ms"]
    # The names that grids give to values are replaced, and axes that no block sets have defaults.
    assert set(found["competitor"]) == {"none", "cubic", "bbr"}
    assert found["queue"] == ["fifo"]
