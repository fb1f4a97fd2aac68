"""Cases of drafts on real runs: in two passes, of a changed kernel, and of an own algorithm."""

import json
from pathlib import Path

import pytest

from losslab.instrument import kernel, kernels, kerneltree
from losslab.tools.conform import conform
from tests.faults.kit import losslab

# Changes of BBRv3 that break cases.
MUTANT = {
    "bbr_full_bw_cnt = 3": "bbr_full_bw_cnt = 2",
    "bbr_cwnd_min_target = 4": "bbr_cwnd_min_target = 1",
    "bbr_probe_rtt_win_ms = 5000": "bbr_probe_rtt_win_ms = 7000",
    "bw_probe_up_rounds = min(bbr->bw_probe_up_rounds + 1, 30)": "bw_probe_up_rounds = 0",
}
STATES = """
[mine]
phase = { field = "found", names = ["SLOW_START", "FOUND"] }
w_max_packets = { field = "last_max_cwnd" }
"""
SUITE = """
suite: mine
title: A copy of CUBIC
source: this test
defaults: { rate_mbit: 20, rtt_ms: 20, buffer_packets: 60, duration_s: 4, warmup_s: 0.5 }
cases:
  window:
    title: W_max is the window before the loss
    holds: [{ total: lost_packets, above: 0 }]
    expect:
      - step: 1
        value: w_max_packets
        at: after recovery
        near: cwnd_packets at before recovery
        share: 0.1
      - { step: 2, change: cwnd_packets, from: before recovery, to: recovery+0.5, at_most: -0.2 }
  slow-start:
    title: A loss when HyStart has found the exit
    trigger: enter FOUND
    set: { changes: "at_s={T+0.1},loss_percent=5+at_s={T+0.3},loss_percent=0" }
    holds: [{ total: lost_packets, from: T, seconds: 0.5, above: 0 }]
    expect: [{ step: 1, value: k_s, at: end, above: 0 }]
"""


def verdicts(out):
    rows = json.loads((out / conform.RECORD).read_text())["cases"]
    return {each["case"]: each["verdict"] for each in rows}


@pytest.mark.skipif(
    kernel.part(kernels.get("6.12-bbr3")).existing() is None,
    reason="`losslab kernel --name 6.12-bbr3`: ten minutes, and BBRv3's public patch",
)
def test_bbr3_stays_in_drain_if_the_rate_falls_when_drain_begins(tmp_path):
    out = tmp_path / "out"
    done = losslab("conform", "bbr-draft", "bbr3", "--case", "4b", "--case", "14", "--out", out)
    assert done.returncode == 1, done.stderr
    assert verdicts(out) == {"4b": "FAIL", "14": "PASS"}
    # The phase begins, and everything before it is the same, in the second run.
    assert "DRAIN -> PROBE_RTT after 3.7" in done.stdout
    again = losslab(
        "conform", "bbr-draft", "bbr3", "--case", "4b", "--out", out, "--against",
        (out / conform.RECORD).rename(tmp_path / "recorded.json"),
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    command = done.stdout.split("losslab measure ")[1].splitlines()[0].split()
    repeated = losslab("measure", *command, cwd=tmp_path)
    assert repeated.returncode == 0, repeated.stderr
    files = [tmp_path / "case-4b", *(out / "runs").glob("*-1")]
    states = {path.joinpath("capture-state.gz").read_bytes() for path in files}
    assert len(states) == len(files) - 1


def test_bad_algorithm_fails_the_criterion_of_rfc_9743_that_it_is_made_for(tmp_path):
    out = tmp_path / "out"
    cases = ("--case", "wired", "--case", "steady", "--html", tmp_path / "page.html")
    done = losslab("conform", "rfc9743", "never_grows", *cases, "--out", out)
    assert done.returncode == 1, done.stderr
    assert verdicts(out) == {"wired": "FAIL", "steady": "PASS"}
    # Both cases have the same runs, whose page has no strips of state, but scales.
    assert len(list((out / "runs").iterdir())) == 5
    assert (tmp_path / "page.html").read_text().count("<circle") == 2
    command = done.stdout.split("losslab measure ")[1].splitlines()[0].split()
    repeated = losslab("measure", *command, cwd=tmp_path)
    assert repeated.returncode == 0, repeated.stderr
    [manifest] = (tmp_path / "case-wired").glob("manifest.json")
    [row] = [
        r for r in json.loads((out / conform.RECORD).read_text())["cases"] if r["case"] == "wired"
    ]
    first = json.loads((Path(row["seeds"][0]["folder"]) / "manifest.json").read_text())
    assert json.loads(manifest.read_text())["summary"] == first["summary"]


def test_case_for_an_algorithm_of_ones_own_with_its_own_fields(campaign_folder):
    made = losslab("new", "algorithm", "mine", "--from", "cubic", cwd=campaign_folder)
    assert made.returncode == 0, made.stderr
    file = campaign_folder / "suites" / "mine" / "suite.yaml"
    file.parent.mkdir(parents=True)
    (campaign_folder / "config" / "states.toml").write_text(STATES)
    file.write_text(SUITE)
    out = campaign_folder / "out"
    done = losslab("conform", "mine", "mine", "--out", out, cwd=campaign_folder)
    assert done.returncode == 0, done.stderr
    # `k_s` is a variable of `cubic`, not of its copy.
    assert verdicts(out) == {"window": "PASS", "slow-start": "NOT OBSERVABLE"}


@pytest.fixture
def changed(tmp_path):
    """Return a function that judges cases with a change of BBRv3."""

    def run(cases, change):
        words = [word for name in cases for word in ("--case", name)]
        out = tmp_path / "out"
        done = losslab("conform", "bbr-draft", "bbr3", *words, "--change", change, "--out", out)
        assert done.returncode in (0, 1), done.stderr
        return verdicts(out)

    return run


@pytest.mark.nightly
def test_changed_bbr3_fails_what_its_change_breaks(changed, tmp_path):
    with kerneltree.own_files(kernel.objects(kernels.get("6.12-bbr3")).existing()) as tree:
        text = (tree / kerneltree.IPV4 / "tcp_bbr.c").read_text()
    for old, new in MUTANT.items():
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / "tcp_bbr.c"
    file.write_text(text)
    cases = ["1", "5", "10", "14", "15"]
    assert changed(cases, file) == dict.fromkeys(cases, "FAIL")


@pytest.mark.nightly
def test_repaired_bbr3_passes_what_bbr3_fails(changed, root):
    cases = ["3", "4b", "18", "19"]
    patch = root / "suites/bbr-draft/bbr3-repaired.patch"
    assert changed(cases, patch) == dict.fromkeys(cases, "PASS")


def test_cubic_follows_its_standard_and_reno_does_not(tmp_path):
    cases = ("increase", "concave", "convex", "decrease", "reno-slope", "slow-start")
    found = {}
    for algorithm in ("cubic", "reno"):
        words = [word for name in cases for word in ("--case", name)]
        out = tmp_path / algorithm
        done = losslab("conform", "rfc9438", algorithm, *words, "--out", out)
        assert done.returncode == 1, done.stderr
        found[algorithm] = verdicts(out)
    # Linux's CUBIC grows by 0.53 packets per round trip in Reno's region, and never by one.
    assert found["cubic"] == dict.fromkeys(cases, "PASS") | {"reno-slope": "FAIL"}
    passed = {"reno-slope": "PASS", "slow-start": "PASS"}
    assert found["reno"] == dict.fromkeys(cases, "FAIL") | passed
