"""Parser of the command line that suggests names for misspelt ones."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from losslab.errors import did_you_mean


class Parser(argparse.ArgumentParser):
    """Parser whose errors fit in a few lines; `--help` lists the options."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; refuse unknown options with the names of similar ones."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            options = option_names(self, args or ())
            words = (did_you_mean(word.partition("=")[0], options) for word in unknown)
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
            for name in sorted(names):
                if not any(option.startswith(name) for option in options):
                    message += f", found {name}{did_you_mean(name, options)}"
        self.exit(2, f"{self.prog}: error: {message}\n  -> {self.prog} --help lists all options\n")


def option_names(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """List the options of the command that the words select."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for number, word in enumerate(words):
                if word in action.choices:
                    return option_names(action.choices[word], words[number + 1 :])
    return [option for action in parser._actions for option in action.option_strings]
