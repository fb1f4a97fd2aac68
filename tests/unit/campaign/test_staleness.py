"""Reasons why cells are measured again."""

import dataclasses

import pytest

from losslab.campaign import fingerprint, staleness
from losslab.reading import UsageError
from losslab.study.condition import seed_of
from losslab.study.design import Cell
from losslab.study.intervals import StoppingRule
from tests import sealed
from tests.unit.study.test_condition import CONDITION

CELL = Cell("loss", "main", CONDITION, StoppingRule(1, 1))


@pytest.fixture
def results(tmp_path):
    """Return a results folder with the measured cell."""
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


def test_measured_cell_needs_no_measurement(results):
    assert staleness.reasons(CELL, results) == []
    assert staleness.lines([CELL], results) == []


def test_cell_without_results_is_reported_as_not_measured_yet(results):
    other = dataclasses.replace(CELL, condition=dataclasses.replace(CONDITION, rtt_ms=99.0))
    assert staleness.reasons(other, results) == ["not measured yet"]


@pytest.mark.parametrize("part", ["code", "kernel", "image"])
def test_changed_instrument_is_named(results, monkeypatch, part):
    its = fingerprint.of(CONDITION, "virtual", "guest")
    other = dataclasses.replace(its, parts={**its.parts, part: "0"})
    monkeypatch.setattr(fingerprint, "of", lambda *_: other)
    assert staleness.reasons(CELL, results) == [f"{part} changed"]


def test_other_seeds_are_named(results):
    path = write(results, seed=7)
    assert path.is_file()
    assert staleness.reasons(CELL, results) == [
        f"seed of replicate 0 7 instead of {seed_of(CONDITION, 0)}"
    ]


def test_lost_guest_is_named(results):
    write(results, lost=True)
    assert staleness.reasons(CELL, results) == ["a guest was lost"]


def test_damage_is_an_error(results):
    (raw,) = results.rglob("tcp.csv")
    raw.write_text("")
    with pytest.raises(UsageError, match=r"is damaged: replicate 0: tcp\.csv has changed"):
        staleness.lines([CELL], results)
