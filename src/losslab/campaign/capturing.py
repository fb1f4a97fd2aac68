"""Measurement of a future from the start, with captures."""

from __future__ import annotations

from pathlib import Path

from losslab.campaign import replicate, rerun
from losslab.campaign.export import SENDERS_LINK
from losslab.campaign.futures import Future
from losslab.campaign.rerun import Ready
from losslab.campaign.results import MANIFEST_FILE
from losslab.emulation import capture
from losslab.emulation.topology import interface
from losslab.errors import LosslabError
from losslab.study.condition import Condition

# Where data packets are captured just before netem drops some.
BEFORE_LOSS = interface("r2", "r1").name


def from_start(future: Future, prepared: Ready, out: Path) -> None:
    """Measure a future from the start, as a replicate of the condition that lists its drops.

    Its folder `out` also has captures of the sender's link and, if it fits into the guest's memory,
    of the link before the loss. `prepared` is that of its replicate, as from `rerun.ready`. Raises
    LosslabError if a file has other bytes than the future's.
    """
    _, tools, video = prepared
    manifest = future.manifest
    condition = Condition.from_json(manifest["cell"])
    links = [SENDERS_LINK]
    room = capture.ring_bytes(condition.rate_mbit, condition.duration_s)
    links += [BEFORE_LOSS] if 2 * room <= capture.RING_MAX_BYTES else []
    captures = dict.fromkeys((*manifest.get("captures", ()), *links))
    replicate.run(condition, manifest["seed"], out, tools, video, captures=[*captures])
    different = rerun.compare(future.folder, out).different
    for name in (*map(capture.name, links), MANIFEST_FILE):
        different.pop(name, None)
    if different:
        problems = "; ".join(f"{name}: {problem}" for name, problem in different.items())
        raise LosslabError(
            f"a future must have the bytes of its condition, measured from the start, found: "
            f"{problems}",
            hint="report this, with the replicate's manifest",
        )
