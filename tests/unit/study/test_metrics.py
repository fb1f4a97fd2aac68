"""Metrics: each is declared once and computed somewhere."""

import dataclasses
import gzip
import json
import re

import pytest

from losslab.reading import UsageError
from losslab.study import metrics
from losslab.study.condition import AXES, Condition
from losslab.tools.realtime.watch import Findings
from tests.sources import tracked

HEAD = "name\tlabel\tunit\tbetter\tprimary\tof\tdescription\n"
APPS = set(AXES["app"].choices)
# Providers of metrics besides apps and axes.
OTHERS = {"every", "TCP", "analysis", "real-time"}


def words_of(*patterns):
    """Return names in source files that could be metrics."""
    text = "\n".join(path.read_text() for path in tracked(*patterns))
    return set(re.findall(r"[a-z][a-z0-9_]+", text))


def test_every_declared_metric_is_computed():
    guest = words_of("src/losslab/emulation/*.py")
    guest |= {f"competitor_{word}" for word in guest}
    guest |= {f"machine_{field.name}" for field in dataclasses.fields(Findings)}
    after = words_of("analysis/*.R", "src/losslab/campaign/tables.py")
    after |= {f"{name}_goodput_mbit" for name in ("early", "late", "whole")}
    for name, its in metrics.declared().items():
        own = name.removeprefix("flows_LABEL_")
        assert own in (after if its.of == ("analysis",) else guest), name


def test_recorded_summaries_have_only_declared_metrics():
    found = set()
    for path in tracked("tests/golden/*manifest.json.gz"):
        found |= json.loads(gzip.decompress(path.read_bytes()))["summary"].keys()
    assert len(found) > 30
    assert metrics.undeclared(dict.fromkeys(found)) == []
    assert metrics.undeclared({"goodput_mbits": 1.0}) == [
        "metrics must be declared, in config/metrics.tsv or by their module, found goodput_mbits"
    ]


def test_every_app_has_a_primary_metric_of_which_the_first_with_a_value_counts():
    primary = [metrics.declared()[name] for name in metrics.primary_names()]
    assert [its.name for its in primary] == [
        "goodput_mbit", "download_s", "throughput_mbit", "rtt_ms",
    ]  # fmt: skip
    assert {app for its in primary for app in its.of} >= APPS
    assert metrics.primary_value({"goodput_mbit": 5.0, "rtt_ms": 1.0}) == 5.0
    assert metrics.primary_value({"goodput_mbit": None, "download_s": 2.0}) == 2.0
    assert metrics.primary_value({}) is None


def test_every_metric_has_a_known_provider_and_ends_with_its_unit():
    ends = {"mbit": "Mbit/s", "ms": "ms", "s": "s", "percent": "%", "packets": "packets"}
    for name, its in metrics.declared().items():
        assert set(its.of) <= APPS | set(AXES) | OTHERS, name
        end = name.rpartition("_")[2]
        if end in ends and "_per_" not in name:
            assert its.unit == ends[end], name


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ("a\tA\tms\tless\t\tevery\tWords.\n" * 2, "each name must be unique"),
        ("a\tA\tms\tless\t1\tevery\tWords.\nb\tB\tms\tless\t1\tevery\tWords.\n", "each primary"),
        ("a\tA\tms\tbetter\t\tevery\tWords.\n", "better"),
        ("a\tA\tms\tless\t\tevery\tno sentence\n", "no sentence"),
        ("A b\tA\tms\tless\t\tevery\tWords.\n", "A b"),
    ],
)
def test_invalid_declaration_is_refused_with_its_place(tmp_path, rows, found):
    path = tmp_path / "metrics.tsv"
    path.write_text(HEAD + rows)
    with pytest.raises(UsageError, match=found) as error:
        metrics.read(path)
    assert str(path) in str(error.value)


def test_unknown_metric_is_refused_with_the_nearest_names():
    (problem,) = metrics.problems("goodput_mbits")
    assert "goodput_mbit" in problem
    assert metrics.problems("goodput_mbit") == []
    with pytest.raises(UsageError) as error:
        metrics.require_declared("goodput_mbits", [])
    assert "goodput_mbit" in error.value.hint
    metrics.require_declared("goodput_mbit", [])


def test_metric_of_an_axis_needs_the_axis():
    plain, shared = (Condition(algorithm="cubic", flows=its) for its in ("none", "same"))
    metrics.require_measured("goodput_mbit", [plain])
    metrics.require_measured("flows_goodput_mbit", [plain, shared])
    with pytest.raises(UsageError, match="a metric of flows"):
        metrics.require_measured("flows_goodput_mbit", [plain])


def test_wrong_declaration_of_a_users_module_is_refused_with_its_file(monkeypatch):
    mine = type("Mine", (), {"metrics": ({"name": "a"},), "__module__": __name__})()
    monkeypatch.setattr(metrics.features, "added", lambda: [mine])
    with pytest.raises(UsageError, match=r"metrics of .*test_metrics.py must follow"):
        metrics.declared.__wrapped__()


def test_metric_of_a_label_is_declared_for_any_label():
    found = metrics.get("flows_bbr_fct_median_s")
    assert (found.name, found.unit, found.better) == ("flows_bbr_fct_median_s", "s", "less")
    assert "bbr" in found.label
    assert "LABEL" not in found.description
    metrics.require_measured("flows_bbr_fct_median_s", [Condition(algorithm="cubic", flows="bbr")])
    assert metrics.undeclared({"flows_my_cc_goodput_mbit": 1.0}) == []
    for name in ("flows_bbr_fct_medians_s", "flows__goodput_mbit", "flows_LABEL2_goodput_mbit"):
        assert metrics.get(name) is None
