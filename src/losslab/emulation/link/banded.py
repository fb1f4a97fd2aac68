"""Qdiscs of an exact link that follows a trace, and of what bypasses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from losslab.emulation.qdiscs import Link, Qdisc
from losslab.emulation.topology import Interface

# Size of the queue of what bypasses a link, which never fills.
SPARE_PACKETS = 1000


def banded(
    where: Interface, parent: str, handles: tuple[str, str, str], queue: Sequence[Qdisc]
) -> list[Qdisc]:
    """List the qdiscs of a link with its queue, and of a band for what bypasses it.

    `handles` are those of the bands, of the bypass and of the link. The queue's first qdisc becomes
    the link's child.
    """
    bands, bypass, link = handles
    spare = {"limit": SPARE_PACKETS}
    first, *others = queue
    return [
        Qdisc(where, parent, bands, "prio", "bands 2 priomap " + " ".join("0" * 16), {"bands": 2}),
        Qdisc(where, f"parent {bands}1", bypass, "pfifo", f"limit {SPARE_PACKETS}", spare),
        Link(where, f"parent {bands}2", link, "link", "", {}, record=True),
        replace(first, parent=f"parent {link}1"),
        *others,
    ]
