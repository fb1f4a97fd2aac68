"""Resource limits that a guest needs (getrlimit(2))."""

from __future__ import annotations

import resource
from collections.abc import Iterator

from losslab.backends.base import Finding
from losslab.errors import HostError

KIB_PER_GIB = 2**20
# What each limit must allow: by prlimit(1)'s name, what it limits, bash's command, how many of how
# many bytes. A guest's memory is a sparse file of 2 GiB, which its kernel maps whole (2.2 GB of
# address space boot, 2.0 do not). A file that the guest has open its kernel has open, too: ffmpeg
# alone opens 200.
NEEDED = {
    "nofile": ("open files", "ulimit -n", 1024, 1),
    "as": ("address space in KiB", "ulimit -v", 3 * KIB_PER_GIB, 1024),
    "fsize": ("file size in KiB", "ulimit -f", 2 * KIB_PER_GIB, 1024),
}
# A guest's processes have soft limits as high as the hard ones.
RAISED = tuple(NEEDED)


def findings() -> Iterator[Finding]:
    """Compare each hard limit with what a guest needs."""
    for name, (what, shell, need, unit) in NEEDED.items():
        hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
        found = None if hard == resource.RLIM_INFINITY else hard // unit
        yield Finding(
            f"limit of {what}",
            found is None or found >= need,
            "none" if found is None else f"{found}, and a guest needs {need}",
            f"raise it to {need}: `{shell} {need}` in a shell of root's, `* hard {name} {need}` in "
            "/etc/security/limits.conf, or the batch system's or container's option for it",
        )


def require() -> None:
    """Refuse limits under which a guest would hang or die.

    Raises:
        HostError: with each that is too low.
    """
    low = [finding for finding in findings() if not finding.good]
    if low:
        raise HostError(
            "hard limits must leave a guest what it needs, found "
            + "; ".join(f"{finding.what}: {finding.found}" for finding in low),
            hint="; ".join(finding.remedy for finding in low),
        )
