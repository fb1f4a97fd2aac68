"""Futures of a replicate: its past, rebuilt up to a cut, and what could have followed.

A future in which other packets were dropped is a replicate of the condition that lists its drops
(axis `drop_list`): measured from the start, it has the same bytes. A future in which connections
changed their congestion control is no replicate of a condition; its manifest has a `future`.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from losslab.backends.base import Instrument, Job, Outcome
from losslab.backends.registry import BACKENDS
from losslab.backends.snapshot import Snapshots
from losslab.campaign import replicate
from losslab.campaign.rerun import FUTURE
from losslab.emulation import droplist
from losslab.emulation.mechanism import loss_percent
from losslab.emulation.topology import interface, reverse_router
from losslab.errors import LosslabError
from losslab.reading import UsageError, read_rows
from losslab.study.axes import NONE, derived_seed
from losslab.study.condition import Condition
from losslab.tools.timetravel.cut import Cut, cut

# netem's probabilities are integers (tc_netem_qopt.loss, linux/pkt_sched.h).
CERTAIN = 2**32 - 1


@dataclass(frozen=True)
class Change:
    """A change at a cut; without any, a future continues as the replicate did."""

    label: str
    drop: droplist.Lists = field(default_factory=dict)
    spare: droplist.Lists = field(default_factory=dict)
    only: droplist.Lists = field(default_factory=dict)  # drop these and no others
    loss_percent: float | None = None
    algorithm: str | None = None

    @property
    def of_losses(self) -> bool:
        """Return whether it changes which packets are dropped."""
        return bool(self.drop or self.spare or self.only) or self.loss_percent is not None


@dataclass(frozen=True)
class Drop:
    """A packet that was dropped at random or by a list."""

    direction: str
    number: int
    t_s: float  # on the clock of the replicate's tables
    size_bytes: int


@dataclass(frozen=True)
class Future:
    """A future, in its folder."""

    change: Change
    draw: int | None
    at_s: float  # time of the cut
    folder: Path
    manifest: dict[str, Any]
    drops: list[Drop]


def at_once() -> int:
    """Return the number of futures that run at the same time."""
    return len(os.sched_getaffinity(0))


UNTOUCHED, REDRAWN = Change("untouched"), Change("losses drawn anew")


@dataclass(frozen=True)
class Past:
    """A replicate up to a cut."""

    guest: Cut
    condition: Condition
    seed: int
    at_s: float
    captures: Sequence[str]
    video: Path | None

    def run(self, change: Change, out: Path, draw: int | None = None) -> Future:
        """Run a future into a new folder, as `replicate.run`.

        `draw` is the number of the draw of the losses after the cut; None: as in the replicate.
        Raises LosslabError if the path does not allow the change.
        """
        orders = self.orders(change, draw)
        own_drops = change.of_losses or draw is not None
        tools = self.guest.tools
        inputs = replicate.inputs_of(self.condition, self.seed, tools, self.video, self.captures)
        if change.algorithm is not None:
            inputs[FUTURE] = {"at_s": self.at_s, "algorithm": change.algorithm}

        def prepare(folder: Path) -> None:
            if orders:
                future = {"own_drops": own_drops, "algorithm": change.algorithm}
                (folder / droplist.FUTURE).write_text(json.dumps(future))

        def measure(folder: Path) -> Outcome:
            outcome = self.guest.future(folder, orders, prepare)
            condition = Condition.from_json(outcome.result["cell"])
            inputs.update(
                replicate.inputs_of(condition, self.seed, tools, self.video, self.captures)
            )
            drops.extend(drops_of(folder))
            return outcome

        drops: list[Drop] = []
        manifest = replicate.attempt(inputs, measure, out, tools, [], last=True)
        return Future(change, draw, self.at_s, out, manifest, drops)

    def run_all(self, wanted: Sequence[tuple[Change, Path, int | None]]) -> list[Future]:
        """Run futures, one on each CPU at a time; each has the arguments of `run`."""
        with ThreadPoolExecutor(at_once()) as pool:
            return [*pool.map(lambda each: self.run(*each), wanted)]

    def orders(self, change: Change, draw: int | None = None) -> list[str]:
        """Return the orders to the kernel for a change; see `run`."""
        loss, path = self.condition.loss_percent, self.condition.path
        if change.loss_percent is not None:
            loss = change.loss_percent
        redrawn = draw is not None or change.loss_percent is not None
        if redrawn or change.of_losses:
            self._require_lists(redrawn)
        losing = Condition.from_json(self.condition.to_json() | {"loss_percent": 1.0})
        orders = []
        for way, direction in droplist.DIRECTIONS.items():
            device = droplist.device(way, reverse_router(path))
            if redrawn and loss_percent(losing, direction) > 0:  # packets can be lost at random
                seed = derived_seed(self.seed, f"future-{way}-{draw or 0}")
                orders.append(f"draw {device} {seed} {round(loss / 100 * CERTAIN)}")
            for kind in ("only", "drop", "spare"):
                if way in (lists := getattr(change, kind)):
                    numbers = " ".join(map(str, lists[way]))
                    orders.append(f"{kind} {device} {numbers}".rstrip())
        if change.algorithm is not None:
            if self.condition.flows != NONE or self.condition.competitor != NONE:
                raise UsageError(
                    "another algorithm at a cut needs a sender with a single flow, because it "
                    "changes all of its connections; found competitor or flows"
                )
            orders.append(f"algorithm {interface('sender', 'r1').name} {change.algorithm}")
        return orders

    def _require_lists(self, redrawn: bool) -> None:
        """Raise UsageError if the path does not allow drop lists, or new draws of its losses."""
        its = self.condition
        problems = Condition.from_json(its.to_json() | {"drop_list": "data 1"}).problems()
        if redrawn and (its.loss_burst_packets > 1 or its.drop_list != NONE):
            problems.append("new draws of losses exclude loss_burst_packets and drop_list")
        if problems:
            raise UsageError(f"this path's losses cannot be changed: {'; '.join(problems)}")


@contextlib.contextmanager
def past(
    manifest: Mapping[str, Any],
    prepared: tuple[Condition, Instrument, Path | None],
    at_s: float,
    folder: Path,
) -> Iterator[Past]:
    """Run a replicate up to a cut, on the clock of its tables; end its guest after the block.

    `prepared` is as from `rerun.ready`, and its files go to an empty folder. Raises LosslabError if
    the replicate cannot be cut.
    """
    condition, tools, video = prepared
    if not BACKENDS[tools.backend, tools.where].needs.guest:
        raise LosslabError(
            f"a cut needs a guest, found a run of {tools.backend} on the {tools.where}",
            hint="measure its condition again without `--where host`",
        )
    if not 0 <= at_s < condition.duration_s:
        raise UsageError(
            f"the time of a cut must be within the run, 0 to {condition.duration_s:g} s, found "
            f"{at_s:g}"
        )
    backend = BACKENDS[tools.backend, tools.where]
    captures = tuple(manifest.get("captures", ()))
    seed = manifest["seed"]
    task = replicate.prepare(folder, condition, seed, video, captures, tools.kernel)
    task |= {"cut_s": at_s}
    limit_s = replicate.limit_of(backend, condition)
    with Snapshots() as snapshots:
        job = Job(task, folder, seed, limit_s, snapshots=snapshots)
        with cut(backend, tools, job) as guest:
            yield Past(guest, condition, seed, at_s, captures, video)


def drops_of(folder: Path) -> list[Drop]:
    """Return the packets that were dropped in a job with a cut, given its folder."""
    return [
        Drop(row["direction"], int(row["number"]), float(row["t_s"]), int(row["bytes"]))
        for row in read_rows(folder / droplist.TABLE)
        if row["outcome"] == "dropped"
    ]
