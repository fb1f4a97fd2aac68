"""Progress of a campaign: its measured cells and runs, from its plan and the cells' folders."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
from pathlib import Path
from typing import Any

from losslab.campaign.plan import CampaignPlan, Planned
from losslab.campaign.results import RESULTS, read_cell
from losslab.reading import UsageError


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `status`."""
    shown = commands.add_parser("status")
    shown.add_argument("folder", nargs="?", type=Path, default=Path(), help="the campaign's folder")
    shown.add_argument("--json", action="store_true", help="print JSON")
    shown.set_defaults(run=_status)


def _status(options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps(facts(options.folder), indent=1))
    else:
        print("\n".join(report(options.folder)))
    return 0


def facts(folder: Path) -> dict[str, Any]:
    """Return the progress as data for JSON; UsageError if the folder has no started campaign."""
    plan = CampaignPlan.read(folder / RESULTS)
    cells = [each for each in plan.cells.values() if not each.recorded]
    runs = {f"{e.cell.study}/{e.cell.name}": _runs(e, folder / RESULTS) for e in cells}
    done = {name: its for name, its in runs.items() if its is not None}
    return {
        "running": running(folder),
        "cells": len(cells),
        "cells_done": len(done),
        "runs_done": sum(map(len, done.values())),
        "runs_at_least": sum(each.cell.stopping.minimum for each in cells),
        "invalid": {name: its.count(False) for name, its in done.items() if False in its},
    }


def report(folder: Path) -> list[str]:
    """Return the progress as text; UsageError if the folder has no started campaign."""
    its = facts(folder)
    state = "running" if its["running"] else "not running; repeat the same command to continue"
    if its["cells_done"] == its["cells"] and not its["running"]:
        state = "all cells are measured"
    runs = f"{its['runs_done']} runs of at least {its['runs_at_least']}"
    lines = [f"{its['cells_done']} of {its['cells']} cells, {runs}: {state}"]
    return lines + [f"invalid: {count} runs of {name}" for name, count in its["invalid"].items()]


def _runs(planned: Planned, results: Path) -> list[bool] | None:
    """Return whether each run of a cell is valid; None if it is not measured as planned."""
    try:
        cell = read_cell(planned.file(results))
        now = [each.manifest["fingerprint"]["digest"] for each in cell.replicates[:1]]
    except (LookupError, UsageError):
        return None
    as_planned = now in ([], [planned.fingerprint])
    return [row["valid"] for row in cell.rows] if as_planned else None


def running(folder: Path) -> bool:
    """Return whether a workflow runs in a folder; it locks the folder while it runs."""
    try:
        descriptor = os.open(folder / ".snakemake", os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
