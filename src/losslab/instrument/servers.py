"""Ask servers for files, through the proxies of this machine."""

from __future__ import annotations

import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from pathlib import Path

from losslab import processes

BLOCK_BYTES = 2**20


class Servers:
    """What addresses name; a server that cannot be reached is asked once."""

    def __init__(self, timeout_s: float) -> None:
        """Wait for `timeout_s` without a byte, and no longer."""
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler(_proxies()))
        self._unreachable: dict[str, str] = {}

    def ask(self, url: str, target: Path | None) -> str:
        """Copy what an address has, or without a target only ask whether it has something.

        Returns:
            What went wrong, or nothing.
        """
        request = urllib.request.Request(url, method="GET" if target else "HEAD")
        host = urllib.parse.urlsplit(request.full_url).netloc
        if host in self._unreachable:
            return self._unreachable[host]
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                if target is not None:
                    with target.open("wb") as out:
                        shutil.copyfileobj(response, out, BLOCK_BYTES)
        except urllib.error.HTTPError as error:
            return "not there (HTTP 404)" if error.code == 404 else f"HTTP {error.code}"
        except urllib.error.URLError as error:
            problem = f"cannot be reached ({error.reason})"
            if host:  # a file: address has none
                self._unreachable[host] = problem
            return problem
        except (HTTPException, ConnectionError, TimeoutError) as error:
            return f"broken off ({error!r})"
        return ""


def _proxies() -> dict[str, str]:
    """Take the proxies that the environment names, and those that apt uses."""
    proxies = dict(urllib.request.getproxies())
    words = processes.attempt(["apt-config", "dump", "Acquire"]).out
    for scheme, proxy in re.findall(r'^Acquire::(https?)::Proxy "(.+)";$', words, re.MULTILINE):
        if proxy != "DIRECT":
            proxies.setdefault(scheme, proxy)
    return proxies
