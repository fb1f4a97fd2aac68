"""Comparing result sets cell by cell: values, significance, files and exit status."""

import json
import random

import pytest

from losslab import cli
from losslab.campaign import compare
from losslab.study.schemas import schema
from losslab.ui import printed
from tests import sealed
from tests.unit.campaign.cells import CODE, INSTRUMENT, write_cell

NOISE = [100, 110, 90, 105, 97]
OTHER_NOISE = [104, 95, 92, 108, 101]


@pytest.fixture
def sets(tmp_path):
    return tmp_path / "a", tmp_path / "b"


def compared(sets, a, b, metric=None, **kept):
    """Compare one cell that has the given values in A and B."""
    write_cell(sets[0], "cell", a)
    write_cell(sets[1], "cell", b, **kept)
    return only(compare.compare_sets(*sets, metric))


def only(comparison):
    [cell] = comparison.cells
    return cell


def status(sets, *options):
    return cli.main(["diff", *map(str, sets), *options])


def noisy(seed, mean=100.0, spread=0.05, n=5):
    draws = random.Random(seed)
    return [mean * (1 + draws.gauss(0, spread)) for _ in range(n)]


def test_each_cell_has_its_verdict(sets):
    a, b = sets
    for root in sets:
        write_cell(root, "same", [1, 2, 3], instrument={"kernel": {}})
    write_cell(a, "noise", NOISE)
    write_cell(b, "noise", OTHER_NOISE)
    write_cell(a, "faster", NOISE)
    write_cell(b, "faster", [200, 220, 180, 211, 194])
    write_cell(a, "short", [1, 2, 3, 4])
    write_cell(b, "short", [11, 12, 13, 14])
    write_cell(a, "lonely", [1])
    found = compare.compare_sets(a, b)
    assert {cell.cell: str(cell.verdict) for cell in found.cells} == {
        "loss/same": "same bytes",
        "loss/noise": "no significant difference",
        "loss/faster": "significantly different",
        "loss/short": "too few runs",
    }
    assert found.only_in_first == ["loss/lonely"]
    assert (found.agree, status(sets)) == (False, 1)
    text = printed.diff_text(found)
    assert "only in A: loss/lonely" in text
    assert text.splitlines()[-1] == (
        "A and B do not agree: significantly different in 1 cell; too few runs in 1 cell; "
        "1 cell in A only."
    )


def test_difference_by_chance_among_many_cells_is_not_significant(sets):
    for number in range(40):
        write_cell(sets[0], f"cell{number:02}", noisy(number))
        write_cell(sets[1], f"cell{number:02}", noisy(100 + number))
    found = compare.compare_sets(*sets)
    alone = [c for c in found.cells if c.p_value < 0.05]
    assert alone, "of 40 cells some must differ by chance"
    for cell in alone:
        low, high = cell.confidence_interval
        assert not low <= 1 <= high
        assert cell.p_adjusted > 0.05
        assert cell.verdict == compare.CellVerdict.NO_DIFFERENCE
    assert found.agree


def test_small_difference_in_all_cells_is_significant(sets):
    changed = [a * b for a, b in zip(NOISE, (1.01, 1.035, 1.02, 1.005, 1.03), strict=True)]
    for number in range(10):
        write_cell(sets[0], f"cell{number}", NOISE)
        write_cell(sets[1], f"cell{number}", changed)
    found = compare.compare_sets(*sets)
    # The corrections of Holm and Bonferroni would find none of them.
    assert all(0.05 / 10 < cell.p_value < 0.05 for cell in found.cells)
    assert {cell.verdict for cell in found.cells} == {compare.CellVerdict.DIFFERENT}
    assert not found.agree


def test_diff_table_and_interval_equal_the_reports(sets, capsys):
    found = compared(sets, NOISE, OTHER_NOISE)
    # R: ratio_interval(c(104, 95, 92, 108, 101), c(100, 110, 90, 105, 97))
    assert found.ratio == pytest.approx(0.996641, abs=1e-6)
    assert found.confidence_interval == pytest.approx((0.901904, 1.101329), abs=1e-6)
    assert printed.diff_text(compare.compare_sets(*sets)).splitlines()[:2] == [
        "cell       metric        n             A      B    B/A     95 % CI         "
        "p (adjusted)    verdict",
        "loss/cell  goodput_mbit  5 + 5 paired  100.4  100  0.9966  0.902 to 1.101  "
        "0.93            no significant difference",
    ]
    assert status(sets) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "The widest confidence interval without a significant difference is that of loss/cell: "
        "0.902 to 1.101.",
        "A and B agree: no significant difference in 1 cell.",
    ]


def test_paired_seeds_reveal_a_difference_within_their_variation(sets):
    values = [10, 200, 50, 400, 90]
    more = [value * (1.02 + number / 1e4) for number, value in enumerate(values)]
    assert compared(sets, values, more).verdict == compare.CellVerdict.DIFFERENT
    write_cell(sets[0].with_name("c"), "cell", more, seeds=range(10, 15))
    unpaired = only(compare.compare_sets(sets[0], sets[0].with_name("c")))
    assert (unpaired.verdict, unpaired.paired) == (compare.CellVerdict.NO_DIFFERENCE, False)


def test_pairs_are_the_common_seeds(sets):
    found = compared(sets, NOISE, [*OTHER_NOISE, 500, 500])
    assert (found.n, found.replicates, found.paired) == ((5, 5), (5, 7), True)
    assert found.verdict == compare.CellVerdict.NO_DIFFERENCE
    assert found.mean[1] == 100


@pytest.mark.parametrize("n", range(1, 5))
def test_fewer_than_five_runs_are_never_significant(sets, n, capsys):
    found = compared(sets, NOISE[:n], [900 + v for v in NOISE[:n]])
    assert (found.verdict, found.confidence_interval) == (compare.CellVerdict.TOO_FEW, None)
    assert found.ratio > 9
    assert status(sets) == 1
    assert "Fewer than 5 runs on a side have no confidence interval" in capsys.readouterr().out


@pytest.mark.parametrize("runs", [[], [None] * 6, [5.0] + [None] * 5])
def test_cells_without_enough_valid_runs_do_not_agree(sets, runs):
    found = compared(sets, runs, runs, instrument={"another": 1})
    assert found.verdict == compare.CellVerdict.TOO_FEW
    assert status(sets) == 1


def test_run_that_is_invalid_on_one_side_is_a_difference(sets):
    found = compared(sets, [*NOISE, 99, 99], [*OTHER_NOISE, None, 101])
    assert found.verdict == compare.CellVerdict.INCONSISTENT
    assert found.problems == ["replicate 5 (seed 5) of B is invalid"]
    assert status(sets) == 1


def test_run_without_a_value_is_named_and_not_compared(sets):
    found = compared(sets, [*NOISE, 99], [*OTHER_NOISE, 1e200])
    assert (found.verdict, found.n) == (compare.CellVerdict.INCONSISTENT, (5, 5))
    assert found.problems == ["replicate 5 (seed 5) of B is valid, but goodput_mbit is 1e+200"]


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ([0] * 5, [0] * 5, "deterministic, equal"),
        ([7.5] * 5, [7.5] * 5, "deterministic, equal"),
        ([7.5] * 5, [7.500001] * 5, "deterministic, different"),
        ([0] * 5, [3] * 5, "deterministic, different"),
        ([0] * 5, [5, 6, 7, 5, 6], "significantly different"),
        ([5, 6, 7, 5, 6], [0] * 5, "significantly different"),
        ([0] * 5, [0, 0, 1, 0, 0], "no significant difference"),
    ],
)
def test_constant_values_and_a_mean_of_zero_have_no_interval(sets, a, b, verdict):
    found = compared(sets, a, b)
    assert (found.verdict, found.confidence_interval) == (verdict, None)
    assert status(sets) == ("different" in verdict)


def test_different_conditions_of_one_name_are_not_compared(sets):
    found = compared(sets, NOISE, NOISE, rate_mbit=7)
    assert found.verdict == compare.CellVerdict.CONDITIONS
    assert found.problems[0].startswith("rate_mbit 1000.0 instead of 7")
    assert found.ratio is None
    assert status(sets) == 1


def test_misspelt_metric_is_wrong_usage_with_the_nearest_names(sets, capsys):
    compared(sets, NOISE, NOISE)
    assert status(sets, "--metric", "goodputs_mbit") == 2
    captured = capsys.readouterr()
    assert "found goodputs_mbit\n  -> did you mean goodput_mbit" in captured.err
    assert captured.out == ""


def test_cells_of_another_app_need_not_have_the_metric(sets, capsys):
    compared(sets, NOISE, OTHER_NOISE)
    for root in sets:
        write_cell(root, "page", NOISE, metric="download_s")
    assert status(sets, "--metric", "goodput_mbit") == 0
    assert "1 cell without the metric: not compared." in capsys.readouterr().out
    # Without --metric, each cell uses its primary metric; a cell without one is not compared.
    for root in sets:
        write_cell(root, "odd", NOISE, metric="oddity")
    assert status(sets) == 1


def test_json_of_diff_follows_its_schema_and_has_no_nan(sets, capsys):
    compared(sets, NOISE, OTHER_NOISE)
    write_cell(sets[0], "zero", [0] * 5)
    write_cell(sets[1], "zero", [3, 4, 3, 4, 5])
    write_cell(sets[0], "extreme", [1e-99, 1e99, 1, 1, 1])
    write_cell(sets[1], "extreme", [1e99, 1e-99, 1, 1, 2])
    assert status(sets, "--json") == 1

    def refuse(constant):
        raise AssertionError(constant)

    data = json.loads(capsys.readouterr().out, parse_constant=refuse)
    rows = {row["cell"]: row for row in data["cells"]}
    assert rows["loss/zero"]["ratio"] is None
    assert rows["loss/cell"]["verdict"] == "no significant difference"
    assert data["agree"] is False
    assert data["reasons"] == ["significantly different in 1 cell"]
    row = schema("diff")["properties"]["cells"]["items"]
    assert row["properties"]["verdict"]["enum"] == [str(verdict) for verdict in compare.CellVerdict]
    assert set(row["required"]) == set(row["properties"]) == set(rows["loss/cell"])


# Files


@pytest.fixture
def same(sets):
    """Write two sets of the same bytes by one instrument; return the folder of B's cell."""
    more = {"instrument": INSTRUMENT}
    return [write_cell(root, "cell", NOISE, **more) for root in sets][1]


@pytest.fixture
def other(sets):
    """Write two sets by different instruments that agree; return the folder of B's cell."""
    write_cell(sets[0], "cell", NOISE)
    return write_cell(sets[1], "cell", OTHER_NOISE)


@pytest.mark.parametrize("values", [[5], [None]])
def test_same_bytes_need_no_statistics_and_may_be_invalid(sets, values):
    for root in sets:
        write_cell(root, "cell", values, instrument=INSTRUMENT)
    found = only(compare.compare_sets(*sets))
    assert (found.verdict, found.problems) == (compare.CellVerdict.SAME_BYTES, [])
    assert status(sets) == 0


def test_lost_guests_do_not_agree(sets):
    for root in sets:
        folder = write_cell(root, "cell", [None], instrument=INSTRUMENT)
        sealed.edit(folder / "0" / "manifest.json", lost=True)
        sealed.reseal(folder / "0")
        content = json.loads((folder / "cell.json").read_text())
        sealed.cell(folder, content["condition"], 1, study="loss")
    assert only(compare.compare_sets(*sets)).verdict == compare.CellVerdict.TOO_FEW
    assert status(sets) == 1


@pytest.mark.parametrize("which", ["same", "other"])
@pytest.mark.parametrize(
    ("damage", "problem", "common"),
    [
        (lambda f: f.write_text(""), "tcp.csv has changed since it was measured", 1),
        (lambda f: f.unlink(), "tcp.csv is missing", 0),
        (lambda f: f.with_name("manifest.json").unlink(), "manifest.json is unreadable: ", 0),
        (lambda f: f.with_name("more.csv").touch(), "more.csv is not listed in ", 0),
    ],
    ids=["changed", "missing", "manifest", "added"],
)
def test_damaged_file_is_named_and_fails(sets, which, damage, problem, common, request, capsys):
    folder = request.getfixturevalue(which)
    for number in range(len(NOISE)):
        damage(folder / str(number) / "tcp.csv")
    found = only(compare.compare_sets(*sets))
    assert found.verdict == compare.CellVerdict.INCONSISTENT
    assert found.problems[0].startswith(f"B: {problem}")
    assert (status(sets), status(sets, "--common")) == (1, common)
    assert f"loss/cell: B: {problem}" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["tcp.csv", "logs/one"])
def test_same_instrument_and_seed_must_give_the_same_bytes(sets, same, name):
    for root, text in zip(sets, "ab", strict=True):
        path = root / "cells" / "loss" / "cell" / "4" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{text}\n")
        sealed.reseal(root / "cells" / "loss" / "cell" / "4")  # as if measured
    found = only(compare.compare_sets(*sets))
    assert found.verdict == compare.CellVerdict.INCONSISTENT
    assert (
        f"{name} must have the same bytes, found line 1: 'a', 'b' (replicate 4)" in found.problems
    )


def test_bytes_may_differ_in_real_time(sets):
    where = {"instrument": {"where": "host"}}
    found = compared(sets, NOISE, OTHER_NOISE, **where)
    assert (found.verdict, found.problems) == (compare.CellVerdict.NO_DIFFERENCE, [])


@pytest.mark.parametrize(
    ("values", "code", "verdict", "problems"),
    [
        ([100.0] * 5, "bb", compare.CellVerdict.SAME_BYTES, 0),
        ([101.0] * 5, "bb", compare.CellVerdict.UNEQUAL, 0),
        ([101.0] * 5, "aa", compare.CellVerdict.UNEQUAL, 2),
    ],
    ids=["same bytes", "other bytes", "other bytes of the same code"],
)
def test_versions_of_the_code_are_compared_by_their_results(sets, values, code, verdict, problems):
    write_cell(sets[0], "cell", [100.0] * 5, instrument={})
    write_cell(sets[1], "cell", values, instrument={}, fingerprint=CODE | {"digest": code})
    found = only(compare.compare_sets(*sets))
    # The same code must give the same manifest.json and tcp.csv.
    assert (found.verdict, len(found.problems)) == (verdict, problems)


@pytest.mark.parametrize("extra", [0, 1])
def test_other_number_of_runs_is_no_difference_of_bytes(sets, extra, capsys):
    """F6: the common runs are compared, and the last line says that they are the common ones."""
    for root, values in zip(sets, (NOISE[:3], [*NOISE[:3], *OTHER_NOISE[:extra]]), strict=True):
        write_cell(root, "cell", values, instrument=INSTRUMENT)
    assert status(sets) == 0
    verdict = "same bytes in the common runs" if extra else "same bytes"
    assert capsys.readouterr().out.splitlines()[-1] == f"A and B agree: {verdict} in 1 cell."


def test_other_duration_is_named_and_has_a_ratio_without_a_verdict_on_it(sets, capsys):
    found = compared(sets, NOISE, [2 * value for value in NOISE], duration_s=99)
    assert (found.verdict, found.p_value) == (compare.CellVerdict.DURATION, None)
    assert found.ratio == pytest.approx(2)
    assert status(sets) == 1
    out = capsys.readouterr().out
    assert "instead of 99" in out
    assert out.splitlines()[-1] == "A and B do not agree: another duration in 1 cell."


def test_other_parts_of_the_instrument_are_named(sets, capsys):
    write_cell(sets[0], "cell", NOISE, instrument={"kernel": {"hash": "a"}, "image": {}})
    write_cell(sets[1], "cell", OTHER_NOISE, instrument={"kernel": {"hash": "b"}, "image": {}})
    assert only(compare.compare_sets(*sets)).versions == ("kernel",)
    assert status(sets) == 0
    assert "A and B have another kernel in 1 cell." in capsys.readouterr().out
