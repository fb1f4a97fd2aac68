"""The `losslab` command.

What is asked for goes to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from losslab import __version__, interrupts, manual, steps
from losslab.asked import UsageError
from losslab.errors import LosslabError

STATUSES = """\
0    done; for `measure`: valid; for `rerun` and `diff`: the two agree
1    failed or invalid, with the reasons on stderr; for `rerun` and `diff`: no agreement was found
2    wrong usage or bad input; nothing ran
130  interrupted; what is kept is said
141  nobody reads the output any more, as in `losslab axes | head`"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status, one of STATUSES."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = parser(words).parse_args(words)
    except BrokenPipeError:
        return _nobody_reads()
    interrupts.unwind_on_signals()
    try:
        status: int = options.run(options)
        interrupts.heed()
        sys.stdout.flush()
    except BrokenPipeError:
        return _nobody_reads()
    except UsageError as error:
        print(f"losslab: error: {error}", file=sys.stderr)
        return 2
    except LosslabError as error:
        print(f"losslab: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"losslab: interrupted: {options.interrupted}", file=sys.stderr)
        return 128 + signal.SIGINT
    return status


def _nobody_reads() -> int:
    """End quietly where stdout is closed; the interpreter would complain when it flushes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE


class _Version(argparse.Action):
    """Print the version, and what would be measured with."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from losslab.campaign.folder import FORMAT
        from losslab.campaign.instrument import installed

        print(f"losslab {__version__}", f"results {FORMAT}", *installed(), sep="\n")
        parser.exit()


def parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Make the parser of the command line.

    Args:
        words: What it is for. Where that is a step of the workflow it knows the steps only: a
            campaign starts hundreds, and what other commands import takes longer than a step does
            to begin.
    """
    parser = argparse.ArgumentParser(
        prog="losslab",
        description=__doc__,
        epilog=f"exit status:\n{STATUSES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print it, and the instrument")

    def overview(_: argparse.Namespace) -> int:
        print(manual.overview(parser))
        return 0

    parser.set_defaults(interrupted="nothing was changed", run=overview)
    commands = parser.add_subparsers(metavar="COMMAND")
    if words and words[0] in steps.NAMES:
        steps.add_commands(commands)
        return manual.with_examples(parser)

    from losslab import commands as all_commands

    all_commands.add_commands(commands)
    manual.add_commands(commands, parser, f"losslab {__version__}", STATUSES)
    return manual.with_examples(parser)


if __name__ == "__main__":
    sys.exit(main())
