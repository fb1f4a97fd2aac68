"""The captured state of real runs, and the layouts of the kernels that made them."""

import json
import os
import re
import shutil

import pytest

from losslab import api, new
from losslab.campaign import state
from losslab.campaign.instrument import instrument
from losslab.campaign.replicate import run
from losslab.emulation import capture
from losslab.instrument import csource, kernel, kernels, kernelsource, kerneltree
from losslab.study.condition import Condition
from tests.e2e.conftest import COMPILES
from tests.e2e.test_measure import measure
from tests.faults.kit import contents, losslab

FILE = capture.name(capture.STATE)
BULK = ["--rate-mbit", 20, "--rtt-ms", 20, "--buffer-packets", 60]
PHASES = ["STARTUP", "DRAIN", "PROBE_BW", "PROBE_RTT", "PROBE_BW"]
# An algorithm of each kernel, and those of which the layouts are compiled again here; all of them
# take a minute.
KERNELS = {"6.12": {"bbr"}, "6.12-bbr3": {"bbr3"}, "7.2": {"dctcp"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Measure BBR with its state, and CUBIC without it."""
    made = tmp_path_factory.mktemp("runs")
    words = ["--algorithm", "bbr", *BULK, "--duration-s", 12, "--capture", "state"]
    assert measure(made / "bbr", *words).returncode == 0
    words = ["--algorithm", "cubic", "--loss-percent", 1, "--competitor", "bbr", *BULK]
    assert measure(made / "without", *words).returncode == 0
    assert measure(made / "with", *words, "--capture", "state").returncode == 0
    return made


def test_bbr_passes_its_phases_also_in_a_plot_and_estimates_the_bottlenecks_rate(folder):
    rows = api.Run(folder / "bbr").state()
    rows = rows[rows["flow"] == 40001]
    found = state.phases(rows)
    assert [name for _, _, name in found] == PHASES
    begin_s, end_s, _ = found[3]
    assert 10 < begin_s < 12
    assert 0.2 < end_s - begin_s < 0.3  # 200 ms and a round trip
    settled = rows[rows["t_s"].between(2, 10)]
    # 20 Mbit/s on the link are 19.13 Mbit/s of payload in packets of 1448 bytes.
    assert settled["max_bw_mbit"].between(18.9, 20).all()
    assert settled["min_rtt_ms"].between(20, 20.1).all()
    assert set(settled["pacing_gain"]) == {0.75, 1, 1.25}
    assert rows["t_s"].is_monotonic_increasing
    done = losslab("plot", folder / "bbr", "--state")
    assert done.returncode == 0, done.stderr
    phases = next(line for line in done.stdout.splitlines() if "phases:" in line)
    names = re.findall(r"([A-Z_]+) [\d.]+ s", phases)
    assert names[:3] == ["STARTUP", "DRAIN", "PROBE_BW"]
    assert set(names) <= {"STARTUP", "DRAIN", "PROBE_BW", "PROBE_RTT"}
    assert "\nmax_bw_mbit\n" in done.stdout


def test_state_changes_no_other_byte_and_has_cubics_window_and_both_flows(folder):
    without, captured = contents(folder / "without"), contents(folder / "with")
    assert set(captured) - set(without) == {FILE}
    manifest = json.loads(captured["manifest.json"])
    assert manifest.pop("captures") == ["state"]
    assert manifest["files"].pop(FILE)
    assert manifest == json.loads(without["manifest.json"])
    assert [n for n in without if n != "manifest.json" and without[n] != captured[n]] == []
    # A run without it is measured again, and has the same state.
    rows = api.Run(folder / "without").state()
    assert rows.equals(api.Run(folder / "with").state())
    assert not (folder / "without" / FILE).exists()
    cubic = rows[(rows["flow"] == 40001) & (rows["w_max_packets"] > 0)]
    assert len(cubic) > 100
    assert (cubic["w_max_packets"] >= cubic["ssthresh_packets"]).mean() > 0.9
    assert {"bbr", "cubic"} == set(rows["algorithm"])
    assert losslab("rerun", folder / "with").returncode == 0


def test_fast_run_has_more_events_than_the_kernel_holds(tmp_path):
    words = ["--algorithm", "bbr", "--rate-mbit", 1000, "--rtt-ms", 20, "--buffer-packets", 1650]
    done = measure(tmp_path / "out", *words, "--duration-s", 3, "--capture", "state")
    assert done.returncode == 0, done.stderr
    events = state.read(tmp_path / "out" / FILE).events
    assert events.nbytes > 2**25


@COMPILES
def test_own_algorithms_field_is_there_by_its_name(campaign_folder, tmp_path):
    path = campaign_folder / "algorithms" / "mine" / "tcp_mine.c"
    path.parent.mkdir(parents=True)
    path.write_text(kernels.source_of(new.TEMPLATE).read_text().replace('"template"', '"mine"'))
    condition = Condition(
        algorithm="mine", loss_percent=1, rtt_ms=10, rate_mbit=20, buffer_packets=50, duration_s=2,
        warmup_s=0.5,
    )  # fmt: skip
    tools = instrument(spec=kernels.get(kernels.DEFAULT, ["mine"]))
    manifest = run(condition, 1, tmp_path / "run", tools, captures=["state"])
    assert manifest["reasons"] == []
    rows = api.Run(tmp_path / "run").state()
    losses = rows[rows["flow"] == 40001]["losses"]
    assert losses.is_monotonic_increasing
    assert 5 < losses.iloc[-1] <= manifest["summary"]["retransmits"]
    assert state.variables(rows, "mine") == ["losses"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--where", "host", "--shaper", "tbf"], "this machine's own kernel"),
        (["--app", "quic"], "whose congestion control is a program's"),
        (["--app", "datagram", "--scheme", "bbr", "--trace", "cellular"],
         "whose congestion control is a program's"),
    ],
)  # fmt: skip
def test_state_outside_of_losslabs_kernel_is_refused(tmp_path, words, reason):
    done = measure(tmp_path / "out", "--algorithm", "cubic", *words, "--capture", "state")
    assert done.returncode == 2
    assert reason in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_layouts_are_those_of_the_kernels_sources(name, every):
    kept = kernel.objects(kernels.get(name)).existing()
    if kept is None or not shutil.which("gcc"):
        pytest.skip(f"no object files of the kernel: run `losslab kernel --name {name}`")
    known = csource.typed_layouts(json.loads(kernelsource.TABLE.read_text())[name])
    with kerneltree.own_files(kept) as tree:
        before = {path: os.stat(path).st_mtime_ns for path in (tree / kerneltree.IPV4).iterdir()}
        found = kernelsource.layouts_of_tree(tree, (), None if every else KERNELS[name])
        after = {path: os.stat(path).st_mtime_ns for path in (tree / kerneltree.IPV4).iterdir()}
    assert found == (known if every else {each: known[each] for each in KERNELS[name]})
    assert before == after
