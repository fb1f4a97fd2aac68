"""Download files pinned by hash, and keep them in the cache."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument.cache import cache_folder
from losslab.lock import own_folder

if TYPE_CHECKING:
    from urllib.request import Request

# Names of the places that may have a file, as users see them.
ARCHIVE_PLACE, SNAPSHOT_PLACE, KERNEL_ORG_PLACE = "archive", "snapshot", "kernel.org"
FETCH_TIMEOUT_S = 30.0  # without receiving a byte
CHECK_TIMEOUT_S = 5.0
BLOCK_BYTES = 2**18
# Limit for a file of unknown size: kernel.org's tarballs have 150 MB.
MAX_BYTES = 2**30
# Downloads from slower servers are aborted: 1 MB takes 20 s at this rate.
MIN_BYTES_PER_S = 50_000
# Timeouts allowed before the first byte: one for an address that does not answer, one for the
# address that does, one for the headers.
PATIENCE = 3
POLL_S = 0.5
# The snapshot archive limits the request rate, and a name server may be silent for a while.
RETRY_AFTER_S = (1.0, 5.0, 15.0, 30.0)
UNREACHABLE = "cannot be reached"
SILENT = "no answer from the name server"
UNPINNED = "LOSSLAB_UNPINNED"
SOURCES = "sources.tsv"  # in a build's folder
ADVICE = (
    "check the network; use a cache that has it (LOSSLAB_CACHE), pin the archive's current "
    "versions (`make relock`, changes results), or build from them unpinned (`--unpinned`, or "
    f"{UNPINNED}=1 make setup), which every manifest records"
)


class UnavailableError(LosslabError):
    """No place has a file with the pinned content."""


@dataclass(frozen=True)
class File:
    """File identified by its content. The snapshot archive names files by `sha1`, if known."""

    name: str
    sha256: str
    size: int
    sha1: str = ""


@dataclass(frozen=True)
class Place:
    """Address that may have a file; `name` is one of the *_PLACE."""

    name: str
    url: str


@dataclass(frozen=True)
class Download:
    """File on this machine, and the place that it came from."""

    path: Path
    file: File
    place: Place


def unpinned_allowed(option: bool = False) -> bool:
    """Return whether the option or LOSSLAB_UNPINNED=1 allows unpinned sources."""
    return option or os.environ.get(UNPINNED, "") not in ("", "0")


class Fetcher:
    """Download files through this machine's proxies; try an unreachable server only once."""

    def __init__(self, timeout_s: float = FETCH_TIMEOUT_S) -> None:
        # Imported here: every cell imports this module, and most cells download nothing.
        from urllib.request import ProxyHandler, build_opener

        self._timeout_s = timeout_s
        self._opener = build_opener(ProxyHandler(_proxies()))
        self._unreachable: dict[str, str] = {}
        self._answered: set[str] = set()
        self._had: set[str] = set()

    def fetch(self, candidates: Iterable[tuple[File, Place]]) -> Download:
        """Download the first available candidate with its pinned content into the cache.

        Raises UnavailableError, with each place's problem, if none is available.
        """
        failures = []
        names = []
        for file, place in candidates:
            names.append(file.name)
            path = cache_folder() / "files" / file.sha256
            origin = path.with_name(f"{file.sha256}.url")
            if path.exists() and origin.exists() and digest(path) == file.sha256:
                name, url = origin.read_text().split()
                return Download(path, file, Place(name, url))
            path.parent.mkdir(parents=True, exist_ok=True)
            with own_folder(path.parent, ".partial-") as folder:
                partial = folder / "file"
                problem = self.download(place.url, partial, file.size or MAX_BYTES)
                found = "" if problem else digest(partial)
                if found == file.sha256:
                    origin.write_text(f"{place.name} {place.url}\n")
                    partial.rename(path)
                    return Download(path, file, place)
            problem = problem or f"different content, sha256 {found}"
            failures.append(f"{place.name}, {place.url}: {problem}")
        raise UnavailableError(
            f"{' or '.join(dict.fromkeys(names))} must be available with the pinned sha256, "
            "found:\n    " + "\n    ".join(failures or ["no place that may have it"]),
            hint=ADVICE,
        )

    def has(self, places: Iterable[Place]) -> tuple[Place | None, str]:
        """Return the first place that has a file, or the problem; download nothing."""
        problem = "no place that may have it"
        for place in places:
            # The images share most of their packages.
            problem = "" if place.url in self._had else self.download(place.url, None)
            if not problem:
                self._had.add(place.url)
                return place, ""
        return None, problem

    def read(self, place: Place) -> str:
        """Return a small text, or an empty one if it is unavailable. It has no pinned hash."""
        with tempfile.TemporaryDirectory(prefix="losslab-text-") as name:
            problem = self.download(place.url, Path(name) / "text")
            return "" if problem else (Path(name) / "text").read_text()

    def download(self, url: str, target: Path | None, max_bytes: int = MAX_BYTES) -> str:
        """Download an address to `target`; without a target, check that it exists.

        Retries after each pause of RETRY_AFTER_S while the problem may be temporary. Returns the
        problem, or an empty string.
        """
        from urllib.request import Request

        request = Request(url, method="GET" if target else "HEAD")
        host = urllib.parse.urlsplit(request.full_url).netloc
        if host in self._unreachable:
            return self._unreachable[host]
        for pause_s in (*(RETRY_AFTER_S if target else ()), None):
            problem = self._transfer(request, target, max_bytes)
            unreachable = problem.startswith(UNREACHABLE)
            if not unreachable:
                self._answered.add(host)
            temporary = problem.startswith(("HTTP 429", "HTTP 5", "broken off")) or (
                unreachable and (host in self._answered or SILENT in problem)
            )
            if pause_s is None or not temporary:
                break
            time.sleep(pause_s)
        if unreachable and host:  # a file: address has none
            self._unreachable[host] = problem
        return problem

    def _transfer(self, request: Request, target: Path | None, max_bytes: int) -> str:
        """Copy one answer in a thread; a socket's timeout does not limit a slow trickle."""
        from concurrent.futures import Future
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError

        got_bytes, given_up = 0, False
        outcome: Future[str] = Future()

        def copy() -> str:
            nonlocal got_bytes
            try:
                with self._opener.open(request, timeout=self._timeout_s) as answer:
                    if target is None:
                        return ""
                    with target.open("wb") as out:
                        while not given_up and (block := answer.read1(BLOCK_BYTES)):
                            got_bytes += len(block)
                            if got_bytes > max_bytes:
                                return f"more than {max_bytes} bytes"
                            out.write(block)
            except HTTPError as error:
                return "not there (HTTP 404)" if error.code == 404 else f"HTTP {error.code}"
            except URLError as error:
                silent = getattr(error.reason, "errno", None) == socket.EAI_AGAIN
                return f"{UNREACHABLE} ({SILENT if silent else error.reason})"
            except (HTTPException, ConnectionError, TimeoutError) as error:
                return f"broken off ({error!r})"
            return ""

        def run() -> None:
            try:
                outcome.set_result(copy())
            except Exception as error:  # such as a full disk: raised in the waiting thread
                outcome.set_exception(error)

        # A daemon thread, so that a hanging download does not delay the end of the process.
        threading.Thread(target=run, daemon=True).start()
        began = time.monotonic()
        while True:
            try:
                return outcome.result(POLL_S)
            except TimeoutError:
                allowed_s = PATIENCE * self._timeout_s + got_bytes / MIN_BYTES_PER_S
                if outcome.done() or time.monotonic() - began <= allowed_s:
                    continue
            given_up = True
            return (
                f"too slow ({got_bytes} bytes in {allowed_s:.0f} s, less than "
                f"{MIN_BYTES_PER_S // 1000} kB/s)"
            )


def _proxies() -> dict[str, str]:
    from urllib.request import getproxies

    proxies = dict(getproxies())
    settings = processes.attempt(["apt-config", "dump", "Acquire"]).out
    for scheme, proxy in re.findall(r'^Acquire::(https?)::Proxy "(.+)";$', settings, re.MULTILINE):
        if proxy != "DIRECT":
            proxies.setdefault(scheme, proxy)
    return proxies


def digest(path: Path) -> str:
    """Return a file's sha256 in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def quoted(path: str) -> str:
    """Quote a path for a URL as apt does: some servers read a plus sign as a space."""
    return urllib.parse.quote(path, safe="/~")


def write_sources(found: Sequence[Download], folder: Path) -> None:
    """Write SOURCES into a build's folder: where its input files came from."""
    lines = [f"{f.file.name}\t{f.place.name}\t{f.place.url}\n" for f in found]
    (folder / SOURCES).write_text("".join(lines))
