"""Emulations that are broken on purpose, in real guests: a check refuses each.

The guest runs the unchanged measuring code, with one additional step after the set-up.
"""

import pytest

from losslab.backends.snapshot import Snapshots
from losslab.study.condition import Condition
from tests.faults import kit

CONDITION = {
    "algorithm": "cubic", "loss_percent": 0, "path": "symmetric", "app": "iperf3", "rtt_ms": 20,
    "rate_mbit": 50, "buffer_packets": 200, "duration_s": 3, "warmup_s": 0.5,
    # The receive window must not limit the flow.
    "receive_buffer": "large",
}  # fmt: skip

# Runs in the guest. `broken` changes the hosts after their configuration.
SCRIPT = """
import json, subprocess, sys
from pathlib import Path
from losslab.emulation import hosts, measure, qdiscs
from losslab.emulation.apps import iperf3
from losslab.study.condition import Condition
from losslab.errors import LosslabError

pids = {{}}
shape = measure.hosts.shape

def on(host, command):
    with hosts.inside(pids[host]):
        subprocess.run(command.split(), check=True)

def broken():
    {breakage}

def shape_broken(plans, handles):
    pids.update({{host: handle.pid for host, handle in handles.items()}})
    shape(plans, handles)
    broken()

measure.hosts.shape = shape_broken
{before}
folder = Path("/mnt/out/raw")
folder.mkdir()
try:
    condition = Condition.from_json({condition})
    with measure.bare_hosts(disposable=True) as bare, measure.stage(bare, condition) as ready:
        result = measure.measure(ready, 7, folder)
    found = {{"reasons": result["reasons"], "summary": result["summary"]}}
except LosslabError as error:
    found = {{"reasons": [str(error)], "summary": {{}}}}
Path("/mnt/out/found.json").write_text(json.dumps(found))
"""

NOTHING_ELSE = "pass"
# tc commands that replace a qdisc; 200000000 is the planned limit.
FORWARD_NETEM = "tc qdisc change dev r2-receiver root handle 1: netem seed 1"
REVERSE_NETEM = "tc qdisc change dev r2-r1 root handle 1: netem seed 1 limit 200000000"
# Replaces the path of the guest's measurement.
BOTH_WAYS = (
    "from dataclasses import replace\n"
    "ask = Condition.from_json\n"
    "Condition.from_json = lambda data: replace(ask(data), loss_percent=2, loss_direction='both')"
)
BUCKET = (
    "from dataclasses import replace\n"
    "ask = Condition.from_json\n"
    "Condition.from_json = lambda data: replace(ask(data), shaper='tbf')"
)
BOTTLENECK = "tc qdisc change dev r1-r2 root handle 1: tbf burst 3028 limit 3028"

# name: (breakage in the guest, code before it, words of the violation)
BREAKAGES = {
    "offloads on": (
        "for h, i in (('sender', 'sender-r1'), ('r1', 'r1-r2')): "
        "offloads_on(h, i)",
        "def offloads_on(host, name):\n"
        "    with hosts.inside(pids[host]): hosts.set_offloads(name, 'on')",
        ["tso of sender-r1 on sender must be off, found on", "loss would hit aggregates"],
    ),
    "netem limit too small": (
        f"on('r2', '{FORWARD_NETEM} limit 20 delay 10ms')",
        "",
        ["qdisc netem on r2-receiver on r2 must have limit", "loss must be 0 %"],
    ),
    "wrong unit": (
        # A bare number is in nanoseconds for this tc, in microseconds for older ones.
        f"on('r2', '{FORWARD_NETEM} limit 200000000 delay 10')",
        "",
        ["must have delay.delay 0.01, found 1e-08",
         "RTT of the idle path must be 20.0157 ms, found 10"],
    ),
    "delay on the sender": (
        "on('sender', 'tc qdisc del dev sender-r1 root'); "
        "on('sender', 'tc qdisc add dev sender-r1 root handle 1: netem delay 10ms')",
        "",
        ["qdisc fq must be on sender-r1 on sender, found netem", "is not in the plan",
         "RTT of the idle path must be 20.0157 ms, found 30"],
    ),
    "wrong rate": (
        "with hosts.inside(pids['r1']): "
        "Path('/proc/link').write_text(f'r1-r2 1: {2**62} steps 0\\n0 60000000 0\\n')",
        "",
        ["qdisc link on r1-r2 of r1 must have steps [[0, 50000000, 0]], found [[0, 60000000, 0]]",
         "goodput must be at most the link's 50",
         "no window of the bottleneck may carry more than its rate"],
    ),
    "wrong rate of a token bucket": (
        f"on('r1', '{BOTTLENECK} rate 60mbit')",
        BUCKET,
        ["qdisc tbf on r1-r2 on r1 must have rate", "goodput must be at most the link's 50"],
    ),
    "wrong buffer": (
        "on('r1', 'tc qdisc change dev r1-r2 parent 1:1 handle 10: pfifo limit 20')",
        "",
        ["qdisc pfifo on r1-r2 on r1 must have limit 200, found 20"],
    ),
    "unplanned loss": (
        f"on('r2', '{FORWARD_NETEM} limit 200000000 delay 10ms loss 2%')",
        "",
        ["loss must be 0 %"],
    ),
    "dropped packets": (
        "on('receiver', 'tc qdisc add dev receiver-r2 clsact'); "
        "on('receiver', 'tc filter add dev receiver-r2 ingress matchall action pass')\n"
        "    on('r3', 'true'); on('r2', 'tc qdisc add dev r2-r1 clsact'); "
        "on('r2', 'tc filter add dev r2-r1 ingress protocol ip flower ip_proto tcp tcp_flags "
        "0x8/0x8 action drop')",
        "",
        ["unexplained"],
    ),
    "unplanned loss on the reverse path": (
        f"on('r2', '{REVERSE_NETEM} delay 10ms loss 2%')",
        "",
        ["loss on the reverse path must be 0 %"],
    ),
    "loss in both directions, applied in one only": (
        f"on('r2', '{REVERSE_NETEM} delay 10ms')",
        BOTH_WAYS,
        ["loss on the reverse path must be 2 %"],
    ),
    "loss in both directions, too high on the asymmetric reverse path": (
        f"on('r3', '{REVERSE_NETEM.replace('r2-r1', 'r3-r1')} delay 10ms loss 20%')",
        BOTH_WAYS.replace("both", "both', path='asymmetric"),
        ["loss on the reverse path must be 2 %"],
    ),
    "dropped acknowledgements": (
        NOTHING_ELSE,
        # For 0.3 s, before netem, which would count the drops.
        "import threading\n"
        "from losslab.emulation import traffic\n"
        "start = traffic.SampleLog\n"
        "def tc(words): on('r2', f'tc {words}')\n"
        "def cut(*probes):\n"
        "    tc('qdisc add dev r2-receiver clsact')\n"
        "    drop = 'filter add dev r2-receiver ingress matchall action drop'\n"
        "    threading.Timer(1.0, tc, [drop]).start()\n"
        "    threading.Timer(1.3, tc, ['filter del dev r2-receiver ingress']).start()\n"
        "    return start(*probes)\n"
        "traffic.SampleLog = cut",
        ["packets sent on the reverse path must equal"],
    ),
    "window-limited sockets": (
        NOTHING_ELSE,
        "flow = iperf3.flow\n"
        "import dataclasses\n"
        "def small(*words):\n"
        "    f = flow(*words)\n"
        "    caller = dataclasses.replace(f.caller, command=[*f.caller.command, '-w', '16K'])\n"
        "    return dataclasses.replace(f, caller=caller)\n"
        "iperf3.flow = small",
        ["buffers must not limit"],
    ),
    "small receive buffer": (
        "with hosts.inside(pids['receiver']): "
        "hosts.write_sysctl('net.ipv4.tcp_rmem', '4096 8192 8192')",
        "",
        ["sysctl net.ipv4.tcp_rmem on receiver must be", "buffers must not limit"],
    ),
    "another algorithm": (
        NOTHING_ELSE,
        "from losslab.emulation import traffic\n"
        "traffic._set_algorithm = lambda sender, algorithm: None\n"
        "flow = iperf3.flow\n"
        "import dataclasses\n"
        "def other(*words):\n"
        "    f = flow(*words)\n"
        "    command = ['reno' if w == 'cubic' else w for w in f.caller.command]\n"
        "    caller = dataclasses.replace(f.caller, command=command)\n"
        "    return dataclasses.replace(f, caller=caller)\n"
        "iperf3.flow = other",
        ["iperf3 must use cubic, found"],
    ),
    "wrong reverse path": (
        "on('receiver', 'ip route replace default via 10.0.4.2 dev receiver-r3')",
        "",
        ["routes of receiver must be"],
    ),
    "TCP memory pressure": (
        "hosts.write_sysctl('net.ipv4.tcp_mem', '20 40 80')",
        "",
        ["memory pressure"],
    ),
    "tc that fails": (
        NOTHING_ELSE,
        "make = qdiscs.Qdisc.command\n"
        "qdiscs.Qdisc.command = lambda s: make(s).replace('netem', 'netemm')",
        ["must succeed without messages", "netemm"],
    ),
    "record of the queue that stops": (
        NOTHING_ELSE,
        "from losslab.emulation import sampling\n"
        "sampling.queue_samples = lambda data, origin_ns: iter(())",
        ["the kernel must sample the queue every"],
    ),
    "receiver that ends early": (
        NOTHING_ELSE,
        "import threading\n"
        "from losslab.emulation import traffic\n"
        "start = traffic.SampleLog\n"
        "def cut(*probes):\n"
        "    threading.Timer(1.0, lambda: subprocess.run(['pkill', '-x', 'iperf3'])).start()\n"
        "    return start(*probes)\n"
        "traffic.SampleLog = cut",
        ["must exit with 0", '"error"'],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def reasons(tmp_path_factory):
    """Return a function that measures with a breakage, in a fork of one guest."""
    with Snapshots() as snapshots:

        def reasons(breakage="pass", before=""):
            folder = tmp_path_factory.mktemp("broken")
            text = SCRIPT.format(breakage=breakage, before=before, condition=CONDITION)
            return kit.in_guest(text, folder, snapshots)["reasons"]

        yield reasons


def test_unbroken_emulation_gives_a_valid_replicate(reasons):
    assert Condition.from_json(CONDITION).problems() == []
    assert reasons() == []


@pytest.mark.parametrize("name", BREAKAGES)
def test_broken_emulation_is_a_violation(name, reasons):
    breakage, before, expected = BREAKAGES[name]
    found = reasons(breakage, before)
    missing = [words for words in expected if not any(words in reason for reason in found)]
    assert not missing, found
