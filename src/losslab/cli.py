"""The `losslab` command.

What is asked for goes to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from typing import Any

from losslab import __version__, examples, interrupts, steps
from losslab.errors import LosslabError
from losslab.reading import UsageError, shown
from losslab.reading.files import CONTROL

STATUSES = """\
0    done; for `measure`: valid; for `rerun` and `diff`: the two agree
1    failed or invalid, with the reasons on stderr; for `rerun` and `diff`: no agreement was found
2    wrong usage or bad input; nothing ran
130  interrupted; what is kept is said
141  nobody reads the output any more, as in `losslab axes | head`"""


# Set to 1, this variable shows the traceback of every error.
DEBUG = "LOSSLAB_DEBUG"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status, one of STATUSES."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = argparse.Namespace(interrupted="nothing was changed")
    try:
        _require_stdout()
        options = parser(words).parse_args(words)
        interrupts.unwind_on_signals()
        status: int = options.run(options)
        interrupts.heed()
        sys.stdout.flush()
    except SystemExit:  # argparse has printed help or an error, or a signal arrived
        try:
            sys.stdout.flush()
        except OSError as error:
            return _failed(error, "")
        raise
    except BaseException as error:
        if os.environ.get(DEBUG, "0") not in ("", "0"):
            traceback.print_exc()
        return _failed(error, str(options.interrupted))
    return status


def _require_stdout() -> None:
    """Refuse to run without a standard output; write characters that it lacks as escapes."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (for as long as the process lives)
    if sys.stdout is None:
        raise UsageError(
            "standard output must be open, found it closed",
            hint="redirect it to /dev/null to drop the output",
        )
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _failed(error: BaseException, interrupted: str) -> int:
    """Print what ended the command, or what an interrupt leaves; return the exit status."""
    if isinstance(error, BrokenPipeError):
        _drop_stdout()
        return 128 + signal.SIGPIPE
    if isinstance(error, KeyboardInterrupt):
        print(f"losslab: interrupted: {interrupted}", file=sys.stderr)
        return 128 + signal.SIGINT
    if isinstance(error, LosslabError):
        message = str(error)
    elif isinstance(error, OSError):
        try:
            sys.stdout.flush()
        except OSError:
            _drop_stdout()
        found = error.strerror or error
        message = f"{error.filename} must be readable and writable, found: {found}"
        if error.filename is None:
            message = f"output must be writable, found: {found}"
    elif isinstance(error, MemoryError):
        message = "there must be enough memory, found too little"
    else:
        message = _bug(error)
    # What a file or a manifest brings is quoted, but no terminal is to obey it.
    safe = CONTROL.sub(lambda match: repr(match[0])[1:-1], message)
    print(f"losslab: error: {safe}", file=sys.stderr)
    return 2 if isinstance(error, UsageError) else 1


def _drop_stdout() -> None:
    """Drop what is buffered for standard output, which the interpreter would fail to flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _bug(error: BaseException) -> str:
    """Describe an error that losslab does not expect; its traceback goes into a new file."""
    what = f"an unexpected error, {type(error).__name__}: {shown(str(error))}"
    try:
        descriptor, name = tempfile.mkstemp(prefix="losslab-traceback-", suffix=".txt")
        with open(descriptor, "w", errors="backslashreplace") as file:
            file.writelines(traceback.format_exception(error))
    except OSError:
        return f"{what}\n  -> this is a bug in losslab; {DEBUG}=1 shows its traceback"
    return f"{what}\n  -> this is a bug in losslab; please report it with {name}"


class _Version(argparse.Action):
    """Print the version, and what would be measured with."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from losslab.campaign.folder import FORMAT
        from losslab.campaign.instrument import installed

        print(f"losslab {__version__}", f"results {FORMAT}", *installed(), sep="\n")
        parser.exit()


def parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Make the parser of a command line.

    For a step of the workflow it knows the steps only: a campaign starts hundreds, and what other
    commands import takes longer than a step does to begin.
    """
    parser = argparse.ArgumentParser(
        prog="losslab",
        description=__doc__,
        epilog=f"exit status:\n{STATUSES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print it, and the instrument")

    def overview(_: argparse.Namespace) -> int:
        print(examples.overview(parser))
        return 0

    parser.set_defaults(interrupted="nothing was changed", run=overview)
    commands = parser.add_subparsers(metavar="COMMAND")
    if words and words[0] in steps.NAMES:
        steps.add_commands(commands)
        return examples.with_examples(parser)

    from losslab import commands as all_commands

    all_commands.add_commands(commands)
    completion = commands.add_parser("completion", help="print what completes words in a shell")
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"))

    def complete(options: argparse.Namespace) -> int:
        import shtab

        print(shtab.complete(parser, options.shell))
        return 0

    completion.set_defaults(run=complete)
    return examples.with_examples(parser)


if __name__ == "__main__":
    sys.exit(main())
