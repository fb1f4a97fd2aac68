"""`losslab conform` with cases over scenarios: cells, verdicts, records and refused requests."""

import json
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pytest

from losslab import cli
from losslab.campaign.criteria import INCONCLUSIVE, NOT_OBSERVABLE, PASS
from losslab.study import studyfiles
from losslab.tools.conform import conform, runs, spans, suite

SUITE = """
suite: own
title: Cases over scenarios
source: this file
defaults: { path: symmetric, app: iperf3, rate_mbit: 10, rtt_ms: 40, loss_percent: 0 }
scenarios:
  queue:
    what: Two buffers.
    points: { buffer_packets: [1bdp, 4bdp] }
    quick: { replicates: 5, duration_s: 3, warmup_s: 1, only: { buffer_packets: 1bdp } }
    full: { replicates: 6, duration_s: 9, warmup_s: 1 }
  beside:
    what: A CUBIC flow.
    points: { competitor: cubic, buffer_packets: 1bdp }
    quick: { replicates: 5, duration_s: 3, warmup_s: 1 }
    full: { replicates: 5, duration_s: 9, warmup_s: 1 }
  other:
    what: Another kernel.
    points: { kernel: "7.2", buffer_packets: 1bdp }
    not_quick: It needs another kernel.
    full: { replicates: 5, duration_s: 9, warmup_s: 1 }
cases:
  filled:
    title: It fills the link
    over: queue
    expect: [{ metric: goodput_mbit, at_least: 8, ours: a fifth less }]
  short:
    title: Its queue is short
    over: queue
    expect: [{ metric: queue_mean_packets, at_most: 20 }]
  harm:
    title: CUBIC is harmed no more than by CUBIC
    over: beside
    expect:
      - metric: competitor_goodput_mbit
        at_least: 0.5
        against: { algorithm: cubic }
        unit: times
  elsewhere:
    title: It works on another kernel
    over: other
    expect: [{ metric: goodput_mbit, at_least: 1 }]
  by-time:
    title: A case with a stimulus
    trigger: 1
    expect: [{ step: 1, value: bound, at: T, is: 1 }]
"""
RUN = {"goodput_mbit": 9.0, "queue_mean_packets": 10.0, "competitor_goodput_mbit": 4.0}


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Make a folder with the suite, and replace measurements: `runs` has values by algorithm."""
    (tmp_path / ".losslab-folder").touch()
    file = tmp_path / "suites" / "own" / "suite.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(SUITE)
    monkeypatch.chdir(tmp_path)
    its = SimpleNamespace(runs={}, reasons=[], measured=[], folder=tmp_path)

    def replicate(folder):
        its_runs = its.runs.get(folder.name.partition("-")[0], {})
        scatter = 1 + int(folder.name.rpartition("-")[2]) % 7 / 1000
        summary = {name: value * scatter for name, value in (RUN | its_runs).items()}
        samples = {"t_s": np.array([1.0, 2.0, 3.0]), "goodput_mbit": np.full(3, 9.0)}
        manifest = {"summary": summary, "reasons": its.reasons}
        return SimpleNamespace(manifest=manifest, samples=lambda _: samples)

    def measure(self, wanted, _):
        its.measured += [(c, seed, self.captures) for c, seed in wanted]

    monkeypatch.setattr(conform, "require_built", lambda conditions: None)
    monkeypatch.setattr(runs.Runs, "measure", measure)
    monkeypatch.setattr(spans, "Replicate", replicate)
    return its


SPANNING = [word for name in ("filled", "short", "harm", "elsewhere") for word in ("--case", name)]


def conformed(*words, cases=SPANNING, algorithm="vegas"):
    return cli.main(["conform", "own", algorithm, "--out", "out", *cases, *words])


def record(measured):
    rows = json.loads((measured.folder / "out" / conform.RECORD).read_text())["cases"]
    return {row["case"]: row for row in rows}


def test_cells_are_measured_once_without_state_and_only_where_a_case_needs_them(measured, capsys):
    assert conformed() == 0
    assert "3 cells, 15 runs" in capsys.readouterr().err
    cells = {(c.algorithm, c.competitor, c.buffer_packets) for c, *_ in measured.measured}
    assert cells == {
        ("vegas", "none", 33), ("vegas", "cubic", 33), ("cubic", "cubic", 33),
    }  # fmt: skip
    assert len(measured.measured) == 15
    assert {captures for *_, captures in measured.measured} == {()}
    found = {name: row["verdict"] for name, row in record(measured).items()}
    assert found == {"filled": PASS, "short": PASS, "harm": PASS, "elsewhere": NOT_OBSERVABLE}


def test_full_form_has_all_scenarios_and_seeds_replace_the_number_of_runs(measured):
    assert conformed("--full", "--seeds", "2", cases=SPANNING[:2]) == 0
    buffers = [c.buffer_packets for c, *_ in measured.measured]
    assert sorted(buffers) == [33, 33, 132, 132]
    row = record(measured)["filled"]
    assert row["verdict"] == INCONCLUSIVE
    assert "n = 2, but a confidence interval needs 5" in row["seeds"][0]["why"]


def test_parameters_belong_to_the_tested_algorithm(measured):
    assert conformed(algorithm="vegas,alpha=3") == 0
    assert {(c.algorithm, c.parameters) for c, *_ in measured.measured} == {
        ("vegas", "vegas.alpha=3"), ("cubic", "none"),
    }  # fmt: skip
    assert record(measured)["harm"]["verdict"] == PASS


def test_failed_case_has_its_number_limit_reason_and_a_command(measured, capsys):
    measured.runs["vegas"] = {"goodput_mbit": 5.0, "competitor_goodput_mbit": 1.0}
    assert conformed("--junit", "junit.xml", "--html", "page.html") == 1
    text = capsys.readouterr().out
    assert "filled It fills the link: goodput_mbit is 5.0" in text
    assert "must be at least 8 (n = 5) (ours: a fifth less)" in text
    command = next(line for line in text.splitlines() if "--competitor cubic" in line)
    assert "--capture" not in command
    assert "--algorithm vegas" in command
    number = record(measured)["harm"]["seeds"][0]["steps"][0]["number"]
    assert number["low"] <= number["value"] <= number["high"] < number["at_least"] == 0.5
    root = ET.parse("junit.xml").getroot()
    assert [case[0].tag for case in root] == ["failure", "system-out", "failure", "skipped"]
    page = ET.parse("page.html").getroot()
    assert len(list(page.iter("circle"))) == 3


def test_invalid_runs_are_no_failure(measured):
    measured.reasons.append("the RTT must be 40 ms, found 80")
    assert conformed() == 0
    assert record(measured)["filled"]["verdict"] == NOT_OBSERVABLE
    assert "invalid: the RTT must be" in record(measured)["filled"]["seeds"][0]["why"]


def test_number_that_is_worse_than_recorded_ends_with_status_1(measured, capsys):
    assert conformed() == 0
    recorded = str((measured.folder / "out" / conform.RECORD).rename("recorded.json"))
    measured.runs["vegas"] = {"goodput_mbit": 8.5}  # still within the limit
    assert conformed("--against", recorded) == 1
    assert "case filled (It fills the link): was goodput_mbit is 9.0" in capsys.readouterr().err
    measured.runs["vegas"] = {"goodput_mbit": 9.9, "queue_mean_packets": 9.0}
    assert conformed("--against", recorded) == 0


@pytest.mark.parametrize(
    ("side", "new", "worse"),
    [
        ("at_most", (5, 4, 6), False),  # the same
        ("at_most", (7, 5.9, 8), False),  # the intervals overlap
        ("at_most", (7, 6.1, 8), True),
        ("at_most", (3, 2, 3.9), False),  # better
        ("at_least", (3, 2, 3.9), True),
        ("at_least", (7, 6.1, 8), False),
        ("at_least", (4.96, 3.95, 3.99), False),  # less than 1 %
    ],
)
def test_worse_means_disjoint_intervals(side, new, worse):
    old, new = (
        dict(zip(("value", "low", "high"), each, strict=True)) | {side: 1}
        for each in ((5, 4, 6), new)
    )
    assert conform._number_is_worse(old, new) == worse
    assert not conform._number_is_worse(old, {"n": 0, side: 1})


def test_estimate_measures_nothing(measured, capsys):
    assert conformed("--estimate") == 0
    assert "3 cells, 15 runs: about" in capsys.readouterr().err
    assert not (measured.folder / "out").exists()
    assert measured.measured == []


def test_rfc_9743_takes_less_than_15_minutes_for_an_algorithm():
    rfc = suite.load("rfc9743")
    its = spans.Spans.of(rfc, suite.cases(rfc, []), {"algorithm": "gaimd"}, studyfiles.QUICK, None)
    assert its.minutes(cores=2) < 15
