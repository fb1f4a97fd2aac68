"""A package archive in a folder, of exactly the packages of a lock."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from losslab import processes
from losslab.instrument.apt import ARCHITECTURE
from losslab.instrument.archive import (
    ADVICE,
    Fetcher,
    Found,
    UnavailableError,
    debian_archives,
    debian_places,
    digest,
)
from losslab.instrument.packages import Lock, Package

# Requests under way at once: hides the delay of each and loads no server.
AT_ONCE = 8
SHOWN = 5


def fetch(lock: Lock) -> list[Found]:
    """Get every package of a lock, in its order.

    Raises:
        UnavailableError: some are to be had nowhere; names them.
    """
    # Every cell imports this module; only a build needs threads.
    from concurrent.futures import ThreadPoolExecutor

    fetcher, archives = Fetcher(), debian_archives()

    def one(package: Package) -> Found | UnavailableError:
        places = debian_places(package.path, archives, lock.instant)
        try:
            return fetcher.fetch([(package.file, place) for place in places])
        except UnavailableError as error:
            return error

    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(one, lock.packages))
    errors = [result for result in results if isinstance(result, UnavailableError)]
    if errors:
        shown = "\n  ".join(error.message for error in errors[:SHOWN])
        more = f"\n  and {len(errors) - SHOWN} more" if len(errors) > SHOWN else ""
        raise UnavailableError(
            f"all {len(results)} pinned packages must be had, found {len(errors)} that are not:\n"
            f"  {shown}{more}",
            hint=ADVICE,
        )
    return [result for result in results if isinstance(result, Found)]


def make(files: Sequence[Found], suite: str, folder: Path) -> str:
    """Lay out an archive in `folder`; return the line for apt's sources that names it.

    Its only proof is that every file has the hash of the lock.
    """
    pool = folder / "pool"
    index = folder / "dists" / suite / "main" / f"binary-{ARCHITECTURE}"
    pool.mkdir()
    index.mkdir(parents=True)
    paragraphs = []
    for found in files:
        package = pool / found.file.name
        try:
            os.link(found.path, package)
        except OSError:  # another file system
            package.write_bytes(found.path.read_bytes())
        control = processes.run(["dpkg-deb", "--field", package]).rstrip("\n")
        paragraphs.append(
            f"{control}\nFilename: pool/{package.name}\nSize: {found.file.size}\n"
            f"SHA256: {found.file.sha256}\n"
        )
    packages = index / "Packages"
    packages.write_text("\n".join(paragraphs))
    (folder / "dists" / suite / "Release").write_text(
        f"Origin: losslab\nSuite: {suite}\nCodename: {suite}\nComponents: main\n"
        f"Architectures: {ARCHITECTURE}\nSHA256:\n"
        f" {digest(packages)} {packages.stat().st_size} main/{index.name}/Packages\n"
    )
    # Whoever apt runs as must be able to read it.
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return f"deb [trusted=yes] copy:{folder} {suite} main"
