"""Exercise A: a window that never changes."""

from __future__ import annotations

from dataclasses import dataclass

from losslab.emulation.schemes.base import Scheme


@dataclass
class FixedWindow(Scheme):
    """Always `window` packets in flight."""

    window: float = 10

    def window_packets(self) -> float:
        return self.window
