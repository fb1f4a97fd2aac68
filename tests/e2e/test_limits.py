"""Planted causes of what limits a flow; programs that print, set clocks and change qdiscs.

Each cause is planted alone, with two algorithms that meet it in different ways: CUBIC has a window
that the kernel paces, BBR a pacing rate that it estimates.
"""

import json

import pytest

from losslab import api, cli
from losslab.campaign import limiters

PATH = {"rate_mbit": 20, "rtt_ms": 40, "buffer_packets": "2bdp", "duration_s": 3, "warmup_s": 1}
ALGORITHMS = ("cubic", "bbr")
SENDS = "exec iperf3 -c $RECEIVER -p 5000 -t 9"
PROGRAMS = {"app": "command", "sender_command": SENDS, "receiver_command": "exec iperf3 -s -p 5000"}
# The cause, its axes, and the limit of most of the time: of CUBIC and of BBR.
PLANTED = {
    "rate": ({}, "path", "path"),
    "competitor": ({"competitor": "cubic"}, "path", "path"),
    "policer": ({"policer_mbit": 5, "policer_burst_packets": 20}, "path", "path"),
    "loss": ({"loss_percent": 2, "rtt_ms": 80}, "congestion window", "path"),
    "timeouts": ({"loss_percent": 25}, "congestion window", "congestion window"),
    "window": ({"window_bytes": 65535, "rtt_ms": 100}, "receive window", "receive window"),
    "scaling": (
        {"sysctl": "both:net.ipv4.tcp_window_scaling=0", "rtt_ms": 100}, "receive window",
        "receive window",
    ),
    "receive-buffer": (
        {"receive_buffer": "kernel", "sysctl": "receiver:net.ipv4.tcp_rmem=4096 20000 20000"},
        "receive window", "receive window",
    ),
    "send-buffer": (
        {"sysctl": "sender:net.ipv4.tcp_wmem=4096 16384 16384"}, "send buffer", "send buffer"
    ),
    "application": (
        {"app": "stream", "app_rate_mbit": 4}, "sending application", "sending application"
    ),
    "requests": (
        {"app": "stream", "response_kb": 10, "think_ms": 200}, "sending application",
        "sending application",
    ),
    "fq-rate": (
        PROGRAMS | {"sender_command": f"{SENDS} --fq-rate 4M"}, "pacing", "pacing"
    ),
    "fq-crawl": (
        PROGRAMS | {"sender_command": f"{SENDS} --fq-rate 100k -l 1000", "rtt_ms": 20}, "pacing",
        "pacing",
    ),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def guests(shared_guests):
    """Share the guests."""


@pytest.mark.parametrize("cause", PLANTED)
def test_planted_cause_is_what_limits_the_flow(tmp_path, cause):
    axes, *limits = PLANTED[cause]
    for algorithm, limit in zip(ALGORITHMS, limits, strict=True):
        run = api.measure(
            algorithm=algorithm, out=tmp_path / algorithm, allow_invalid=True, **(PATH | axes)
        )
        assert next(iter(run.limits)) == limit, (algorithm, run.limits, run.violations)
        # What limits is also warned of, unless it is the path, or was meant.
        silent = limit == "path" or axes.get("app") == "stream"
        # Runs of 3 s are short for two flows to share; that is said, and is no limit.
        limits_named = [line for line in run.warnings if not line.startswith("the start may")]
        assert bool(limits_named) != silent, (algorithm, run.warnings)


def test_w3_window_that_limits_bbr_is_named_and_not_its_pacing(tmp_path):
    run = api.measure(
        algorithm="bbr", rate_mbit=50, rtt_ms=100, buffer_packets="2bdp", window_bytes=65535,
        duration_s=3, warmup_s=1, out=tmp_path / "run",
    )  # fmt: skip
    assert run.limits["receive window"] == pytest.approx(run.summary["rwnd_limited_percent"], abs=2)
    assert any("receive window limited this flow" in line for line in run.warnings)


def test_b5_sweep_names_the_window_behind_bbrs_estimate(tmp_path, capsys):
    words = ["--algorithm", "bbr", "--rate-mbit", "100", "--rtt-ms", "100", "--replicates", "2"]
    words += ["--loss-percent", "10,15", "--duration-s", "6", "--out", str(tmp_path / "sweep")]
    assert cli.main(["sweep", *words, "--json"]) == 0
    said = capsys.readouterr()
    lines = json.loads(said.out)["warnings"]
    assert any(limiters.ESTIMATE in line and "loss_percent 15" in line for line in lines)
    assert all("try --receive-buffer large" in line for line in lines if "receive" in line)
    assert "of 4 runs" in said.err
    # Without the limit, nothing is said, and the goodput is higher.
    large = api.sweep(
        algorithm="bbr", rate_mbit=100, rtt_ms=100, replicates=2, loss_percent=[10, 15],
        duration_s=6, receive_buffer="large", out=tmp_path / "large",
    )  # fmt: skip
    assert not any("receive" in line for line in large.warnings)
    small = api.read(tmp_path / "sweep").means()["mean"].to_numpy()
    assert (large.means()["mean"].to_numpy() > 1.1 * small).all()


def test_i2_short_flow_with_ecn_is_valid(tmp_path):
    """Only 3 of its 10 packets carry data, and thus ECT."""
    run = api.measure(
        algorithm="cubic", app="stream", ecn="on", size_kb=3, rate_mbit=10, rtt_ms=20, duration_s=1,
        warmup_s=0, out=tmp_path / "run",
    )  # fmt: skip
    assert run.valid


HOSTILE = {
    # T5: 287 MB were left in the run's folder.
    "prints": ("head -c 200000000 /dev/zero | tr '\\0' x", "must print at most 64 MiB"),
    # W5: "Loaded RTT" was 189,388,777,951 ms.
    "clock": ("date -s 2030-01-01", "no program may set a clock"),
    # W6: 94 packets were in a queue of 5.
    "qdisc": (
        "for p in /proc/[0-9]*; do nsenter --net=$p/ns/net sh -c '"
        "tc qdisc show dev r1-r2 | grep -q . && tc qdisc add dev lo root pfifo && "
        "tc qdisc del dev lo root' 2>/dev/null; done; true",
        "no program may change a qdisc during the run, found that one did on r1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_t5_w5_w6_program_that_would_falsify_a_run_makes_it_invalid(tmp_path, what):
    command, violation = HOSTILE[what]
    axes = PATH | PROGRAMS | {"sender_command": f"sleep 0.5; {command}; {SENDS}"}
    run = api.measure(algorithm="cubic", out=tmp_path / "run", allow_invalid=True, **axes)
    assert violation in " ".join(run.violations)
    assert sum(path.stat().st_size for path in run.folder.rglob("*")) < 20e6


def test_w6_samples_of_the_queue_in_a_long_run_are_no_change_of_a_qdisc(tmp_path):
    """The watch receives an answer per sample: with the kernel's buffer, 33 s were too many."""
    axes = PATH | PROGRAMS | {"sender_command": SENDS, "duration_s": 40, "rate_mbit": 0.7}
    assert api.measure(algorithm="bbr", out=tmp_path / "run", **axes).valid


@pytest.mark.parametrize("seed", [1, 2])
def test_i1_short_flows_whose_first_packets_are_lost_have_no_negative_goodput(tmp_path, seed):
    """With seed 2, none of the three flows delivers anything until the end."""
    path = ["--rate-mbit", "5", "--rtt-ms", "2", "--buffer-packets", "2", "--queue", "pie"]
    flows = ["--flows", "cubic,count=3,start_s=200ms,every_s=0.1,size_kb=3", "--seed", str(seed)]
    times = ["--duration-s", "1.5", "--warmup-s", "0.5", "--out", str(tmp_path / "run")]
    assert cli.main(["measure", "--algorithm", "westwood", *path, *flows, *times]) == 0
    summary = json.loads((tmp_path / "run/manifest.json").read_text())["summary"]
    # Three flows of 3 kB have at most 72 kbit in a second.
    assert 0 <= summary["flows_goodput_mbit"] <= 0.072
    assert (summary["flows_goodput_mbit"] == 0) == (seed == 2)
