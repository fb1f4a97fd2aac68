"""Base class of apps, which make a condition's traffic.

Each app is a module of `apps` with a `FEATURE`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from losslab.emulation.goodput import Goodput
from losslab.emulation.topology import NetworkExtension
from losslab.study import features
from losslab.study.features import Feature

if TYPE_CHECKING:
    from pathlib import Path

    from losslab.emulation.programs import Flow, Timeline
    from losslab.study.condition import Condition

# Folder of the user's files in a job's folder.
USER_FILES = "brought"


class App(Feature):
    """An app, named after its module. `plan` is a `plan.Plan`, whose module imports this one."""

    meaning: ClassVar[str] = ""  # description in the documentation of the axis `app`
    image: ClassVar[str] = ""  # default image of the hosts; empty: the host image
    seeds_as: ClassVar[str] = ""  # app whose seeds it uses; empty: its own
    # Its programs may use UDP segmentation offload.
    udp_offloads: ClassVar[bool] = False
    with_ecn: ClassVar[bool] = True  # its packets may use ECN
    own_ecn: ClassVar[bool] = False  # its programs decide by themselves whether they use ECN
    with_competitor: ClassVar[bool] = False  # a second bulk flow may run with it
    with_flows: ClassVar[bool] = True  # background flows may run with it
    with_ipv6: ClassVar[bool] = False  # its programs take the addresses of the axis `ip_version`
    setup_rtts: ClassVar[int] = 0  # round trips from its caller's start to its data connection
    start_s: ClassVar[float] = 0.1  # wall time of starting its programs
    per_s: ClassVar[float] = 0.004  # wall time of its probes and timers per second of the run
    # Names of its data connections in figures, by source port; the first is the one to judge.
    ports: ClassVar[Mapping[int, str]] = {}
    # Its intervals.csv gives goodputs per second and over parts of the run.
    per_second: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Return the app's choice of the axis `app`."""
        return type(self).__module__.rpartition(".")[2]

    def used(self, condition: Condition) -> bool:
        """Return whether a condition uses the app."""
        return condition.app == self.name

    def conflicts(self, condition: Condition) -> Iterator[str]:
        """Refuse the app's axes with other apps."""
        for name in self.changed(condition):
            value = getattr(condition, name)
            if not self.used(condition):
                yield f"{name} {value} needs the app {self.name}, found {condition.app}"

    def flows(self, condition: Condition, video: Path | None = None) -> list[Flow]:
        """List the app's flows in the order of their start; `video` is the file of `ffmpeg`."""
        raise NotImplementedError

    def network(self, condition: Condition) -> NetworkExtension:
        """Return the hosts, links, addresses and routes that its programs need."""
        return NetworkExtension()

    def collect(self, plan: Any, folder: Path, timeline: Timeline) -> dict[str, Any]:
        """Return the app's metrics; write its tables to the folder of its logs and tcp.csv."""
        raise NotImplementedError

    def violations(self, plan: Any, folder: Path) -> Iterator[str]:
        """Yield what its programs did other than the plan says, from their logs."""
        yield from ()

    def goodputs(self, summary: Mapping[str, Any], plan: Any) -> list[Goodput]:
        """List the goodputs that the link's rate limits, from the app's metrics; never empty."""
        return [Goodput(summary["goodput_mbit"], plan.duration_s - plan.warmup_s)]

    def input_command(self, condition: Condition, output: str) -> list[str] | None:
        """Return the command that makes its input file on the image; None if it has none."""
        return None

    def foreign(self, condition: Condition) -> list[str]:
        """List programs of the condition's author, quoted to escape control characters."""
        return []

    def expected_mbit(self, condition: Condition, rate_mbit: float) -> float | None:
        """Estimate the app's rate on a link in Mbit/s; None if the network limits the rate."""
        return None


def apps() -> Mapping[str, App]:
    """Return all apps by name."""
    return features.modules("apps")
