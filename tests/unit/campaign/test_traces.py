"""Trace files from anywhere: named by content, kept with runs, and refused if they cannot fit."""

import dataclasses
import re

import pytest

from losslab.backends.base import GUEST, VIRTUAL
from losslab.campaign import fingerprint, inputs
from losslab.emulation.link import tracelink
from losslab.reading import UsageError
from losslab.study.condition import Condition, replicate_seed

TEXT = tracelink.write(range(1, 5001))  # 12 Mbit/s for 5 s
PLAIN = Condition(algorithm="cubic", rtt_ms=40, trace="drawn-down")
# The files of mahimahi, and other names.
MAHIMAHI = [
    f"{network}.{way}"
    for network in (
        "ATT-LTE-driving", "ATT-LTE-driving-2016", "TMobile-LTE-driving", "TMobile-UMTS-driving",
        "Verizon-EVDO-driving", "Verizon-LTE-driving", "Verizon-LTE-short",
    )
    for way in ("up", "down")
]  # fmt: skip


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "cache"


def used(name):
    return dataclasses.replace(PLAIN, trace=inputs.named_trace(str(name)))


@pytest.mark.parametrize("name", [*MAHIMAHI, "my trace (1).down", "ü", "-x", ".hidden", "a_b,c=d"])
def test_any_file_can_be_a_trace(cache, tmp_path, name):
    path = tmp_path / name
    path.write_text(TEXT)
    condition = used(path)
    assert [p for p in condition.problems() if "trace" in p] == []
    assert inputs.trace_texts(condition) == {"trace": TEXT}
    assert re.fullmatch("[a-z0-9._-]+", condition.full_name())


def test_content_and_not_the_name_identifies_a_trace(cache, tmp_path):
    for name, text in (("a", TEXT), ("b", TEXT), ("sub/a", TEXT + "5001\n")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    first, renamed, other = (used(tmp_path / name) for name in ("a", "b", "sub/a"))
    assert replicate_seed(first, 1) == replicate_seed(renamed, 1) != replicate_seed(other, 1)
    assert first.full_name() != other.full_name()
    digests = [
        fingerprint.of(each, VIRTUAL, GUEST).parts[fingerprint.TRACES]
        for each in (first, renamed, other)
    ]
    assert digests[0] == digests[1] != digests[2]


def test_run_is_measured_again_with_the_file_that_it_keeps(cache, tmp_path):
    (tmp_path / "x.down").write_text(TEXT)
    condition = used(tmp_path / "x.down")
    kept = inputs.kept_traces(condition.to_json())
    assert kept == {"trace": TEXT}
    assert inputs.kept_traces(PLAIN.to_json()) == {}
    [copy] = (cache / "traces").iterdir()
    copy.unlink()
    with pytest.raises(UsageError, match="must be a file, by its path"):
        inputs.trace_texts(condition)
    (tmp_path / "trace").write_text(kept["trace"])
    inputs.adopt_traces(tmp_path, condition.to_json())
    assert inputs.trace_texts(condition) == {"trace": TEXT}
    # Another file is not adopted, and a changed copy is not used.
    copy.write_text("1\n")
    with pytest.raises(UsageError, match="must have the content of which it has the digest"):
        inputs.trace_texts(condition)
    copy.unlink()
    (tmp_path / "trace").write_text("1\n")
    inputs.adopt_traces(tmp_path, condition.to_json())
    assert not copy.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [("1.5\n", "whole number"), ("time,mbit\n0,1\n", "whole number"), ("", "0 ms")],
)
def test_file_that_is_no_trace_is_refused_with_the_command_that_converts_it(
    cache, tmp_path, text, said
):
    (tmp_path / "x").write_text(text)
    with pytest.raises(UsageError, match=said) as error:
        inputs.named_trace(str(tmp_path / "x"))
    assert "docs/how-to/paths.md says how to convert other files" in error.value.hint


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"trace_start_s": 5.0}, "trace_start_s must be below the trace's length of 5 s, found 5"),
        ({"trace_start_s": 4.9, "rate_mbit": 1.0}, ""),
    ],
)
def test_trace_that_does_not_fit_the_condition_is_refused(cache, tmp_path, change, said):
    (tmp_path / "x").write_text(TEXT)
    condition = dataclasses.replace(used(tmp_path / "x"), **change)
    if said:
        with pytest.raises(UsageError, match=said):
            inputs.require([condition])
    else:
        inputs.require([condition])
    assert [*inputs.notes(dataclasses.replace(PLAIN, duration_s=14))] == []
    assert [*inputs.notes(dataclasses.replace(PLAIN, duration_s=16))] == [
        "the trace lasts 15 s and repeats in this run, until 16 s"
    ]
