"""`losslab check`: options, what fails, effects on cells, and the report."""

import math
import re

import pytest

from losslab import cli, lock
from losslab.errors import LosslabError
from losslab.reading import UsageError, read_rows
from losslab.study.schemas import check_schema
from losslab.tools.check import behaviour, check
from losslab.tools.check.behaviour import CellChange, Difference, Run

WORSE = Difference("x", "goodput_mbit", 8, 10, 9, 0.9, (0.88, 0.92), (-1.2, -0.8), 1e-6, 1e-5)
MORE = Difference("x", "retransmits", 8, 0, 3, None, None, (2, 4), 1e-6, 1e-5)
LESS = Difference("x", "retransmits", 8, 9, 3, 0.3, None, (-7, -5), 1e-6, 1e-5)
QUIET = Difference("x", "goodput_mbit", 8, 10, 10.5, 1.05, (0.9, 1.2), (-1, 2), 0.4, 1.0)


def change(*differences, reasons=()):
    return CellChange("loss/cubic", [0, 2], 8, list(reasons), list(differences))


@pytest.mark.parametrize(
    ("its", "counts"),
    [
        (change(WORSE, QUIET), [2, 1, 1]),
        (change(QUIET), [1, 0, 0]),
        (change(MORE), [2, 1, 1]),
        (change(LESS), [2, 1, 0]),
        (change(reasons=["the guest must power off"]), [2, 1, 1]),
    ],
)
def test_changed_bytes_moved_and_worse_metrics_fail_as_chosen_and_invalid_runs_always(its, counts):
    assert [len(check.failures([its], fail_on)) for fail_on in check.FAILS] == counts


def test_failures_name_cell_and_reason():
    found = check.failures([change(reasons=["the guest must power off"])], check.CHANGED)
    assert found == [
        "loss/cubic: 2 of 8 runs have other bytes", "loss/cubic: the guest must power off",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"), [(["--bring", "x"], "need each other"), ([], "must have a changed file")]
)
def test_check_without_a_change_is_refused(tmp_path, words, message):
    options = cli.parser().parse_args(["check", *words, "--out", str(tmp_path)])
    with pytest.raises(LosslabError, match=message):
        options.run(options)


def test_trend_without_a_commit_is_refused_before_measuring(tmp_path, monkeypatch):
    monkeypatch.delenv("GITHUB_SHA", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tcp_cubic.c").write_text("")
    words = ["check", "tcp_cubic.c", "--trend", "trend.csv", "--out", str(tmp_path / "out")]
    options = cli.parser().parse_args(words)
    with pytest.raises(UsageError, match="--trend needs a commit"):
        options.run(options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "table", ["a,b\n1,2\n", f"{','.join(behaviour.TREND)},note\n{'1,' * 8}x\n"]
)
def test_trend_of_other_columns_is_refused_before_measuring(tmp_path, monkeypatch, table):
    monkeypatch.setenv("GITHUB_SHA", "a")
    change, trend = tmp_path / "tcp_cubic.c", tmp_path / "trend.csv"
    change.write_text("")
    trend.write_text(table)
    words = ["check", str(change), "--trend", str(trend), "--out", str(tmp_path / "out")]
    options = cli.parser().parse_args(words)
    with pytest.raises(LosslabError, match=r"trend\.csv must .*have the columns"):
        options.run(options)
    assert not (tmp_path / "out").exists()


def data(*changed, **more):
    return {
        "format": 1, "suite": "ci", "change": ["tcp_cubic.c"],
        "replaced": ["net/ipv4/tcp_cubic.c"], "skipped": [], "cells": ["loss/cubic", "loss/bbr"],
        "same_kernel": [], "runs": 16, "changed": list(changed),
    } | more  # fmt: skip


def row(*differences, **more):
    [found] = behaviour.as_json([change(*differences)])
    return found | {"seed": 7, "first_difference": ["packet 3"], "command": "losslab ..."} | more


def test_reports_name_cells_metrics_intervals_and_first_differences(snapshot):
    moved = data(row(WORSE, MORE, QUIET), skipped=["README"])
    check_schema(moved, "check", "the report")
    invalid = data(row(WORSE, MORE, QUIET, reasons=["the guest must power off\n99 % done"]))
    quiet = data(row(QUIET), same_kernel=["loss/bbr"])
    for its in (data(), moved, quiet):
        assert check.markdown(its) == snapshot
    limited = moved | {"warnings": ["change: in 2 of 8 runs, the receive window limited ..."]}
    check_schema(limited, "check", "the report")
    assert "- warning, change: in 2 of 8 runs, the receive window" in check.markdown(limited)
    assert [*check.workflow_commands(invalid)] == snapshot
    assert [*check.workflow_commands(data())] == []


def test_every_metric_of_a_changed_cell_has_its_ratio_interval_and_smallest_effect():
    [found] = behaviour.compare({"x": runs(BEFORE, 3)}, {"x": runs(AFTER, 3)}, METRICS)
    by_metric = {each.metric: each for each in found.differences}
    # Two tests; t for 5 degrees of freedom: 3.163 (2.5 % two-sided) and 0.920 (80 % one-sided).
    goodput = by_metric["goodput_mbit"]
    error = (math.log(goodput.ratio_interval[1]) - math.log(goodput.ratio_interval[0])) / 2 / 2.5706
    assert goodput.smallest == pytest.approx(math.expm1((3.163 + 0.920) * error), rel=1e-3)
    # Without scatter, any change of 1 % is found.
    assert by_metric["retransmits"].smallest == behaviour.MIN_CHANGE
    text = check.markdown(data(*[row | {"seed": 7, "first_difference": [], "command": ""}
                                 for row in behaviour.as_json([found])]))  # fmt: skip
    [line] = [line for line in text.splitlines() if "Goodput" in line]
    assert re.search(r"\| \+0\.\d+ % +\| \[-[\d.]+, \+[\d.]+\] % +\| 6 ", line)
    assert f"| {100 * goodput.smallest:.2g} %" in line
    # Open, because nothing moved.
    assert "<details open><summary>All metrics of the changed cells" in text


def test_trend_has_the_means_of_each_commit_once(tmp_path):
    path = tmp_path / "new" / "trend.csv"
    for commit in ("a", "b", "a"):
        invalid = runs([1.0], reasons=["no"])
        behaviour.trend(path, commit, "2026-01-31", {"x": [*runs(BEFORE), *invalid]})
    rows = read_rows(path)
    assert [(row["commit"], row["metric"]) for row in rows] == [
        (commit, metric) for commit in "ba" for metric in METRICS
    ]
    assert rows[0] | {"low": "", "high": ""} == {
        "commit": "b", "date": "2026-01-31", "cell": "x", "metric": "goodput_mbit", "n": "6",
        "mean": "10", "low": "", "high": "",
    }  # fmt: skip
    assert float(rows[0]["low"]) < 10 < float(rows[0]["high"])


def test_missing_table_does_not_end_a_report(tmp_path):
    assert "not found" in check.parted(tmp_path, tmp_path)[0]


METRICS = ("goodput_mbit", "retransmits")


def runs(goodputs, retransmits=0.0, tag="a", reasons=()):
    return [
        Run(seed, f"{tag}{value}", list(reasons), {"goodput_mbit": value,
                                                  "retransmits": float(retransmits)})
        for seed, value in enumerate(goodputs)
    ]  # fmt: skip


BEFORE = [10.0, 10.2, 9.9, 10.1, 10.0, 9.8]
AFTER = [10.1, 10.3, 9.7, 10.3, 10.1, 9.9]


def test_cell_is_reported_if_its_bytes_differ_also_without_a_moved_metric():
    assert behaviour.compare({"x": runs(BEFORE)}, {"x": runs(BEFORE)}, METRICS) == []
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


def test_invalid_and_lost_runs_have_their_reasons_and_no_value():
    after = runs(BEFORE, tag="b", reasons=["the guest's console must show no warning"])
    [found] = behaviour.compare({"x": runs(BEFORE)}, {"x": after}, METRICS)
    assert found.reasons == ["the guest's console must show no warning"]
    assert found.differences == []
    lost = [Run(0, "lost", ["a panic"], {})]
    [found] = behaviour.compare({"x": runs(BEFORE)}, {"x": lost}, METRICS)
    assert (found.changed, found.runs, found.reasons) == ([0], 1, ["a panic"])


def test_json_has_no_infinite_number():
    after = [math.nextafter(value, 20) for value in BEFORE]
    [row] = behaviour.as_json(behaviour.compare({"x": runs(BEFORE)}, {"x": runs(after)}, METRICS))
    assert row["differences"][0]["ratio_interval"] is not None
    found = behaviour.Difference("x", "goodput_mbit", 5, 1, 1, math.inf, (0.0, math.inf), None, 1.0)
    change = behaviour.CellChange("x", [0], 5, [], [found])
    [row] = behaviour.as_json([change])
    assert row["differences"][0]["ratio"] is None
    assert row["differences"][0]["ratio_interval"] == [0.0, None]


def test_digest_covers_results_and_not_the_instrument():
    manifest = {"files": {"tcp.csv": "1"}, "summary": {}, "observed": {}, "reasons": []}
    same = manifest | {"instrument": {"kernel": "another"}, "fingerprint": {}}
    assert behaviour.digest(manifest) == behaviour.digest(same)
    assert behaviour.digest(manifest) != behaviour.digest(manifest | {"summary": {"x": 1}})


# Its folder


def tree(folder):
    return {str(p): p.read_bytes() if p.is_file() else b"" for p in sorted(folder.rglob("*"))}


def checked(*words):
    return cli.main(["check", *map(str, words)])


def test_check_refuses_a_folder_that_it_did_not_make(tmp_path, capsys):
    """D: `check --out work` removed work/change/files."""
    change = tmp_path / "tcp_cubic.c"
    change.write_text("int x;\n")
    files = tmp_path / "work" / "change" / "files"
    files.mkdir(parents=True)
    (files / "tcp_cubic.c").write_text("mine")
    before = tree(tmp_path)
    assert checked(change, "--out", tmp_path / "work") == 2
    assert tree(tmp_path) == before
    assert "--out must name a new folder" in capsys.readouterr().err


def test_check_refuses_an_argument_in_its_output_folder(tmp_path, capsys):
    """D: `check work/change/files/tcp_cubic.c --out work` removed its own argument."""
    files = tmp_path / "work" / "change" / "files"
    files.mkdir(parents=True)
    lock.mark(tmp_path / "work", "losslab check")
    change = files / "tcp_cubic.c"
    change.write_text("mine")
    before = tree(tmp_path)
    assert checked(change, "--out", tmp_path / "work") == 2
    (tmp_path / "link").symlink_to(files)
    assert checked(f"a.c={tmp_path / 'link' / 'tcp_cubic.c'}", "--out", tmp_path / "work") == 2
    (tmp_path / "link").unlink()
    assert tree(tmp_path) == before
    assert "without the command's input" in capsys.readouterr().err


def test_check_reads_its_input_before_it_writes(tmp_path, capsys):
    """D: a missing file was found after folders had been removed."""
    assert checked(tmp_path / "missing.c", "--out", tmp_path / "work") == 2
    assert [path.name for path in tmp_path.iterdir()] == []
    assert "found no file" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["../victim.c", "/tmp/losslab-victim.c", "net/../../victim.c"])
def test_check_writes_no_file_outside_of_its_folder(tmp_path, capsys, path):
    """D: `PATH=FILE` wrote to any path."""
    change = tmp_path / "mine.c"
    change.write_text("mine")
    assert checked(f"{path}={change}", "--out", tmp_path / "work") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine.c"]
    assert "must be a path in the kernel's source" in capsys.readouterr().err
