"""Refusals with status 2, before a build, a boot or a written file."""

import pytest

from losslab import cli, sweeps
from losslab.campaign import inputs
from losslab.reading import UsageError
from losslab.study import metrics
from losslab.study.condition import Condition

AXES_WORDS = ["--algorithm", "cubic", "--rate-mbit", "10", "--rtt-ms", "20"]


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch):
    def ran(*_, **__):
        raise AssertionError("work began before the refusal")

    for place in (
        "losslab.runs.at_first_use", "losslab.runs.run", "losslab.sweeps.at_first_use",
        "losslab.sweeps.measure",
    ):  # fmt: skip
        monkeypatch.setattr(place, ran)


@pytest.mark.parametrize("command", ["measure", "sweep"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "/dev/null/x"], "must be in a writable folder"),
        (["--out", "file"], "must be in a writable folder"),
        (["--out", "file/run"], "must be in a writable folder"),
        (["--out", "b" * 256], "must be in a writable folder"),
        (["--out", "new", "--trace", "nope"], "trace nope must be a file"),
        (["--out", "new", "--algorithm", "nope"], "algorithm must be one of"),
        (["--out", "new", "--kernel", "nope"], "kernel must be one of"),
        (["--out", "new", "--image", "nope"], "image must be one of"),
        (["--out", "new", "--pauses", "per_s=1000000000000,min_ms=0.1,max_ms=1"],
         "per_s of pauses must be at most"),
    ],
)  # fmt: skip
def test_command_is_refused_before_it_works(command, words, said, tmp_path, monkeypatch, capsys):
    """Row E: an unwritable output and an unknown trace were refused after the build."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert cli.main([command, *AXES_WORDS, *words]) == 2
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("metric", "said"),
    [("goodputt_mbit", "did you mean goodput_mbit"), ("download_s", "a metric of web")],
)
def test_metric_that_no_cell_has_is_refused_before_the_sweep(metric, said, tmp_path, capsys):
    """Row E: it was refused after everything was measured."""
    out = tmp_path / "out"
    assert cli.main(["sweep", *AXES_WORDS, "--metric", metric, "--out", str(out)]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


def test_metric_of_an_axis_needs_the_axis():
    plain, shared = (Condition(algorithm="cubic", flows=its) for its in ("none", "same"))
    metrics.require_measured("goodput_mbit", [plain])
    metrics.require_measured("flows_goodput_mbit", [plain, shared])
    with pytest.raises(UsageError, match="a metric of flows"):
        metrics.require_measured("flows_goodput_mbit", [plain])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"1\n2\n9999999999999\n", "must last at most 86400000 ms"),
        (b"1\n7200000\n", "must have an opportunity every 300000 ms"),
        ("1\n2\n".encode("utf-16"), "found byte 0xFF"),
        (b"\xef\xbb\xbf1\n2\n", "byte order mark"),
        (b"1\n\x002\n", "control character"),
        (b"1\r\n2\r\n", "whole number of milliseconds"),
        (b"", "must last more than 0 ms"),
        (b"-1\n", "whole number"),
        (b"1e3\n", "whole number"),
        (b"1.5\n", "whole number"),
        (b"2\n1\n", "must not decrease"),
        (b"\xff\n", "must be UTF-8"),
        (b"1" * 100_000, "whole number"),
        (b"1\n" * (inputs.MAX_TRACE_BYTES // 2 + 1), "must have at most"),
    ],
)  # fmt: skip
def test_trace_that_a_link_cannot_follow_is_refused_in_one_line(
    content, said, tmp_path, monkeypatch
):
    """Row E: 18 bytes filled the memory of the host, and UTF-16 was called a bug in losslab."""
    monkeypatch.setattr(inputs, "TRACES", tmp_path)
    (tmp_path / "mine").write_bytes(content)
    with pytest.raises(UsageError, match=said) as error:
        inputs.require([Condition(algorithm="cubic", trace="mine")])
    assert len(error.value.message) < 400
    assert "\n" not in error.value.message


@pytest.mark.parametrize("name", ["duration_s", "warmup_s"])
def test_lengths_of_runs_are_different_cells_of_a_sweep(name, tmp_path):
    """Row A1: all rows of a sweep over durations had one run's number."""
    given = {"algorithm": ["cubic"], name: [0.5, 0.25]}
    given |= {"warmup_s": [0.1]} if name == "duration_s" else {}
    assert len({cell.folder for cell in sweeps.cells(given, tmp_path)}) == 2
