"""The verbs of a scheme, and what BBR and its kin estimate from acknowledgements."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Ack:
    """An acknowledgement; times in ms, `received_ms` by the receiver's clock."""

    sequence: int
    sent_ms: float
    received_ms: float
    acked_ms: float
    in_flight: int  # packets, this one no longer among them

    @property
    def rtt_ms(self) -> float:
        """Return the round-trip time of the packet and its acknowledgement."""
        return self.acked_ms - self.sent_ms


@dataclass
class Scheme:
    """A congestion control that does nothing; subclasses say more.

    The sender asks for the window before it sends, and for the pacing where there is one; it tells
    what it sent and what was acknowledged. When nothing was acknowledged for `timeout_ms`, it sends
    one packet whatever the window says, so that a lost window does not end the flow.
    """

    def window_packets(self) -> float:
        """Say how many packets may be unacknowledged; a part of one does not count."""
        raise NotImplementedError

    def pacing_gap_ms(self) -> float:
        """Say how long to wait between two packets; 0 sends as the window allows."""
        return 0.0

    def timeout_ms(self) -> float:
        """Say how long to wait for an acknowledgement before sending a packet anyway."""
        return 1000.0

    def on_sent(self, sequence: int, now_ms: float) -> None:
        """Note that a packet was sent."""

    def on_ack(self, ack: Ack) -> None:
        """Note that a packet was acknowledged."""

    def on_timeout(self, now_ms: float) -> None:
        """Note that nothing was acknowledged for `timeout_ms`."""


@dataclass
class Delivery:
    """Packets delivered, how many had been when each left, and the least RTT seen.

    The delivery rate of a packet is what was delivered between its sending and its acknowledgement,
    over its RTT (Cheng and Cardwell, draft-cheng-iccrg-delivery-rate-estimation, section 2).
    """

    least_rtt_ms: float = 0.0  # 0 before the first acknowledgement
    _delivered: int = field(init=False, default=0)
    _delivered_at_sending: dict[int, int] = field(init=False, default_factory=dict)

    def on_sent(self, sequence: int) -> None:
        """Remember how much was delivered when this packet left."""
        self._delivered_at_sending[sequence] = self._delivered

    def rate_per_ms(self, ack: Ack) -> float:
        """Count an acknowledged packet; return its delivery rate in packets per ms."""
        self._delivered += 1
        rtt_ms = ack.rtt_ms
        if self.least_rtt_ms == 0 or rtt_ms < self.least_rtt_ms:
            self.least_rtt_ms = rtt_ms
        # A packet whose sending is not known counts nothing.
        before = self._delivered_at_sending.pop(ack.sequence, self._delivered)
        return (self._delivered - before) / rtt_ms
