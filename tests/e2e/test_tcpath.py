"""Scripts of `losslab path to-tc` on a guest's router: tc takes them, and the path is the same."""

import re
import shlex
import statistics

import pytest

from losslab import cli
from losslab.campaign.instrument import instrument
from losslab.runs import shell
from losslab.study.condition import Condition
from losslab.tools.paths import from_capture, from_tc, linux, tclines, to_tc

BASE = {"algorithm": "cubic", "rate_mbit": 20, "rtt_ms": 40, "buffer_packets": 66}
CONDITIONS = {
    "plain": {},
    "impaired": {
        "loss_percent": 1, "loss_burst_packets": 3, "loss_direction": "both", "reorder_percent": 1,
        "policer_mbit": 30, "ack_thinning": 4, "queue": "fq_codel",
    },
    "jitter": {
        "jitter_ms": 2, "duplicate_percent": 1, "queue": "cake", "jitter_distribution": "normal",
        "jitter_direction": "both", "jitter_correlation_percent": 25,
    },
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
    _, output = shell.execute("; ".join(lines), condition, 7, instrument(condition=condition))
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


def test_normal_jitter_of_both_directions_has_its_mean_and_deviation():
    """Standard errors of 1000 round trips: 0.89 ms, 0.63 ms and 0.032. netem loses its 25 %."""
    jitter = {
        "jitter_ms": 160, "jitter_distribution": "normal", "jitter_direction": "both",
        "jitter_correlation_percent": 25,
    }  # fmt: skip
    condition = Condition(**BASE | jitter)
    pings = "sender ping -c 1000 -i 0.4 10.0.3.2"
    _, output = shell.execute(pings, condition, 7, instrument(condition=condition))
    rtts_ms = [float(each) for each in re.findall(r"time=([\d.]+) ms", output)]
    assert len(rtts_ms) == 1000
    assert statistics.mean(rtts_ms) == pytest.approx(40 + 2 * 80, abs=4 * 0.89)
    assert statistics.stdev(rtts_ms) == pytest.approx(20 * 2**0.5, abs=4 * 0.63)
    assert abs(statistics.correlation(rtts_ms[1:], rtts_ms[:-1])) < 4 * 0.032


FUNCTION = """
shape() {
  sudo /sbin/tc qdisc replace dev "$1" root handle 1: netem delay "$2"ms limit 99999
  tc qdisc replace dev "$1" parent 1: handle 10: tbf rate "$3"mbit burst 3028 limit 90840
}
RATE=$((5 * 10))
DEVICE=$(ip route | grep default | awk '{print $5}')
ip netns exec other sudo -E tc qdisc add dev "$DEVICE" root netem delay 1ms
tc -n other qdisc del dev "$DEVICE" root
for side in "eth1 20 $RATE" "eth2 10 ${1:-7}"; do shape $side; done
ip netns exec other true && echo 'tc qdisc add dev eth9 root netem delay 1s'
"""
PROGRAM = """
import argparse, subprocess
import matplotlib.pyplot as plt
from functools import partial
from mininet.net import Mininet
from mininet.topo import Topo
from mininet.link import TCLink

parser = argparse.ArgumentParser()
parser.add_argument("--delay", type=float, default=2.5)
args = parser.parse_args()

class Row(Topo):
    def build(self, switches=2, rate=1.5):
        last = self.addHost("h1")
        for number in range(switches):
            switch = self.addSwitch(f"s{number}")
            self.addLink(last, switch, bw=100, delay=f"{args.delay}ms")
            last = switch
        self.addLink(last, self.addHost("h2"), bw=rate, delay="5ms", max_queue_size=4 * 5)

net = Mininet(Row(), link=TCLink)
net.start()
net["h1"].cmd("iperf -s &")
plt.plot([1, 2])
net.stop()
"""


def read(text, *words):
    source = linux.run(text.encode(), words)
    linux.judge(source)
    return from_tc.Reading(tclines.Lines.of(source), {}, "cubic")


def test_w6_functions_and_variables_of_a_shell_are_what_they_are():
    source = linux.run(FUNCTION.encode(), [])
    assert (source.commands[0].host, source.commands[0].words[3]) == ("other", "eth0")
    assert (source.commands[1].host, source.commands[1].words[:2]) == ("other", ["qdisc", "del"])
    del source.commands[:2]
    values = from_tc.Reading(tclines.Lines.of(source), {}, "cubic").values
    assert (values["rtt_ms"], values["rate_mbit"], values["reverse_rate_mbit"]) == (30, 50, 7)
    assert linux.run(FUNCTION.encode(), ["8"]).commands[-1].words[-5] == "8mbit"


def test_w6_program_of_mininet_is_run_against_a_recorder():
    values = read(PROGRAM).values
    assert (values["rate_mbit"], values["rtt_ms"], values["buffer_packets"]) == (1.5, 20, 20)
    assert read(PROGRAM, "--delay", "10").values["rtt_ms"] == 50


def test_w6_program_that_fails_says_so_beside_what_it_set():
    reading = read(PROGRAM + "\nraise ValueError('no controller')\n")
    assert reading.values["rate_mbit"] == 1.5
    assert ("the program", "it ended with the status 1: ValueError: no controller") in reading.left


def test_w8_linux_judges_each_line():
    lines = (
        "tc qdisc add dev veth0 root handle 2: netem delay 100ms limit 99999\n"
        "tc qdisc add dev veth0 parent 2: handle 2: tbf rate 1mbit burst 15400 latency 300ms\n"
        "tc qdisc change dev a-name-longer-than-15 root netem loss 1%\n"
    )
    source = tclines.read(lines, {})
    linux.judge(source)
    refused = [command.refused for command in source.commands]
    assert [bool(each) for each in refused] == [False, True, False]
    assert refused[1].startswith("Linux refuses it: ")


def test_only_run_executes_a_file(tmp_path, capsys):
    """T1: reading a stranger's file runs nothing of it here; --run runs it in a guest."""
    file = tmp_path / "path.sh"
    touched = tmp_path / "touched"
    file.write_text(
        f"touch {touched}; tc qdisc add dev eth0 root netem delay $((3 + 4))ms limit 9999\n"
    )
    assert cli.main(["path", "from-tc", str(file)]) in (0, 1)
    assert cli.main(["path", "from-tc", str(file), "--run"]) == 0
    assert "--rtt-ms 7 " in capsys.readouterr().out
    assert not touched.exists()


@pytest.mark.parametrize(
    ("axes", "found", "unknown"),
    [
        # BBR fills the path in spite of the loss, and overflows the buffer at its start.
        ({"algorithm": "bbr", "loss_percent": 1},
         {"rate_mbit": (20, 0.02), "loss_percent": (1, 0.2), "buffer_packets": (66, 0.05)}, []),
        # CUBIC does not: rate and buffer do not show.
        ({"loss_percent": 1}, {"loss_percent": (1, 0.4)}, ["rate_mbit", "buffer_packets"]),
        ({}, {"rate_mbit": (20, 0.02), "loss_percent": (0, 0), "buffer_packets": (66, 0.05)}, []),
    ],
)  # fmt: skip
def test_path_of_a_run_is_found_again_in_its_capture(tmp_path, axes, found, unknown):
    words = [f"--{name.replace('_', '-')}={value}" for name, value in (BASE | axes).items()]
    out = tmp_path / "run"
    capture = ["--capture", "sender-r1", "--duration-s", "20", "--out", str(out)]
    assert cli.main(["measure", *words, *capture]) == 0
    read = from_capture.read(out / "capture-sender-r1.pcap")
    assert list(read.unknown) == unknown
    # The smallest RTT has the time of a packet of its own on the link, at most 0.61 ms.
    assert 0 <= read.values.pop("rtt_ms") - 40 <= 0.61
    assert read.values.keys() == found.keys()
    for name, (value, tolerance) in found.items():
        assert read.values[name] == pytest.approx(value, rel=tolerance), name
