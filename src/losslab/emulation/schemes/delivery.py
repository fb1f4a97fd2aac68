"""What BBR and its kin estimate from acknowledgements: delivery rate and least RTT."""

from __future__ import annotations

from dataclasses import dataclass, field

from losslab.emulation.schemes.base import Ack


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
