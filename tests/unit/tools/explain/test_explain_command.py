"""`losslab explain`: refused reports, estimates, and runs that are kept."""

import inspect
import json

import pytest
import yaml

from losslab import cellspec, cli, sweeps
from losslab.emulation import checks
from losslab.errors import HostError
from losslab.study.condition import AXES
from losslab.tools.explain import case, explain
from losslab.tools.explain.candidates import built_in
from losslab.tools.explain.case import read
from tests.sources import tracked

REPORTED = {"algorithm": "cubic", "rate_mbit": "100Mbit", "rtt_ms": 20, "duration_s": 5}
ENTRY = {"condition": {"loss_percent": 1}, "numbers": {"goodput_mbit": 9.3}}
REPORT = {"reported": REPORTED, "published": [ENTRY]}


def report(**more):
    return REPORT | more


def entry(**more):
    return {"reported": REPORTED, "published": [ENTRY | more]}


@pytest.fixture(autouse=True)
def unbuilt(monkeypatch):
    """Tests of units have no kernel."""
    monkeypatch.setattr(case, "require_built", lambda conditions: None)


def write(tmp_path, data):
    file = tmp_path / "report.yaml"
    file.write_text(yaml.safe_dump(data))
    return file


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"reported": REPORTED}, "'published' is a required property"),
        (report(title="x"), "title"),
        (report(reported=REPORTED | {"rtt": 3}), "rtt"),
        (report(published=[]), "published"),
        (report(published=[{"numbers": {"goodput_mbit": 9}}]), "'condition' is a required"),
        (entry(numbers={}), "numbers"),
        (entry(numbers={"goodput": 9}), "did you mean goodput_mbit or"),
        (entry(numbers={"goodput_mbit": "9ms"}), "goodput_mbit must be in Mbit/s"),
        (entry(numbers={"goodput_mbit": "many"}), "goodput_mbit"),
        (entry(numbers={"goodput_mbit": 0}), "goodput_mbit must be above 0"),
        (entry(numbers={"goodput_mbit": -1}), "goodput_mbit must be a number from 0"),
        (entry(numbers={"rwnd_limited_percent": 120}), "rwnd_limited_percent must be a number"),
        (entry(numbers={"goodput_mbit": 770}), "at most the rate of the path, 100 Mbit/s"),
        (entry(numbers={"stall_s": 3}), "stall_s"),
        (entry(condition={"loss_percent": 300}), "loss_percent"),
        (entry(condition={"rtt_ms": "20Mbit"}), "rtt_ms must be in ms"),
        (entry(condition={"rtt_ms": 0}), "rtt_ms 0"),
        (entry(cv_percent=10), "runs of at least 2, found 1"),
        (entry(numbers={"goodput_mbit": [9, 10]}, runs=3), "must not be given with single runs"),
        (entry(held_out=True), "a number must not be held out"),
        (report(published=[ENTRY, ENTRY | {"held_out": True}]), "must not be in the search, found "
         "goodput_mbit, loss_percent 1 in both"),
        (report(published=[ENTRY, ENTRY | {"numbers": {"goodput_mbit": 8}}]),
         "published once in a condition, found goodput_mbit, loss_percent 1 with 9.3 and 8"),
        (report(only=["offload on"]), "only must name settings, found offload on; did you mean"),
        (report(without=["x"]), "without must name settings, found x"),
        (report(only=["writes of 8 KiB"], without=["writes of 8 KiB"]), "found none that does"),
        (report(candidates={"offloads on": {"rtt_ms": 1}}), "must have a new name"),
        (report(candidates={"mine": {"rtt": 1}}), "candidate mine: a change must be of an axis"),
        (report(candidates={"mine": {"rtt_ms": "x-2"}}), "candidate mine"),
        (report(candidates={"mine": {"loss_percent": "+100"}}), "candidate mine: loss_percent"),
        (report(tolerance_percent=90), "tolerance_percent"),
    ],
)  # fmt: skip
def test_report_that_cannot_be_explained_is_refused_before_a_run(data, said, tmp_path, capsys):
    out = tmp_path / "out"
    assert cli.main(["explain", str(write(tmp_path, data)), "--out", str(out)]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "must have a FILE"),
        (["absent.yaml"], "absent.yaml does not exist"),
        (["REPORT"], "--out must name a folder"),
        (["REPORT", "--budget", "5s", "--estimate"], "--budget must be enough"),
        (["REPORT", "--budget", "soon"], "budget"),
    ],
)
def test_command_that_cannot_start_says_what_to_give(words, said, tmp_path, capsys):
    file = str(write(tmp_path, REPORT))
    assert cli.main(["explain", *(file if word == "REPORT" else word for word in words)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("file", tracked("studies/*/explain-*.yaml"), ids=lambda f: f.stem)
def test_committed_report_is_accepted_and_names_its_shaper(file):
    report = read(file)
    assert report.settings
    assert any(each.held_out for each in report.numbers)
    assert "shaper" in yaml.safe_load(file.read_text())["reported"]


def test_estimate_measures_nothing_and_counts_settings_numbers_and_time(tmp_path, capsys):
    file = write(tmp_path, REPORT)
    assert cli.main(["explain", str(file), "--estimate"]) == 0
    said = capsys.readouterr().err
    assert f"{len(read(file).settings)} settings at 1 numbers, 0 held out: about" in said
    assert "core-minutes" in said


def test_list_has_what_reports_leave_out_and_every_shaper(capsys):
    assert cli.main(["explain", "--list"]) == 0
    text = capsys.readouterr().out
    for name in AXES["shaper"].choices:
        assert f"shaper {name}: shaper: {name}\n" in text
    for axis in ("offloads", "sender_queue", "sender_delay_ms", "buffer_packets", "rtt_ms",
                 "loss_percent", "loss_direction", "receive_buffer", "window_bytes", "sysctl",
                 "initcwnd_packets", "ack_thinning", "ack_batch_ms", "write_kib", "duration_s",
                 "warmup_s", "competitor", "policer_mbit", "reorder_percent", "kernel",
                 ):  # fmt: skip
        assert f": {axis}: " in text, axis
    assert "MB are MiB: published rates are x0.9537" in text


def test_settings_that_change_nothing_or_the_same_are_named_and_not_measured_twice(tmp_path):
    case = read(write(tmp_path, REPORT))
    labels = [each.label for each in case.settings]
    assert len(labels) == len(set(labels))
    # 10 % of 20 ms are 2 ms.
    assert case.not_tried["RTT +2 ms"] == "the same as: RTT x1.1"
    assert case.not_tried["offloads off"] == "the same as: as reported"
    assert case.not_tried[f"shaper {AXES['shaper'].default}"] == "the same as: as reported"
    assert {*case.not_tried}.isdisjoint(labels)
    assert {*labels, *case.not_tried} == {each.label for each in built_in()}


@pytest.mark.parametrize(
    ("label", "irrelevant"),
    [("no HyStart", {"algorithm": "bbr"}), ("loss in bursts of 3", {"loss_percent": 0})],
)
def test_setting_changes_nothing_in_a_condition_that_does_not_have_its_subject(label, irrelevant):
    setting = next(each for each in built_in() if each.label == label)
    lossy = cellspec.condition(REPORTED | {"loss_percent": 1})
    assert setting.condition(lossy) != lossy
    without = cellspec.condition(REPORTED | irrelevant)
    assert setting.condition(without) == without


def test_kernel_that_is_not_built_is_left_out_with_the_command_that_builds_it(
    tmp_path, monkeypatch
):
    def require_built(conditions):
        if any(each.kernel == "7.2" for each in conditions):
            raise HostError("not built", hint="losslab kernel --name 7.2")

    monkeypatch.setattr(case, "require_built", require_built)
    report = read(write(tmp_path, REPORT))
    assert report.not_tried["kernel 7.2"] == "not built\n  -> losslab kernel --name 7.2"
    assert "kernel 7.2" not in [each.label for each in report.settings]


def test_only_runs_that_are_not_finished_are_measured(tmp_path, monkeypatch):
    case = read(write(tmp_path, REPORT))
    condition = case.numbers[0].condition
    measured = []

    def measure_runs(runs, cores, title):
        measured.extend(runs)
        for folder, (_, seed) in runs.items():
            folder.mkdir(parents=True)
            content = {"backend": "virtual", "cell": {}, "seed": seed}
            (folder / "manifest.json").write_text(json.dumps(content))

    monkeypatch.setattr(sweeps, "measure_runs", measure_runs)
    monkeypatch.setattr(explain, "instrument", lambda condition: None)
    monkeypatch.setattr(explain, "read_manifest", lambda path: {
        "reasons": [], "summary": {"goodput_mbit": json.loads(path.read_text())["seed"]},
    })  # fmt: skip
    monkeypatch.setattr(explain, "finished", lambda out, *_: {} if out.exists() else None)
    runs = explain.Runs(tmp_path / "runs", 1)
    runs([(condition, 1)])
    results = runs([(condition, 1), (condition, 2)])
    assert [folder.name for folder in measured] == ["1", "2"]
    assert [each.summary["goodput_mbit"] for each in results.values()] == [1, 2]


@pytest.mark.parametrize(
    ("reasons", "counts"),
    [
        ([], True),
        ([f"{explain.LIMITED}, found 12.0 % of the busy time of x limited"], True),
        ([f"{explain.LIMITED}, found x", "idle RTT must be 20 ms"], False),
        (["the guest was lost"], False),
    ],
)
def test_run_that_only_a_buffer_makes_invalid_counts(reasons, counts, monkeypatch, tmp_path):
    monkeypatch.setattr(explain, "read_manifest", lambda path: {"reasons": reasons, "summary": {}})
    found = explain.result(tmp_path)
    assert (found.violations == ()) == counts
    assert found.limited_by_buffer == (counts and bool(reasons))
    assert explain.LIMITED in inspect.getsource(checks)
