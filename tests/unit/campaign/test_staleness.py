"""Reasons why cells are measured again."""

import dataclasses
import json

import pytest

from losslab.campaign import fingerprint, staleness
from losslab.study.design import Cell
from losslab.study.seed_family import seed_of
from losslab.study.stopping import StoppingRule
from tests import sealed
from tests.unit.study.test_condition import CONDITION

CELL = Cell("loss", "main", CONDITION, StoppingRule(1, 1))
WEB = "emulation/apps/web.py"


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Return a results folder with the measured cell and its recorded code."""
    monkeypatch.chdir(tmp_path)
    staleness.record_code([CELL])
    write(tmp_path / "results")
    return tmp_path / "results"


def write(results, cell=CELL, **more):
    folder = results / "cells" / cell.study / cell.name
    manifest = {
        "backend": "virtual", "cell": cell.condition.to_json(), "valid": True,
        "seed": seed_of(cell.condition, 0), "reasons": [],
        "summary": {"goodput_mbit": 9.5}, "instrument": {},
        "fingerprint": fingerprint.of(cell.condition, cell.backend, cell.where).to_json(),
    }  # fmt: skip
    sealed.replicate(folder / "0", manifest | more, {"tcp.csv": "t_s\n0.1\n"})
    return sealed.cell(folder, cell.condition.to_json(), 1, cell.study, cell.block)


def other_code(monkeypatch, *names):
    its = fingerprint.of(CONDITION, "virtual", "guest")
    code = dict(its.code) | dict.fromkeys(names, "0")
    other = fingerprint.Fingerprint({**its.parts, fingerprint.CODE: "0"}, code)
    monkeypatch.setattr(fingerprint, "of", lambda *_: other)


def test_measured_cell_needs_no_measurement(results):
    assert staleness.reasons(CELL, results) == []
    assert staleness.lines([CELL], results) == []


def test_cell_without_results_is_reported_as_not_measured_yet(results):
    other = dataclasses.replace(CELL, condition=dataclasses.replace(CONDITION, rtt_ms=99.0))
    assert staleness.reasons(other, results) == ["not measured yet"]


def test_changed_module_is_named(results, monkeypatch):
    other_code(monkeypatch, WEB)
    assert staleness.reasons(CELL, results) == [f"the code changed: {WEB}"]


def test_three_of_many_changed_modules_are_named(results, monkeypatch):
    other_code(monkeypatch, *(f"{name}.py" for name in "abcde"))
    assert staleness.reasons(CELL, results) == ["the code changed: a.py, b.py, c.py and 2 more"]


def test_no_module_is_named_without_a_record_of_the_code(results, monkeypatch):
    other_code(monkeypatch, WEB)
    for path in (results / "instrument").iterdir():
        path.unlink()
    assert staleness.reasons(CELL, results) == ["the code changed"]


@pytest.mark.parametrize("part", ["kernel", "image"])
def test_changed_instrument_is_named(results, monkeypatch, part):
    its = fingerprint.of(CONDITION, "virtual", "guest")
    other = dataclasses.replace(its, parts={**its.parts, part: "0"})
    monkeypatch.setattr(fingerprint, "of", lambda *_: other)
    assert staleness.reasons(CELL, results) == [f"the {part} changed"]


def test_other_seeds_are_named(results):
    path = write(results, seed=7)
    assert path.is_file()
    assert staleness.reasons(CELL, results) == [
        f"seed of replicate 0 7 instead of {seed_of(CONDITION, 0)}"
    ]


def test_lost_guest_is_named(results):
    write(results, lost=True)
    assert staleness.reasons(CELL, results) == ["a guest was lost"]


def test_results_without_a_fingerprint_are_reported_as_older(results):
    path = write(results).parent / "0" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["fingerprint"]
    path.write_text(json.dumps(manifest))
    sealed.reseal(path.parent)
    sealed.cell(path.parents[1], CONDITION.to_json(), 1, "loss", "main")
    (why,) = staleness.reasons(CELL, results)
    assert "without fingerprints" in why


def test_damage_is_named(results):
    (raw,) = results.rglob("tcp.csv")
    raw.write_text("")
    (why,) = staleness.reasons(CELL, results)
    assert why.startswith("damaged: ")
    (line,) = staleness.lines([CELL], results)
    assert line.startswith(f"loss\t{CELL.name}\tdamaged: ")
