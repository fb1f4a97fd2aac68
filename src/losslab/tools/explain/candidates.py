"""What reports leave out: the settings that `losslab explain` tries."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from losslab import cellspec, variants
from losslab.instrument import kernels
from losslab.repository import ROOT
from losslab.study import design
from losslab.study.condition import AXES, Condition
from losslab.study.metrics import declared
from losslab.study.names import Names
from losslab.study.packetsizes import DEFAULT

RATE_UNIT = "Mbit/s"


@dataclass(frozen=True, eq=False)
class Setting:
    """What a report may leave out, or a pair of that: changes of axes, or of the unit of rates."""

    label: str
    changes: Mapping[str, Any] = field(default_factory=dict)  # as of `variants.changed`
    # Published rate / rate as losslab counts it; a setting with nothing else takes no run.
    rate_factor: float = 1.0
    pair: tuple[Setting, ...] = ()

    def __add__(self, other: Setting) -> Setting:
        """Return the pair of two settings."""
        return Setting(f"{self.label} + {other.label}", pair=(self, other),
                       rate_factor=self.rate_factor * other.rate_factor)  # fmt: skip

    @property
    def parts(self) -> tuple[Setting, ...]:
        """Return the settings of a pair, or the setting itself."""
        return self.pair or (self,)

    @property
    def subject(self) -> frozenset[str]:
        """What it changes: two settings for the same are never combined."""
        return frozenset(axis for part in self.parts for axis in part.changes or ("unit",))

    def factor(self, metric: str) -> float:
        """Return the factor from a metric as losslab counts it to one as published."""
        return self.rate_factor if declared()[metric].unit == RATE_UNIT else 1.0

    @functools.cache  # noqa: B019
    def condition(self, reported: Condition) -> Condition:
        """Return a reported condition with this setting; UsageError if it is impossible."""
        point = reported.to_json()
        for part in self.parts:
            changes = dict(part.changes)
            # A parameter of another algorithm than the flow's changes nothing.
            if str(changes.get("parameters", "")).partition(".")[0] not in ("", reported.algorithm):
                del changes["parameters"]
            # Without loss, there are no bursts.
            if not reported.loss_percent and "loss_percent" not in changes:
                changes.pop("loss_burst_packets", None)
            point = variants.changed(point, changes)
        return cellspec.condition(point, _names())


REPORTED = Setting("as reported")


@functools.cache
def _names() -> Names:
    return design.load_names(ROOT)


def built_in() -> Iterator[Setting]:
    """Yield what reports leave out."""
    listed: dict[str, Mapping[str, Any]] = {
        "offloads on": {"offloads": "on"},
        "offloads off": {"offloads": "off"},
        "sender's qdisc fq_codel": {"sender_queue": "fq_codel"},
        "netem on the sender": {"sender_delay_ms": "=rtt_ms"},
        **{f"buffer x{factor}": {"buffer_packets": f"x{factor}"} for factor in ("0.5", "2")},
        "queue fq_codel": {"queue": "fq_codel"},
        **{f"RTT x{factor}": {"rtt_ms": f"x{factor}"} for factor in ("0.9", "1.1")},
        **{f"RTT +{more} ms": {"rtt_ms": f"+{more}"} for more in (1, 2, 3)},
        **{f"rate x{factor}": {"rate_mbit": f"x{factor}"} for factor in ("0.95", "1.05")},
        **{f"loss x{factor}": {"loss_percent": f"x{factor}"} for factor in ("0.5", "2")},
        "loss both ways": {"loss_direction": "both"},
        "loss in bursts of 3": {"loss_burst_packets": 3},
        "receive buffer up to 2 MiB": {"receive_buffer": "linux-2mib"},
        "receive buffer large": {"receive_buffer": "large"},
        "receive window 64 KiB": {"window_bytes": 65535},
        "receive window 256 KiB": {"window_bytes": 262140},
        "no HyStart": {"parameters": "cubic.hystart=0"},
        "no SACK": {"sysctl": "both:net.ipv4.tcp_sack=0"},
        "no RACK": {"sysctl": "both:net.ipv4.tcp_recovery=0"},
        "initial window 3": {"initcwnd_packets": 3},
        "initial window 32": {"initcwnd_packets": 32},
        "1 of 4 ACKs": {"ack_thinning": 4},
        "ACKs in batches of 2 ms": {"ack_batch_ms": 2},
        "writes of 8 KiB": {"write_kib": 8},
        "duration x0.5": {"duration_s": "x0.5", "warmup_s": "x0.5"},
        "duration x2": {"duration_s": "x2"},
        "no warm-up left out": {"warmup_s": 0},
        "a second CUBIC flow": {"competitor": "cubic"},
        "policer at 0.8 of the rate": {"policer_mbit": "=rate_mbit x0.8"},
        "reordering of 1 %": {"reorder_percent": 1},
        "jitter of 1 ms": {"jitter_ms": 1},
        # The reported one changes nothing and is left out.
        **{f"shaper {name}": {"shaper": name} for name in AXES["shaper"].choices},
        **{f"kernel {name}": {"kernel": name}
           for name in kernels.declared()
           if re.fullmatch(r"[0-9.]+", name) and name != kernels.default().name},
    }  # fmt: skip
    yield from (Setting(label, changes) for label, changes in listed.items())
    yield Setting("headers counted", rate_factor=1 / DEFAULT.payload_share)
    yield Setting("MB are MiB", rate_factor=1 / 1.048576)
    yield Setting("MiB are MB", rate_factor=1.048576)
