"""The commands: where each is, what it does, and examples; a test parses each example.

`commands.tsv` lists losslab's own. A command's module is imported when the command is called. Its
`add_commands` adds the parsers. Installed packages add commands by entry points in the group
`losslab.commands`: each has a command's name, and names a `Command`.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from importlib import metadata
from typing import Any, NamedTuple

from losslab.errors import LosslabError
from losslab.reading import read_rows
from losslab.repository import PACKAGE

GROUP = "losslab.commands"
WORKFLOW = "the workflow"  # commands of its rules, which the overview does not list
OTHERS = "other packages"
# Headings of the overview, by purpose; packages may add others.
HEADINGS = (
    "check this machine", "measure", "inspect runs and campaigns", "ask what would have happened",
    "judge an algorithm or a change", "reproduce and verify", "add your own", "shell completion",
)  # fmt: skip

# Which command compares what; docs/how-to/compare.md has the same with examples.
COMPARING = (
    "To compare: a run with itself `rerun`, two runs `divergence`, two campaigns `diff`, your own",
    "measurement with a run `compare`, your results with their raw files `verify`, an archive with",
    "its raw files and new runs `artifact verify`, a kernel file before and after changes `check`.",
)


class Command(NamedTuple):
    """A command: its module, its help and examples, and the overview's heading."""

    module: str
    help: str
    examples: tuple[str, ...]
    heading: str = OTHERS


COMMANDS = {
    row["command"]: Command(
        f"losslab.{row['module']}", row["help"], tuple(row["examples"].split(" | ")), row["heading"]
    )
    for row in read_rows(PACKAGE / "commands.tsv", "\t")
}


def find(name: str) -> Command | None:
    """Return a command of losslab or of an installed package; None if there is none."""
    if name in COMMANDS:
        return COMMANDS[name]
    found = metadata.entry_points(group=GROUP, name=name)
    return _load(next(iter(found))) if found else None


def installed() -> dict[str, Command]:
    """Return all commands by name, those of installed packages last."""
    added = {entry.name: entry for entry in metadata.entry_points(group=GROUP)}
    if taken := sorted(added.keys() & COMMANDS.keys()):
        raise LosslabError(
            f"a package's command must have a new name, found {added[taken[0]].value} as {taken[0]}"
        )
    return COMMANDS | {name: _load(added[name]) for name in sorted(added)}


def sources(name: str) -> list[str]:
    """List the files of a command's package in `losslab.tools`."""
    found = (PACKAGE / "tools" / name).rglob("*.*")
    return sorted(str(path) for path in found if path.suffix != ".pyc")


def _load(entry: metadata.EntryPoint) -> Command:
    try:
        found: Command = entry.load()
    except Exception as error:
        raise LosslabError(
            f"{entry.value} must be importable for the command {entry.name}, found "
            f"{type(error).__name__}: {error}",
            hint=f"install or remove the package {entry.dist.name if entry.dist else ''}",
        ) from error
    return found


class Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """The parsers of commands, with the table's help."""

    def add_parser(self, name: str, **more: Any) -> Any:
        """Add the parser of a command."""
        command = find(name)
        return super().add_parser(name, **{"help": command.help if command else "", **more})

    def add(self, called: str | None = None) -> None:
        """Add all commands, or the called one with the others of its module.

        If there is none of that name, add the names of all.
        """
        command = None if called is None else find(called)
        if called is not None and command is None:
            for name in installed():
                self.add_parser(name)
            return
        wanted = [command] if command else installed().values()
        for module in dict.fromkeys(each.module for each in wanted):
            importlib.import_module(module).add_commands(self)


def leaves(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = (), summary: str = ""
) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yield name, summary and parser of each command without subcommands."""
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not below:
        yield " ".join(words), summary, parser
    for action in below:
        summaries = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, each in action.choices.items():
            yield from leaves(each, (*words, name), summaries.get(name, ""))


def examples(name: str) -> list[str]:
    """Return the examples of a command, such as `new study`."""
    command = find(name.split()[0])
    lines = command.examples if command else ()
    return [line for line in lines if f"losslab {name} " in f"{line} "]


def with_examples(parser: argparse.ArgumentParser) -> None:
    """Add examples to every command's help."""
    for name, summary, each in leaves(parser):
        each.description = each.description or summary[:1].upper() + summary[1:] + "."
        each.formatter_class = argparse.RawDescriptionHelpFormatter
        each.epilog = "\n".join(["examples:", *(f"  {line}" for line in examples(name))])


def overview() -> str:
    """List the commands by purpose, without those of the workflow."""
    known = installed()
    width = max(map(len, known))
    lines = ["losslab measures how network paths affect TCP congestion control.", ""]
    for heading in dict.fromkeys((*HEADINGS, *(each.heading for each in known.values()))):
        its = {name: each for name, each in known.items() if each.heading == heading}
        if its and heading != WORKFLOW:
            lines += [f"{heading}:", *(f"  {n:<{width}}  {c.help}" for n, c in its.items()), ""]
    lines += [*COMPARING, ""]
    lines += ["Begin with:", f"  {COMMANDS['measure'].examples[0]}", ""]
    return "\n".join([*lines, "Options and examples: `losslab COMMAND --help`."])
