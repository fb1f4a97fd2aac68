"""Congestion control in user space: a class for each scheme.

A study names a scheme as `NAME` or `NAME,parameter=value,...`, for example
`ewma,alpha=0.9,scale=1.5`. Each module without an underscore has one, as `template.py`; a user's
own are added (`extensions.py`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

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
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Scheme)
        and value.__module__ == module.__name__
    ]
    if len(classes) != 1 or not dataclasses.is_dataclass(classes[0]):
        raise LosslabError(
            f"{module.__file__} must define one dataclass that is a Scheme, found {len(classes)}"
        )
    return classes[0]


SCHEMES: dict[str, type[Scheme]] = {name: _scheme(name) for name in extensions.names("schemes")}
_PARAMETER = re.compile(r"([A-Za-z_]\w*)=([0-9]{1,12}(?:\.[0-9]{1,18})?)", re.ASCII)
# How a parameter is read, by the annotation of its field.
_KINDS: dict[str, Callable[[str], float]] = {
    "float": float, "int": int, "bool": lambda text: bool(int(text)),
}  # fmt: skip


def make_scheme(text: str) -> Scheme:
    """Create the scheme that `NAME,parameter=value,...` names."""
    name, *settings = text.split(",")
    if name not in SCHEMES:
        raise LosslabError(f"scheme must be one of {', '.join(SCHEMES)}, found {name!r}")
    scheme = SCHEMES[name]
    fields = [each for each in dataclasses.fields(scheme) if each.init]
    kinds = {each.name: str(getattr(each.type, "__name__", each.type)) for each in fields}
    parameters = {name: _KINDS[kind] for name, kind in kinds.items() if kind in _KINDS}
    values: dict[str, Any] = {}
    for setting in settings:
        match = _PARAMETER.fullmatch(setting)
        if match is None or match[1] not in parameters:
            raise LosslabError(
                f"parameters of scheme {name} must be {', '.join(parameters) or 'none'}, each as "
                f"NAME=NUMBER of at least 0, found {setting!r}"
            )
        if match[1] in values:
            raise LosslabError(f"scheme {name} must have each parameter once, found {setting!r}")
        try:
            values[match[1]] = parameters[match[1]](match[2])
        except ValueError:
            raise LosslabError(
                f"{match[1]} of scheme {name} must be an integer, found {match[2]}"
            ) from None
    try:
        return scheme(**values)
    except Exception as error:
        raise LosslabError(
            f"scheme {name} must begin with each field's default value or a parameter, found "
            f"{type(error).__name__}: {error}"
        ) from error
