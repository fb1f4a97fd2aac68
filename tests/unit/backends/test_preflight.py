"""What a machine must have to run jobs, and what mends it; no root needed."""

import dataclasses

import pytest

from losslab.backends import preflight
from losslab.emulation.shaping import shapers
from losslab.errors import LosslabError
from losslab.processes import Done
from tests.unit.study.test_condition import BARE, CONDITION


def test_the_engine_must_be_on_this_machine(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    with pytest.raises(LosslabError, match="must be on this machine"):
        preflight.socket_path()


def test_a_refusal_names_all_that_is_missing(monkeypatch, tmp_path):
    findings = [
        preflight.Finding("root", True, "yes"),
        preflight.Finding("sch_netem", False, "unknown", "modprobe sch_netem"),
        preflight.Finding("sch_fq", False, "unknown", "modprobe sch_fq"),
    ]
    monkeypatch.setattr(preflight, "host", lambda root, condition, containers: findings)
    with pytest.raises(LosslabError) as error:
        preflight.require(tmp_path, CONDITION, containers=False)
    assert "sch_netem" in str(error.value)
    assert "modprobe sch_fq" in str(error.value)
    assert "--where guest" in error.value.hint


def test_no_engine_is_a_finding(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'none.sock'}")
    (finding,) = preflight._docker()
    assert not finding.good
    assert "systemctl start docker" in finding.remedy


def kinds(condition, monkeypatch, tmp_path, lacking=()):
    """What a machine without some qdiscs is told to lack for a condition."""
    tried = []

    def kernel_qdisc(shaper, root, image_root):
        tried.append(shaper.kind)
        return preflight.Finding(f"sch_{shaper.kind}", shaper.kind not in lacking, "", "modprobe")

    monkeypatch.setattr(preflight, "kernel_qdisc", kernel_qdisc)
    missing = [f.what for f in preflight.host(tmp_path, condition, containers=False) if not f.good]
    return tried, [what for what in missing if what.startswith("sch_")]


def test_only_what_a_condition_needs_is_asked_for(monkeypatch, tmp_path):
    assert kinds(BARE, monkeypatch, tmp_path, ("netem", "fq")) == (["tbf", "pfifo"], [])
    tried, missing = kinds(CONDITION, monkeypatch, tmp_path, ("netem", "fq"))
    assert missing == ["sch_fq", "sch_netem"]
    assert tried == ["fq", "tbf", "pfifo", "netem"]
    aqm = dataclasses.replace(CONDITION, queue="cake")
    assert "cake" in kinds(aqm, monkeypatch, tmp_path)[0]


def test_an_algorithm_that_namespaces_may_not_have_comes_with_its_remedy(monkeypatch, tmp_path):
    allowed = tmp_path / "allowed"
    allowed.write_text("reno bbr\n")
    monkeypatch.setattr(preflight, "ALGORITHMS_ALLOWED", allowed)
    monkeypatch.setattr(preflight, "kernel_qdisc", lambda *words: preflight.Finding("q", True, ""))
    bbr = dataclasses.replace(BARE, algorithm="bbr")
    for condition, good in ((bbr, True), (BARE, False)):
        *_, algorithms = preflight.host(tmp_path, condition, containers=False)
        assert algorithms.good == good
    assert "modprobe tcp_cubic" in algorithms.remedy
    assert "'reno bbr cubic'" in algorithms.remedy


def test_a_kernel_without_a_qdisc_is_told_from_one_with_it(monkeypatch):
    said = [Done(2, "", "Error: Specified qdisc kind is unknown.")]
    monkeypatch.setattr(preflight.shutil, "which", lambda name: name)
    monkeypatch.setattr(preflight.processes, "attempt", lambda *words, **options: said[0])
    netem = next(s for s in shapers(CONDITION, 1) if s.kind == "netem")
    found = preflight.kernel_qdisc(netem, root=True)
    assert not found.good
    assert "unknown" in found.found
    assert "--rtt-ms 0" in found.remedy
    said[0] = Done(0, "", "")
    assert preflight.kernel_qdisc(netem, root=True).good
    assert not preflight.kernel_qdisc(netem, root=False).good


def test_filters_are_tried_beside_the_root(monkeypatch):
    tried = []

    def attempt(*words, text, **options):
        tried.append(text)
        return Done(0, "", "")

    monkeypatch.setattr(preflight.shutil, "which", lambda name: name)
    monkeypatch.setattr(preflight.processes, "attempt", attempt)
    condition = dataclasses.replace(CONDITION, loss_percent=0, policer_mbit=5)
    clsact = next(s for s in shapers(condition, 1) if s.kind == "clsact")
    assert preflight.kernel_qdisc(clsact, root=True).good
    assert tried[0].startswith("qdisc add dev lo handle ffff: clsact \nfilter add dev lo egress")
