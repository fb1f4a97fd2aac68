"""Series of recorded replicates."""

import dataclasses
import shutil

import pytest

from losslab.emulation.goodput import read_rows
from losslab.errors import LosslabError
from losslab.ui import series
from tests import sealed


def named(run):
    return {(each.panel, each.name, each.flow) for each in run.series}


def test_bulk_run_has_every_panel_with_the_files_numbers(recorded):
    folder = recorded("rivals") / "0"
    run = series.load(folder)
    assert {each.panel for each in run.series} == set(series.PANELS)
    columns = {
        "received": ("intervals.csv", "goodput_mbit"),
        "ping": ("ping.csv", "rtt_ms"),
        "queue": ("queue.csv", "backlog_packets"),
        "dropped at the bottleneck": ("queue.csv", "drops"),
    }
    by_name = {each.name: each for each in run.series if each.flow != "competitor"}
    for name, (file, column) in columns.items():
        rows = read_rows(folder / file)
        assert by_name[name].values.tolist() == [float(row[column]) for row in rows]
        assert by_name[name].t_s.tolist() == [float(row["t_s"]) for row in rows]


def test_competing_flows_have_distinct_names(recorded):
    run = series.load(recorded("rivals") / "0")
    found = named(run)
    assert {("cwnd", "cwnd", "first"), ("cwnd", "cwnd", "competitor")} <= found
    goodputs = {name for name in found if name[0] == "goodput"}
    assert goodputs == {("goodput", "received", "first"), ("goodput", "received", "competitor")}
    labels = {each.label for each in run.series if each.panel == "cwnd"}
    assert {"cwnd", "cwnd, competitor"} <= labels


def test_flow_without_receiver_samples_has_the_senders_values(recorded, tmp_path):
    shutil.copytree(recorded("rivals") / "0", tmp_path / "run")
    (tmp_path / "run" / "competitor-intervals.csv").unlink()
    sealed.reseal(tmp_path / "run")
    goodputs = {name for name in named(series.load(tmp_path / "run")) if name[0] == "goodput"}
    assert goodputs == {("goodput", "received", "first"), ("goodput", "acknowledged", "competitor")}
    lines = {(each.name, each.flow): each for each in series.load(tmp_path / "run").series}
    rows = read_rows(tmp_path / "run" / "tcp.csv")
    counts = [int(row["delivered_bytes"]) for row in rows if row["flow"] == "40002"]
    drawn = sum(lines["acknowledged", "competitor"].values) * series.BIN_S / 8 * 1e6
    assert drawn == pytest.approx(counts[-1])


def test_trace_driven_link_has_its_carried_rate(recorded):
    folder = recorded("datagrams") / "0"
    run = series.load(folder)
    (carried,) = (each for each in run.series if each.name == "carried by the link")
    log = [line.split() for line in (folder / "link.log").read_text().splitlines()]
    sent = sum(int(words[2]) for words in log if len(words) == 4)
    assert sum(carried.values) * series.BIN_S / 8 * 1e6 == pytest.approx(sent)
    assert carried.t_s[0] <= 1.0
    # Its clock is that of the traffic: it ends with the traffic and the queue.
    assert carried.t_s[-1] < run.condition.duration_s + 5


def test_video_goodput_is_computed_from_frames(recorded):
    folder = recorded("video") / "0"
    (received,) = (s for s in series.load(folder).series if s.name == "received")
    sent_bits = 8 * sum(int(row["bytes"]) for row in read_rows(folder / "frames.csv"))
    drawn_bits = sum(received.values) * series.BIN_S * series.BITS_PER_MBIT
    assert drawn_bits == pytest.approx(sent_bits)


def test_replicates_of_a_cell_are_in_order(tmp_path):
    cell = tmp_path / "cells" / "a"
    for number in (10, 2, 0):
        (cell / str(number)).mkdir(parents=True)
        (cell / str(number) / "manifest.json").write_text("{}")
    assert [path.name for path in series.replicates(cell)] == ["0", "2", "10"]
    assert series.replicates(cell / "2" / "manifest.json") == [cell / "2"]
    with pytest.raises(LosslabError, match=f"such as {cell}"):
        series.replicates(tmp_path)


def test_malformed_table_is_named_with_its_folder(recorded, tmp_path):
    shutil.copytree(recorded("rivals") / "0", tmp_path / "run")
    (tmp_path / "run" / "tcp.csv").write_text("time,flow\n1,40001\n")
    sealed.reseal(tmp_path / "run")
    with pytest.raises(LosslabError, match=r"tables in .*run must be as losslab writes them"):
        series.load(tmp_path / "run")


def test_runs_are_named_by_their_differences_or_by_seed_and_folder(recorded):
    runs = [series.load(recorded(name) / "0") for name in ("bulk_cubic", "bulk_bbr")]
    assert series.labels(runs) == ["cubic", "bbr"]
    assert series.labels(runs, without=["algorithm"]) == ["", ""]
    more = [*runs, series.load(recorded("rivals") / "0")]
    assert series.labels(more)[2] == "cubic, loss 0 %, rate 5 Mbit/s, competitor bbr"
    drops = {"drop_list": f"data {','.join(map(str, range(99)))}"}
    manifest = runs[0].manifest | {"cell": runs[0].manifest["cell"] | drops}
    long = series.labels([runs[0], dataclasses.replace(runs[0], manifest=manifest)])
    assert long == ["drop list none", "drop list data 0,1,2,3,4,5,6,7,8,9,10,11,12,13,…"]
    cell = recorded("bulk_cubic")
    runs = [series.load(cell / number) for number in ("0", "1", "1")]
    seeds = [run.manifest["seed"] for run in runs]
    names = series.distinguish(runs, ["", "", ""])
    assert names[0] == f"seed {seeds[0]}"
    assert names[1] == f"seed {seeds[1]}, {cell / '1'}"
