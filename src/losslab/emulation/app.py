"""Base of apps: what makes a condition's traffic. Each is a module of `apps` with a `FEATURE`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from losslab.study.features import Feature

if TYPE_CHECKING:
    from pathlib import Path

    from losslab.emulation.flows import Flow, Timeline
    from losslab.emulation.plan import Plan
    from losslab.study.condition import Condition


class App(Feature):
    """An app, by its module's name."""

    meaning: ClassVar[str] = ""  # what it is, where the axis `app` is explained
    image: ClassVar[str] = ""  # of its hosts where a condition names none; empty: the usual one
    seeds_as: ClassVar[str] = ""  # app with whose seeds it is measured; empty: seeds of its own
    # Its programs may hand the kernel many datagrams at once, for it to cut apart.
    udp_offloads: ClassVar[bool] = False
    with_ecn: ClassVar[bool] = True  # its packets may use ECN
    own_ecn: ClassVar[bool] = False  # its programs decide by themselves whether they use ECN
    with_competitor: ClassVar[bool] = False  # a second bulk flow may run with it
    with_flows: ClassVar[bool] = True  # background flows may
    setup_rtts: ClassVar[int] = 0  # round trips from its caller's start to its data connection
    start_s: ClassVar[float] = 0.1  # what its programs' start adds to a replicate's wall time
    per_s: ClassVar[float] = 0.004  # wall time of a second of its probes and timers

    @property
    def name(self) -> str:
        """Return its choice of the axis `app`."""
        return type(self).__module__.rpartition(".")[2]

    def used(self, condition: Condition) -> bool:
        """Tell whether a condition has it."""
        return condition.app == self.name

    def conflicts(self, condition: Condition) -> Iterator[str]:
        """Refuse its axes with other apps."""
        for name in self.changed(condition):
            value = getattr(condition, name)
            if not self.used(condition):
                yield f"{name} {value} needs the app {self.name}, found {condition.app}"

    def flows(self, condition: Condition, video: Path | None = None) -> list[Flow]:
        """List its flows in the order of their start.

        `video` is the stream that the app `ffmpeg` sends.
        """
        raise NotImplementedError

    def collect(self, plan: Plan, folder: Path, timeline: Timeline) -> dict[str, Any]:
        """Turn its logs and the samples into tables, and return its metrics.

        `folder` has the logs and tcp.csv, and gets the app's tables.
        """
        raise NotImplementedError

    def expected_mbit(self, condition: Condition, rate_mbit: float) -> float | None:
        """Estimate what it carries of a link's rate; None where it takes what it gets."""
        return None
