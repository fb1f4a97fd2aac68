"""Exercise A: a fixed window."""

from __future__ import annotations

from dataclasses import dataclass

from losslab.emulation.schemes import Scheme


@dataclass
class FixedWindow(Scheme):
    """Fixed window of `window` packets."""

    window: float = 10

    def window_packets(self) -> float:
        return self.window
