"""Scripts of `losslab path to-tc` on a guest's router: tc takes them, and the path is the same."""

import re
import shlex

import pytest

from losslab import runs
from losslab.campaign.instrument import instrument
from losslab.study.condition import Condition
from losslab.tools.paths import to_tc

BASE = {"algorithm": "cubic", "rate_mbit": 20, "rtt_ms": 40, "buffer_packets": 66}
CONDITIONS = {
    "plain": {},
    "impaired": {
        "loss_percent": 1, "loss_burst_packets": 3, "loss_direction": "both", "reorder_percent": 1,
        "policer_mbit": 30, "ack_thinning": 4, "queue": "fq_codel",
    },
    "jitter": {"jitter_ms": 2, "duplicate_percent": 1, "queue": "cake"},
    "classes": {"queue": "two-fifos"},
    "marking": {"queue": "red-step", "ecn": "on"},
    "Mininet's": {"shaper": "htb-netem"},
}  # fmt: skip
# Without the netem links of losslab, the script's router has the whole path.
BEFORE = "r2 tc qdisc del dev r2-receiver root; r2 tc qdisc del dev r2-r1 root"


@pytest.fixture(scope="module")
def said():
    """Return what the scripts, a ping and a transfer print, by condition."""
    lines = [BEFORE, "receiver iperf3 -s -D"]
    for name, axes in CONDITIONS.items():
        text = to_tc.script(Condition(**BASE | axes)).replace("ethtool", "true")
        run = f"FORWARD=r1-r2; REVERSE=r1-sender; set -- router; {text}"
        lines += [f"echo {shlex.quote(f'== {name}')}", f"r1 sh -c {shlex.quote(run)} 2>&1"]
        lines += ["sender ping -q -c 3 -i 0.2 10.0.3.2", "sender iperf3 -c 10.0.3.2 -t 3 -O 1"]
    condition = Condition(algorithm="cubic")
    _, output = runs.execute("; ".join(lines), condition, 7, instrument(condition=condition))
    return dict(part.split("\n", 1) for part in output.split("== ")[1:])


@pytest.mark.parametrize("name", CONDITIONS)
def test_script_sets_the_path_of_its_condition(said, name):
    assert set(said) == {*CONDITIONS}
    assert not re.search(r"Error|RTNETLINK|not found|What is", said[name])
    shortest = float(re.search(r"min/avg/max/mdev = ([\d.]+)/", said[name])[1])
    # With reordering and jitter, packets may be early or late.
    assert shortest == pytest.approx(40, abs=0.01 if name not in ("impaired", "jitter") else 5)
    mbit = float(re.search(r"([\d.]+) Mbits/sec +receiver", said[name])[1])
    # TCP takes packets that overtake each other for losses, too.
    lossy = {"loss_percent", "jitter_ms"} & {*CONDITIONS[name]}
    assert (0.5 if lossy else 17) < mbit < 19.3
