"""Run several `losslab` commands at a time, each in a process of its own."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from losslab import interrupts, processes
from losslab.errors import LosslabError

POLL_S = 0.1


def run_all(
    commands: Mapping[Path, Sequence[str]],
    cores: int,
    what: str,
    hint: str,
    left: Callable[[Path, int], bool] = lambda path, status: status == 0,
) -> None:
    """Run commands, `cores` at a time, and keep a line on standard error up to date.

    Args:
        commands: The arguments of `losslab`, by the file or folder that each leaves.
        cores: How many run at a time.
        what: What they measure, in the plural: "cells".
        hint: What to do where one fails.
        left: Tells by the path and the exit status whether a command left its result.

    Raises LosslabError if a command left none; with its last words.
    """
    todo, running = list(commands.items()), dict[processes.Process, Path]()
    with tempfile.TemporaryDirectory(prefix="losslab-parallel-") as folder:
        logs = {path: Path(folder, str(number)) for number, path in enumerate(commands)}
        try:
            while todo or running:
                interrupts.heed()
                while todo and len(running) < cores:
                    path, words = todo.pop(0)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    command = [sys.executable, "-m", "losslab.cli", *words]
                    with logs[path].open("wb") as console:
                        running[processes.spawn(command, console=console)] = path
                for process in [one for one in running if one.poll() is not None]:
                    path = running.pop(process)
                    if not left(path, process.returncode):
                        said = logs[path].read_text(errors="replace").strip()
                        said = said.removeprefix("losslab: error: ")
                        raise LosslabError(
                            f"each of the {what} must leave a result, {path} has none: {said}",
                            hint=hint,
                        )
                    _say(len(commands) - len(todo) - len(running), len(commands), what)
                time.sleep(POLL_S)
        finally:
            for process in running:
                processes.end_session(process, processes.PATIENCE_S)


def _say(done: int, total: int, what: str) -> None:
    """Keep one line up to date; where there is no terminal, say the end alone."""
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\rlosslab: measured {done} of {total} {what}", end=end, file=sys.stderr, flush=True)
    elif done == total:
        print(f"losslab: measured {total} {what}", file=sys.stderr)
