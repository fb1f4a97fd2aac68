"""Where two curves cross: bisection, its interval, and refused ranges."""

import json
import math
import random

import pytest

from losslab import cli, crossing, sweeps
from losslab.crossing import Point, find
from losslab.reading import UsageError
from tests.unit.test_sweeps import cell


def at(true, noise=0.0, seed=1):
    """Return a measurement of a ratio that is `true` of the value, with log-normal noise."""

    def measure(value):
        draw = random.Random(f"{seed} {value}")
        ratios = {n: true(value) * math.exp(noise * draw.gauss(0, 1)) for n in range(5)}
        return crossing.point(value, ratios, dict.fromkeys(range(5), 1.0))

    return measure


def crossed(measure, ends=(0.001, 0.1), factor=2.0, axis="loss_percent"):
    return find(axis, ends, "goodput_mbit", factor, ("bbr", "cubic"), measure)


@pytest.mark.parametrize("power", [0.5, -0.5])
def test_crossing_of_rising_and_falling_ratios_is_found(power):
    found = crossed(at(lambda value: 2 * (value / 0.01) ** power))
    assert found.value == pytest.approx(0.01, rel=0.01)
    assert found.interval[0] <= found.value <= found.interval[1] <= 1.04 * found.interval[0]


def test_interval_contains_the_true_crossing_in_most_samples():
    found = [crossed(at(lambda value: 200 * value, 0.1, seed)) for seed in range(100)]
    inside = sum(each.interval[0] <= 0.01 <= each.interval[1] for each in found)
    assert inside >= 93
    assert all(each.interval[1] < 0.02 for each in found)


def test_range_from_zero_and_axis_of_whole_numbers_are_bisected():
    found = crossed(at(lambda value: 1 + value), (0, 10))
    assert found.value == pytest.approx(1, abs=0.02)
    found = crossed(at(lambda value: value / 50), (10, 1000), axis="buffer_packets")
    assert found.value == pytest.approx(100, rel=0.02)
    assert all(each.value == round(each.value) for each in found.points)


def test_range_without_a_crossing_is_refused_with_the_values_at_both_ends():
    with pytest.raises(UsageError, match=r"found 3 \(3 to 3\) at loss_percent 0.001 and 3 \(") as e:
        crossed(at(lambda _: 3.0))
    assert "--algorithm cubic,bbr" in e.value.hint
    one = Point(0.1, (1.0, 1.0), crossing.Ratio(None), 0)
    with pytest.raises(UsageError, match="must have an interval at both ends"):
        crossed(lambda _: one)


@pytest.mark.parametrize(
    "words",
    [
        ["--algorithm", "cubic", "--loss-percent", "0.1,1"],
        ["--algorithm", "cubic,bbr", "--loss-percent", "1"],
        ["--algorithm", "cubic,bbr", "--loss-percent", "0.1,1", "--rtt-ms", "10,20"],
        ["--algorithm", "cubic,bbr", "--loss-percent", "0.1,0.2,1"],
        ["--algorithm", "cubic,bbr", "--duration-s", "5,10"],
        ["--algorithm", "cubic,bbr", "--queue", "fifo,codel"],
    ],
)
def test_crossing_needs_two_algorithms_and_one_axis_with_two_numbers(words, tmp_path, capsys):
    words = ["sweep", *words, "--cross", "goodput_mbit=2", "--out", str(tmp_path / "out")]
    assert cli.main(words) == 2
    assert "crossing must have two" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["goodput_mbit", "goodput=2", "goodput_mbit=0", "goodput_mbit=a"])
def test_malformed_crossing_is_refused(text, tmp_path):
    words = ["sweep", "--algorithm", "a,b", "--cross", text, "--out", str(tmp_path)]
    assert cli.main(words) == 2


def test_command_and_python_give_the_same_crossing(tmp_path, monkeypatch, capsys):
    losslab = pytest.importorskip("losslab")

    def measure(todo, *_):
        for each in todo:
            of_bbr = each.condition.algorithm == "bbr"
            goodputs = [50.0 if of_bbr else 0.25 / each.condition.loss_percent] * 5
            if not each.file.exists():
                each.folder.parent.mkdir(parents=True, exist_ok=True)
                cell(each.folder, each.condition, *goodputs)

    monkeypatch.setattr(sweeps, "measure", measure)
    words = ["--algorithm", "bbr,cubic", "--loss-percent", "0.001,0.1", "--rate-mbit", "50",
             "--rtt-ms", "80"]  # fmt: skip
    words = ["sweep", *words, "--cross", "goodput_mbit=2", "--out", str(tmp_path)]
    assert cli.main(words) == 0
    out, err = capsys.readouterr()
    assert "goodput_mbit of bbr is 2 times that of cubic at loss_percent 0.01 (95 % CI" in out
    # The length is that of the condition in the range that needs the longest.
    assert "losslab: runs of 80 s with 16 s of warm-up" in err
    found = losslab.cross(
        "goodput_mbit", 2, algorithm=["bbr", "cubic"], loss_percent=[0.001, 0.1], rate_mbit=50,
        rtt_ms=80, out=tmp_path,
    )  # fmt: skip
    written = json.loads((tmp_path / "crossing.json").read_text())
    assert found.value == written["value"] == pytest.approx(0.01, rel=0.01)
    with pytest.raises(UsageError, match="number above 0"):
        losslab.cross("goodput_mbit", -1, algorithm=["bbr", "cubic"], loss_percent=[0.001, 0.1])
