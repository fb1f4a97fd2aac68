"""`losslab status`: how far the campaign in a folder is, asked from another terminal."""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from losslab.reading import UsageError
from losslab.screen import words
from losslab.screen.cells import Cells
from losslab.screen.stages import FOLDER, PROGRESS_FILE, Tally


def report(folder: Path) -> list[str]:
    """Say how far the campaign in a folder is, or how it ended.

    Raises:
        UsageError: none was started there.
    """
    tally = _tally(folder)
    cells = Cells.of(folder / FOLDER, folder)
    now_s = time.time()
    if not running(folder):
        # Killed: it could not say when it ended.
        ended_s = tally.ended_s or (folder / FOLDER / PROGRESS_FILE).stat().st_mtime
        tally.ended_s = ended_s
        return [
            *words.lines(tally, cells.todo() if cells else None, ended_s),
            *words.summary(tally, cells.every() if cells else None, ended_s),
        ]
    begun = f"losslab: running for {words.duration(now_s - tally.began_s)}"
    return [
        f"{begun} (process {tally.process})",
        *words.lines(tally, cells.todo() if cells else None, now_s),
        *(f"FAILED     {what}" for what in tally.failures),
    ]


def facts(folder: Path) -> dict[str, Any]:
    """Say the same for a machine.

    Raises:
        UsageError: none was started there.
    """
    tally = _tally(folder)
    cells = Cells.of(folder / FOLDER, folder)
    return {
        "running": running(folder),
        "complete": tally.complete,
        "began_s": tally.began_s,
        "ended_s": tally.ended_s,
        "failures": tally.failures,
        "targets": tally.targets,
        "stages": {name: asdict(stage) for name, stage in tally.stages.items()},
        "cells": asdict(cells.every()) if cells else None,
    }


def _tally(folder: Path) -> Tally:
    tally = Tally.read(folder / FOLDER)
    if tally is None:
        raise UsageError(
            f"{folder.resolve()} must have a campaign, found none that was started",
            hint="run this where snakemake runs, or name that folder: losslab status DIR",
        )
    return tally


def running(folder: Path) -> bool:
    """Tell whether a workflow works in a folder: it holds it as long as it lives."""
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
