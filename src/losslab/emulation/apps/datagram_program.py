"""Sender and receiver of UDP datagrams, whose congestion control is one of `schemes`.

The receiver acknowledges every datagram to where it came from, with its own clock beside what the
datagram said. Datagrams and acknowledgements are one struct and padding.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import socket
import struct
import sys
import time
from collections.abc import Sequence

from losslab.emulation.schemes import Ack, Scheme, make_scheme
from losslab.emulation.waits import Waiter

# sequence, when it was sent (ns, sender's clock), when it was received (ns, receiver's clock)
MESSAGE = struct.Struct("!QQQ")
# With UDP's and IPv4's headers 1500 bytes: one opportunity of a trace.
DATAGRAM_BYTES = 1472
PADDING = bytes(DATAGRAM_BYTES - MESSAGE.size)
END_SEQUENCE = 2**64 - 1


def receive(address: str, port: int) -> dict[str, int]:
    """Acknowledge datagrams until one says that it is the last."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((address, port))
        count = 0
        while True:
            data, sender = sock.recvfrom(65_536)
            sequence, sent_ns, _ = MESSAGE.unpack_from(data)
            if sequence == END_SEQUENCE:
                return {"received": count}
            count += 1
            sock.sendto(MESSAGE.pack(sequence, sent_ns, time.monotonic_ns()), sender)


class Sender:
    """Keeps the scheme's window full for a time."""

    def __init__(self, scheme: Scheme, sock: socket.socket, warmup_s: float = 0.0) -> None:
        self._scheme, self._socket = scheme, sock
        self._waiter = Waiter(sock.fileno())
        self._warmup_ms = warmup_s * 1e3
        self._sequence = 0
        self._acked_to = 0  # all below count as no longer in flight: what is overtaken is lost
        self._next_send_ms = 0.0
        self._begin_ns = time.monotonic_ns()
        self.acked = 0  # after the warm-up
        self.timeouts = 0

    @property
    def sent(self) -> int:
        """Count the datagrams that were sent."""
        return self._sequence

    def run(self, duration_s: float) -> None:
        """Send for so long.

        The clock is read once per turn: a look at it costs as much as sending a datagram, and in
        virtual time none passes in between.
        """
        end_ms = duration_s * 1e3
        heard_ms = 0.0
        now_ms = self._now_ms()
        while now_ms < end_ms:
            while self._window_is_open() and now_ms >= self._next_send_ms:
                self._send(now_ms)
            patience_ms = heard_ms + self._scheme.timeout_ms()
            wake_ms = min(patience_ms, end_ms)
            if self._window_is_open():
                wake_ms = min(wake_ms, self._next_send_ms)
            acknowledged = self._waiter.wait(max(0, math.ceil((wake_ms - now_ms) * 1e6)))
            now_ms = self._now_ms()
            if acknowledged:
                heard_ms = now_ms
                self._take_ack(now_ms)
            elif now_ms >= patience_ms:
                heard_ms = now_ms
                self.timeouts += 1
                self._scheme.on_timeout(now_ms)
                self._send(now_ms)

    def _now_ms(self) -> float:
        return (time.monotonic_ns() - self._begin_ns) / 1e6

    def _window_is_open(self) -> bool:
        return self._sequence - self._acked_to < int(self._scheme.window_packets())

    def _send(self, now_ms: float) -> None:
        sent_ns = self._begin_ns + round(now_ms * 1e6)
        self._socket.send(MESSAGE.pack(self._sequence, sent_ns, 0) + PADDING)
        self._scheme.on_sent(self._sequence, now_ms)
        self._sequence += 1
        self._next_send_ms = now_ms + self._scheme.pacing_gap_ms()

    def _take_ack(self, now_ms: float) -> None:
        sequence, sent_ns, received_ns = MESSAGE.unpack_from(self._socket.recv(MESSAGE.size))
        self.acked += now_ms >= self._warmup_ms
        self._acked_to = max(self._acked_to, sequence + 1)
        self._scheme.on_ack(
            Ack(
                sequence=sequence,
                sent_ms=(sent_ns - self._begin_ns) / 1e6,
                received_ms=(received_ns - self._begin_ns) / 1e6,
                acked_ms=now_ms,
                in_flight=self._sequence - self._acked_to,
            )
        )


# The end may meet a full queue or an outage; it is said again until the receiver must have heard.
END_REPEATS = 60
END_INTERVAL_S = 1.0


def send(
    address: str, port: int, source_port: int, scheme: str, duration_s: float, warmup_s: float
) -> dict[str, int]:
    """Run a sender; return what it counted."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("", source_port))
        sock.connect((address, port))
        sender = Sender(make_scheme(scheme), sock, warmup_s)
        sender.run(duration_s)
        end = MESSAGE.pack(END_SEQUENCE, 0, 0)
        for _ in range(END_REPEATS):
            try:
                sock.send(end)
            except ConnectionRefusedError:  # the receiver has heard it and is gone
                break
            time.sleep(END_INTERVAL_S)
        return {"sent": sender.sent, "acked": sender.acked, "timeouts": sender.timeouts}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one end; its counts go to standard output as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    ends = parser.add_subparsers(dest="end", required=True)
    for name in ("receive", "send"):
        end = ends.add_parser(name)
        end.add_argument("address")
        end.add_argument("port", type=int)
        if name == "send":
            end.add_argument("--source-port", type=int, required=True)
            end.add_argument("--scheme", required=True)
            end.add_argument("--duration-s", type=float, required=True)
            end.add_argument("--warmup-s", type=float, required=True)
    options = parser.parse_args(arguments)
    gc.disable()  # as in measure.py; datagrams come and go without cycles
    if options.end == "receive":
        counts = receive(options.address, options.port)
    else:
        counts = send(
            options.address,
            options.port,
            options.source_port,
            options.scheme,
            options.duration_s,
            options.warmup_s,
        )
    print(json.dumps(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
