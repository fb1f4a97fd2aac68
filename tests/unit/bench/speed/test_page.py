"""Speed page: made from the report's recorded measurements."""

from __future__ import annotations

from bench.speed import page
from bench.speed.parts import per_second


def test_speed_page_equals_the_recorded_file():
    assert page.PAGE.read_text() == page.page(page.read())


def test_every_recorded_speed_has_a_description():
    assert {part for part, *_ in page.read()} <= set(page.PARTS)


def test_missing_speeds_are_dashes():
    found = {
        "machine": {"processors": 2},
        "runs": 5,
        "parts": {
            "fixed": {"boot_s": 1.0, "cell_s": 0.1, "phases_s": {"fork": 0.1}},
            "flows": [{"case": "1 flow", "core_s": None}, {"case": "2 flows", "core_s": 2.5}],
        },
    }
    rows = page.rows(found)
    assert ("fixed", "1", "phases_s: fork", "0.1") in rows
    text = page.tables(rows)
    assert "| case | core_s |" in text
    assert "| 1 flow | – |" in text
    assert "| 2 flows | 2.5 |" in text
    assert "| runs | 5 |" in text


def test_runs_of_equal_time_give_no_cost_per_second():
    same = per_second(1, core_s=0.0, wall_s=0.0, hops=0)
    assert same["emulated_s_per_core_s"] is None
    assert same["packet_transmissions_per_core_s"] is None
    more = per_second(2, core_s=0.5, wall_s=1.0, hops=100_000)
    assert more["emulated_s_per_core_s"] == 4.0
    assert more["packet_transmissions_per_core_s"] == 200_000
