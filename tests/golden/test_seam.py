"""Recorded cells of every app become the recorded numbers: what measures and R agree on names."""

import csv
import dataclasses
import io
import json
import re

import pytest

from losslab.campaign import collect
from losslab.emulation import accounts, hosts, outcome
from losslab.emulation.apps import ffmpeg
from losslab.emulation.flows import Timeline
from losslab.emulation.link import traces
from losslab.emulation.plan import APPS, make_plan
from losslab.emulation.probes import queue, tcp
from losslab.emulation.traffic import Run
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
    """Every table of the recorded cells, by its path."""
    return seam.tables(folder / "made")


@pytest.fixture(scope="module")
def cells(folder):
    """The recorded cells, as `losslab cell` left them."""
    return seam.unpack(folder / "cells")


def test_every_cell_and_app_is_recorded(folder, cells):
    wanted = seam.load_study(seam.project(folder / "project")).cells
    assert {cell.condition.app for cell in wanted} == set(APPS)
    assert {path.name for path in cells.iterdir()} == {cell.name for cell in wanted}
    for cell in wanted:
        found = json.loads((cells / cell.name / "cell.json").read_text())
        assert Condition.from_json(found["condition"]) == cell.condition
        assert len(found["replicates"]) == cell.stopping.least


def test_the_tables_are_those_that_were_recorded(made):
    recorded = {str(path.relative_to(seam.EXPECTED)) for path in seam.EXPECTED.rglob("*.csv")}
    assert set(made) == recorded
    for name, text in made.items():
        assert text == (seam.EXPECTED / name).read_text(), f"{name} differs: {seam.__doc__}"


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_every_app_has_a_verdict_and_every_kind_of_row_is_there(made):
    verdicts = rows(made["claims.csv"])
    assert {row["verdict"] for row in verdicts} == {
        "reproduced", "differs", "undecided", "not measured",
    }  # fmt: skip
    [invalid] = rows(made["tables/seam_invalid.csv"])
    assert "curl on receiver must exit with 0, found 28" in invalid["reasons"]
    assert {row["flow"] for row in rows(made["summary/seam_flows.csv"])} == {"first", "competitor"}


def timeline(plan, folder, observed):
    """When a replicate's flows were started."""
    origin_ns = 0
    if plan.app == "ffmpeg":
        [(_, stamp_ns, _), *_] = ffmpeg.parse_frames((folder / "receiver.log").read_text())
        origin_ns = round(stamp_ns - 1e9 * float(table(folder / "frames.csv")[0]["arrival_s"]))
    if plan.crowd is not None:
        sent = json.loads((folder / plan.crowd.flow.caller.log).read_text())
        [first, *_] = table(folder / "flows.csv")
        started_ns = sent[first["source_port"]]["started_ns"]
        origin_ns = started_ns - round(1e9 * float(first["start_s"]))
    return Timeline(origin_ns, observed["started_s"])


def last_samples(plan, observed):
    """What the kernel said in the end of how long a window or buffer held each flow back."""
    blank = tcp.parse_tcp_info(0, "", bytes(232))
    flows = {flow.name: flow for flow in plan.flows}
    return [
        dataclasses.replace(
            blank, source_port=flows[seen["name"]].source_port, busy_s=1.0,
            rwnd_limited_s=seen["window_limited_share"],
            sndbuf_limited_s=seen["buffer_limited_share"],
        )
        for seen in observed["flows"]
        if seen["name"] in flows  # those beside it are summed up from their own program's words
    ]  # fmt: skip


def table(path):
    return collect.read_csv(path)


def pings(path):
    return [(float(row["t_s"]), float(row["rtt_ms"])) for row in table(path)]


@pytest.mark.parametrize("name", REPLICATES)
def test_a_replicate_is_summed_up_as_it_was(monkeypatch, cells, name):
    """Its raw files, and the state that was read back, make the summary that they made then."""
    folder = cells / name
    manifest = json.loads((folder / "manifest.json").read_text())
    plan = make_plan(Condition.from_json(manifest["cell"]), manifest["seed"])
    observed, summary = manifest["observed"], manifest["summary"]
    for link in plan.links:
        drawn = traces.generate(link.drawn_seed, mean=link.drawn_mbit)
        (folder.parent / link.file).write_text(traces.write(drawn))
    waiting = [
        queue.QueueSample(float(row["t_s"]), *(int(row[key]) for key in list(row)[1:]))
        for row in table(folder / "queue.csv")
    ]
    replies = [(t, rtt) for t, rtt in pings(folder / "ping.csv") if t >= plan.warmup_s]
    run = Run(
        timeline(plan, folder, observed),
        last_samples(plan, observed),
        waiting,
        replies,
        manifest["reasons"],
    )
    # The state before the traffic is not kept, but what was counted between is.
    counted = accounts.Traffic(**observed["traffic"])
    monkeypatch.setattr(accounts, "traffic", lambda *states_and_drops, **more: counted)
    state = observed["state"]
    link_begin_ns = None
    if plan.links:
        link_begin_ns = run.timeline.origin_ns - round(1e6 * observed["link_begin_ms"])
    seen = outcome.Seen(pings(folder / "ping_idle.csv"), state, run, link_begin_ns, state)
    found = outcome.sum_up(plan, seen, folder, None)["summary"]
    assert set(found) == set(summary)
    # The tables that went into it are rounded.
    assert found == pytest.approx(summary, rel=1e-5)
    assert hosts.deviations(plan.hosts, state) == []


def test_claims_and_r_look_at_metrics_that_some_cell_has(root, made):
    """A metric that no app has is a name that was left behind."""
    known = {row["metric"] for row in rows(made["summary/seam.csv"])}
    claimed = {
        claim["metric"]
        for path in (root / "report" / "claims").glob("*.yaml")
        for claim in load_yaml(path)["claims"]
        if "metric" in claim
    }
    assert claimed - known == set()
    looked_at = set()
    for path in (root / "analysis").rglob("*.R"):
        if "tests" not in path.parts:
            text = path.read_text()
            for condition in re.findall(r"metric (?:==|%in%) (?:c\([^)]*\)|\"\w+\")", text):
                looked_at |= set(re.findall(r"\"(\w+)\"", condition))
            vectors = ["measured_metrics", *re.findall(r"metric %in% (\w+)\b(?!\()", text)]
            for vector in re.findall(rf"(?:{'|'.join(vectors)}) <- c\([^)]*\)", text):
                looked_at |= set(re.findall(r"\"(\w+)\"", vector))
    assert len(looked_at) > 15
    assert looked_at - known == set()
