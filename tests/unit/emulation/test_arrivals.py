"""What arrives at a link, counted by a BPF program."""

import json
import os
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from losslab.emulation.arrivals import Gaps

SPACE = 1 << 32
# A sender of crafted packets to a probe on the loopback interface of a namespace of its own.
SEND = """
import json, socket, struct, sys, time
from losslab.emulation.arrivals import ArrivalProbe
probe = ArrivalProbe("lo")
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
def send(protocol, content, fragment=0, options=0):
    total = 20 + options + len(content)
    head = struct.pack("!BBHHHBBH4s4s", 69 + options // 4, 0, total, 7, fragment, 64, protocol, 0,
                       bytes([127, 0, 0, 2]), bytes([127, 0, 0, 1]))
    raw.sendto(head + bytes([1]) * options + content, ("127.0.0.1", 0))
def tcp(port, sequence, octets, flags=16, more=0):
    head = struct.pack("!HHIIBBHHH", port, 9, sequence, 0, (5 + more // 4) << 4, flags, 0, 0, 0)
    send(6, head + bytes([1]) * more + bytes(octets), options=4 * (octets % 3))
for name, arguments in json.load(sys.stdin):
    if name == "tcp":
        tcp(*arguments)
    elif name == "fragment":
        send(17, bytes(arguments[0]), arguments[1])
    else:
        send(arguments[0], bytes(arguments[1]))
time.sleep(0.2)
opened = sorted(probe.opened())
print(json.dumps([probe.counts().__dict__, [each for each in opened if each[1] == 9]]))
"""


@pytest.fixture(scope="module")
def counted():
    """Return a function that sends packets and returns counts and opened connections."""
    made = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    if os.geteuid() != 0 or made.returncode != 0:
        pytest.skip("network namespaces need root")

    def counted(packets):
        command = f"ip link set lo up && exec {sys.executable} -c '{SEND}'"
        done = subprocess.run(
            ["unshare", "--net", "sh", "-c", command], input=json.dumps(packets),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return counted


@given(
    segments=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=40),
    base=st.sampled_from([0, 1000, SPACE - 30, SPACE // 2 - 30]),
)
def test_each_byte_counts_once_in_any_order_across_the_wrap(segments, base):
    """A4: retransmissions and duplicates are no data, and those that fill a gap are."""
    gaps, arrived, top, new = Gaps(), set(), 0, 0
    for begin, octets in segments:
        end = begin + octets
        if begin == top:
            new += octets  # the kernel counts segments in order
        else:
            new += gaps.new_bytes((base + begin) % SPACE, octets, (base + top) % SPACE)
        top = max(top, end)
        arrived |= {*range(begin, end)}
    assert new == len(arrived)


def test_kernel_counts_payload_by_protocol_and_leaves_pings_out(counted):
    """A4: headers are taken off by protocol, also with options, fragments and small datagrams."""
    packets = [
        ["other", [1, 64]],  # ICMP
        ["other", [47, 100]],  # GRE: a packet without payload that is known
        *[["fragment", [8 + 60, 0]]] * 3,
        ["fragment", [1480, 0x2000]], ["fragment", [528, 185]],  # a datagram of 2,000 bytes
        ["tcp", [5000, 10, 1000, 16, 12]], ["tcp", [5000, 1010, 0]],
    ]  # fmt: skip
    found, opened = counted(packets)
    assert found["udp_bytes"] == 3 * 60 + 2000
    assert found["tcp_bytes"] == found["tcp_new_bytes"] == 1000
    # The kernel answers both segments, from a port without a listener, with resets of 40 bytes.
    assert found["packets"] in range(8, 12)
    sent = 120 + 3 * 88 + 1500 + 548 + 20 + 4 + 32 + 1000 + 40
    assert (found["ip_bytes"] - sent) % 40 == 0
    assert opened == [[5000, 9]]


@pytest.mark.parametrize("seed", range(3))
def test_kernel_and_gaps_find_the_distinct_bytes_of_each_connection(counted, seed):
    """A4: distinct data of several connections, which begin anywhere, lose and repeat segments."""
    rng = random.Random(seed)
    packets, expected, arrived = [], 0, 0
    for port in (5000, 5001, 5002):
        base = rng.choice([0, SPACE - 5000, rng.randrange(SPACE)])
        for _ in range(2):  # the second connection of the same ports
            packets.append(["tcp", [port, (base - 1) % SPACE, 0, 2]])
            segments = [(at, rng.randint(1, 900)) for at in range(0, 20_000, 500)]
            segments += rng.sample(segments, 15)
            rng.shuffle(segments)
            packets += [["tcp", [port, (base + at) % SPACE, size]] for at, size in segments]
            arrived += sum(size for _, size in segments)
            expected += len({byte for at, size in segments for byte in range(at, at + size)})
    found, opened = counted(packets)
    assert (found["tcp_bytes"], found["tcp_new_bytes"]) == (arrived, expected)
    assert len(opened) == 6
