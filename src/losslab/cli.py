"""The `losslab` command.

Results go to stdout, messages to stderr.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from losslab import commands, extensions, interrupts, moved
from losslab.errors import LosslabError, did_you_mean
from losslab.reading import CONTROL, UsageError, shown
from losslab.repository import FORMAT, __version__

STATUSES = """\
0    success; `measure`: the run is valid; `rerun`, `diff`: the two agree
1    failed or invalid, with the reasons on stderr; `rerun`, `diff`: the two do not agree
2    wrong usage or bad input; nothing ran
125  a changed source of the kernel does not apply or compile
130  interrupted; the message says what is kept
141  the output was closed early, as in `losslab axes | head`"""


# Environment variable that prints the traceback of every error when set to 1.
DEBUG = "LOSSLAB_DEBUG"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status, one of STATUSES."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = argparse.Namespace(interrupted="nothing was changed")
    # Snakemake asks for the user's name, which a user of `docker run --user` has not.
    os.environ.setdefault("LOGNAME", str(os.getuid()))
    try:
        _require_stdout()
        options = parser(words).parse_args(words)
        interrupts.unwind_on_signals()
        moved.require_new_places(extensions.campaign())
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
    """Refuse to run without standard output; escape characters that its encoding lacks."""
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
    """Print the error, or what an interrupt leaves behind; return the exit status."""
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
        message = "losslab ran out of memory"
    else:
        message = _bug(error)
    # Messages quote files and manifests: escape control characters for the terminal.
    safe = CONTROL.sub(lambda match: repr(match[0])[1:-1], message)
    print(f"losslab: error: {safe}", file=sys.stderr)
    return int(getattr(error, "status", 2 if isinstance(error, UsageError) else 1))


def _drop_stdout() -> None:
    """Discard buffered standard output, which the interpreter could not flush at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _bug(error: BaseException) -> str:
    """Describe an unexpected error, and write its traceback to a new file."""
    what = f"an unexpected error, {type(error).__name__}: {shown(str(error))}"
    try:
        descriptor, name = tempfile.mkstemp(prefix="losslab-traceback-", suffix=".txt")
        with open(descriptor, "w", errors="backslashreplace") as file:
            file.writelines(traceback.format_exception(error))
    except OSError:
        return f"{what}\n  -> this is a bug in losslab; {DEBUG}=1 shows its traceback"
    return f"{what}\n  -> this is a bug in losslab; please report it with {name}"


class _Print(argparse.Action):
    """Print the version, kernels and images, or the commands by purpose and exit statuses."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from losslab.instrument.built import installed

        if self.dest == "version":
            print(f"losslab {__version__}", f"results {FORMAT}", *installed(), sep="\n")
        else:
            print(f"{commands.overview()}\n\nexit status:\n{STATUSES}")
        parser.exit()


class Parser(argparse.ArgumentParser):
    """Parser whose errors fit in a few lines; `--help` lists the options."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; refuse unknown options with the names of similar ones."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            options = option_names(self, args or ())
            words = (did_you_mean(word.partition("=")[0], options) for word in unknown)
            if args and not args[0].startswith("-"):
                self.prog += f" {args[0]}"  # the command, whose help lists them
            self.error(f"unrecognized arguments: {' '.join(unknown)}{''.join(words)}")
        return found

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, and keep the words for the message of an error."""
        self._words = [*(args or ())]
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            names: Iterable[Any] = action.choices or ()
            more = did_you_mean(str(value), map(str, names))
            raise argparse.ArgumentError(action, f"{error.message}{more}") from error

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse ignores a full standard output.
        if message:
            (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        """Exit with status 2 and the error, without the usage of fifty options."""
        if "required" in message:
            # A misspelt option leaves the one that it stands for missing.
            options = option_names(self, ())
            names = {word.partition("=")[0] for word in self._words if word.startswith("--")}
            unknown = [n for n in sorted(names) if not any(o.startswith(n) for o in options)]
            if unknown:
                found = ", ".join(f"{name}{did_you_mean(name, options)}" for name in unknown)
                message = f"unrecognized arguments: {found}; {message}"
        self.exit(2, f"{self.prog}: error: {message}\n  -> {self.prog} --help lists all options\n")


def option_names(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """List the options of the command that the words select."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for number, word in enumerate(words):
                if word in action.choices:
                    return option_names(action.choices[word], words[number + 1 :])
    return [option for action in parser._actions for option in action.option_strings]


def parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Make the parser of a command line, or of all commands.

    Only the module of the called command is imported: a campaign starts hundreds of them.
    """
    made: argparse.ArgumentParser = Parser(prog="losslab", add_help=False)
    made.add_argument("-h", "--help", action=_Print, nargs=0, help="list the commands")
    made.add_argument("--version", action=_Print, nargs=0, help="print version and instrument")

    def overview(_: argparse.Namespace) -> int:
        print(commands.overview())
        return 0

    made.set_defaults(interrupted="nothing was changed", run=overview)
    below: Any = made.add_subparsers(metavar="COMMAND", action=commands.Commands)
    below.add(None if words is None else next((w for w in words if not w.startswith("-")), ""))
    commands.with_examples(made)
    return made


def add_commands(parsers: commands.Commands) -> None:
    """Add `completion`."""

    def complete(options: argparse.Namespace) -> int:
        import shtab

        print(shtab.complete(parser(), options.shell))
        return 0

    completion = parsers.add_parser("completion")
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    completion.set_defaults(run=complete)


if __name__ == "__main__":
    sys.exit(main())
