"""Ask servers for files, through the proxies of this machine, with limits on size and time."""

from __future__ import annotations

import re
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from pathlib import Path

from losslab import processes

BLOCK_BYTES = 2**18
# What a server may send where nobody knows the size: kernel.org's tarballs have 150 MB.
MAX_BYTES = 2**30
# A server that sends less is given up: a megabyte in twenty seconds.
MIN_BYTES_PER_S = 50_000
# How often a timeout may pass before the first byte: an address that does not answer, another that
# does, and the headers.
PATIENCE = 3
POLL_S = 0.5
# The snapshot archive turns hurried callers away for a while, and a name server is silent for one.
RETRY_AFTER_S = (1.0, 5.0, 15.0, 30.0)
UNREACHABLE = "cannot be reached"
SILENT = "no answer of the name server"


class Servers:
    """What addresses name; a server that cannot be reached is asked once."""

    def __init__(self, timeout_s: float) -> None:
        """Wait for `timeout_s` without a byte, and no longer."""
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler(_proxies()))
        self._unreachable: dict[str, str] = {}
        self._answered: set[str] = set()

    def ask(self, url: str, target: Path | None, max_bytes: int = MAX_BYTES) -> str:
        """Copy what an address has, or without a target only ask whether it has something.

        A file is asked for again after each of `RETRY_AFTER_S` where the problem may pass.

        Args:
            url: The address.
            target: The file to write.
            max_bytes: Of what it has; more is not read.

        Returns:
            What went wrong, or nothing.
        """
        request = urllib.request.Request(url, method="GET" if target else "HEAD")
        host = urllib.parse.urlsplit(request.full_url).netloc
        if host in self._unreachable:
            return self._unreachable[host]
        for pause_s in (*(RETRY_AFTER_S if target else ()), None):
            transfer = _Transfer(self._opener, request, self._timeout_s, target, max_bytes)
            problem = transfer.to_its_end()
            unreachable = problem.startswith(UNREACHABLE)
            if not unreachable:
                self._answered.add(host)
            may_pass = problem.startswith(("HTTP 429", "HTTP 5", "broken off")) or (
                unreachable and (host in self._answered or SILENT in problem)
            )
            if pause_s is None or not may_pass:
                break
            time.sleep(pause_s)
        if unreachable and host:  # a file: address has none
            self._unreachable[host] = problem
        return problem


class _Transfer:
    """A file on its way; in a thread, since no timeout of a socket ends one that dribbles."""

    def __init__(
        self,
        opener: urllib.request.OpenerDirector,
        request: urllib.request.Request,
        timeout_s: float,
        target: Path | None,
        max_bytes: int,
    ) -> None:
        self._opener, self._request, self._timeout_s = opener, request, timeout_s
        self._target, self._max_bytes = target, max_bytes
        self._bytes, self._given_up = 0, False
        self._problem = ""
        self._error: Exception | None = None

    def to_its_end(self) -> str:
        """Return what went wrong, or nothing.

        Raises:
            OSError: the file cannot be written.
        """
        # Not waited for at this process's end: one that was given up may hang in a read.
        thread = threading.Thread(target=self._run, daemon=True)
        began = time.monotonic()
        thread.start()
        while thread.is_alive():
            thread.join(POLL_S)
            allowed_s = PATIENCE * self._timeout_s + self._bytes / MIN_BYTES_PER_S
            if thread.is_alive() and time.monotonic() - began > allowed_s:
                self._given_up = True
                return (
                    f"too slow ({self._bytes} bytes in {allowed_s:.0f} s, less than "
                    f"{MIN_BYTES_PER_S // 1000} kB/s)"
                )
        if self._error is not None:
            raise self._error
        return self._problem

    def _run(self) -> None:
        try:
            self._problem = self._copy()
        except Exception as error:  # for the thread that waits
            self._error = error

    def _copy(self) -> str:
        try:
            with self._opener.open(self._request, timeout=self._timeout_s) as response:
                if self._target is None:
                    return ""
                with self._target.open("wb") as out:
                    while not self._given_up and (block := response.read1(BLOCK_BYTES)):
                        self._bytes += len(block)
                        if self._bytes > self._max_bytes:
                            return f"more than {self._max_bytes} bytes"
                        out.write(block)
        except urllib.error.HTTPError as error:
            return "not there (HTTP 404)" if error.code == 404 else f"HTTP {error.code}"
        except urllib.error.URLError as error:
            silent = getattr(error.reason, "errno", None) == socket.EAI_AGAIN
            return f"{UNREACHABLE} ({SILENT if silent else error.reason})"
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
