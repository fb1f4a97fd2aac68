"""`losslab conform`: its suites, passes, verdicts, records and refused requests."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from losslab import cli
from losslab.campaign import state
from losslab.instrument import packed
from losslab.reading import UsageError
from losslab.tools.conform import conform, runs, suite
from losslab.tools.conform.judge import FAIL, INCONCLUSIVE, NOT_OBSERVABLE, PASS
from losslab.tools.conform.timeline import Timeline

SUITE = """
suite: own
title: Cases of a test
source: this file
interrupts: PROBE_RTT
defaults: { rate_mbit: 10, rtt_ms: 20, buffer_packets: 50, duration_s: 6, warmup_s: 1 }
cases:
  by-time:
    title: A change at a known time
    trigger: 2
    set: { changes: "at_s={T+0.5},rate_mbit=5" }
    expect: [{ step: 1, value: bound, at: T, is: 1 }]
  by-phase:
    title: A change when a phase begins
    trigger: enter UP 2
    set: { changes: "at_s={T},rate_mbit=5+at_s={T+0.25},rate_mbit=10" }
    holds: [{ total: events, from: T, above: 1 }]
    expect: [{ step: 2, next: DOWN, of: UP 2 }]
"""
CELL = "cells: { fast: { set: { rate_mbit: 40 }, cases: [by-time] } }\ncases:"
# In the folder of a test.
OWN = Path("suites/own/suite.yaml")
BBR3 = {"algorithm": "bbr3"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make a campaign's folder with a suite, in which the test runs."""
    (tmp_path / ".losslab-folder").touch()
    monkeypatch.chdir(tmp_path)
    OWN.parent.mkdir(parents=True)
    OWN.write_text(SUITE)
    return tmp_path


def rows(names="SLOW UP DOWN UP DOWN", bound=1.0):
    """Return a made-up time line with phases of a second."""
    names = names.split()
    at_s = np.arange(100 * len(names)) / 100
    return pd.DataFrame({
        "t_s": at_s, "event": "ack", "ca_state": "open", "delivered_packets": np.arange(len(at_s)),
        "lost_packets": 0, "sample_packets": 1, "in_flight_packets": 8,
        "phase": np.repeat(names, 100), "bound": bound,
    })  # fmt: skip


@pytest.fixture
def measured(monkeypatch):
    """Replace measurements: `lines` and `events` are by whether a run has its stimulus early."""
    its = SimpleNamespace(rows=rows(), events=[b"same", b"same"], reasons=[], measured=[])

    def early(condition):
        return "at_s=4" not in condition.changes

    def line(self, case, condition, seed, begin_s):
        phases = ["SLOW", "UP", "DOWN", "PROBE_RTT"]
        return Timeline(its.rows, condition, phases, {}, case.interrupts, begin_s)

    def captured(self, condition, seed):
        dtype = [("us", "<u8"), ("private", "S8")]
        events = np.array([(10, its.events[early(condition)]), (2**40, b"later")], dtype)
        return state.Capture(0, {}, events)

    monkeypatch.setattr(conform, "require_built", lambda conditions: None)
    monkeypatch.setattr(runs.Runs, "measure", lambda self, wanted, _: its.measured.extend(wanted))
    monkeypatch.setattr(runs.Runs, "violations", lambda *_: "; ".join(its.reasons))
    monkeypatch.setattr(runs.Runs, "line", line)
    monkeypatch.setattr(runs.Runs, "captured", captured)
    monkeypatch.setattr(suite, "phases", lambda _: ["SLOW", "UP", "DOWN", "PROBE_RTT"])
    return its


def verdicts(out):
    return [each["verdict"] for each in json.loads((out / conform.RECORD).read_text())["cases"]]


def conformed(*words):
    return cli.main(["conform", "own", "bbr3", "--out", "out", *words])


def test_change_at_the_begin_of_a_phase_is_placed_by_a_first_run(folder, measured):
    assert conformed("--case", "by-phase") == 0
    first, second = (condition.changes for condition, _ in measured.measured)
    # Late in the first run, with the same mechanism; a microsecond after the phase's first event.
    assert first == "at_s=4.9,rate_mbit=5+at_s=5.15,rate_mbit=10"
    assert second == "at_s=3.000001,rate_mbit=5+at_s=3.250001,rate_mbit=10"
    assert verdicts(folder / "out") == [PASS]


def test_second_measurement_takes_the_time_of_a_phase_from_a_record(folder, measured):
    assert conformed("--case", "by-phase") == 0
    record = (folder / "out" / conform.RECORD).rename(folder / "record.json")
    first, second = measured.measured
    again = ["--case", "by-phase", "--against", str(record)]
    for words in (again, ["--case", "by-phase"]):  # the second has the record of its folder
        measured.measured.clear()
        assert conformed(*words) == 0
        assert measured.measured == [second]
        assert verdicts(folder / "out") == [PASS]
    # What happens until then must still be the same.
    measured.events = [b"same", b"other"]
    assert conformed(*again, "--case", "by-phase") == 1
    assert verdicts(folder / "out") == [INCONCLUSIVE]
    # Another seed has another time.
    measured.events, measured.measured[:] = [b"same", b"same"], []
    assert conformed(*again, "--seeds", "2") == 0
    assert [seed for _, seed in measured.measured] == [2, 1, 2]
    assert first[0] == measured.measured[0][0]


def test_change_at_a_known_time_needs_one_run(folder, measured):
    assert conformed("--case", "by-time", "--seeds", "2") == 0
    assert [(c.changes, seed) for c, seed in measured.measured] == [
        ("at_s=2.5,rate_mbit=5", 1), ("at_s=2.5,rate_mbit=5", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ({"rows": rows("SLOW UP DOWN UP SLOW")}, FAIL),
        ({"rows": rows("SLOW UP DOWN UP PROBE_RTT")}, INCONCLUSIVE),  # cut off
        ({"rows": rows("SLOW UP DOWN UP")}, INCONCLUSIVE),  # the run ends first
        ({"rows": rows("SLOW UP DOWN SLOW")}, INCONCLUSIVE),  # the trigger is not reached
        ({"events": [b"same", b"other"]}, INCONCLUSIVE),  # the runs differ before T
        ({"rows": rows("UP UP UP UP SLOW UP DOWN")}, INCONCLUSIVE),  # too late
        ({"reasons": ["the capture must be whole"]}, INCONCLUSIVE),
    ],
)
def test_case_fails_only_in_a_valid_run_whose_stimulus_held(folder, measured, made, found):
    vars(measured).update(made)
    assert conformed("--case", "by-phase") == int(found == FAIL)
    assert verdicts(folder / "out") == [found]


def test_case_of_phases_that_the_algorithm_does_not_have_is_not_run(folder, measured, monkeypatch):
    monkeypatch.setattr(suite, "phases", lambda _: ["SLOW"])
    assert conformed("--case", "by-phase") == 0
    assert verdicts(folder / "out") == [NOT_OBSERVABLE]
    assert measured.measured == []


def test_failure_that_the_record_does_not_have_ends_with_status_1(folder, measured, capsys):
    assert conformed() == 0
    good = (folder / "out" / conform.RECORD).rename(folder / "good.json")
    measured.rows = rows(bound=2.0)
    assert conformed() == 1
    bad = (folder / "out" / conform.RECORD).rename(folder / "bad.json")
    assert conformed("--against", str(bad)) == 0
    assert conformed("--against", str(good)) == 1
    assert "case by-time (A change at a known time): was PASS, is FAIL" in capsys.readouterr().err
    measured.rows = rows()
    assert conformed("--against", str(bad)) == 0
    bad.write_text(bad.read_text().replace('"own"', '"other"'))
    assert conformed("--against", str(bad)) == 2


def test_failure_has_its_numbers_its_command_and_a_strip_with_its_phases(folder, measured, capsys):
    measured.rows = rows(bound=2.0)
    assert conformed("--junit", "new/junit.xml", "--html", "new/page.html") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("step 1: bound at T is 2, must be 1")
    assert lines[2].split()[:4] == ["losslab", "measure", "--algorithm", "bbr3"]
    assert lines[2].endswith("--seed 1 --out case-by-time --capture state")
    root = ET.parse(folder / "new/junit.xml").getroot()
    assert root.attrib == {"name": "own.bbr3", "tests": "2", "failures": "1", "skipped": "0"}
    assert [case[0].tag for case in root] == ["failure", "system-out"]
    root = ET.parse(folder / "new/page.html").getroot()
    cases = list(root.iter("details"))
    assert [case.find("summary/b").get("class") for case in cases] == [FAIL, PASS]
    for case in cases:
        assert len(case.findall(".//rect")) == 5
        words = [text.text for text in case.findall(".//text")]
        assert words[:-1] == rows()["phase"][::100].tolist()
        assert case.find(".//path/title").text == "in_flight_packets"
    assert "must be 1" in "".join(cases[0].itertext())


def test_worst_verdict_of_the_seeds_counts(folder, measured, monkeypatch, capsys):
    one = runs.Runs.line
    made = {1: rows(), 2: rows(bound=2.0)}

    def line(self, case, condition, seed, begin_s):
        measured.rows = made[seed]
        return one(self, case, condition, seed, begin_s)

    monkeypatch.setattr(runs.Runs, "line", line)
    assert conformed("--case", "by-time", "--seeds", "2") == 1
    assert "FAIL" in (text := capsys.readouterr().out)
    assert "(1 of 2 seeds)" in text
    assert "--seed 2" in text


def test_cell_replaces_defaults_and_has_its_cases_only(folder, measured, capsys):
    shares = SUITE.replace("rate_mbit=5", "rate_mbit={0.5 rate_mbit}")
    OWN.write_text(shares.replace("cases:", CELL, 1))
    assert conformed("--cell", "fast", "--json") == 0
    [(condition, _)] = measured.measured
    assert (condition.rate_mbit, condition.changes) == (40, "at_s=2.5,rate_mbit=20")
    data = json.loads((folder / "out" / conform.RECORD).read_text())
    assert (data["cell"], [each["case"] for each in data["cases"]]) == ("fast", ["by-time"])
    record = (folder / "out" / conform.RECORD).rename(folder / "fast.json")
    assert conformed("--against", str(record)) == 2
    assert "must be of the cell default, found fast" in capsys.readouterr().err
    assert conformed("--cell", "fats") == 2
    OWN.write_text(shares.replace("0.5 rate_mbit", "0.5 rate"))
    assert conformed() == 2


def test_failure_on_a_path_with_losses_has_the_command_that_finds_their_packets(
    folder, measured, capsys
):
    OWN.write_text(SUITE.replace("{T+0.5},rate_mbit=5", "{T+0.5},loss_percent=5"))
    measured.rows = rows("SLOW UP DOWN UP SLOW", bound=2.0)
    assert conformed() == 1
    causes = [line for line in capsys.readouterr().out.splitlines() if "losslab why" in line]
    assert len(causes) == 1
    assert causes[0].endswith("--case own/by-time --out why-by-time")


def test_workflow_gets_a_record_whatever_the_verdicts(folder, measured):
    measured.rows = rows(bound=2.0)
    assert conformed("--record", "record.json") == 0
    record = json.loads((folder / "record.json").read_text())
    assert [each["verdict"] for each in record["cases"]] == [FAIL, PASS]
    (folder / "smoke.json").write_text('{"absent": "no patch"}')
    assert conformed("--record", "record.json", "--needs", "smoke.json") == 0
    record = json.loads((folder / "record.json").read_text())
    assert (record["absent"], record["cases"]) == ("no patch", [])


QUIC_SUITE = """
suite: own
title: Cases of a QUIC sender
source: this file
defaults: { rate_mbit: 10, rtt_ms: 20, buffer_packets: 50, duration_s: 6, warmup_s: 1 }
cases:
  window:
    title: The window falls at a loss
    trigger: enter recovery
    set: { changes: "at_s={T},rate_mbit=5" }
    holds: [{ total: lost_packets, from: 0, above: 0 }]
    expect:
      - { step: 1, change: cwnd_packets, from: before loss, to: after T, at_most: -0.4 }
      - { step: 2, value: cwnd_packets, at: begin, is: 10 }
      - { step: 3, next: congestion_avoidance, of: recovery }
  bound:
    title: A bound that no log has
    expect: [{ step: 1, value: inflight_hi, at: end, above: 0 }]
  delivered:
    title: Packets of the kernel only
    expect: [{ step: 1, total: delivered_packets, above: 0 }]
  other-app:
    title: A finite rate of the app stream
    set: { app: stream, app_rate_mbit: 5 }
    expect: [{ step: 1, value: srtt_ms, at: end, above: 0 }]
"""


def quic_run(folder, states):
    """Write the log of a run whose window falls from 10 packets to 5, with or without states."""
    metrics, state = "recovery:metrics_updated", "recovery:congestion_state_updated"
    events = [
        (0, "transport:packet_sent", {"raw": {"length": 1200}}),
        (10, metrics, {"congestion_window": 12000, "smoothed_rtt": 20}),
        (500, "recovery:packet_lost", {}), (500, state, {"new": "recovery"}),
        (500, metrics, {"congestion_window": 6000}), (900, state, {"new": "congestion_avoidance"}),
        (950, metrics, {"congestion_window": 6100}),
    ]  # fmt: skip
    lines = [{"trace": {"vantage_point": {"type": "server"}}}]
    lines += [{"time": at, "name": n, "data": d} for at, n, d in events if states or n != state]
    folder.mkdir(parents=True)
    (folder / "quic-sender.sqlog").write_text("\n".join(map(json.dumps, lines)))
    (folder / "quic.csv").write_text("t_s,cwnd_bytes\n1.010,12000\n")


@pytest.mark.parametrize(("states", "found"), [(True, PASS), (False, NOT_OBSERVABLE)])
def test_quic_sender_is_judged_by_what_its_log_says(folder, monkeypatch, states, found):
    OWN.write_text(QUIC_SUITE)
    measured = []

    def measure(self, wanted, _):
        for condition, seed in dict.fromkeys(wanted):
            assert condition.app == "quic"
            measured.append(condition.changes)
            if not (place := self.folder(condition, seed)).exists():
                quic_run(place, states)

    monkeypatch.setattr(runs.Runs, "measure", measure)
    manifest = {"reasons": [], "summary": {}}
    monkeypatch.setattr(runs, "Replicate", lambda _: SimpleNamespace(manifest=manifest))
    assert cli.main(["conform", "own", "cubic", "--app", "quic", "--out", "out"]) == 0
    assert verdicts(folder / "out") == [found, *[NOT_OBSERVABLE] * 3]
    assert measured[-1] == ("at_s=1.500001,rate_mbit=5" if states else "none")
    text = (folder / "out" / conform.RECORD).read_text()
    assert "needs the app stream" in text
    assert "--capture" not in text
    words = ["conform", "own", "cubic", "--app", "quic", "--change", "tcp_cubic.c"]
    assert cli.main(words) == 2


def test_cases_are_listed_without_an_algorithm(folder, capsys):
    assert cli.main(["conform", "own"]) == 0
    assert "by-phase A change when a phase begins" in capsys.readouterr().out
    assert list(folder.glob("out*")) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["conform", "bbr-draf"], "did you mean bbr-draft"),
        (["conform", "ci", "bbr3"], "must have cases, found none in ci"),
        (["conform", "own", "bbr3", "--case", "by-fase"], "did you mean by-phase"),
        (["conform", "own", "nobody"], "found nobody"),
        (["conform", "own", "bbr3", "--kernel", "9.9"], "9.9"),
        (["conform", "own", "bbr3", "--full"], "--full needs cases over scenarios, found none"),
        (["conform", "own", "bbr3", "--estimate"], "--estimate needs cases over scenarios"),
        (["conform", "rfc9743", "cubic", "--app", "quic"], "needs cases of single runs"),
        (["conform", "own", "bbr3", "--change", "absent.c"], "found no file absent.c"),
        (["conform", "own", "bbr3", "--against", "absent.json"], "absent.json"),
    ],
)
def test_wrong_request_is_refused_before_anything_runs(folder, capsys, words, message):
    assert cli.main(words) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "results").exists()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("title: A change at", "heading: A change at", "heading"),
        ("next: DOWN", "follows: DOWN", "follows"),
        ("is: 1", "is: [1]", "is"),
        ("at: T, is: 1", "at: T", "must be compared"),
        ("{T+0.5}", "{T*2}", "must have T as {T}"),
        ("trigger: 2", "note: none", "needs a trigger"),
        ("enter UP 2", "leave UP 2", "trigger"),
        ("enter UP 2", "enter UP zero", "must be such as"),
        ("step: 1, ", "", "step"),
        ("suite: own", "suite: other", "must be the name of its folder or file, own, found other"),
        ("trigger: 2\n    set: {", "note: none\n    set: { rate_mbit: 5 } #", "a place with T"),
        ("set: {", "set: { algorithm: bbr,", "must have no algorithm"),
    ],
)
def test_misspelt_suite_is_refused_with_the_place(folder, old, new, problem):
    OWN.write_text(SUITE.replace(old, new))
    with pytest.raises(UsageError, match=r"own/suite\.yaml") as refused:
        suite.load("own")
    assert problem in refused.value.message


def test_axis_that_does_not_exist_is_refused(folder, capsys):
    OWN.write_text(SUITE.replace("rate_mbit: 10,", "rate_mbits: 10,"))
    assert conformed() == 2
    assert "did you mean rate_mbit" in capsys.readouterr().err
    OWN.write_text(SUITE.replace("{T+0.5}", "{T+9}"))
    assert conformed() == 2
    assert "error: case by-time: every change must come before" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["bbr-draft", "c4-tests", "rfc9438"])
def test_every_case_of_a_suite_has_conditions_that_can_be_measured(name):
    for case in suite.cases(suite.load(name), []):
        assert case.condition(BBR3, case.known_s)
        assert not case.phase or case.condition(BBR3, case.late_s)
        assert case.missing_phases("bbr3") == []


def test_t3_suite_of_a_folder_does_not_replace_losslabs(folder, capsys):
    theirs = folder / "suites" / "rfc9743" / "suite.yaml"
    theirs.parent.mkdir()
    theirs.write_text(SUITE.replace("suite: own", "suite: rfc9743"))
    assert cli.main(["conform", "rfc9743", "never_grows"]) == 2
    said = capsys.readouterr().err
    assert f"a suite of your own must have a new name, found {theirs}" in said
    assert "suites/my-rfc9743/suite.yaml" in said


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ("at_most: .nan", "at_most must be a number, or a variable such as `0.9 rate`"),
        ("at_least: 1.5.2", "at_least must be a number"),
        ("above: true", "above must be a number"),
        ("at_least: 2, at_most: 1", "at_least must be at most at_most (1), found 2"),
    ],
)  # fmt: skip
def test_limits_that_no_number_can_be_compared_with_are_refused_before_a_run(
    folder, capsys, limits, problem
):
    OWN.write_text(SUITE.replace("value: bound, at: T, is: 1", f"value: bound, at: T, {limits}"))
    assert cli.main(["conform", "own", "bbr3"]) == 2
    assert problem in capsys.readouterr().err


def test_text_is_no_limit_of_a_metric(folder, capsys):
    check = "metric: goodput_mbit, at_most: fast"
    OWN.write_text(SUITE.replace("value: bound, at: T, is: 1", check))
    assert cli.main(["conform", "own", "bbr3"]) == 2
    assert "at_most of a metric must be a number, found 'fast'" in capsys.readouterr().err


def test_missing_kernel_stops_an_estimate_with_the_command_that_builds_it(
    capsys, tmp_path, monkeypatch
):
    """F3: the estimate promised minutes for runs that could not begin."""
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(packed.PLACE, raising=False)
    assert cli.main(["conform", "rfc9743", "bbr3", "--estimate"]) == 1
    assert "losslab kernel --name 6.12-bbr3" in capsys.readouterr().err
