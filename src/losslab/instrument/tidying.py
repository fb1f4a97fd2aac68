"""Leave nothing in a new image by which two builds of it would differ."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

# Bookkeeping of the tools that install, of which no two versions leave the same.
LEFTOVERS = (
    "var/cache/debconf/*-old",
    "var/cache/debconf/tmp.ci",
    "var/lib/apt/extended_states",
    "var/lib/dpkg/*-old",
    # A key that ssl-cert draws, and its certificate.
    "etc/ssl/private/ssl-cert-snakeoil.key",
    "etc/ssl/certs/ssl-cert-snakeoil.pem",
)
CERTIFICATES = "etc/ssl/certs"


def tidy(root: Path, epoch_s: int) -> None:
    """Remove it; no file is younger than its packages.

    Args:
        root: The image.
        epoch_s: When its packages were pinned.
    """
    for pattern in LEFTOVERS:
        for left in root.glob(pattern):
            if left.is_dir():
                shutil.rmtree(left)
            else:
                left.unlink()
    # A certificate that is gone has a link still, named by the building machine's name.
    for link in (root / CERTIFICATES).glob("*.0"):
        if not link.exists():
            link.unlink()
    for folder, _, files in os.walk(root):
        os.utime(folder, (epoch_s, epoch_s))
        for name in files:
            path = os.path.join(folder, name)
            if os.lstat(path).st_mtime > epoch_s:
                os.utime(path, (epoch_s, epoch_s), follow_symlinks=False)
