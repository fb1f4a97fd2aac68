"""The exact link, measured: transfers take what physics says, traces what mahimahi's rules say."""

import csv
import json
import os
import random

import pytest

from losslab.emulation.link import tracelink
from losslab.emulation.link.tracelink import LOGS
from losslab.emulation.probes import ping_frame_bytes
from losslab.instrument import kernel, kernels
from tests.e2e.test_measure import measure
from tests.mahimahi import TraceLink

LINK = ["--shaper", "link", "--algorithm", "cubic"]
SYN_BYTES, ACK_BYTES, SEGMENT_BYTES, HEADER_BYTES = 74, 66, 1448, 66
# Bytes of losslab's own ping, of which some may be in front of the transfer.
PING_BYTES = ping_frame_bytes(4)
# Clock reads of the programs, and timers of four hops.
LATE_US = 6.0
TRANSFERS = 6


def results(folder, *words):
    done = measure(folder, *LINK, *words)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "manifest.json").read_text())["summary"]


def physics_s(octets, rate_mbit, rtt_ms):
    """Return the time of a transfer: SYN, ACK and data over the rate, and 1.5 RTTs."""
    packets, rest = divmod(octets, SEGMENT_BYTES)
    data = octets + HEADER_BYTES * (packets + (rest > 0))
    return (SYN_BYTES + ACK_BYTES + data) * 8 / 1e6 / rate_mbit + 1.5 * rtt_ms / 1e3


def drawn(source):
    """Draw a transfer of 1 to 100 packets whose link has no reason to be idle.

    The RTT is so long that no loss probe is sent, and for more than the initial window so short
    that acknowledgements return before the window is sent.
    """
    packets = round(10 ** source.uniform(0, 2))
    rate_mbit = round(10 ** source.uniform(-0.3, 3), 3)
    packet_ms = 1514 * 8 / 1e3 / rate_mbit
    longest = 4 if packets > 10 else 20
    return packets * SEGMENT_BYTES, rate_mbit, round(packet_ms * source.uniform(1.6, longest), 3)


@pytest.mark.parametrize("number", range(TRANSFERS))
def test_random_transfer_takes_size_over_rate_and_rtt(tmp_path, number):
    seed = int(os.environ.get("LOSSLAB_TEST_SEED", random.randrange(10**6)))
    print(f"LOSSLAB_TEST_SEED={seed}")
    octets, rate_mbit, rtt_ms = drawn(random.Random(seed + number))
    expected_s = physics_s(octets, rate_mbit, rtt_ms)
    found = results(
        tmp_path / "run", "--app", "stream", "--size-kb", f"{octets / 1000}kB", "--rate-mbit",
        rate_mbit, "--rtt-ms", rtt_ms, "--duration-s", round(2 * expected_s + 1), "--warmup-s", 0,
    )  # fmt: skip
    more_us = (found["completion_s"] - expected_s) * 1e6
    print(f"{octets} bytes, {rate_mbit} Mbit/s, {rtt_ms} ms: {more_us:+.2f} us")
    # Each ping in the time of the transfer may be in front of it, whole or in part.
    rows = csv.DictReader((tmp_path / "run/ping.csv").open())
    pings = sum(float(row["t_s"]) <= expected_s + 0.1 for row in rows)
    assert 0 <= more_us <= LATE_US + pings * PING_BYTES * 8 / rate_mbit


# Commands that a token bucket answered up to eight times too fast, and the time of physics in s.
COMMANDS = {
    "aggregates": (
        ["--size-kb", "100kB", "--rate-mbit", 2, "--rtt-ms", 20, "--offloads", "on"],
        "completion_s", physics_s(100_000, 2, 20),
    ),
    "one queue's limit": (
        ["--size-kb", "4kB", "--rate-mbit", 1, "--rtt-ms", 2],
        "completion_s", physics_s(4_000, 1, 2),
    ),
    "responses": (
        ["--response-kb", "2.8kB", "--think-ms", 200, "--rate-mbit", 0.5, "--rtt-ms", 5],
        # Two packets, and a request of 100 bytes before them.
        "response_median_ms", 5 + 2932 * 8 / 500,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_short_transfer_is_not_faster_than_the_link(tmp_path, name):
    words, metric, least = COMMANDS[name]
    found = results(tmp_path / "run", "--app", "stream", *words, "--warmup-s", 0)
    assert least <= found[metric] <= 1.02 * least
    assert found["goodput_mbit"] <= words[3]


TRACES = {"data": "drawn-down", "back": "drawn-up"}


def replayed(root, run, way, packets):
    """Return the log that the rules make of a run's arrivals, and the run's."""
    lines, name = (run / LOGS[way]).read_text().splitlines(), TRACES[way]
    times, made = tracelink.parse((root / "config/traces" / name).read_text(), name), []
    link = TraceLink(times, packets, made.append)
    for line in lines:
        ms, kind, *numbers = line.split()
        if kind == "+":
            link.arrive(int(numbers[0]), int(ms))
    link.advance(int(lines[-1].split()[0]))
    return made, lines


@pytest.mark.parametrize("mtu_bytes", [576, 1500, 9000])
def test_link_of_a_trace_does_with_each_packet_what_mahimahis_rules_say(root, tmp_path, mtu_bytes):
    words = ["--trace", TRACES["data"], "--trace-back", TRACES["back"], "--rate-mbit", 1000]
    results(
        tmp_path / "run", *words, "--rtt-ms", 40, "--buffer-packets", 30, "--duration-s", 4,
        "--mtu-bytes", mtu_bytes,
    )  # fmt: skip
    for way in ("data", "back"):
        made, lines = replayed(root, tmp_path / "run", way, 30)
        assert len(lines) > 300
        assert made == lines


def test_schedule_with_an_outage_and_pauses_are_exact_lists(tmp_path):
    words = ["--rate-mbit", 20, "--rtt-ms", 40, "--buffer-packets", 100, "--duration-s", 6]
    changes = "at_s=2,rate_mbit=5+at_s=4,outage_s=0.5"
    results(tmp_path / "schedule", *words, "--changes", changes)
    manifest = json.loads((tmp_path / "schedule/manifest.json").read_text())
    first, slower, outage, *_ = manifest["observed"]["state"]["r1"]["rates"]["r1-r2 1:"]
    assert first[1:3] == [20_000_000, 0]
    assert 0.97 * 2 * 5e6 / 8 < slower[4] <= 2 * 5e6 / 8 + 1514
    assert outage[2] == 1
    assert outage[5] == outage[3] > 0
    found = results(tmp_path / "pauses", *words, "--pauses", "per_s=50,min_ms=2,max_ms=50")
    assert 5 < found["goodput_mbit"] < 15


# What a trace was once refused with: options, and a metric with its bounds.
WITH_A_TRACE = {
    "background flows": (["--flows", "reno,count=3"], "total_goodput_mbit", (4, 12)),
    "short flows": (["--flows", "cubic,size_kb=50,arrivals_per_s=5"], "goodput_mbit", (2, 12)),
    "uploads": (["--flows", "reno,direction=back"], "queue_back_delay_p95_ms", (80, 2000)),
    "policer": (["--policer-mbit", 3, "--policer-burst-packets", 20], "policer_drops", (20, 500)),
    "ACK thinning": (["--ack-thinning", 4], "acks_thinned", (300, 3000)),
    "marks": (["--ecn", "on", "--queue", "fq_codel"], "ecn_marks", (1, 500)),
    "DCTCP": (
        ["--algorithm", "dctcp", "--ecn", "on", "--queue", "red-step"], "ecn_marks", (20, 5000),
    ),
    "IPv6": (["--ip-version", 6], "goodput_mbit", (4, 12)),
    "cake": (["--queue", "cake"], "goodput_mbit", (1, 12)),
    "fq": (["--queue", "own", "--qdisc", "fq limit 500"], "goodput_mbit", (4, 12)),
    "offloads": (["--offloads", "on"], "goodput_mbit", (4, 12)),
    "outage": (["--changes", "at_s=1,outage_s=0.5"], "goodput_mbit", (1, 12)),
}  # fmt: skip


@pytest.mark.parametrize("name", WITH_A_TRACE)
def test_combination_with_a_trace_is_valid_and_obeys_its_opportunities(root, tmp_path, name):
    words, metric, (least, most) = WITH_A_TRACE[name]
    run = tmp_path / "run"
    found = results(
        run, "--trace", TRACES["data"], "--trace-back", TRACES["back"], "--rtt-ms", 40,
        "--buffer-packets", 100, "--duration-s", 3, *words,
    )  # fmt: skip
    assert least <= found[metric] <= most
    assert found["unexplained_packets"] in (0, None)
    for way, trace in TRACES.items():
        lines = (run / LOGS[way]).read_text().splitlines()
        times = tracelink.parse((root / "config/traces" / trace).read_text(), trace)
        left = [int(line.split()[2]) for line in lines if line.split()[1] == "-"]
        assert len(left) > 100
        # The part of a packet that was sent before a window.
        assert tracelink.excess_bytes(lines, times, 0) < max(left)
        octets = tracelink.capacity_bytes(times, 0, int(lines[-1].split()[0]), 0)
        assert sum(left) <= octets


KERNEL_72 = "7.2"


@pytest.mark.skipif(
    kernel.part(kernels.get(KERNEL_72)).existing() is None, reason="`losslab kernel --name 7.2`"
)
@pytest.mark.parametrize(
    "words",
    [
        ["--rate-mbit", 20, "--queue", "dualpi2", "--ecn", "accurate"],
        ["--rate-mbit", 1000, "--offloads", "on", "--buffer-packets", 500],
        ["--rate-mbit", 20, "--changes", "at_s=1,rate_mbit=5+at_s=2,outage_s=0.3"],
        ["--rate-mbit", 20, "--pauses", "per_s=50,min_ms=2,max_ms=50"],
        ["--trace", TRACES["data"], "--trace-back", TRACES["back"], "--flows", "reno"],
    ],
    ids=["dualpi2", "offloads", "schedule", "pauses", "trace"],
)
def test_link_of_linux_7_2_is_valid(tmp_path, words):
    results(tmp_path / "run", "--kernel", KERNEL_72, "--rtt-ms", 40, "--duration-s", 3, *words)
