"""Where a number comes from: what a replicate was measured with, and on which machine, when."""

from __future__ import annotations

import functools
import hashlib
import platform
from datetime import datetime
from pathlib import Path
from typing import Any

from losslab import __version__, processes
from losslab.campaign.folder import FORMAT


def digest(content: str | bytes | None) -> str | None:
    """Return the SHA-256 of a text or of bytes in hexadecimal digits."""
    if content is None:
        return None
    octets = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(octets).hexdigest()


def host(
    started: datetime,
    wall_s: float | None,
    earlier_reasons: list[str],
    kernel_sha256: str | None,
) -> dict[str, Any]:
    """Describe what varies from run to run: host, clock, attempt, kernel binary and commit."""
    return {
        "started_utc": started.isoformat(timespec="seconds"),
        "wall_s": wall_s,
        "attempt": 1 + len(earlier_reasons),
        "earlier_reasons": earlier_reasons,
        "host_kernel": platform.release(),
        "host_cpu": _cpu_model(),
        # Not in the manifest: another compiler gives another binary and the same results.
        "kernel_sha256": kernel_sha256,
        "losslab": __version__,
        "format": FORMAT,
        "git": git_state(Path(__file__).parent),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


@functools.cache
def git_state(folder: Path) -> dict[str, Any]:
    """Return the commit and whether tracked files differ from it; nulls outside a checkout.

    Asked once a process, whose code stays what it is: a cell has many replicates.
    """

    def git(*words: str) -> str | None:
        done = processes.attempt(["git", "-C", folder, *words])
        return done.out.strip() if done.good else None

    status = git("status", "--porcelain", "--untracked-files=no")
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if status is None else bool(status)}
