"""Sender and receiver of UDP datagrams, with a congestion control of `schemes`.

The receiver acknowledges every datagram to its source address. An acknowledgement repeats the
datagram's struct and adds the receiver's clock. Datagrams are padded, acknowledgements are not.
Both ends count each sequence number once. The sender ignores repeated acknowledgements.
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
from typing import Any

from losslab.emulation.programs import Waiter
from losslab.emulation.schemes import Ack, Scheme, make_scheme

# sequence number, send time (ns, sender's clock), receive time (ns, receiver's clock)
MESSAGE = struct.Struct("!QQQ")
# With IPv4 and the default MTU. Another size follows the address, `ADDRESS/OCTETS`: one more module
# or option would change when Python collects garbage, which reads the clock.
DATAGRAM_BYTES = 1472
END_SEQUENCE = 2**64 - 1
# Length of the bins of time, on the monotonic clock, in which the receiver counts datagrams.
BIN_NS = 10_000_000
# No virtual time passes while the sender fills its window, so an endless one would never be full.
WINDOW_MAX_PACKETS = 2**17


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Sequences:
    """Set of sequence numbers, with a byte for each number up to the largest."""

    def __init__(self) -> None:
        self._known = bytearray()
        self.count = 0

    def add(self, sequence: int) -> bool:
        """Add a number; return whether it is new."""
        if sequence >= len(self._known):
            self._known.extend(bytes(sequence + 1 - len(self._known)))
        if self._known[sequence]:
            return False
        self._known[sequence] = 1
        self.count += 1
        return True


def receive(address: str, port: int) -> dict[str, Any]:
    """Acknowledge datagrams until the end marker arrives; return how many different ones came.

    `arrivals` has their number in each bin of time in which any came, by the bin's number.
    """
    with socket.socket(_family(address), socket.SOCK_DGRAM) as sock:
        sock.bind((address, port))
        received, arrivals = Sequences(), dict[int, int]()
        while True:
            data, sender = sock.recvfrom(65_536)
            sequence, sent_ns, _ = MESSAGE.unpack_from(data)
            if sequence == END_SEQUENCE:
                return {"received": received.count, "arrivals": arrivals}
            now_ns = time.monotonic_ns()
            if received.add(sequence):
                number = now_ns // BIN_NS
                arrivals[number] = arrivals.get(number, 0) + 1
            sock.sendto(MESSAGE.pack(sequence, sent_ns, now_ns), sender)


class Sender:
    """Sender that keeps the scheme's window full."""

    def __init__(
        self, scheme: Scheme, sock: socket.socket, warmup_s: float = 0.0,
        octets: int = DATAGRAM_BYTES,
    ) -> None:  # fmt: skip
        self._scheme, self._socket = scheme, sock
        self._padding = bytes(octets - MESSAGE.size)
        self._waiter = Waiter(sock.fileno())
        self._warmup_ms = warmup_s * 1e3
        self._sequence = 0
        # Lower sequence numbers are not in flight: a datagram that is overtaken counts as lost.
        self._acked_to = 0
        self._next_send_ms = 0.0
        self.began_ns = time.monotonic_ns()
        self._acknowledged = Sequences()
        self.acked = 0  # datagrams acknowledged after the warm-up
        self.timeouts = 0

    @property
    def sent(self) -> int:
        """Return the number of datagrams sent."""
        return self._sequence

    def run(self, duration_s: float) -> None:
        """Send for `duration_s` seconds.

        Each turn reads the clock once: a clock read costs as much as sending a datagram, and no
        virtual time passes within a turn.
        """
        end_ms = duration_s * 1e3
        timer_started_ms = 0.0
        now_ms = self._now_ms()
        while now_ms < end_ms:
            while self._window_is_open() and now_ms >= self._next_send_ms:
                self._send(now_ms)
            timeout_at_ms = timer_started_ms + self._of_scheme("timeout_ms")
            wake_ms = min(timeout_at_ms, end_ms)
            if self._window_is_open():
                wake_ms = min(wake_ms, self._next_send_ms)
            acknowledged = self._waiter.wait(max(0, math.ceil((wake_ms - now_ms) * 1e6)))
            now_ms = self._now_ms()
            if acknowledged:
                timer_started_ms = now_ms
                self._receive_ack(now_ms)
            elif now_ms >= timeout_at_ms:
                timer_started_ms = now_ms
                self.timeouts += 1
                self._scheme.on_timeout(now_ms)
                self._send(now_ms)

    def _now_ms(self) -> float:
        return (time.monotonic_ns() - self.began_ns) / 1e6

    def _window_is_open(self) -> bool:
        in_flight = self._sequence - self._acked_to
        if in_flight >= WINDOW_MAX_PACKETS:
            sys.exit(
                f"the scheme's window must be at most {WINDOW_MAX_PACKETS} packets, found "
                f"{self._scheme.window_packets():g}"
            )
        return in_flight < int(min(self._of_scheme("window_packets"), WINDOW_MAX_PACKETS))

    def _of_scheme(self, name: str) -> float:
        """Call a method of the scheme; end with an error unless it returns a number in range."""
        value: float = getattr(self._scheme, name)()
        # Timeouts with no time between them would never end.
        least = 1e-6 if name == "timeout_ms" else 0
        if not isinstance(value, (int, float)) or not value >= least:
            sys.exit(f"the scheme's {name}() must be a number from {least:g}, found {value!r:.80}")
        return value

    def _send(self, now_ms: float) -> None:
        sent_ns = self.began_ns + round(now_ms * 1e6)
        self._socket.send(MESSAGE.pack(self._sequence, sent_ns, 0) + self._padding)
        self._scheme.on_sent(self._sequence, now_ms)
        self._sequence += 1
        self._next_send_ms = now_ms + self._of_scheme("pacing_gap_ms")

    def _receive_ack(self, now_ms: float) -> None:
        sequence, sent_ns, received_ns = MESSAGE.unpack_from(self._socket.recv(MESSAGE.size))
        if not self._acknowledged.add(sequence):
            return
        self.acked += now_ms >= self._warmup_ms
        self._acked_to = max(self._acked_to, sequence + 1)
        self._scheme.on_ack(
            Ack(
                sequence=sequence,
                sent_ms=(sent_ns - self.began_ns) / 1e6,
                received_ms=(received_ns - self.began_ns) / 1e6,
                acked_ms=now_ms,
                in_flight=self._sequence - self._acked_to,
            )
        )


# A full queue or an outage may drop the end marker, so the sender repeats it.
END_REPEATS = 60
END_INTERVAL_S = 1.0


def send(
    address: str, port: int, source_port: int, scheme: str, duration_s: float, warmup_s: float,
    octets: int,
) -> dict[str, int]:  # fmt: skip
    """Run a sender; return its counts."""
    with socket.socket(_family(address), socket.SOCK_DGRAM) as sock:
        sock.bind(("", source_port))
        sock.connect((address, port))
        sender = Sender(make_scheme(scheme), sock, warmup_s, octets)
        sender.run(duration_s)
        end = MESSAGE.pack(END_SEQUENCE, 0, 0)
        for _ in range(END_REPEATS):
            try:
                sock.send(end)
            except ConnectionRefusedError:  # the receiver got it and ended
                break
            time.sleep(END_INTERVAL_S)
        return {
            "sent": sender.sent, "acked": sender.acked, "timeouts": sender.timeouts,
            "began_ns": sender.began_ns,
        }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one end and print its counts as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    ends = parser.add_subparsers(dest="end", required=True)
    receiver, sender = map(ends.add_parser, ("receive", "send"))
    for end in (receiver, sender):
        end.add_argument("address")
        end.add_argument("port", type=int)
    sender.add_argument("--source-port", type=int, required=True)
    sender.add_argument("--scheme", required=True)
    sender.add_argument("--duration-s", type=float, required=True)
    sender.add_argument("--warmup-s", type=float, required=True)
    options = vars(parser.parse_args(arguments))
    gc.disable()  # collections read the clock; datagrams leave no reference cycles
    options["address"], _, octets = options["address"].partition("/")
    if options.pop("end") == "receive":
        counts = receive(**options)
    else:
        counts = send(**options, octets=int(octets or DATAGRAM_BYTES))
    print(json.dumps(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
