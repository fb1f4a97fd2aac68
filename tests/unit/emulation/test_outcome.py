"""Forged observations of recorded runs: each app and each check sees its forgery."""

import copy
import gzip
import json
import math
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from losslab.campaign import inputs
from losslab.emulation import accounting, checks, hosts, outcome, probes
from losslab.emulation.accounting import Traffic
from losslab.emulation.app import apps
from losslab.emulation.apps import ffmpeg
from losslab.emulation.goodput import read_rows
from losslab.emulation.link import tracelink
from losslab.emulation.plan import make_plan
from losslab.emulation.programs import Timeline
from losslab.emulation.traffic import Run
from losslab.study import metrics
from losslab.study.condition import Condition

CELLS = Path(__file__).resolve().parents[2] / "golden" / "cells"
BLANK = probes.parse_tcp_info(0, "", bytes(probes.TCP_INFO.size))


@dataclass(frozen=True)
class Recorded:
    """A recorded replicate, as the guest observed it."""

    plan: object
    observations: outcome.Observations
    counted: Traffic
    folder: Path
    manifest: dict

    def result(self, counted=None, **changes):
        """Summarise the replicate again, with changed observations or counts.

        The counts are those of the manifest, which has no state from before the traffic.
        """
        observations = replace(self.observations, **changes)
        counts = counted or self.counted
        with (
            mock.patch.object(accounting, "traffic", lambda *_, **__: counts),
            mock.patch.object(outcome.background, "of_all_links", lambda *_: counts),
        ):
            return outcome.summarise(self.plan, observations, self.folder, None)


def _pings(path):
    return [(float(row["t_s"]), float(row["rtt_ms"])) for row in read_rows(path)]


# Blocks of the recorded study that are a kind of their own, beside the usual cell of their app.
OF_BLOCKS = ("trace", "requests")


def _origin_ns(plan, folder):
    """Return the clock at the replicate's 0 s, on which some raw files have their times."""
    if plan.background is not None:
        sent = json.loads((folder / plan.background.flow.caller.log).read_text())
        first = read_rows(folder / "flows.csv")[0]
        return sent[first["source_port"]]["started_ns"] - round(1e9 * float(first["start_s"]))
    if plan.app == "ffmpeg":
        [(_, stamp_ns, _), *_] = ffmpeg.parse_frames((folder / "receiver.log").read_text())
        return round(stamp_ns - 1e9 * float(read_rows(folder / "frames.csv")[0]["arrival_s"]))
    if (folder / "requests.csv").exists():
        [flow] = json.loads((folder / "receiver.log").read_text()).values()
        first = float(read_rows(folder / "requests.csv")[0]["sent_s"])
        return round(flow["requests"][0]["sent_ns"] - 1e9 * first)
    return 0


def _load(packed, folder):
    for path in packed.iterdir():
        if path.suffix == ".gz":
            (folder / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    condition, observed = Condition.from_json(manifest["cell"]), manifest["observed"]
    video = None
    if condition.app == "ffmpeg":
        words = observed["commands"]["sender"]
        video = Path(words[words.index("-i") + 1])
    plan = make_plan(condition, manifest["seed"], video)
    texts = inputs.trace_texts(condition)
    for link in plan.parts.get("links", ()):
        drawn = link.drawn_seed and tracelink.generate(link.drawn_seed, mean=link.drawn_mbit)
        text = tracelink.write(drawn) if drawn else texts[link.file]
        (folder.parent / link.file).write_text(text)
    origin_ns = _origin_ns(plan, folder)
    ports = {flow.name: flow.source_port for flow in plan.flows}
    samples = [
        replace(
            BLANK, source_port=ports[its["name"]] or 0, algorithm=found, busy_s=1.0,
            rwnd_limited_s=its["window_limited_share"], accurate_ecn=True,
            sndbuf_limited_s=its["buffer_limited_share"],
        )
        for its in observed["flows"]
        if its["name"] in ports
        for found in its["found"]
    ]  # fmt: skip
    backlog = [
        probes.QueueSample(float(row["t_s"]), *(int(row[key]) for key in list(row)[1:]))
        for row in read_rows(folder / "queue.csv")
    ]
    loaded = [each for each in _pings(folder / "ping.csv") if each[0] >= plan.warmup_s]
    run = Run(Timeline(origin_ns, observed["started_s"]), samples, backlog, loaded, [])
    begin_ms = observed["link_begin_ms"]
    noted = {} if begin_ms is None else {"link_begin_ns": origin_ns - round(1e6 * begin_ms)}
    return Recorded(
        plan,
        outcome.Observations(
            _pings(folder / "ping_idle.csv"), observed["state"], run, noted, observed["state"],
        ),
        Traffic(**observed["traffic"]), folder, manifest,
    )  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return a valid recorded replicate of each app, and one with background flows."""
    found = {}
    for packed in sorted(CELLS.glob("*/0")):
        folder = tmp_path_factory.mktemp("run") / "raw"
        folder.mkdir()
        its = _load(packed, folder)
        if its.manifest["valid"]:
            block = packed.parent.name.partition("_")[0]
            kind = "flows" if its.plan.background else its.plan.app
            found[block if block in OF_BLOCKS else kind] = its
    return found


@pytest.mark.parametrize("packed", sorted(CELLS.glob("*/0")), ids=lambda path: path.parent.name)
def test_recorded_raw_files_give_the_recorded_summary(packed, tmp_path):
    """A metric renamed in the measuring modules, but not in the recorded seam, is found here."""
    (tmp_path / "raw").mkdir()
    its = _load(packed, tmp_path / "raw")
    assert hosts.deviations(its.plan.hosts, its.manifest["observed"]["state"]) == []
    if its.manifest["valid"]:  # no raw file has curl's exit status
        result = its.result()
        assert result["summary"] == pytest.approx(its.manifest["summary"], 1e-5, 2e-6)
        assert result["reasons"] == []


KINDS = [*apps(), "flows", *OF_BLOCKS]


class Reads(dict):
    """A summary that records which metrics are read."""

    def __init__(self, summary):
        super().__init__(summary)
        self.names = []

    def __getitem__(self, name):
        self.names.append(name)
        return super().__getitem__(name)


@pytest.mark.parametrize("kind", KINDS)
def test_goodput_that_is_ten_times_too_high_is_a_violation(recorded, kind, monkeypatch):
    """A3: the check got 0.0 for datagram, quic and web, so it could not fire."""
    its = recorded[kind]
    app = apps()[its.plan.app]
    honest = app.collect(its.plan, its.folder, its.observations.run.timeline)
    reads = Reads(honest)
    assert app.goodputs(reads, its.plan)
    names = [name for name in reads.names if honest[name] is not None]
    assert names
    for name in names:
        reasons = []
        # A rate is too high, or a time too short or too long.
        for factor in (10, 0.1):
            forged = {**honest, name: honest[name] * factor}
            monkeypatch.setattr(type(app), "collect", lambda *_, forged=forged: dict(forged))
            reasons += its.result()["reasons"]
        assert any(reason.startswith("goodput must be at most") for reason in reasons), name


@pytest.mark.parametrize("value", [math.nan, math.inf, [1.0, -math.inf]])
def test_metric_that_is_not_finite_is_a_violation_and_absent(recorded, value, monkeypatch):
    its = recorded["flows"]
    app = type(apps()[its.plan.app])
    collect = app.collect
    monkeypatch.setattr(app, "collect", lambda *words: {**collect(*words), "mine_s": value})
    found = its.result()
    assert found["summary"]["mine_s"] is None
    assert [each for each in found["reasons"] if each.startswith("mine_s must have finite")]
    json.dumps(found, allow_nan=False)


def test_goodput_of_background_flows_that_is_too_high_is_a_violation(recorded, monkeypatch):
    """A3: the goodput of all flows over a bottleneck is compared with its rate."""
    its, collect = recorded["flows"], outcome.background.collect

    def forged(*args, **options):
        found = collect(*args, **options)
        return replace(found, first_mbit=10 * found.first_mbit)

    monkeypatch.setattr(outcome.background, "collect", forged)
    reasons = its.result()["reasons"]
    assert any(reason.startswith("goodput must be at most the link's") for reason in reasons)


def _slower_path(its):
    return {"idle": [(t_s, rtt_ms + 50) for t_s, rtt_ms in its.observations.idle]}


def _counted(**more):
    def change(its):
        counts = its.counted
        added = {name: getattr(counts, name) + count for name, count in more.items()}
        return {"counted": replace(counts, **added)}

    return change


# By check: forgeries of the observations of any app.
FORGERIES = {
    "_of_path": {"slower path": _slower_path, "no ping": lambda _: {"idle": []}},
    "_of_packets": {
        "lost": _counted(received=-5), "unexplained": _counted(sent=5),
        "sender drops": _counted(sender_drops=1), "reordered": _counted(reordered=1),
        "lost on the reverse path": _counted(received_back=-5),
        "aggregates": _counted(largest_mean_packet_bytes=10_000.0),
    },
    "_of_loss": {
        "too much loss": _counted(received=-200, loss_drops=200),
        "loss on the reverse path": _counted(received_back=-20, loss_back_drops=20),
    },
    "_of_flows": {"no memory": _counted(memory_pressures=1)},
}  # fmt: skip


def test_every_check_has_a_forgery():
    # Goodput has tests of its own above, and the exact link in test_exact_link.py.
    others = {"_of_goodput", "_of_bottleneck"}
    assert {check.__name__ for check in checks.CHECKS} == {*FORGERIES, *others}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change", [pytest.param(c, id=name) for its in FORGERIES.values() for name, c in its.items()]
)
def test_forged_observation_is_a_violation(recorded, kind, change):
    its = recorded[kind]
    assert its.result(**change(its))["reasons"]


@pytest.mark.parametrize("kind", KINDS)
def test_other_algorithm_or_limited_flow_is_a_violation(recorded, kind):
    """The kernel's own record of each connection is compared with the condition."""
    its = recorded[kind]
    run = its.observations.run
    if not any(flow.protocol == "tcp" for flow in its.plan.flows):
        pytest.skip("its programs have their own congestion control")
    for samples in ([replace(each, algorithm="htcp") for each in run.last_samples], []):
        reasons = its.result(run=replace(run, last_samples=samples))["reasons"]
        assert any("must use" in reason for reason in reasons)
    limited = [replace(each, sndbuf_limited_s=0.5) for each in run.last_samples]
    reasons = its.result(run=replace(run, last_samples=limited))["reasons"]
    bulk = any(flow.bulk for flow in its.plan.flows)
    assert any("buffers must not limit" in reason for reason in reasons) == bulk


def test_flow_without_samples_is_a_violation(recorded):
    its = recorded["iperf3"]
    table = its.folder / "tcp.csv"
    text = table.read_text()
    try:
        lines = text.splitlines()
        early = [line for line in lines[1:] if float(line.split(",")[0]) > 0.4]
        table.write_text("\n".join([lines[0], *(f"{e.rpartition(',')[0]},0" for e in early)]))
        reasons = its.result()["reasons"]
    finally:
        table.write_text(text)
    assert any("at least one full segment" in reason for reason in reasons)


@pytest.mark.parametrize("kind", KINDS)
def test_every_metric_lies_in_its_range(recorded, kind):
    """A10: `unexplained_packets` was -586, and Jain's index 1.0 of nothing."""
    summary = recorded[kind].result()["summary"]
    assert metrics.undeclared(summary) == metrics.out_of_range(summary) == []
    for name, number in summary.items():
        if number is not None:
            assert metrics.out_of_range({name: -1 - abs(number)}), name
            assert metrics.out_of_range({name: math.nan}), name


def test_trace_driven_link_has_no_loaded_rtt_and_its_drops_are_the_bottlenecks(recorded):
    """A8: the loaded RTT was 40 ms beside a queue that delayed packets by 245 ms."""
    its = recorded["datagram"]
    assert its.plan.path_spec.by_trace
    assert its.result()["summary"]["rtt_loaded_ms"] is None
    assert recorded["iperf3"].result()["summary"]["rtt_loaded_ms"] > 0
    # They were 0 beside 8 of the link.
    counts = replace(its.counted, bottleneck_drops=8, received=1000, sent=1008)
    result = its.result(counted=counts)
    assert result["summary"]["bottleneck_drops"] == 8
    assert not any("packets sent must equal" in reason for reason in result["reasons"])


def test_unexplained_packets_are_absent_if_links_count_aggregates(recorded):
    """A10: with offloads on, a link counts an aggregate as one packet, and a queue its packets."""
    its = recorded["iperf3"]
    loose = replace(its.plan, path_spec=replace(its.plan.path_spec, single_packets=False))
    assert replace(its, plan=loose).result()["summary"]["unexplained_packets"] is None
    assert its.result()["summary"]["unexplained_packets"] == 0


def test_loss_of_a_lossy_sender_is_the_measured_loss(recorded):
    """A14: the measured loss was 0 %, because only the routers' losses counted."""
    its = recorded["iperf3"]
    lossy = replace(its.plan.path_spec, loss_at_sender_percent=1.0)
    at_sender = replace(its, plan=replace(its.plan, path_spec=lossy))
    counts = replace(its.counted, sent=1980, sender_losses=20)
    summary = at_sender.result(counted=counts)["summary"]
    assert (summary["loss_packets"], summary["loss_offered_packets"]) == (20, 2000)
    assert summary["loss_measured_percent"] == 1.0


def test_packets_that_a_lossy_sender_drops_are_counted(recorded):
    """A14: aggregates are dropped whole; netem counts the packets of those that it sends."""
    after = recorded["iperf3"].observations.after
    before = copy.deepcopy(after)
    counters = before["sender"]["counters"]
    for name, count in {"TcpOutSegs": 900, "TcpRetransSegs": 17, "IcmpOutMsgs": 20}.items():
        counters[name] -= count
    [own] = [q for q in before["sender"]["qdiscs"] if q["dev"] == "sender-r1"]
    own["packets"] -= 920
    deltas = accounting.CounterDeltas(before, after)
    assert accounting.traffic(deltas, "r2", lossy_sender=True).sender_losses == 17
    assert accounting.traffic(deltas, "r2").sender_losses == 0


def test_packet_that_is_still_under_way_on_the_reverse_path_is_explained(recorded):
    """A queue of a minute still drains at the second reading, and the receiver answers."""
    before = recorded["iperf3"].observations.after
    after = copy.deepcopy(before)
    after["receiver"]["links"]["receiver-r2"]["tx"]["packets"] += 102
    after["sender"]["links"]["sender-r1"]["rx"]["packets"] += 101
    assert accounting.traffic(accounting.CounterDeltas(before, after), "r2").unexplained_back == 1
    [delay] = [q for q in after["r2"]["qdiscs"] if (q["dev"], q["handle"]) == ("r2-r1", "1:")]
    delay["qlen"] = 1
    assert accounting.traffic(accounting.CounterDeltas(before, after), "r2").unexplained_back == 0


@pytest.mark.parametrize(
    ("ends_on_time", "duration_s", "late"),
    [(True, 2.0, 0), (False, 2.2, 5), (False, 2.3, 3), (False, 9.0, 0)],
)
def test_drops_after_a_fractional_end_do_not_count(ends_on_time, duration_s, late):
    """iperf3 sends for whole seconds: of 2.2 s, drops until 3 s counted."""
    drops = [(0.1, 0), (2.2, 30), (2.3, 32), (2.9, 35)]
    waiting = [probes.QueueSample(t_s, 0, 0, count) for t_s, count in drops]
    plan = SimpleNamespace(ends_on_time=ends_on_time, duration_s=duration_s)
    assert outcome._late_drops(SimpleNamespace(plan=plan, waiting=waiting)) == late
