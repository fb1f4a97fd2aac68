"""Requirements of a machine for its jobs, with their fixes; no root needed."""

import dataclasses

import pytest

from losslab import cellspec
from losslab.emulation.shaping import path_qdiscs
from losslab.errors import LosslabError
from losslab.processes import Done
from losslab.reading import UsageError
from losslab.tools.realtime import preflight
from tests.unit.study.test_condition import BARE as BARE_LINK
from tests.unit.study.test_condition import CONDITION as EXACT

# Only losslab's own kernels have exact links.
BARE = dataclasses.replace(BARE_LINK, shaper="tbf")
CONDITION = dataclasses.replace(EXACT, shaper="tbf")


def test_remote_engine_is_refused(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    with pytest.raises(LosslabError, match="must be on this machine"):
        preflight.socket_path()


def test_refusal_names_everything_that_is_missing(monkeypatch, tmp_path):
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


def missing_qdiscs(condition, monkeypatch, tmp_path, lacking=()):
    """Return the qdiscs checked for a condition, and the missing ones."""
    tried = []

    def kernel_qdisc(shaper, root, image_root):
        tried.append(shaper.kind)
        return preflight.Finding(f"sch_{shaper.kind}", shaper.kind not in lacking, "", "modprobe")

    monkeypatch.setattr(preflight, "kernel_qdisc", kernel_qdisc)
    missing = [
        f.requirement for f in preflight.host(tmp_path, condition, containers=False) if not f.good
    ]
    return tried, [what for what in missing if what.startswith("sch_")]


def test_preflight_checks_only_what_the_condition_needs(monkeypatch, tmp_path):
    assert missing_qdiscs(BARE, monkeypatch, tmp_path, ("netem", "fq")) == (["tbf", "pfifo"], [])
    tried, missing = missing_qdiscs(CONDITION, monkeypatch, tmp_path, ("netem", "fq"))
    assert missing == ["sch_fq", "sch_netem"]
    assert tried == ["fq", "tbf", "pfifo", "netem"]
    aqm = dataclasses.replace(CONDITION, queue="cake")
    assert "cake" in missing_qdiscs(aqm, monkeypatch, tmp_path)[0]


def test_exact_link_is_refused_with_the_shaper_to_use_instead(monkeypatch, tmp_path):
    said = Done(2, "", "Error: Specified qdisc kind is unknown.")
    monkeypatch.setattr(preflight.shutil, "which", lambda name: name)
    monkeypatch.setattr(preflight.processes, "attempt", lambda *words, **options: said)
    with pytest.raises(LosslabError, match="MISSING  sch_link in this machine's kernel") as error:
        preflight.require(tmp_path, BARE_LINK, containers=False)
    assert "without a trace use `--shaper tbf`" in error.value.message
    with pytest.raises(UsageError, match=r"shaper must be tbf or .* \(`--shaper tbf`\)"):
        cellspec.condition(BARE_LINK.to_json(), own_kernel=True)
    assert cellspec.condition(BARE.to_json(), own_kernel=True) == BARE


def test_usual_requirements_are_those_of_a_token_bucket(monkeypatch, tmp_path):
    """`losslab doctor` would call every machine unusable that has no exact links."""
    tried, _ = missing_qdiscs(preflight.USUAL, monkeypatch, tmp_path)
    list(preflight.host(tmp_path, containers=False))
    assert tried == 2 * ["fq", "tbf", "pfifo", "netem"]


def test_algorithm_forbidden_in_namespaces_comes_with_a_fix(monkeypatch, tmp_path):
    allowed = tmp_path / "allowed"
    allowed.write_text("reno bbr\n")
    monkeypatch.setattr(preflight, "ALGORITHMS_ALLOWED", allowed)
    monkeypatch.setattr(preflight, "kernel_qdisc", lambda *words: preflight.Finding("q", True, ""))
    bbr = dataclasses.replace(BARE, algorithm="bbr")
    for condition, good in ((bbr, True), (BARE, False)):
        *_, algorithms = preflight.host(tmp_path, condition, containers=False)
        assert algorithms.good == good
    assert "modprobe tcp_cubic" in algorithms.fix
    assert "'reno bbr cubic'" in algorithms.fix


def test_missing_qdisc_is_distinguished_from_a_present_one(monkeypatch):
    said = [Done(2, "", "Error: Specified qdisc kind is unknown.")]
    monkeypatch.setattr(preflight.shutil, "which", lambda name: name)
    monkeypatch.setattr(preflight.processes, "attempt", lambda *words, **options: said[0])
    netem = next(s for s in path_qdiscs(CONDITION, 1) if s.kind == "netem")
    found = preflight.kernel_qdisc(netem, root=True)
    assert not found.good
    assert "unknown" in found.found
    assert "--rtt-ms 0" in found.fix
    said[0] = Done(0, "", "")
    assert preflight.kernel_qdisc(netem, root=True).good
    assert not preflight.kernel_qdisc(netem, root=False).good


def test_filters_are_probed_on_clsact(monkeypatch):
    tried = []

    def attempt(*words, text, **options):
        tried.append(text)
        return Done(0, "", "")

    monkeypatch.setattr(preflight.shutil, "which", lambda name: name)
    monkeypatch.setattr(preflight.processes, "attempt", attempt)
    condition = dataclasses.replace(CONDITION, loss_percent=0, policer_mbit=5)
    clsact = next(s for s in path_qdiscs(condition, 1) if s.kind == "clsact")
    assert preflight.kernel_qdisc(clsact, root=True).good
    assert tried[0].startswith("qdisc add dev lo handle ffff: clsact \nfilter add dev lo egress")
