"""The kernel's record against netlink, which reads the same state at almost the same time."""

import json
import shlex
import subprocess
import sys

import pytest

from losslab.emulation.topology import RECEIVER_ADDRESS, bottleneck

PATH = "--algorithm cubic --rate-mbit 10 --rtt-ms 20 --buffer-packets 20"
START = (
    "receiver iperf3 --server --daemon; sleep 1; "
    f"sender iperf3 --client {RECEIVER_ADDRESS} --cport 40001 --time 4 --parallel 2 >/dev/null & "
    "sleep 1; "
)
INTERVAL_NS = 100_000
COMPARED = """
import dataclasses, json, sys, time
from losslab.emulation import probes

def fields(sample):
    found = dataclasses.asdict(sample)
    return json.dumps({name: value for name, value in found.items() if name != "t_s"})

device, interval_ns = sys.argv[1] if len(sys.argv) > 2 else "", int(sys.argv[-1])
kept = probes.Record()
order = f"{'queue' if device else 'tcp'} {time.monotonic_ns()} {interval_ns} {device}"
kept.begin(order.strip())
probe = probes.QueueProbe(device) if device else probes.TcpProbe()
said, recorded = [], []
for _ in range(50):
    time.sleep(0.0301)
    before = time.monotonic_ns()
    found = [probe.sample(0.0)] if device else probe.sample()
    said.append([before, time.monotonic_ns(), [fields(each) for each in found]])
time.sleep(0.001)
data = kept.read()
if device:
    recorded = [(round(each.t_s * 1e9), fields(each)) for each in probes.queue_samples(data, 0)]
else:
    recorded = [(ns, fields(sample)) for ns, sample in probes.tcp_samples(data)]
kept.close()
print(json.dumps({"said": said, "recorded": recorded}))
"""
REFUSED = """
import errno, json, time
from losslab.emulation import probes

found = {}
for order in ("tcp 1", "queue 1 1000 no-device", "tcp 1 0", "nonsense"):
    kept = probes.Record()
    try:
        kept.begin(order)
    except OSError as error:
        found[order] = errno.errorcode[error.errno]
kept.begin(f"tcp {time.monotonic_ns()} 1000")
try:
    kept.begin("events")
except OSError as error:
    found["second order"] = errno.errorcode[error.errno]
time.sleep(1)
size = len(kept.read())
print(json.dumps({"found": found, "full": kept.full, "bytes": size}))
"""

# `struct tcp_event` of the kernel, up to the private state.
EVENTS = """
import collections, json, struct, time
from losslab.emulation import probes

kept = probes.Record()
kept.begin("events")
time.sleep(2)
data = kept.read()
head = struct.Struct("=QQ8I6IH4BH16s")
(private,) = struct.unpack_from("=H", data, head.size - 18)
size = (head.size + private + 7) // 8 * 8
count, times, windows = collections.Counter(), [], set()
for at in range(0, len(data), size):
    us, _, window, *_, port, event, _, _, _, own, name = head.unpack_from(data, at)
    count[event, name.rstrip(b"\\0").decode(), own] += 1
    times.append(us)
    windows.add(window)
print(json.dumps({"private": private, "count": sorted(count.items()), "times": times,
                  "windows": len(windows), "rest": len(data) % size}))
"""


def in_guest(*words):
    """Run programs on hosts during a transfer of two connections; return what they print."""
    lines = "; ".join(f"{host} python3 -c {shlex.quote(text)} {more}" for host, text, more in words)
    command = [sys.executable, "-m", "losslab.cli", "shell", *PATH.split(), "-c"]
    done = subprocess.run(
        [*command, f"{START}{lines}; wait"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize(
    ("host", "device", "each"), [("sender", "", 3), (bottleneck().host, bottleneck().name, 1)]
)
def test_record_of_the_kernel_equals_what_netlink_says(host, device, each):
    """A probe's answer is that of the record's sample before or after it, for each connection."""
    (found,) = in_guest((host, COMPARED, f"{device} {INTERVAL_NS}"))
    times = [ns for ns, _ in found["recorded"]]
    assert len(times) > 10_000 * each
    assert all(ns % INTERVAL_NS - times[0] % INTERVAL_NS < 512 for ns in times)
    changes = set()
    for before, after, samples in found["said"]:
        near = [
            fields
            for ns, fields in found["recorded"]
            if before - 1.1 * INTERVAL_NS <= ns <= after + 1.1 * INTERVAL_NS
        ]
        assert len(samples) == each
        assert set(samples) <= set(near), (samples, near)
        changes |= set(samples)
    assert len(changes) > 20  # the state did change


def test_record_refuses_what_it_cannot_do_and_says_when_it_is_full():
    (found,) = in_guest(("sender", REFUSED, ""))
    assert found["found"] == {
        "tcp 1": "EINVAL", "queue 1 1000 no-device": "ENODEV", "tcp 1 0": "EINVAL",
        "nonsense": "EINVAL", "second order": "EBUSY",
    }  # fmt: skip
    assert found["full"]
    assert 2**24 < found["bytes"] <= 2**25


def test_record_of_events_has_every_acknowledgement_and_loss():
    (found,) = in_guest(("sender", EVENTS, ""))
    count = {event: number for (event, name, own), number in found["count"]}
    assert {(name, own) for (_, name, own), _ in found["count"]} == {("cubic", found["private"])}
    assert found["times"] == sorted(found["times"])
    assert found["rest"] == 0
    # 10 Mbit/s are 830 packets per second, and each second one is acknowledged at least.
    assert 700 < count[1] < 1800
    assert count[2] >= 2  # a buffer of 20 packets overflows: into recovery and out of it
    assert found["windows"] > 5
