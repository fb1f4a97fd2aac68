"""The verbs of a scheme."""

from __future__ import annotations

from dataclasses import dataclass


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
