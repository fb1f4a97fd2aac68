"""Values that mean something else than a user may think: refused, or with a note."""

import pytest

from losslab import cellspec
from losslab.reading import UsageError
from losslab.study import names, units
from losslab.study.condition import Condition


def notes(**axes):
    condition = cellspec.condition({"algorithm": "cubic"} | axes)
    point = condition.to_json()
    return [*units.notes({}, [point]), *names.unusual_parameters(condition)]


@pytest.mark.parametrize(
    ("percent", "note"),
    [
        (0.01, "loss_percent 0.01 is 1 packet in 10,000; for 1 % of the packets, write 1"),
        (0.05, "loss_percent 0.05 is 1 packet in 2,000; for 5 % of the packets, write 5"),
    ],
)
def test_loss_that_may_be_a_fraction_is_explained(percent, note):
    assert notes(loss_percent=percent, rtt_ms=20) == [note]
    assert notes(loss_percent=100 * percent, rtt_ms=20) == []


@pytest.mark.parametrize("beta", [0, 1024, 2000])
def test_parameter_that_reverses_an_algorithm_is_explained(beta):
    assert notes(parameters=f"cubic.beta={beta}") == [
        f"beta of cubic should be in [1, 1023], found {beta}: a loss leaves beta/1024 of the "
        "window: all of it or more, or nothing"
    ]
    assert notes(parameters="cubic.beta=512") == []
    assert Condition("cubic,beta=512").parameters == "cubic.beta=512"


REFUSED = {
    "w10_window": ({"window_bytes": 65536}, "the kernel can give 65535 or 131070"),
    "w10_small_window": ({"window_bytes": 16000}, "the kernel can give 65535"),
    "w4_upload": ({"flows": "same,direction=back"}, "need reverse_rate_mbit"),
    "i4_qdisc": ({"queue": "own", "qdisc": "hhf limit 100"}, "kind of qdisc .* found hhf"),
    "i4_choke": ({"queue": "own", "qdisc": "choke limit 9"}, "kind of qdisc .* found choke"),
    "i5_sysctl": ({"sysctl": "both:net.ipv4.tcp_abc=1"}, r"found net\.ipv4\.tcp_abc"),
    "r_rate": ({"changes": "at_s=1,rate_mbit=0"}, "write outage_s=SECONDS"),
}


@pytest.mark.parametrize("row", REFUSED)
def test_value_that_means_something_else_is_refused_before_a_boot(row):
    axes, message = REFUSED[row]
    with pytest.raises(UsageError, match=message):
        cellspec.condition({"algorithm": "cubic", "rtt_ms": 20, "rate_mbit": 20} | axes)


def test_w10_windows_of_every_scale_and_sysctls_of_interfaces_are_accepted():
    for axes in (
        {"window_bytes": 65535}, {"window_bytes": 65535 << 14},
        {"sysctl": "sender:net.ipv4.conf.all.arp_ignore=1"},
        {"queue": "own", "qdisc": "sfq limit 100"},
    ):  # fmt: skip
        cellspec.condition({"algorithm": "cubic"} | axes)
