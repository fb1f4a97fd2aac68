"""Download files pinned by hash into the cache."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument.cache import cache_folder
from losslab.lock import own_folder

CONNECT_S, READ_S = 5.0, 30.0  # time limits to connect, and without receiving a byte
BLOCK_BYTES = 2**18
# Limit for a file of unknown size: a kernel's source has 150 MB.
MAX_BYTES = 2**30
# The snapshot archive limits the request rate, and a name server may be silent for a while: pauses
# of 0, 2, 4 and 8 s.
RETRIES, BACKOFF_S = 4, 1.0
TEMPORARY = (429, 500, 502, 503, 504)  # statuses
AT_ONCE = 8  # concurrent requests: enough to hide delays, too few to load a server
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
    """File identified by its content."""

    name: str
    sha256: str
    size: int  # 0: unknown


def unpinned_allowed(option: bool = False) -> bool:
    """Return whether the option or LOSSLAB_UNPINNED=1 allows unpinned sources."""
    return option or os.environ.get(UNPINNED, "") not in ("", "0")


class Fetcher:
    """Download files through this machine's proxies; try an unreachable server only once."""

    def __init__(self) -> None:
        self._pools: dict[str, Any] = {}  # of connections, by proxy
        self._unreachable: dict[str, str] = {}

    def fetch(self, candidates: Iterable[tuple[File, str]]) -> Path:
        """Download the first candidate (a file and its address) with its pinned content.

        Returns its path in the cache, whose name is its SHA-256. Raises UnavailableError, with each
        address's problem, if none has it.
        """
        names, failures = [], []
        for file, url in candidates:
            names.append(file.name)
            path = cache_folder() / "files" / file.sha256
            if path.exists() and digest(path) == file.sha256:
                return path
            path.parent.mkdir(parents=True, exist_ok=True)
            with own_folder(path.parent, ".partial-") as folder:
                partial = folder / "file"
                problem = self.download(url, partial, file.size or MAX_BYTES)
                found = "" if problem else digest(partial)
                if found == file.sha256:
                    partial.rename(path)
                    return path
            failures.append(f"{url}: {problem or f'different content, sha256 {found}'}")
        raise UnavailableError(
            f"{' or '.join(dict.fromkeys(names))} must be available with the pinned sha256, "
            "found:\n    " + "\n    ".join(failures or ["no place that may have it"]),
            hint=ADVICE,
        )

    def download(self, url: str, target: Path, max_bytes: int = MAX_BYTES) -> str:
        """Download an address to `target`; return the problem, or an empty string.

        Retries while the problem may be temporary.
        """
        # Imported here: every cell imports this module, and most cells download nothing.
        from urllib3.exceptions import HTTPError, MaxRetryError, ReadTimeoutError
        from urllib3.util import Retry, Timeout

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
                    "GET", url, retries=retry, timeout=Timeout(connect=CONNECT_S, read=READ_S),
                    preload_content=False, decode_content=False,
                )  # fmt: skip
                with answer:
                    if answer.status != 200:
                        return f"HTTP {answer.status}"
                    whole = save(answer.stream(BLOCK_BYTES), target, max_bytes)
                    return "" if whole else f"more than {max_bytes} bytes"
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
            made = functools.partial(ProxyManager, proxy) if proxy else PoolManager
            self._pools[proxy] = made(maxsize=AT_ONCE)
        return self._pools[proxy]


def save(blocks: Iterable[bytes], target: Path, max_bytes: int) -> bool:
    """Write blocks to a file; return whether they are at most `max_bytes`."""
    with target.open("wb") as out:
        for block in blocks:
            if out.tell() + len(block) > max_bytes:
                return False
            out.write(block)
    return True


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
