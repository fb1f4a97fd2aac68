"""Download files pinned by hash, and keep them in the cache."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import tempfile
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument.cache import cache_folder
from losslab.lock import own_folder

# Names of the places that may have a file, as users see them.
ARCHIVE_PLACE, SNAPSHOT_PLACE, KERNEL_ORG_PLACE = "archive", "snapshot", "kernel.org"
FETCH_TIMEOUT_S = 30.0  # without receiving a byte
CHECK_TIMEOUT_S = 5.0  # of a file that others replace
BLOCK_BYTES = 2**18
# Limit for a file of unknown size: kernel.org's tarballs have 150 MB.
MAX_BYTES = 2**30
# The snapshot archive limits the request rate, and a name server may be silent for a while: pauses
# of 0, 2, 4 and 8 s.
RETRIES, BACKOFF_S = 4, 1.0
TEMPORARY = (429, 500, 502, 503, 504)  # statuses
CONNECTIONS = 8  # concurrent ones to a server
UNPINNED = "LOSSLAB_UNPINNED"
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
        self._timeout_s = timeout_s
        self._pools: dict[str, Any] = {}  # of connections, by scheme
        self._unreachable: dict[str, str] = {}

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

    def read(self, place: Place) -> str:
        """Return a small text, or an empty one if it is unavailable. It has no pinned hash."""
        with tempfile.TemporaryDirectory(prefix="losslab-text-") as name:
            problem = self.download(place.url, Path(name) / "text")
            return "" if problem else (Path(name) / "text").read_text()

    def download(self, url: str, target: Path, max_bytes: int = MAX_BYTES) -> str:
        """Download an address to `target`; return the problem, or an empty string.

        Retries while the problem may be temporary.
        """
        # Imported here: every cell imports this module, and most cells download nothing.
        from urllib3.exceptions import HTTPError, MaxRetryError, ReadTimeoutError
        from urllib3.util import Retry

        parts = urllib.parse.urlsplit(url)
        if parts.scheme == "file":
            path = Path(urllib.parse.unquote(parts.path))
            if not path.is_file():
                return "not there"
            shutil.copyfile(path, target)
            return ""
        if parts.netloc in self._unreachable:
            return self._unreachable[parts.netloc]
        retry = Retry(
            RETRIES, backoff_factor=BACKOFF_S, status_forcelist=TEMPORARY, raise_on_status=False
        )
        problem = ""
        for _ in range(1 + RETRIES):
            try:
                answer = self._pool(parts).request(
                    "GET", url, retries=retry, timeout=self._timeout_s,
                    preload_content=False, decode_content=False,
                )  # fmt: skip
                with answer:
                    if (status := answer.status) != 200:
                        return "not there (HTTP 404)" * (status == 404) or f"HTTP {status}"
                    return _saved(answer, target, max_bytes)
            except MaxRetryError as error:
                problem = f"cannot be reached ({error.reason})"
                if not isinstance(error.reason, ReadTimeoutError):
                    self._unreachable[parts.netloc] = problem
                break
            except HTTPError as error:
                problem = f"broken off ({error!r})"
        return problem

    def _pool(self, parts: urllib.parse.SplitResult) -> Any:
        """Return the connections for an address, through this machine's proxy if it has one."""
        from urllib.request import proxy_bypass

        from urllib3 import PoolManager, ProxyManager

        proxy = "" if proxy_bypass(parts.netloc) else _proxies().get(parts.scheme, "")
        if proxy not in self._pools:
            self._pools[proxy] = (
                ProxyManager(proxy, maxsize=CONNECTIONS)
                if proxy
                else PoolManager(maxsize=CONNECTIONS)
            )
        return self._pools[proxy]


def _saved(answer: Any, target: Path, max_bytes: int) -> str:
    """Write an answer to a file; return the problem, or an empty string."""
    with target.open("wb") as out:
        for block in answer.stream(BLOCK_BYTES):
            if out.tell() + len(block) > max_bytes:
                return f"more than {max_bytes} bytes"
            out.write(block)
    return ""


@functools.cache
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
