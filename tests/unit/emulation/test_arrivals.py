"""What arrives at a link, and how much of it is new."""

import json
import os
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from losslab.emulation import arrivals

SPACE = 1 << 32
# A sender of crafted packets to a probe on the loopback interface of a namespace of its own.
SEND = """
import json, select, socket, struct, sys, time
from losslab.emulation import arrivals
pair, ring_bytes = json.loads(sys.argv[1])
arrivals.RING_BYTES = ring_bytes or arrivals.RING_BYTES
probe = arrivals.ArrivalProbe("lo", pair)
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
probe.read()
ends = 0
while select.select([probe.socket], [], [], 0)[0]:
    ends += len(probe.socket.recv(100))
opened = sorted(ports for ports in probe.opened if ports[1] == 9)
print(json.dumps([vars(probe.arrived), opened, ends]))
"""


@pytest.fixture(scope="module")
def counted():
    """Return a function that sends packets and returns counts and opened connections."""
    made = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    if os.geteuid() != 0 or made.returncode != 0:
        pytest.skip("network namespaces need root")

    def counted(packets, pair=None, ring_bytes=None):
        options = json.dumps([pair, ring_bytes])
        command = f"ip link set lo up && exec {sys.executable} -c '{SEND}' '{options}'"
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
    stream, arrived, new = arrivals.Stream(base), set(), 0
    for begin, octets in segments:
        new += stream.add((base + begin) % SPACE, octets)
        arrived |= {*range(begin, begin + octets)}
    assert new == len(arrived)


def test_payload_counts_by_protocol_and_pings_do_not(counted):
    """A4: headers are taken off by protocol, also with options, fragments and small datagrams."""
    packets = [
        ["other", [1, 64]],  # ICMP
        ["other", [47, 100]],  # GRE: a packet without payload that is known
        *[["fragment", [8 + 60, 0]]] * 3,
        ["fragment", [1480, 0x2000]], ["fragment", [528, 185]],  # a datagram of 2,000 bytes
        ["tcp", [5000, 10, 1000, 16, 12]], ["tcp", [5000, 1010, 0]],
    ]  # fmt: skip
    found, opened, ends = counted(packets)
    assert ends == 0  # resets are neither SYN nor FIN
    assert found["udp_bytes"] == 3 * 60 + 2000
    assert found["tcp_bytes"] == found["tcp_new_bytes"] == 1000
    # The kernel answers both segments, from a port without a listener, with resets of 40 bytes.
    assert found["packets"] in range(8, 12)
    sent = 120 + 3 * 88 + 1500 + 548 + 20 + 4 + 32 + 1000 + 40
    assert (found["ip_bytes"] - sent) % 40 == 0
    assert opened == [[5000, 9]]


@pytest.mark.parametrize("seed", range(3))
def test_distinct_bytes_of_each_connection_count_once(counted, seed):
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
    found, opened, ends = counted(packets)
    assert (found["tcp_bytes"], found["tcp_new_bytes"]) == (arrived, expected)
    assert opened == [[port, 9] for port in (5000, 5001, 5002)]
    assert ends == 6  # a byte of each SYN


@pytest.mark.parametrize(
    ("pair", "counts"),
    [
        (["127.0.0.2", "127.0.0.9"], True),  # from the sender
        (["127.0.0.9", "127.0.0.1"], True),  # to the receiver
        (["127.0.0.9", "127.0.0.8"], False),
    ],
)
def test_only_packets_of_a_pair_count_and_wake(counted, pair, counts):
    """A pair of programs has its own addresses; SYN and FIN wake, data and options do not."""
    packets = [
        ["tcp", [5000, 10, 0, 2, 12]], ["tcp", [5000, 11, 700]], ["tcp", [5000, 711, 300, 17]],
        ["fragment", [1000, 0]],
    ]  # fmt: skip
    found, opened, ends = counted(packets, pair)
    # Resets of the kernel go from the receiver's address to the sender's.
    sent = {"tcp_bytes": 1000, "tcp_new_bytes": 1000, "udp_bytes": 992}
    assert {name: found[name] for name in sent} == (sent if counts else dict.fromkeys(sent, 0))
    assert (opened, ends) == (([[5000, 9]], 2) if counts else ([], 0))


def test_packets_beyond_the_ring_are_an_error(counted):
    """Nothing is lost in silence: a full ring ends the run."""
    with pytest.raises(AssertionError, match="losslab must see every packet that arrives, found 9"):
        counted([["fragment", [20, 185]]] * (4096 + 9), ring_bytes=1 << 20)
