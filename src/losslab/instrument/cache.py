"""Cache of kernels and images: one folder per content hash, complete or absent."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from losslab.errors import HostError
from losslab.lock import locked, own_folder, private

SHOW_EVERY_S = 60.0  # of a build's progress


def cache_folder() -> Path:
    """Return $LOSSLAB_CACHE, or ~/.cache/losslab."""
    try:
        return Path(os.environ.get("LOSSLAB_CACHE") or Path.home() / ".cache" / "losslab")
    except RuntimeError as error:
        raise HostError(
            "the cache needs a folder, found neither LOSSLAB_CACHE nor HOME, and no entry of user "
            f"{os.geteuid()} in /etc/passwd",
            hint="set LOSSLAB_CACHE to a folder, or HOME",
        ) from error


def locks() -> Path:
    """Return the folder of this user's locks: in the cache, or in the temporary folder.

    Raises LosslabError if another user made it, and OSError if neither folder is writable.
    """
    try:
        return private(cache_folder())
    except OSError:  # such as a cache that is only readable
        return private(Path(tempfile.gettempdir()))


def hash_files(paths: Sequence[Path], *more: str) -> str:
    """Return 16 hexadecimal digits, the hash of files' names and contents and of `more`."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.name}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    for text in more:
        digest.update(f"{text}\0".encode())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def building(target: Path) -> Iterator[Path | None]:
    """Lock and yield a temporary folder that becomes `target`; None if another process made it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.parent / f".{target.name}.lock"):
        if target.exists():
            yield None
            return
        with own_folder(target.parent, f".{target.name}.partial-") as partial:
            partial.chmod(0o755)
            yield partial
            partial.rename(target)


@contextlib.contextmanager
def progress(what: str, takes: str) -> Iterator[None]:
    """Print a line on stderr at the start, from time to time, and at the end of a build."""
    title, begin, ended = f"losslab: {what}", time.monotonic(), threading.Event()

    def show() -> None:
        while not ended.wait(SHOW_EVERY_S):
            say(f"{(time.monotonic() - begin) / 60:.0f} min")

    def say(text: str) -> None:
        print(f"{title}: {text}", file=sys.stderr, flush=True)

    say(f"takes {takes}, once; kept in {cache_folder()}")
    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    say(f"ready after {time.monotonic() - begin:.0f} s")


def provenance(folder: Path) -> dict[str, Any]:
    """Return the provenance of the kernel or image in `folder`."""
    result: dict[str, Any] = json.loads((folder / "provenance.json").read_text())
    return result


def write_provenance(folder: Path, facts: dict[str, Any]) -> None:
    """Write the provenance of the kernel or image in `folder`."""
    (folder / "provenance.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")
