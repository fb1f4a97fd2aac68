"""Private mounts and full file systems of faults."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.faults.kit import LOSSLAB, Outcome, SkippedError, run


def in_mount_namespace(script: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run losslab after a shell script, both in a separate mount namespace."""
    return _after_mounts(script, *LOSSLAB, *words)


def inside_mounts(script: str, function: Callable[[Path], Outcome], folder: Path) -> Outcome:
    """Run a fault after a shell script, both in a separate mount namespace."""
    code = (
        "import dataclasses, json, sys; from pathlib import Path; "
        f"from {function.__module__} import {function.__name__} as fault; "
        "print(json.dumps(dataclasses.asdict(fault(Path(sys.argv[1])))))"
    )
    done = _after_mounts(script, sys.executable, "-c", code, folder)
    return Outcome(**json.loads(done.stdout.splitlines()[-1]))


def _after_mounts(script: str, *command: object) -> subprocess.CompletedProcess[str]:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        raise SkippedError("mounting needs root and unshare")
    done = run("unshare", "--mount", "sh", "-c", f'set -e; {script}; exec "$@"', "sh", *command)
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        raise SkippedError(f"mounting is not allowed here: {done.stderr.strip()}")
    return done


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Fill a folder's file system, and keep it full for the duration of the block.

    A process that ends frees space, which the next one could use.
    """
    path, ended = folder / "filler", threading.Event()
    with path.open("wb", buffering=0) as file:

        def fill() -> None:
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(2**20))

        def refill() -> None:
            while not ended.wait(0.01):
                fill()

        fill()
        filler = threading.Thread(target=refill)
        filler.start()
        try:
            yield
        finally:
            ended.set()
            filler.join()
            path.unlink()
