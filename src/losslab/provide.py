"""The default kernel and image at their first use: fetched, or built with progress on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

from losslab.backends.base import GUEST, VIRTUAL
from losslab.campaign.instrument import image_of, kernel_of
from losslab.instrument import image, imagebuild, kernel, kernels, packed, records
from losslab.instrument.archive import unpinned_allowed
from losslab.instrument.cache import cache_folder
from losslab.repository import INSTALLED, require_programs
from losslab.study.condition import Condition
from losslab.workflow import instruments

# CPU time of a build, as the documentation states it.
TAKES = {packed.KERNEL: "ten minutes", packed.IMAGE: "one minute"}
DEFAULT = (image.HOST, kernels.default().key)
TERMINAL_EVERY_S, LOG_EVERY_S = 1.0, 60.0
COMPILED = b"  CC      "  # begins make's line of a compiled file


def provide(condition: Condition, backend: str = VIRTUAL, where: str = GUEST) -> None:
    """Fetch or build the default kernel and image if the cache lacks what a condition needs.

    Other kernels and images stay as they are: the error for a missing one names its command. Raises
    HostError if programs that build them are missing on this machine. Raises LosslabError if a
    source is unavailable, or a build failed.
    """
    needed = instruments.parts(backend, where, kernel_of(condition), image_of(condition))
    missing = [part for part in needed if part[1] in DEFAULT and not records.in_cache(*part)]
    if missing and not os.environ.get(packed.PLACE):
        require_programs("build", "the first build of losslab's kernel and image")
    for kind, name in missing:
        with _progress(kind, name):
            unpinned = unpinned_allowed(False)
            if kind == packed.IMAGE:
                imagebuild.build(name, unpinned)
            else:
                kernel.build(unpinned)


def at_first_use(condition: Condition, backend: str = VIRTUAL, where: str = GUEST) -> None:
    """Provide them for an installed package; in a clone, `make setup` does it beforehand."""
    if INSTALLED:
        provide(condition, backend, where)


@contextlib.contextmanager
def _progress(kind: str, name: str) -> Iterator[None]:
    """Print the start, the time and the end of a fetch or a build."""
    title = f"losslab: {kind} {name}"
    verb = "fetched or built" if os.environ.get(packed.PLACE) else "built"
    print(
        f"{title}: {verb} once, in {TAKES[kind]} of CPU time, and kept in {cache_folder()}",
        file=sys.stderr,
    )
    begin, ended = time.monotonic(), threading.Event()
    terminal = sys.stderr.isatty()

    def line() -> str:
        passed_s = time.monotonic() - begin
        count = f", {_compiled()} files compiled" if kind == packed.KERNEL else ""
        return f"{title}: {passed_s // 60:.0f}:{passed_s % 60:02.0f} min{count}"

    def show() -> None:
        while not ended.wait(TERMINAL_EVERY_S if terminal else LOG_EVERY_S):
            print(f"\r{line()}" if terminal else line(), end="" if terminal else "\n",
                  file=sys.stderr, flush=True)  # fmt: skip

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if terminal:
            print(file=sys.stderr)
    print(f"{title}: ready after {time.monotonic() - begin:.0f} s", file=sys.stderr)


def _compiled() -> int:
    """Count the files that running builds have compiled, from their logs."""
    count = 0
    for path in cache_folder().glob(f"*/.*.partial-*/{kernel.LOG}"):
        with contextlib.suppress(OSError):  # its build may end now
            count += path.read_bytes().count(COMPILED)
    return count
