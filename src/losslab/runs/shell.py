"""Run commands on the emulated hosts: `losslab shell`."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import termios
from pathlib import Path

from losslab import cellspec
from losslab.backends import runner, virtual
from losslab.backends.base import Instrument, Job
from losslab.campaign.instrument import at_first_use, instrument
from losslab.errors import LosslabError
from losslab.lock import own_folder
from losslab.study import dictionary
from losslab.study.condition import Condition

# Limits of wall time of a command in the shell and of a session at a terminal.
COMMAND_TIMEOUT_S = 600.0
SESSION_TIMEOUT_S = 86_400.0


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


def execute(
    command: str | None, condition: Condition, seed: int, tools: Instrument
) -> tuple[int, str]:
    """Run a shell command in a guest in virtual time; return its status and output.

    None connects the user's terminal to a shell in a guest that runs in real time.
    """
    task = {"kind": "shell", "condition": condition.to_json(), "seed": seed, "command": command}
    limit_s = SESSION_TIMEOUT_S if command is None else COMMAND_TIMEOUT_S
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(own_folder(Path(tempfile.gettempdir()), "losslab-shell-"))
        if sys.stdin is not None and sys.stdin.isatty():
            # The guest's console sets the terminal to raw mode.
            attributes = termios.tcgetattr(sys.stdin)
            stack.callback(termios.tcsetattr, sys.stdin, termios.TCSADRAIN, attributes)
        job = Job(task, folder, seed, limit_s, interactive=command is None)
        status = int(runner.run(virtual.Guest(), tools, job).result["status"])
        return status, "" if command is None else (folder / "output.txt").read_text()


def _shell(options: argparse.Namespace) -> int:
    condition, command = cellspec.condition_of(options), options.command
    if command is None and sys.stdin is None:
        raise LosslabError(
            "losslab shell needs a terminal, a command or standard input, found none",
            hint="pass a command: `losslab shell -c 'sender ping -c 3 10.0.3.2'`",
        )
    if command is None and not sys.stdin.isatty():
        # Read all of it: a console hangs up at the end of the input, before it was processed.
        command = sys.stdin.read()
    at_first_use(condition)
    status, output = execute(command, condition, options.seed, instrument(condition=condition))
    print(output, end="")
    return status
