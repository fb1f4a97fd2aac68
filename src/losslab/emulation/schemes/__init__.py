"""Congestion control in user space: a class for each scheme.

A study names a scheme as `NAME` or `NAME,parameter=value,...`, for example
`ewma,alpha=0.9,scale=1.5`. Each module without an underscore has one, as `template.py`; a user's
own are added (`extensions.py`).
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field

from losslab import extensions
from losslab.errors import LosslabError


@dataclass(frozen=True)
class Ack:
    """Acknowledgement; times in ms, `received_ms` on the receiver's clock."""

    sequence: int
    sent_ms: float
    received_ms: float
    acked_ms: float
    in_flight: int  # packets, without this one

    @property
    def rtt_ms(self) -> float:
        """Return the RTT of the packet."""
        return self.acked_ms - self.sent_ms


@dataclass
class Scheme:
    """Base class of congestion controls.

    The sender reads the window and the pacing gap, and reports sent and acknowledged packets. After
    `timeout_ms` without an acknowledgement, it sends one packet regardless of the window, so that
    the loss of a whole window does not end the flow.
    """

    def window_packets(self) -> float:
        """Return the maximum number of packets in flight; the sender rounds it down."""
        raise NotImplementedError

    def pacing_gap_ms(self) -> float:
        """Return the minimum time between two packets in ms; 0 for no pacing."""
        return 0.0

    def timeout_ms(self) -> float:
        """Return the time in ms without an acknowledgement after which a packet is sent anyway."""
        return 1000.0

    def on_sent(self, sequence: int, now_ms: float) -> None:
        """Handle a sent packet."""

    def on_ack(self, ack: Ack) -> None:
        """Handle an acknowledgement."""

    def on_timeout(self, now_ms: float) -> None:
        """Handle `timeout_ms` without an acknowledgement."""


@dataclass
class Delivery:
    """Estimator of delivery rate and minimum RTT.

    The delivery rate of a packet is the number of packets delivered between its sending and its
    acknowledgement, divided by its RTT (Cheng and Cardwell,
    draft-cheng-iccrg-delivery-rate-estimation, section 2).
    """

    min_rtt_ms: float = 0.0  # 0 before the first acknowledgement
    _delivered: int = field(init=False, default=0)
    _delivered_at_sending: dict[int, int] = field(init=False, default_factory=dict)

    def on_sent(self, sequence: int) -> None:
        """Record the number of packets delivered before this one is sent."""
        self._delivered_at_sending[sequence] = self._delivered

    def rate_per_ms(self, ack: Ack) -> float:
        """Count an acknowledged packet; return its delivery rate in packets per ms."""
        self._delivered += 1
        rtt_ms = ack.rtt_ms
        if self.min_rtt_ms == 0 or rtt_ms < self.min_rtt_ms:
            self.min_rtt_ms = rtt_ms
        # The rate is 0 if `on_sent` did not record the packet.
        before = self._delivered_at_sending.pop(ack.sequence, self._delivered)
        return (self._delivered - before) / rtt_ms


def _scheme(name: str) -> type[Scheme]:
    """Return the class of a module."""
    module = extensions.load("schemes", name)
    found = [
        each
        for each in vars(module).values()
        if isinstance(each, type)
        and issubclass(each, Scheme)
        and each.__module__ == module.__name__
    ]
    if len(found) != 1 or not dataclasses.is_dataclass(found[0]):
        raise LosslabError(
            f"{module.__file__} must define one dataclass that is a Scheme, found {len(found)}"
        )
    return found[0]


SCHEMES: dict[str, type[Scheme]] = {name: _scheme(name) for name in extensions.names("schemes")}
_PARAMETER = re.compile(r"([a-z_]+)=([0-9]{1,12}(?:\.[0-9]{1,18})?)")


def make_scheme(text: str) -> Scheme:
    """Create the scheme that `NAME,parameter=value,...` names."""
    name, *settings = text.split(",")
    if name not in SCHEMES:
        raise LosslabError(f"scheme must be one of {', '.join(SCHEMES)}, found {name!r}")
    scheme = SCHEMES[name]
    parameters = [field.name for field in dataclasses.fields(scheme) if field.init]
    values: dict[str, float] = {}
    for setting in settings:
        match = _PARAMETER.fullmatch(setting)
        if match is None or match[1] not in parameters:
            raise LosslabError(
                f"parameters of scheme {name} must be {', '.join(parameters) or 'none'}, each as "
                f"NAME=NUMBER, found {setting!r}"
            )
        if match[1] in values:
            raise LosslabError(f"scheme {name} must have each parameter once, found {setting!r}")
        values[match[1]] = float(match[2])
    return scheme(**values)
