"""Summary of a run for a terminal."""

import dataclasses

import pytest

from losslab import api
from losslab.campaign import limiters
from losslab.ui import runsummary
from losslab.ui.series import axis_text
from tests.golden import seam
from tests.unit.study.test_condition import CONDITION

SUMMARY = {
    "goodput_mbit": 18.910482666666667, "rtt_ms": 40.0, "rtt_loaded_ms": 61.20001,
    "retransmits": 12345, "page_ssthresh_packets": None,
}  # fmt: skip
MANIFEST = {"valid": True, "reasons": [], "cell": CONDITION.to_json(), "seed": 7}


def lines(tmp_path, **more):
    return runsummary.text({**MANIFEST, "summary": SUMMARY, **more}, tmp_path).splitlines()


def test_valid_run_shows_verdict_numbers_with_units_files_and_next_steps(tmp_path):
    for name in ("manifest.json", "tcp.csv"):
        (tmp_path / name).write_text("")
    found = lines(tmp_path)
    assert found[0] == "valid: all checks passed"
    assert "cubic" in found[1]
    assert found[1].endswith("seed 7")
    words = [" ".join(line.split()) for line in found]
    assert "Goodput 18.91 Mbit/s" in words
    assert "Retransmissions 12345 packets" in words
    # The run has no queue.csv, and no tcp.csv with samples.
    assert not any("Queueing delay" in line or "Limited by" in line for line in found)
    assert any(line.startswith("tcp.csv") for line in words)
    assert not any(line.startswith("queue.csv") for line in words)
    assert f"losslab rerun {tmp_path}" in words


def test_value_on_has_the_name_of_its_axis():
    assert axis_text("offloads", "on") == "offloads on"
    assert axis_text("ecn", "on") == "ecn on"
    assert axis_text("algorithm", "cubic") == "cubic"


def test_own_queue_is_named(tmp_path):
    own = {"queue": "own", "qdisc": "sfq limit 9"}
    found = lines(tmp_path, cell=CONDITION.to_json() | own)
    assert "the queue is `sfq limit 9` as tc reads it" in found[2]
    assert not any(line.startswith("note") for line in lines(tmp_path))


def test_rate_is_not_shown_with_a_trace(tmp_path):
    cell = dataclasses.replace(CONDITION, trace="cellular", rate_mbit=1000.0).to_json()
    assert "rate" in lines(tmp_path)[1]
    assert "rate" not in lines(tmp_path, cell=cell)[1]


def test_invalid_run_is_not_offered_for_comparison(tmp_path):
    found = lines(tmp_path, valid=False, reasons=["RTT must be 40 ms", "goodput"])
    assert found[0].startswith("INVALID: 2 checks failed, so do not use these numbers")
    assert not any("rerun" in line for line in found)
    found = lines(tmp_path, valid=False, reasons=["no guest"], summary={})
    assert found[0].startswith("INVALID: 1 check failed")
    assert not any("Mbit/s" in line for line in found[2:])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return the recorded replicates by block: a run of every app."""
    folder = seam.unpack(tmp_path_factory.mktemp("cells"))
    cells = [
        path for path in sorted(folder.iterdir()) if "_bbr" in path.name or "_cubic" in path.name
    ]
    return {path.name.partition("_")[0]: path / "0" for path in cells}


@pytest.mark.parametrize(
    ("block", "limit", "warns"),
    [
        ("bulk", "congestion window", True), ("rivals", "path", False),
        ("video", "sending application", True), ("page", "path", False), ("crowd", "path", False),
        ("datagrams", "path", False), ("programs", "path", False), ("stack", "path", False),
    ],
)  # fmt: skip
def test_run_of_every_app_says_what_limited_it(recorded, block, limit, warns):
    """A13: a flow that its own rate limits must not look like one that the path limits."""
    run = api.Run(recorded[block])
    found = runsummary.text(run.manifest, run.folder).splitlines()
    [line] = [each for each in found if each.startswith("  Limited by")]
    assert line.split("(share of time)")[1].strip().startswith(limit)
    assert any(each.startswith(f"warning: the {limit} limited") for each in found) == warns
    assert next(iter(run.limits)) == limit
    assert sum(run.limits.values()) == pytest.approx(100)


def test_queueing_delay_of_a_full_queue_is_printed_and_in_python(recorded):
    """A9: the printed delay is that of the queue; few pings are in the same FIFO, and some lost."""
    run = api.Run(recorded["rivals"])
    by_ping = run.summary["rtt_loaded_ms"] - run.summary["rtt_ms"]
    assert run.queueing_delay.mean_ms == pytest.approx(by_ping, rel=0.25)
    shown = f"{run.queueing_delay.mean_ms:.4g} ms"
    text = runsummary.text(run.manifest, run.folder)
    assert any("Queueing delay (mean)" in line and shown in line for line in text.splitlines())


def test_delays_behind_a_trace_come_from_its_link_not_from_pings(recorded):
    """A8: the loaded RTT of pings that bypass the link was printed, with a delay of 0 ms."""
    run = api.Run(recorded["datagrams"])
    text = runsummary.text(run.manifest, run.folder)
    assert "Loaded RTT" not in text
    assert run.queueing_delay.p95_ms == run.summary["queue_delay_p95_ms"]
    assert 0 < run.queueing_delay.mean_ms < run.queueing_delay.p95_ms


@pytest.mark.parametrize(
    ("changes", "limits"),
    [({"second_rate_mbit": 5}, []), ({"shaper": "htb-netem"}, ["congestion window"])],
)
def test_backlog_that_is_not_the_paths_queue_is_no_limit(recorded, changes, limits):
    """The backlog of htb-netem includes its netem link; a second queue is not sampled."""
    folder = recorded["bulk"]
    manifest = api.Run(folder).manifest
    manifest = manifest | {"cell": manifest["cell"] | changes}
    full = [
        line if number == 0 else f"{line.split(',')[0]},9,9000,0"
        for number, line in enumerate((folder / "queue.csv").read_text().splitlines())
    ]
    copy = folder.parent / "full"
    copy.mkdir(exist_ok=True)
    (copy / "queue.csv").write_text("\n".join(full))
    (copy / "tcp.csv").write_text((folder / "tcp.csv").read_text())
    assert list(limiters.of_run(copy, manifest).shares) == limits
