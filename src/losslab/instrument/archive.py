"""Get pinned files by their hash: from Debian's archive, its snapshot archive, or kernel.org.

Three addresses can be replaced: LOSSLAB_ARCHIVE (Debian's archive; its security archive is expected
beside it as `debian-security`), LOSSLAB_SNAPSHOT and LOSSLAB_KERNEL_ORG.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.parse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument.cache import cache_folder

SNAPSHOT = "https://snapshot.debian.org"
KERNEL_ORG = "https://cdn.kernel.org/pub/linux/kernel"
# Where a file can be, as it is named to users.
ARCHIVE_PLACE, SNAPSHOT_PLACE, KERNEL_ORG_PLACE = "archive", "snapshot", "kernel.org"
FETCH_TIMEOUT_S = 30.0  # without a byte
CHECK_TIMEOUT_S = 5.0
UNPINNED = "LOSSLAB_UNPINNED"
ADVICE = (
    "check the network; take a cache that has it (LOSSLAB_CACHE), pin what the archive has now "
    "(`make relock`, changes results), or build with what it has and have every manifest say so "
    f"(`--unpinned`, or {UNPINNED}=1 make setup)"
)


class UnavailableError(LosslabError):
    """A pinned file is to be had nowhere, with the bytes that are pinned."""


@dataclass(frozen=True)
class File:
    """A file by its content. `sha1` is what the snapshot archive names files by, where known."""

    name: str
    sha256: str
    size: int
    sha1: str = ""


@dataclass(frozen=True)
class Place:
    """An address that may have a file, and whose it is: one of the *_PLACE."""

    name: str
    url: str


@dataclass(frozen=True)
class Found:
    """A file on this machine, and the place that it came from."""

    path: Path
    file: File
    place: Place


def unpinned_allowed(option: bool = False) -> bool:
    """Tell whether what is not pinned may be used: by option, or by LOSSLAB_UNPINNED=1."""
    return option or os.environ.get(UNPINNED, "") not in ("", "0")


def debian_archives() -> list[str]:
    """List the base addresses of the Debian archives that this machine's apt knows.

    Raises:
        LosslabError: there is no apt, or it knows none.
    """
    chosen = os.environ.get("LOSSLAB_ARCHIVE")
    if chosen:
        main = chosen.rstrip("/") + "/"
        return [main, f"{main.removesuffix('debian/')}debian-security/"]
    command = [
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI)\t$(ORIGIN)",
        "Created-By: Packages",
    ]
    done = processes.attempt(command)
    if done.status == processes.NOT_RUN:
        raise LosslabError(
            "apt-get must be there to fetch Debian's packages, found none",
            hint="on other systems fetch the instrument: see docs/how-to/instrument.md",
        )
    found = {
        uri
        for line in done.out.splitlines()
        for uri, origin in [line.split("\t")]
        if origin == "Debian"
    }
    if not found:
        raise LosslabError(
            "apt must know a Debian archive, found none in its sources", hint="run `apt-get update`"
        )
    # A machine without the security archive in its sources can still reach it beside the main one;
    # without it, the pinned kernel's source is often not to be had any more.
    if not any("security" in uri for uri in found):
        found |= {
            f"{uri.removesuffix('debian/')}debian-security/"
            for uri in found
            if uri.endswith("/debian/")
        }
    # The main archive before the security one: only it has every suite.
    return sorted(found, key=lambda uri: ("security" in uri, uri))


def debian_places(path: str, archives: Sequence[str], instant: str, sha1: str = "") -> list[Place]:
    """List where a file of Debian's pool can be, the likeliest first.

    Args:
        path: In the archive, from `pool/` on. Fixes move from the security archive to the main one.
        archives: What `debian_archives` gives.
        instant: When Debian had it, for the snapshot archive: 20260101T000000Z; or empty.
        sha1: By which the snapshot archive has it whatever the instant; or empty.
    """
    rest = path.removeprefix("pool/").removeprefix("updates/")
    paths = {False: f"pool/{rest}", True: f"pool/updates/{rest}"}
    at_home = path == paths[True]
    places = [
        Place(ARCHIVE_PLACE, base + _quoted(paths["security" in base]))
        for base in sorted(archives, key=lambda base: ("security" in base) != at_home)
    ]
    snapshot = os.environ.get("LOSSLAB_SNAPSHOT", SNAPSHOT).rstrip("/")
    if sha1:
        places.append(Place(SNAPSHOT_PLACE, f"{snapshot}/file/{sha1}"))
    if instant:
        places += [
            Place(SNAPSHOT_PLACE, f"{snapshot}/archive/{part}/{instant}/{_quoted(paths[security])}")
            for security, part in sorted(
                {False: "debian", True: "debian-security"}.items(),
                key=lambda item: item[0] != at_home,
            )
        ]
    return places


def kernel_org_place(path: str) -> Place:
    """Return where kernel.org has a file."""
    base = os.environ.get("LOSSLAB_KERNEL_ORG", KERNEL_ORG).rstrip("/")
    return Place(KERNEL_ORG_PLACE, f"{base}/{_quoted(path)}")


def _quoted(path: str) -> str:
    # As apt does: to some servers a bare plus is a space.
    return urllib.parse.quote(path, safe="/~")


class Fetcher:
    """Asks servers for files; one that cannot be reached is asked once."""

    def __init__(self, timeout_s: float = FETCH_TIMEOUT_S) -> None:
        # Every cell imports this module, and fetches nothing: what speaks HTTP would take longest.
        from losslab.instrument.servers import Servers

        self._servers = Servers(timeout_s)
        self._had: set[str] = set()

    def fetch(self, candidates: Iterable[tuple[File, Place]]) -> Found:
        """Get the first of some files that can be had with its pinned content.

        It stays in the cache under its hash, where the next build finds it.

        Raises:
            UnavailableError: none can; says of each place why.
        """
        failures = []
        names = []
        for file, place in candidates:
            names.append(file.name)
            path = cache_folder() / "files" / file.sha256
            origin = path.with_name(f"{file.sha256}.url")
            if path.exists() and origin.exists() and digest(path) == file.sha256:
                name, url = origin.read_text().split()
                return Found(path, file, Place(name, url))
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove_left(path)
            partial = path.with_name(f".{file.sha256}.partial-{os.getpid()}")
            try:
                problem = self.download(place.url, partial, file.size or None)
                found = "" if problem else digest(partial)
                if found == file.sha256:
                    origin.write_text(f"{place.name} {place.url}\n")
                    partial.rename(path)
                    return Found(path, file, place)
            finally:
                partial.unlink(missing_ok=True)
            problem = problem or f"other bytes: sha256 {found}"
            failures.append(f"{place.name}, {place.url}: {problem}")
        raise UnavailableError(
            f"{' or '.join(dict.fromkeys(names))} must be had with the pinned sha256, found:\n    "
            + "\n    ".join(failures or ["no place that may have it"]),
            hint=ADVICE,
        )

    def has(self, places: Iterable[Place]) -> tuple[Place | None, str]:
        """Ask which of some places has a file, without taking it; return also why none has."""
        problem = "no place that may have it"
        for place in places:
            # The images share most of their packages.
            if place.url in self._had:
                return place, ""
            problem = self._servers.ask(place.url, None)
            if not problem:
                self._had.add(place.url)
                return place, ""
        return None, problem

    def read(self, place: Place) -> str:
        """Return a small text, empty where it cannot be had; nothing proves it but its address."""
        with tempfile.TemporaryDirectory(prefix="losslab-text-") as name:
            problem = self._servers.ask(place.url, Path(name) / "text")
            return "" if problem else (Path(name) / "text").read_text()

    def download(self, url: str, target: Path, max_bytes: int | None = None) -> str:
        """Copy what an address has, up to a size; return what went wrong, or nothing."""
        limit = {} if max_bytes is None else {"max_bytes": max_bytes}
        return self._servers.ask(url, target, **limit)


def _remove_left(path: Path) -> None:
    """Remove what processes that were killed had of a file."""
    for left in path.parent.glob(f".{path.name}.partial-*"):
        if not Path("/proc", left.name.rpartition("-")[2]).exists():
            left.unlink(missing_ok=True)


def digest(path: Path) -> str:
    """Return a file's sha256 in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_sources(found: Sequence[Found], path: Path) -> None:
    """Keep beside what was built from them where its files came from."""
    lines = [f"{f.file.name}\t{f.place.name}\t{f.place.url}\n" for f in found]
    path.write_text("".join(lines))


def read_sources(path: Path) -> list[dict[str, Any]]:
    """Read what `write_sources` wrote; nothing where it is missing."""
    if not path.exists():
        return []
    rows = (line.split("\t") for line in path.read_text().splitlines())
    return [{"name": name, "place": place, "url": url} for name, place, url in rows]
