"""Drop lists: netem drops exactly the listed packets instead of random ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation import droplist
from losslab.emulation.goodput import read_rows
from losslab.emulation.mechanism import Effect, Mechanism, MechanismResult
from losslab.errors import LosslabError
from losslab.study import schedule
from losslab.study.axes import NONE, Seed, axis

if TYPE_CHECKING:
    from losslab.emulation.checks import Evidence
    from losslab.emulation.hosts import Handle
    from losslab.emulation.outcome import Observations
    from losslab.emulation.plan import Plan
    from losslab.emulation.programs import Host
    from losslab.study.condition import Condition

PASSED, UNLISTED = "listed_passed", "unlisted_dropped"


@dataclass(frozen=True)
class Drops(Mechanism):
    """Lists of packets to drop, by direction."""

    drop_list: str = NONE

    order = 9
    needs_netem_links = True
    axes = {
        "drop_list": axis(
            NONE,
            help="packets that are dropped, by number, instead of random ones: `data 12,57 ack 3`; "
            "numbers count the packets of a direction from the start of the traffic, `data none` "
            "drops none; a direction without a list loses packets at random",
            pattern="[a-z0-9, ]+", named="drops-{}", commas=True, seed=Seed.NEVER,
        )
    }  # fmt: skip

    def conflicts(self, condition: Condition) -> Iterator[str]:
        if condition.drop_list == NONE:
            return
        if condition.pauses != NONE:
            yield "drop_list excludes pauses, whose loss is checked by phase"
        if schedule.OUTAGE in condition.changes:
            yield "drop_list excludes changes with outage_s, which drop every packet"
        try:
            lists = droplist.parse(condition.drop_list)
        except LosslabError as error:
            yield error.message
            return
        if lists.get("data") and condition.duplicate_percent > 0:
            yield (
                "drop_list of data excludes duplicate_percent, because one copy of a packet that "
                f"is both duplicated and dropped arrives; found {condition.duplicate_percent:g}"
            )

    @contextlib.contextmanager
    def attached(
        self, plan: Plan, nodes: Mapping[str, Host], handles: Mapping[str, Handle], folder: Path
    ) -> Iterator[dict[str, Any]]:
        """Set the lists before the traffic; packets of the idle path do not count."""
        droplist.start_counting(plan)
        droplist.drop_only(plan, droplist.parse(self.drop_list))
        yield {}

    def note(self, plan: Plan, observations: Observations, folder: Path) -> MechanismResult:
        """Count the listed packets that arrived and were not dropped, and unlisted drops."""
        lists = droplist.parse(self.drop_list)
        droplist.write(plan, lists, observations.run.timeline.origin_ns, folder / droplist.TABLE)
        rows = read_rows(folder / droplist.TABLE)
        passed = sum(row["outcome"] == "passed" for row in rows)
        unlisted = sum(row["listed"] == "0" and row["direction"] in lists for row in rows)
        return MechanismResult(counts={PASSED: passed, UNLISTED: unlisted})

    def effect(self, condition: Condition) -> Effect:
        ways = droplist.parse(self.drop_list)
        return Effect(checked_losses=frozenset(droplist.DIRECTIONS[way] for way in ways))

    def violations(self, e: Evidence) -> Iterator[str | None]:
        passed, unlisted = (e.traffic.others[name] for name in (PASSED, UNLISTED))
        if passed or unlisted:
            yield (
                f"exactly the listed packets must be dropped, found {passed} that passed and "
                f"{unlisted} other drops: see {droplist.TABLE}"
            )


FEATURE = Drops()
