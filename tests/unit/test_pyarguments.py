"""Arguments of the Python interface: converted to Python's types, or refused beforehand."""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import losslab
from losslab import api, pyarguments
from losslab.campaign.cellrun import finished
from losslab.study.condition import Condition
from tests import sealed

NAN = float("nan")
MEASURE = {"algorithm": "cubic", "rate_mbit": 10, "rtt_ms": 20}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"seed": "6"}, "seed must be a whole number, found 6"),
        ({"seed": True}, "seed must be a whole number"),
        ({"seed": np.int64(-1)}, "seed must be from 0"),
        ({"timeout_s": NAN}, "timeout_s must be above 0 and finite, found nan"),
        ({"timeout_s": 0}, "timeout_s must be above 0"),
        ({"timeout_s": "5"}, "timeout_s must be a number"),
        ({"allow_invalid": "no"}, "allow_invalid must be True or False"),
        ({"captures": 5}, "captures must be a list of names"),
        ({"captures": "r9-r8"}, "found r9-r8"),
        ({"out": 5}, "out must be a folder, found 5"),
        ({"out": ""}, "out must be a folder"),
        ({"out": "/dev/null/run"}, "must be in a writable folder"),
        ({"out": "a\0b"}, "must be in a writable folder"),
        ({"loss_percent": True}, "loss_percent must be a number or text, found True"),
        ({"loss_percent": NAN}, "loss_percent must be a finite number"),
        ({"loss_percent": np.array([1, 2])}, "loss_percent must be a number or text"),
        ({"buffer_packets": np.float64(1.5)}, "buffer_packets must be a whole number"),
        ({"backend": ["virtual"]}, "the backend must be one of"),
        ({"backend": "qemu"}, "found qemu on guest"),
        ({"loss_percent": 400}, "loss_percent must be in"),
        ({"algorithm": "nobody"}, "found 'nobody'"),
        ({"trace": "no-such-trace"}, "trace no-such-trace must be a file"),
        ({"bring": Path("/elsewhere"), "app": "command"}, "bring must name a folder or a file"),
    ],
)
def test_wrong_argument_of_measure_is_refused_before_anything_is_written(
    given, said, tmp_path, monkeypatch
):
    """Row E, Python: nan was no limit, a seed of text was stored as text."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(losslab.UsageError, match=said):
        losslab.measure(**MEASURE | given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"loss_percent": []}, "loss_percent must have at least one value, found none"),
        ({"loss_percent": itertools.count()}, "loss_percent must have at most"),
        ({"loss_percent": {"a": 1}}, "must be a value or a list of values"),
        ({"loss_percent": b"12"}, "must be a value or a list of values"),
        ({"loss_percent": [1, [2]]}, "loss_percent must be a number or text"),
        ({"loss_percent": np.zeros((2, 2))}, "loss_percent must be a number or text"),
        ({"loss_percent": [1, NAN]}, "loss_percent must be a finite number"),
        ({"replicates": 2.0}, "replicates must be a whole number"),
        ({"cores": NAN}, "cores must be a whole number"),
        ({"replicates": 0}, "replicates must be from 1"),
        ({"where": "mars"}, "found virtual on mars"),
    ],
)
def test_wrong_argument_of_sweep_is_refused_before_anything_is_written(
    given, said, tmp_path, monkeypatch
):
    """Row E, Python: an empty list of values succeeded with an empty table."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(losslab.UsageError, match=said):
        losslab.sweep(**MEASURE | given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "given",
    [2, 2.0, np.int64(2), np.float32(2), np.array(2), [2, 2.0], (2,), np.array([2, 2]),
     pd.Series([2]), range(2, 3), {2}, (each for each in (2, 2))],
)  # fmt: skip
def test_values_of_numpy_pandas_and_generators_are_pythons(given):
    (value,) = pyarguments.axis_values("loss_percent", given)
    assert type(value) in (int, float)
    assert value == 2


def test_measured_run_has_the_seed_and_limit_that_were_asked_for(monkeypatch, tmp_path):
    """Row E, Python: `np.int64` seeds raised a TypeError after the run."""
    asked = []
    monkeypatch.setattr(api, "at_first_use", lambda *_: None)
    monkeypatch.setattr(api, "instrument", lambda *_: None)
    monkeypatch.setattr(api, "finished", lambda *_: None)
    monkeypatch.setattr(api, "video", lambda *_: None)
    monkeypatch.setattr(api.replicate, "run", lambda *words, **more: asked.append((words, more)))
    with pytest.raises(losslab.LosslabError):  # nothing was written
        losslab.measure(
            **MEASURE,
            seed=np.int64(6),
            timeout_s=np.float32(9),
            captures="r1-r2",
            out=tmp_path / "x",
        )
    (((_, seed, _, _, _, limit_s), more),) = asked
    assert (type(seed), seed, type(limit_s), limit_s) == (int, 6, float, 9.0)
    assert more["captures"] == ["r1-r2"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a finished run's folder, in which `losslab.measure` finds its fingerprint."""
    condition = Condition(**MEASURE)
    now = api.fingerprint.of(condition, "virtual", "guest").to_json()
    manifest = {
        "backend": "virtual", "cell": condition.to_json(), "seed": 1, "valid": True, "reasons": [],
        "summary": {"goodput_mbit": 3}, "instrument": {}, "fingerprint": now, "captures": ["r1-r2"],
        "observed": {}, "plan": {}, "trace_sha256": {}, "video_sha256": None,
    }  # fmt: skip
    sealed.replicate(tmp_path / "run", manifest)
    tools = type("Tools", (), {"backend": "virtual", "where": "guest"})()
    assert finished(tmp_path / "run", condition, 1, tools)
    monkeypatch.setattr(api, "at_first_use", lambda *_: None)
    monkeypatch.setattr(api, "instrument", lambda *_: tools)
    return tmp_path / "run"


def test_finished_run_is_returned_if_it_has_the_captures(run):
    assert losslab.measure(**MEASURE, out=run).folder == run
    assert losslab.measure(**MEASURE, out=run, captures=["r1-r2"]).folder == run


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"captures": ["sender-r1"]}, "the captures r1-r2"),
        ({"rtt_ms": 20.000001}, "rtt_ms 20.0 instead of 20.000001"),
        ({"seed": 2}, "a run with the seed 1"),
    ],
)
def test_folder_of_another_run_is_refused_with_what_differs(run, given, said):
    """Row E, Python: `captures` was ignored on an existing run."""
    with pytest.raises(losslab.UsageError, match=said):
        losslab.measure(**MEASURE | given, out=run)


def test_default_folder_differs_by_seed_captures_and_exact_values():
    folders = {
        api._default_folder(Condition(**MEASURE | more), "virtual", "guest", seed, links)
        for more, seed, links in (
            ({}, 1, ()), ({}, 2, ()), ({}, 1, ("r1-r2",)), ({"duration_s": 3}, 1, ()),
            ({"rtt_ms": 20.000001}, 1, ()),
        )
    }  # fmt: skip
    assert len(folders) == 5


def test_list_of_a_parameters_values_is_a_value_of_the_axis_each():
    given = ["reno", "cubic,beta=512|717"]
    found = ["reno", "cubic,beta=512", "cubic,beta=717"]
    assert pyarguments.axis_values("algorithm", given) == found
