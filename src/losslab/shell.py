"""Shell inside the emulated topology, for ping, tc and ss."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path

from losslab import cellspec
from losslab.backends import runner, virtual
from losslab.backends.base import Instrument, Job
from losslab.campaign.instrument import instrument
from losslab.errors import LosslabError
from losslab.lock import own_folder
from losslab.provide import at_first_use
from losslab.runs import condition_of
from losslab.study import dictionary
from losslab.study.condition import Condition

# Limits of wall time of a command and of a session at a terminal.
COMMAND_TIMEOUT_S = 600.0
SESSION_TIMEOUT_S = 86_400.0


@contextlib.contextmanager
def _terminal_kept() -> Iterator[None]:
    """Restore the terminal's settings: the guest's console sets it to raw mode."""
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


def command_or_input(command: str | None) -> str | None:
    """Return the command, or else standard input; None for a session at a terminal."""
    if command is None and sys.stdin is None:
        raise LosslabError(
            "losslab shell needs a terminal, a command or standard input, found none",
            hint="pass a command: `losslab shell -c 'sender ping -c 3 10.0.3.2'`",
        )
    if command is not None or sys.stdin.isatty():
        return command
    # Read all of it: a console hangs up at the end of the input, before it was processed.
    return sys.stdin.read()


def interact(condition: Condition, seed: int, tools: Instrument) -> int:
    """Connect the user's terminal to a shell in a guest that runs in real time."""
    with _own_folder() as folder, _terminal_kept():
        job = _job(None, condition, seed, folder)
        return int(runner.run(virtual.Guest(), tools, job).result["status"])


def execute(command: str, condition: Condition, seed: int, tools: Instrument) -> tuple[int, str]:
    """Run a shell command in a guest in virtual time; return its status and output."""
    with _own_folder() as folder:
        outcome = runner.run(virtual.Guest(), tools, _job(command, condition, seed, folder))
        return int(outcome.result["status"]), (folder / "output.txt").read_text()


def _job(command: str | None, condition: Condition, seed: int, folder: Path) -> Job:
    request = {"kind": "shell", "condition": condition.to_json(), "seed": seed, "command": command}
    limit_s = SESSION_TIMEOUT_S if command is None else COMMAND_TIMEOUT_S
    return Job(request, folder, seed, limit_s, interactive=command is None)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `shell`."""
    shell = commands.add_parser("shell")
    dictionary.add_options(shell, algorithm="cubic")
    shell.add_argument("--seed", type=cellspec.SEED, default=1)
    shell.add_argument(
        "-c", "--command",
        help="run this command in virtual time and exit; by default commands are read from "
        "standard input if it is not a terminal",
    )  # fmt: skip
    shell.set_defaults(run=_shell)


def _shell(options: argparse.Namespace) -> int:
    condition = condition_of(options)
    command = command_or_input(options.command)
    at_first_use(condition)
    tools = instrument(condition=condition)
    if command is None:
        return interact(condition, options.seed, tools)
    status, words = execute(command, condition, options.seed, tools)
    print(words, end="")
    return status
