"""Recorded cells of every app give the recorded tables: measuring modules and R use equal names."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest

from losslab.emulation import hosts, outcome
from losslab.emulation.accounting import Traffic
from losslab.emulation.flows import Timeline
from losslab.emulation.link import traces
from losslab.emulation.plan import make_plan
from losslab.emulation.probes import queue, tcp
from losslab.emulation.traffic import Run
from losslab.study import features
from losslab.study.condition import Condition
from losslab.study.design import load_yaml
from tests.golden import seam

REPLICATES = sorted(
    str(path.parent.relative_to(seam.CELLS)) for path in seam.CELLS.rglob("manifest.json*")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("seam")


@pytest.fixture(scope="module")
def made(folder):
    """Return the text of every table of the recorded cells, by path."""
    return seam.tables(folder / "made")


@pytest.fixture(scope="module")
def cells(folder):
    """Return the recorded cells in the layout of `losslab cell`."""
    return seam.unpack(folder / "cells")


def test_seam_records_every_cell_and_app(folder, cells):
    wanted = seam.load_study(seam.project(folder / "project")).cells
    assert {cell.condition.app for cell in wanted} == set(features.apps())
    assert {path.name for path in cells.iterdir()} == {cell.name for cell in wanted}
    for cell in wanted:
        found = json.loads((cells / cell.name / "cell.json").read_text())
        assert Condition.from_json(found["condition"]) == cell.condition
        assert len(found["replicates"]) == cell.stopping.minimum


def test_seam_tables_equal_the_recorded_ones(made):
    recorded = {str(path.relative_to(seam.EXPECTED)) for path in seam.EXPECTED.rglob("*.csv")}
    assert set(made) == recorded
    for name, text in made.items():
        assert text == (seam.EXPECTED / name).read_text(), f"{name} differs: {seam.__doc__}"


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_seam_has_every_verdict_and_kind_of_row(made):
    verdicts = rows(made["claims.csv"])
    assert {row["verdict"] for row in verdicts} == {
        "reproduced", "not reproduced", "inconclusive", "not measured",
    }  # fmt: skip
    [invalid] = rows(made["tables/seam_invalid.csv"])
    assert "curl on receiver must exit with 0, found 28" in invalid["reasons"]
    assert {row["flow"] for row in rows(made["summary/seam_flows.csv"])} == {"first", "competitor"}


def observations(plan, folder, manifest):
    """Reconstruct what a replicate observed, from its raw files and its manifest."""
    observed, flows = manifest["observed"], {flow.name: flow.source_port for flow in plan.flows}
    timeline = Timeline(features.apps()[plan.app].origin_ns(folder), observed["started_s"])
    if plan.background is not None:
        origin_ns = features.background().origin_ns(plan.background, folder)
        timeline = Timeline(origin_ns, observed["started_s"])
    blank = tcp.parse_tcp_info(0, "", bytes(tcp.TCP_INFO.size))
    samples = [
        replace(
            blank, source_port=flows[flow["name"]] or 0, algorithm=algorithm, busy_s=1.0,
            rwnd_limited_s=flow["window_limited_share"],
            sndbuf_limited_s=flow["buffer_limited_share"], accurate_ecn=True,
        )
        for flow in observed["flows"] if flow["name"] in flows for algorithm in flow["found"]
    ]  # fmt: skip
    backlog = [
        queue.QueueSample(float(row["t_s"]), *(int(row[key]) for key in list(row)[1:]))
        for row in rows((folder / "queue.csv").read_text())
    ]
    idle, loaded = (
        [(float(r["t_s"]), float(r["rtt_ms"])) for r in rows((folder / name).read_text())]
        for name in ("ping_idle.csv", "ping.csv")
    )
    run = Run(timeline, samples, backlog, [each for each in loaded if each[0] >= plan.warmup_s], [])
    begin_ms, state = observed["link_begin_ms"], observed["state"]
    begin_ns = timeline.origin_ns - round(1e6 * (begin_ms or 0))
    noted = {} if begin_ms is None else {"link_begin_ns": begin_ns}
    counted = Traffic(**observed["traffic"])
    return outcome.Observations(idle, state, run, noted, state, counted=counted)


@pytest.mark.parametrize("name", REPLICATES)
def test_recorded_replicate_has_the_recorded_summary(cells, name):
    """The raw files and the recorded read-back give the recorded summary."""
    folder = cells / name
    manifest = json.loads((folder / "manifest.json").read_text())
    plan = make_plan(Condition.from_json(manifest["cell"]), manifest["seed"])
    assert hosts.deviations(plan.hosts, manifest["observed"]["state"]) == []
    for link in plan.parts.get("links", ()):
        drawn = traces.write(traces.generate(link.drawn_seed, mean=link.drawn_mbit))
        (folder.parent / link.file).write_text(drawn)
    if manifest["valid"]:  # no raw file has curl's exit status
        again = outcome.summarise(plan, observations(plan, folder, manifest), folder, None)
        assert again["summary"] == pytest.approx(manifest["summary"], rel=1e-5, abs=2e-6)


def test_claims_and_r_use_existing_metrics(root, made):
    """A metric that no app has is an outdated name."""
    known = {row["metric"] for row in rows(made["summary/seam.csv"])}
    claimed = {
        claim["metric"]
        for path in (root / "report" / "claims").glob("*.yaml")
        for claim in load_yaml(path)["claims"]
        if "metric" in claim
    }
    assert claimed - known == set()
    read_in_r = set()
    for path in (root / "analysis").rglob("*.R"):
        if "tests" not in path.relative_to(root).parts:
            text = path.read_text()
            for condition in re.findall(r"metric (?:==|%in%) (?:c\([^)]*\)|\"\w+\")", text):
                read_in_r |= set(re.findall(r"\"(\w+)\"", condition))
            vectors = ["measured_metrics", *re.findall(r"metric %in% (\w+)\b(?!\()", text)]
            for vector in re.findall(rf"(?:{'|'.join(vectors)}) <- c\([^)]*\)", text):
                read_in_r |= set(re.findall(r"\"(\w+)\"", vector))
    assert len(read_in_r) > 15
    assert read_in_r - known == set()
