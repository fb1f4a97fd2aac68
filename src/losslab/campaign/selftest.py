"""Measure one short cell, to know of a broken instrument before a campaign does."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from losslab.backends.base import Instrument
from losslab.campaign.replicate import run
from losslab.errors import HostError
from losslab.lock import own_folder
from losslab.study.condition import Condition

# Everything that a replicate does, in a second: loss, a queue, a bulk flow, probes and checks.
CONDITION = Condition(
    algorithm="cubic",
    loss_percent=1,
    path="symmetric",
    app="iperf3",
    rtt_ms=10,
    rate_mbit=20,
    buffer_packets=50,
    duration_s=2,
    warmup_s=0.5,
)
SEED = 1


def condition(hosts: str) -> Condition:
    """Return the short cell's condition with an image for its hosts."""
    return replace(CONDITION, image=hosts)


def require(instrument: Instrument) -> str:
    """Measure a short cell.

    Returns a line that says what was found and how long it took. Raises HostError if it is not
    valid; with what must hold, what was found, and the remedy.
    """
    begin = time.monotonic()
    with own_folder(Path(tempfile.gettempdir()), "losslab-selftest-") as folder:
        manifest = run(CONDITION, SEED, folder / "out", instrument, attempts=1)
    if not manifest["valid"]:
        raise HostError(
            f"the self-test's cell must be valid, found: {'; '.join(manifest['reasons'])}",
            hint="run `make setup`; if it stays so, this machine measures something else",
        )
    wall_s = time.monotonic() - begin
    goodput_mbit = manifest["summary"]["goodput_mbit"]
    return (
        f"self-test: valid in {wall_s:.1f} s ({CONDITION.algorithm} at {CONDITION.rate_mbit:g} "
        f"Mbit/s with {CONDITION.loss_percent:g} % loss: {goodput_mbit:.2f} Mbit/s)"
    )
