"""Progress of builds and fetches: lines on stderr, which a log and several builds can share."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

from losslab.instrument.cache import cache_folder

TERMINAL_EVERY_S, LOG_EVERY_S = 15.0, 60.0
LOG = "build.log"  # in the folder of a kernel
COMPILED = b"  CC      "  # begins make's line of a compiled file
KERNEL_FILES = 880  # compiled for each kernel, about


@contextlib.contextmanager
def shown(what: str, takes: str, so_far: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Print a line at the start, from time to time, and at the end unless the block fails.

    `takes` is the expected time, and `so_far` returns how much is done.
    """
    title = f"losslab: {what}"
    _print(f"{title}: takes {takes}, once; kept in {cache_folder()}")
    begin, ended = time.monotonic(), threading.Event()

    def show() -> None:
        while not ended.wait(TERMINAL_EVERY_S if sys.stderr.isatty() else LOG_EVERY_S):
            passed_s, done = time.monotonic() - begin, so_far()
            _print(
                f"{title}: {passed_s // 60:.0f}:{passed_s % 60:02.0f} min" + (done and f", {done}")
            )

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    _print(f"{title}: ready after {time.monotonic() - begin:.0f} s")


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def of_kernel() -> str:
    """Return how much running builds of kernels have done: of the download, or compiled files."""
    compiled, logs = 0, 0
    for path in cache_folder().glob(f"*/.*.partial-*/{LOG}"):
        with contextlib.suppress(OSError):  # its build may end now
            compiled += path.read_bytes().count(COMPILED)
            logs += 1
    if compiled:
        return f"{compiled} of about {KERNEL_FILES} files compiled"
    return "unpacking the source" if logs else of_download()


def of_download() -> str:
    """Return how much of a file is downloaded; empty if there is no download."""
    size = 0
    for path in cache_folder().glob("files/.partial-*/file"):
        with contextlib.suppress(OSError):
            size += path.stat().st_size
    return f"{size / 1e6:.0f} MB downloaded" if size else ""
