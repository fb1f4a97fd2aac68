"""Cuts: a guest that can be forked in the middle of its traffic, and what its futures do.

A guest announces the time of a cut when its traffic starts. At that time its kernel waits to be
forked, between two events (kernel patch 0015), so that no program of the guest notices. Only the
replicate's end differs: it records which packets were dropped, and a future summarises itself as
the condition that it is a replicate of.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from losslab.emulation import droplist
from losslab.emulation.plan import Plan, make_plan
from losslab.study.condition import Condition

if TYPE_CHECKING:
    from losslab.emulation.traffic import Run

SNAPSHOT = "/proc/snapshot"
# In the job's folder: the packets that were dropped; and of a changed future, whether its drops are
# part of its condition, and the congestion control of its flows if it is another.
TABLE, FUTURE = "drops.csv", "future.json"


@dataclass(frozen=True)
class Announcement:
    """Announcement of a cut; a `traffic.Session`."""

    plan: Plan
    cut_s: float  # on the samples' clock
    complete = True  # the traffic may end before the cut, which is then refused

    @contextlib.contextmanager
    def running(self, origin_ns: int) -> Iterator[None]:
        """Ask for the cut, and count packets from now. Both take no virtual time."""
        droplist.start_counting(self.plan)
        descriptor = os.open(SNAPSHOT, os.O_WRONLY)
        os.write(descriptor, f"cut {round(self.cut_s * 1e9)}".encode())
        os.close(descriptor)
        yield


def ended(
    plan: Plan, condition: Condition, seed: int, run: Run, folder: Path, video: Path | None
) -> tuple[Condition, Plan]:
    """Record which packets were dropped; return the condition and the plan of this future.

    The arguments are those up to the cut, and the job's folder.
    """
    recorded = droplist.records(plan, droplist.KERNEL_FILE.read_text())
    lists = droplist.parse(condition.drop_list)
    lines = droplist.rows(recorded, lists, run.timeline.origin_ns)
    (folder / TABLE).write_text("\n".join(lines) + "\n")
    if not (folder / FUTURE).exists():
        return condition, plan
    future = json.loads((folder / FUTURE).read_text())
    if future["own_drops"]:
        own = {way: tuple(drop.number for drop in its.drops) for way, its in recorded.items()}
        # Acknowledgements that are never lost have no list.
        kept = {way: numbers for way, numbers in own.items() if way == "data" or numbers}
        condition = Condition.from_json(condition.to_json() | {"drop_list": droplist.to_text(kept)})
        plan = make_plan(condition, seed, video)
    if future["algorithm"] is not None:
        plan = with_algorithm(plan, future["algorithm"])
    return condition, plan


def with_algorithm(plan: Plan, name: str) -> Plan:
    """Return the plan of a future whose flows changed their congestion control."""
    flows = [replace(start.flow, algorithm=name) for start in plan.starts]
    starts = [replace(s, flow=flow) for s, flow in zip(plan.starts, flows, strict=True)]
    return replace(plan, starts=starts)
