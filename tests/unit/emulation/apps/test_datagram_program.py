import json
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from losslab.emulation.apps import datagram, datagram_program
from losslab.emulation.apps.datagram_program import MESSAGE, Sender
from losslab.emulation.plan import make_plan
from tests.unit.study.test_condition import CONDITION

RTT_MS = 10.0
# A sender that polls more often than this makes no progress.
TURNS = 1000


class Scheme:
    """A fixed window that records its events."""

    def __init__(self, window=4.0, gap_ms=0.0, timeout_ms=100.0):
        self.window, self.gap_ms, self.patience_ms = window, gap_ms, timeout_ms
        self.sent, self.acks, self.timeouts = [], [], []

    def window_packets(self):
        return self.window

    def pacing_gap_ms(self):
        return self.gap_ms

    def timeout_ms(self):
        return self.patience_ms

    def on_sent(self, sequence, now_ms):
        self.sent.append((sequence, now_ms))

    def on_ack(self, ack):
        self.acks.append(ack)

    def on_timeout(self, now_ms):
        self.timeouts.append(now_ms)


class Line:
    """A link that acknowledges after `RTT_MS` except for `lost`: socket, clock and waiter in one.

    Each acknowledgement comes `copies` times. Time passes only in `wait`, as in the guest.
    """

    def __init__(self, monkeypatch, lost=(), copies=1):
        self.copies = copies
        self.now_ns, self.lost, self.sizes, self.coming = 5_000_000_000, set(lost), [], []
        self.turns = 0
        monkeypatch.setattr(datagram_program.time, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(datagram_program, "Waiter", lambda _: self)

    def fileno(self):
        return 7

    def send(self, data):
        self.sizes.append(len(data))
        sequence, sent_ns, _ = MESSAGE.unpack_from(data)
        if sequence not in self.lost:
            back_ns = self.now_ns + round(RTT_MS * 1e6)
            reply = MESSAGE.pack(sequence, sent_ns, back_ns - round(RTT_MS / 2 * 1e6))
            self.coming += [(back_ns, reply)] * self.copies

    def wait(self, timeout_ns):
        self.turns += 1
        assert self.turns <= TURNS
        until_ns = self.now_ns + max(1, timeout_ns)
        if self.coming and self.coming[0][0] <= until_ns:
            self.now_ns = max(self.now_ns, self.coming[0][0])
            return [self.fileno()]
        self.now_ns = until_ns
        return []

    def recv(self, size):
        return self.coming.pop(0)[1]


def run(monkeypatch, seconds, lost=(), copies=1, warmup_s=0.0, **of_scheme):
    """Return line, scheme and sender after a run."""
    line, scheme = Line(monkeypatch, lost, copies), Scheme(**of_scheme)
    sender = Sender(scheme, line, warmup_s)
    sender.run(seconds)
    return line, scheme, sender


def test_timeout_sends_one_more_datagram(monkeypatch):
    _, scheme, sender = run(monkeypatch, 0.05, lost=range(100), window=2, timeout_ms=20.0)
    assert scheme.timeouts == [pytest.approx(20), pytest.approx(40)]
    assert scheme.sent[2:] == [(2, pytest.approx(20)), (3, pytest.approx(40))]
    assert (sender.timeouts, sender.acked) == (2, 0)
    # A window below one sends at timeouts only.
    _, scheme, _ = run(monkeypatch, 0.03, window=0.5, timeout_ms=20.0)
    assert scheme.sent == [(0, pytest.approx(20))]


@pytest.mark.parametrize("copies", [2, 5])
def test_repeated_acknowledgements_count_once(monkeypatch, copies):
    """A2: `acked` was 2489 of 1500 datagrams sent over a path that duplicates."""
    _, scheme, sender = run(monkeypatch, 0.035, lost=[1], copies=copies, window=4)
    numbers = [ack.sequence for ack in scheme.acks]
    assert len(numbers) == len(set(numbers)) == sender.acked == 11
    assert sender.sent == 16


def test_endless_window_is_refused(monkeypatch):
    monkeypatch.setattr(datagram_program, "WINDOW_MAX_PACKETS", 50)
    with pytest.raises(SystemExit, match="window must be at most 50 packets, found 1e"):
        run(monkeypatch, 0.05, window=1e12)


def _free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _receiver(port, counts):
    """Start a receiver; its counts go to a dictionary."""
    receiver = threading.Thread(
        target=lambda: counts.update(datagram_program.receive("127.0.0.1", port)), daemon=True
    )
    receiver.start()
    deadline_s = time.monotonic() + 1
    # Wait for the receiver: a datagram to a closed port is refused.
    while f":{port:04X} " not in Path("/proc/net/udp").read_text():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)
    return receiver


@pytest.mark.alone
def test_receiver_counts_repeated_datagrams_once_and_acknowledges_each():
    """A2: with 99 % of the datagrams duplicated, the receiver counted twice what was sent."""
    port, counts = _free_port(), {}
    receiver = _receiver(port, counts)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(1)
        sock.connect(("127.0.0.1", port))
        for sequence in (0, 0, 2, 1, 2):
            sock.send(MESSAGE.pack(sequence, 7, 0))
        acknowledged = [MESSAGE.unpack(sock.recv(MESSAGE.size))[0] for _ in range(5)]
        sock.send(MESSAGE.pack(datagram_program.END_SEQUENCE, 0, 0))
    receiver.join(timeout=1)
    assert acknowledged == [0, 0, 2, 1, 2]
    assert counts["received"] == sum(counts["arrivals"].values()) == 3


@pytest.mark.alone
def test_sender_and_receiver_work_over_loopback(monkeypatch, capsys):
    """Run both ends for 0.1 s; the sender repeats its end message until the receiver is gone."""
    monkeypatch.setattr(datagram_program, "END_INTERVAL_S", 0.02)
    port, counts = _free_port(), {}
    receiver = _receiver(port, counts)
    words = ["send", "127.0.0.1", str(port), "--source-port", "0"]
    words += ["--scheme", "fixed,window=2", "--duration-s", "0.1", "--warmup-s", "0"]
    assert datagram_program.main(words) == 0
    receiver.join(timeout=1)
    assert not receiver.is_alive()
    said = json.loads(capsys.readouterr().out)
    assert set(said) == {"sent", "acked", "timeouts", "began_ns"}
    assert said["sent"] >= counts["received"] > 0
    assert said["sent"] - 2 <= said["acked"] <= counts["received"]


def collected(folder, arrivals, acked=0):
    """Return the app's metrics for the arrivals by bin; the sender begins at 2 s."""
    condition = replace(
        CONDITION, app="datagram", scheme="fixed,window=4", duration_s=1, warmup_s=0.2, rtt_ms=20
    )
    received = {"received": sum(arrivals.values()), "arrivals": arrivals}
    sent = {"sent": 900, "acked": acked, "timeouts": 0, "began_ns": 2 * 10**9}
    for name, counts in (("receiver", received), ("sender", sent)):
        (folder / f"{name}.log").write_text(json.dumps(counts))
    return datagram.FEATURE.collect(make_plan(condition, 7), folder, None)


def test_w2_received_payload_is_that_of_the_window(tmp_path):
    """W2: all that arrived, also long after the end, was divided by the run's duration."""
    arrivals = dict.fromkeys(range(200, 390), 4)
    found = collected(tmp_path, arrivals)
    assert found["received_mbit"] == pytest.approx(4 * 1472 * 8 / 1e6 / 0.01)
    assert found["datagrams_received"] == 190 * 4


def test_w2_run_in_which_no_datagram_arrives_receives_0(tmp_path):
    assert collected(tmp_path, {})["received_mbit"] == 0
    late = collected(tmp_path, {300: 7})
    assert (late["received_mbit"], late["datagrams_received"]) == (0, 7)
