"""Options of all cases."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """Options of the command line, and the folder for logs."""

    out: Path
    instruments: Path | None = None
    artifact: Path | None = None
    keep_artifact: Path | None = None
    campaign: Path | None = None
    full: bool = False
    write: bool = False
