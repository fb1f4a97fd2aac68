"""Settings of the hosts in guests: they have their effects, or end the run at once."""

from dataclasses import replace

import pytest

from losslab.campaign.instrument import instrument
from losslab.campaign.replicate import run
from losslab.emulation.goodput import read_rows
from losslab.instrument import kernel, kernels
from losslab.study.condition import Condition

PATH = Condition(
    algorithm="cubic", rtt_ms=100, rate_mbit=50, buffer_packets=500, duration_s=3, warmup_s=1
)
LIMITED = "sender:net.ipv4.tcp_wmem=4096 16384 60000"
newest = pytest.mark.skipif(
    kernel.part(kernels.get("7.2")).existing() is None, reason="no kernel 7.2: run `make kernels`"
)


def measured(out, **axes):
    condition = replace(PATH, **axes)
    return run(condition, 1, out, instrument(condition=condition), attempts=1)


def first_flight_bytes(folder):
    """Return the bytes that the data connection's first round trip delivered."""
    rows = [row for row in read_rows(folder / "tcp.csv") if row["flow"] == "40001"]
    return next(octets for row in rows if (octets := int(row["delivered_bytes"])) > 2000)


def test_initial_windows_bound_the_first_flight(tmp_path):
    wide = measured(tmp_path / "wide", initcwnd_packets=40)
    narrow = measured(tmp_path / "narrow", initcwnd_packets=40, initrwnd_packets=5)
    assert wide["reasons"] == narrow["reasons"] == []
    assert wide["machine"]["initial_cwnd_packets"] == 40
    assert first_flight_bytes(tmp_path / "narrow") <= 6 * 1448
    assert first_flight_bytes(tmp_path / "wide") > 10 * 1448


def test_send_buffer_of_ones_own_limits_the_flow_of_a_valid_result(tmp_path):
    found = measured(tmp_path / "out", sysctl=LIMITED, flows="same")
    assert found["reasons"] == []
    state = found["observed"]["state"]["sender"]["sysctls"]
    assert state["net.ipv4.tcp_wmem"] == LIMITED.partition("=")[2]
    assert found["observed"]["flows"][0]["buffer_limited_share"] > 0.5


@newest
def test_kernels_own_defaults_and_what_the_ends_negotiate_are_recorded(tmp_path):
    axes = {"kernel": "7.2", "receive_buffer": "kernel", "ecn": "kernel", "queue": "codel"}
    plain = measured(tmp_path / "plain", **axes)
    both = measured(tmp_path / "both", **axes, sysctl="both:net.ipv4.tcp_ecn=3")
    assert plain["reasons"] == both["reasons"] == []
    state = plain["observed"]["state"]["receiver"]["sysctls"]
    assert state["net.ipv4.tcp_ecn"] == "2"
    assert int(state["net.ipv4.tcp_rmem"].split()[2]) > 6 * 2**20
    assert plain["observed"]["ecn_negotiated"] == "off"
    assert both["observed"]["ecn_negotiated"] == "accurate"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("both:net.ipv4.tcp_sak=0", "did you mean net.ipv4.tcp_sack"),
        ("both:net.ipv4.tcp_rto_max_us=5000", "in each network namespace"),
        ("sender:net.ipv4.tcp_wmem=4096", "write all its values"),
        ("sender:net.ipv4.tcp_sack=yes", "must accept 'yes'"),
        ("sender:net.ipv4.tcp_ehash_entries=kernel+sender:net.ipv4.route.flush=1", "readable"),
        ("sender:net.ipv4.tcp_none=kernel", "in each network namespace"),
    ],
)
def test_sysctl_that_the_kernel_does_not_take_ends_the_run_without_a_number(text, words, tmp_path):
    found = measured(tmp_path / "out", sysctl=text)
    assert not found["valid"]
    assert words in " ".join(found["reasons"])
    assert found["summary"] == {}
