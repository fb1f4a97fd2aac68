"""The suite of CUBIC's standard: its limits are the text's numbers, and its losses are periodic."""

import re
from itertools import pairwise

import pytest

from bench import predictions
from losslab.emulation import droplist
from losslab.tools.conform import suite

RFC = suite.load("rfc9438")
TABLES = {name: case for name, case in RFC["cases"].items() if name.startswith("table-")}


def test_every_section_has_a_case_or_a_reason():
    covered = [case["section"] for case in RFC["cases"].values()]
    left = [row["section"] for row in RFC["not_covered"]]
    assert {*covered, *left} == {row["section"] for row in RFC["sections"]}
    assert not {*covered} & {*left}


@pytest.mark.parametrize("name", TABLES)
def test_limits_hold_the_mean_window_of_equations_3_and_6(name):
    case = RFC["cases"][name]
    settings = RFC["defaults"] | case["set"]
    numbers = droplist.parse(settings["drop_list"])["data"]
    [period] = {after - before for before, after in pairwise(numbers)}
    window = predictions.average_window(1 / period, settings["rtt_ms"] / 1e3)
    [check] = case["expect"]
    middle = (check["at_least"] + check["at_most"]) / 2
    # The text's integers: 12 for 12.2, and Reno's constant 1.2 for 1.2247.
    mbit = predictions.mbit_of(window, settings["rtt_ms"] / 1e3)
    assert middle == pytest.approx(mbit, rel=0.03)
    assert check["at_most"] / check["at_least"] == pytest.approx(1.15 / 0.85, rel=2e-3)
    # Losses last until the end of the run, also at the largest mean window.
    packets = check["at_most"] * 1e6 / 8 / 1448 * settings["duration_s"]
    assert numbers[-1] > packets


def test_titles_have_the_windows_of_the_tables():
    windows = [int(re.search(r"(\d+) packets", TABLES[name]["title"])[1]) for name in TABLES
               if name != "table-3"]  # fmt: skip
    assert windows == [12, 38, 187, 12, 38, 120]
