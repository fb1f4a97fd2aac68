"""How far a campaign's cells are, from what lies in their folders."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.campaign.folder import MANIFEST_FILE, write_json
from losslab.reading import UsageError, read_json
from losslab.study.reading import check_schema

CAMPAIGN_FILE = "campaign.json"
RESULT = "cell.json"


@dataclass(frozen=True)
class Count:
    """Cells and their runs."""

    cells: int = 0
    cells_done: int = 0
    runs: int = 0  # at the least
    runs_done: int = 0
    invalid: int = 0
    invalid_in: tuple[str, ...] = ()  # cells


def note(folder: Path, least: Mapping[str, int], todo: Collection[str], began_s: float) -> None:
    """Leave what a campaign is to measure for whoever counts it.

    Args:
        folder: Where to.
        least: The cells' folders, and how many runs each is to have at the least.
        todo: Those that have to be measured (again).
        began_s: When, in seconds since 1970.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ordered = {cell: least[cell] for cell in sorted(least)}
    campaign = {"least": ordered, "todo": sorted(todo), "began_s": began_s}
    write_json(campaign, folder / CAMPAIGN_FILE)


class Cells:
    """Counts cells; reads each that is done once."""

    def __init__(self, campaign: Mapping[str, Any], root: Path) -> None:
        """Count the cells of what `note` left, in folders below `root`."""
        self._least: dict[str, int] = campaign["least"]
        self._todo = set(campaign["todo"])
        self._began_s: float = campaign["began_s"]
        self._root = root
        self._done: dict[str, tuple[int, int]] = {}  # runs and invalid ones of those done

    @classmethod
    def of(cls, folder: Path, root: Path) -> Cells | None:
        """Read what `note` left; None where there is nothing, or something else."""
        path = folder / CAMPAIGN_FILE
        try:
            campaign = read_json(path)
            check_schema(campaign, "measuring", str(path))
        except UsageError:
            return None
        return cls(campaign, root)

    def todo(self) -> Count:
        """Count those that this start measures."""
        return self._count(self._todo)

    def every(self) -> Count:
        """Count those of the campaign."""
        return self._count(self._least)

    def _count(self, cells: Iterable[str]) -> Count:
        names = sorted(cells)
        for name in names:
            if name not in self._done:
                self._look(name)
        done = {name: self._done[name] for name in names if name in self._done}
        under_way = [name for name in names if name not in done]
        measured = {name: self._measured(name) for name in under_way}
        return Count(
            cells=len(names),
            cells_done=len(done),
            runs=sum(runs for runs, _ in done.values())
            + sum(max(self._least[name], measured[name]) for name in under_way),
            runs_done=sum(runs for runs, _ in done.values()) + sum(measured.values()),
            invalid=sum(invalid for _, invalid in done.values()),
            invalid_in=tuple(name for name, (_, invalid) in done.items() if invalid),
        )

    def _look(self, name: str) -> None:
        """Note a cell that is done, by this start where it is this one's to measure."""
        path = self._root / name / RESULT
        try:
            if name in self._todo and path.stat().st_mtime < self._began_s:
                return
            runs = read_json(path)["replicates"]
            self._done[name] = len(runs), sum(not run["valid"] for run in runs)
        # Not there, or being written; what else is in it, others complain about.
        except (OSError, UsageError, KeyError, TypeError):
            return

    def _measured(self, name: str) -> int:
        """Count the runs that a cell under way has by now."""
        found = 0
        for path in (self._root / name).glob(f"*/{MANIFEST_FILE}"):
            try:
                found += path.parent.name.isdigit() and path.stat().st_mtime >= self._began_s
            except OSError:  # replaced meanwhile
                continue
        return found
