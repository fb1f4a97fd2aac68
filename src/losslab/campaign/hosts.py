"""The kind of hosts of cells that may run in containers or in plain hosts.

A block with `backend: any` runs in Docker containers where this machine has the image of Docker's
engine, and elsewhere in plain hosts of the same guest. Both leave the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from losslab.backends.base import CONTAINERNET, VIRTUAL
from losslab.instrument import image
from losslab.study.design import Cell

# The choice of the machine that starts a campaign, for jobs on other machines.
VARIABLE = "LOSSLAB_HOSTS"


def chosen(config: Any) -> Any:
    """Return a campaign's configuration with the kind of hosts for `backend: any`.

    Anything but a mapping is returned as it is; the configuration's schema refuses it.
    """
    if not isinstance(config, Mapping):
        return config
    here = VIRTUAL if image.existing(image.ENGINE) is None else CONTAINERNET
    return {"hosts": os.environ.get(VARIABLE, here)} | dict(config)


def variable(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variable that repeats the choice in a campaign's jobs."""
    return {VARIABLE: str(chosen(config)["hosts"])}


def is_container(instrument: Mapping[str, Any]) -> bool:
    """Return whether the hosts of a replicate with this instrument were containers."""
    return "engine" in instrument


def measured(cell: Cell, rows: Sequence[Mapping[str, Any]]) -> Cell:
    """Return a cell with the kind of hosts of its cell.json's replicates, if it accepts any."""
    if not cell.any_backend or not rows:
        return cell
    return replace(cell, backend=CONTAINERNET if is_container(rows[0]["instrument"]) else VIRTUAL)
