"""Refusals with status 2, before a build, a boot or a written file."""

import pytest

from losslab import sweeps
from losslab.campaign import inputs
from losslab.errors import LosslabError
from losslab.reading import UsageError
from losslab.study import metrics
from losslab.study.condition import Condition


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
def test_trace_that_a_link_cannot_follow_is_refused_in_one_line(content, said, campaign_folder):
    """Row E: 18 bytes filled the memory of the host, and UTF-16 was called a bug in losslab."""
    path = campaign_folder / "config/traces/mine"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(UsageError, match=said) as error:
        inputs.require([Condition(algorithm="cubic", trace="mine")])
    assert len(error.value.message) < 400
    assert "\n" not in error.value.message


def test_folder_that_is_no_trace_is_refused(campaign_folder):
    (campaign_folder / "config/traces/mine").mkdir(parents=True)
    with pytest.raises(LosslabError, match="must be a file, found a folder"):
        inputs.require([Condition(algorithm="cubic", trace="mine")])


@pytest.mark.parametrize("name", ["duration_s", "warmup_s"])
def test_lengths_of_runs_are_different_cells_of_a_sweep(name, tmp_path):
    """Row A1: all rows of a sweep over durations had one run's number."""
    given = {"algorithm": ["cubic"], name: [0.5, 0.25]}
    given |= {"warmup_s": [0.1]} if name == "duration_s" else {}
    assert len({cell.folder for cell in sweeps.cells(given, tmp_path)}) == 2
