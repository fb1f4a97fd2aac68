"""A shell inside the emulated topology, to look around with ping, tc and ss."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path

from losslab.backends import virtual
from losslab.campaign.lock import own_folder
from losslab.campaign.replicate import Instrument
from losslab.study.condition import Condition

# A command gets this much wall time; a session at a terminal may take a day.
COMMAND_TIMEOUT_S = 600.0
SESSION_TIMEOUT_S = 86_400.0


@contextlib.contextmanager
def _terminal_kept() -> Iterator[None]:
    """Give the terminal back as it was: the guest's console makes it raw."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _own_folder() -> contextlib.AbstractContextManager[Path]:
    return own_folder(Path(tempfile.gettempdir()), "losslab-shell-")


def interact(condition: Condition, seed: int, tools: Instrument) -> int:
    """Give the user's terminal to a shell in a guest that runs in real time."""
    job = {"kind": "shell", "condition": condition.to_json(), "seed": seed, "command": None}
    with _own_folder() as folder, _terminal_kept():
        outcome = virtual.boot(
            tools.kernel, tools.image_root, job, folder, seed, SESSION_TIMEOUT_S,
            interactive=True,
        )  # fmt: skip
    return int(outcome.result["status"])


def execute(command: str, condition: Condition, seed: int, tools: Instrument) -> tuple[int, str]:
    """Run a shell command in a guest in virtual time; return its status and what it printed."""
    job = {"kind": "shell", "condition": condition.to_json(), "seed": seed, "command": command}
    with _own_folder() as folder:
        outcome = virtual.boot(tools.kernel, tools.image_root, job, folder, seed, COMMAND_TIMEOUT_S)
        return int(outcome.result["status"]), (folder / "output.txt").read_text()
