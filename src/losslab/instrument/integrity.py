"""Is the instrument still what was built? A kernel that was replaced or an image that is gone."""

from __future__ import annotations

import functools
from pathlib import Path

from losslab.errors import HostError
from losslab.instrument import kernel
from losslab.instrument.archive import digest
from losslab.instrument.image import EXCLUDED

HINT = "remove {folder} and run `make setup`; finished replicates are kept"


def require(linux: Path | None, image_roots: list[Path]) -> None:
    """Refuse an instrument that is not what was built; before every replicate, so it is quick.

    Args:
        linux: The kernel's binary; None where the machine's own kernel measures.
        image_roots: The root folders of images.

    Raises:
        HostError: the kernel is another or gone, or an image is gone.
    """
    if linux is not None:
        _require_kernel(linux)
    for root in image_roots:
        if not (root / "init").is_file():
            raise HostError(
                f"the image's first program must be in {root}, found none",
                hint=HINT.format(folder=root.parent),
            )


def _require_kernel(linux: Path) -> None:
    try:
        wanted = (linux.parent / kernel.DIGEST).read_text().strip()
        stats = linux.stat()
        found = _digest(linux, stats.st_size, stats.st_mtime_ns, stats.st_ctime_ns, stats.st_ino)
    except OSError as error:
        raise HostError(
            f"the pinned kernel must be in {linux.parent} with its digest, found: {error}",
            hint=HINT.format(folder=linux.parent),
        ) from error
    if found != wanted:
        raise HostError(
            f"{linux} must be the kernel that was built there (sha256 {wanted[:12]}...), found "
            f"another ({found[:12]}...)",
            hint=HINT.format(folder=linux.parent),
        )


@functools.lru_cache(maxsize=8)
def _digest(linux: Path, *identity: int) -> str:
    """Hash a kernel once per size, times and inode."""
    return digest(linux)


def require_whole(image_root: Path) -> None:
    """Refuse an image of which files are missing, by its own list; after a replicate that failed.

    Raises:
        HostError: with the first file that is not there.
    """
    lists = sorted((image_root / "var/lib/dpkg/info").glob("*.md5sums"))
    missing = None if lists else "var/lib/dpkg/info"
    excluded = tuple(pattern.strip("/").removesuffix("*") for pattern in EXCLUDED)
    for name in (line.split(maxsplit=1)[1] for each in lists for line in _lines(each)):
        path = image_root / name
        if not name.startswith(excluded) and not path.exists() and not path.is_symlink():
            missing = name
            break
    if missing:
        raise HostError(
            f"every file of the image must be in {image_root}, found no {missing}",
            hint=HINT.format(folder=image_root.parent),
        )


def _lines(path: Path) -> list[str]:
    """Read a list; one that is gone is empty, and its files are missed elsewhere."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
