"""The command line described from its parser: reference, manual page, completion, overview."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass

from losslab.examples import EXAMPLES, GROUPS

SHELLS = ("bash", "zsh")
OF_WORKFLOW = "(used by the workflow)"


@dataclass(frozen=True)
class Option:
    """An option or argument: how it is written, what it means, and the words that it may be."""

    flags: tuple[str, ...]
    written: str
    help: str
    choices: tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """A command: its words after `losslab`, what it does, its options, lines that use it."""

    words: tuple[str, ...]
    summary: str
    usage: str
    options: tuple[Option, ...]
    examples: tuple[str, ...]

    @property
    def title(self) -> str:
        """Write it as it is typed."""
        return " ".join(("losslab", *self.words))


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    parser: argparse.ArgumentParser,
    version: str,
    statuses: str,
) -> None:
    """Add `completion` and `man`, which write the parser itself in other forms."""

    def complete(options: argparse.Namespace) -> int:
        print(completion(parser, options.shell), end="")
        return 0

    def describe(_: argparse.Namespace) -> int:
        print(roff(parser, version, statuses))
        return 0

    completed = commands.add_parser("completion", help="print what completes words in a shell")
    completed.add_argument("shell", choices=SHELLS)
    completed.set_defaults(run=complete)
    page = commands.add_parser("man", help="print the manual page")
    page.set_defaults(run=describe)


def leaves(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = (), summary: str = ""
) -> Iterator[tuple[tuple[str, ...], str, argparse.ArgumentParser]]:
    """List the parsers of all commands that run something, with their words and summaries."""
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not below:
        yield words, summary, parser
    for action in below:
        said = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, each in action.choices.items():
            yield from leaves(each, (*words, name), said.get(name, ""))


def with_examples(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Give the help of every command its examples."""
    for words, summary, each in leaves(parser):
        lines = EXAMPLES.get(" ".join(words), ())
        each.description = each.description or summary[:1].upper() + summary[1:] + "."
        each.formatter_class = argparse.RawDescriptionHelpFormatter
        each.epilog = "\n".join(["examples:", *(f"  {line}" for line in lines)]) if lines else None
    return parser


def described(parser: argparse.ArgumentParser) -> list[Command]:
    """Describe the commands of a parser, those of the workflow last."""
    found = []
    for words, summary, each in leaves(parser):
        usage = each.format_usage().removeprefix("usage: ").strip()
        options = tuple(_option(action) for action in each._actions if action.dest != "help")
        examples = EXAMPLES.get(" ".join(words), ())
        found.append(Command(words, summary, usage, options, examples))
    return sorted(found, key=lambda command: OF_WORKFLOW in command.summary)


def _option(action: argparse.Action) -> Option:
    choices = tuple(map(str, action.choices or ()))
    words = action.metavar if isinstance(action.metavar, str) else None
    value = words or (("{" + ",".join(choices) + "}") if choices else action.dest.upper())
    flags = tuple(action.option_strings)
    written = ", ".join(flags) + ("" if action.nargs == 0 else f" {value}") if flags else value
    return Option(flags, written, (action.help or "").replace("%%", "%"), choices)


def overview(parser: argparse.ArgumentParser) -> str:
    """Say what one can do, by what one may want."""
    said = {" ".join(command.words): command for command in described(parser)}
    width = max(map(len, said))
    lines = ["losslab measures what paths do to TCP congestion control.", ""]
    named = {name for names in GROUPS.values() for name in names}
    more = [n for n, c in said.items() if n not in named and OF_WORKFLOW not in c.summary]
    for title, names in {**GROUPS, "more": tuple(more)}.items():
        there = [name for name in names if name in said]
        lines += [f"{title}:", *(f"  {n:<{width}}  {said[n].summary}" for n in there), ""] * bool(
            there
        )
    first = EXAMPLES["measure"][0]
    lines += ["Begin with:", f"  {first}", "", "`losslab COMMAND --help` has options and examples."]
    return "\n".join(lines)


def markdown(parser: argparse.ArgumentParser) -> str:
    """Write the reference of the commands."""
    parts = []
    for command in described(parser):
        parts.append(f"## {command.title}\n\n{command.summary[:1].upper()}{command.summary[1:]}.\n")
        if command.options:
            rows = [f"| `{_cell(o.written)}` | {_cell(o.help)} |" for o in command.options]
            parts.append("\n".join(["| option | meaning |", "|---|---|", *rows]) + "\n")
        if command.examples:
            parts.append("\n".join(["```sh", *command.examples, "```"]) + "\n")
    return "\n".join(parts)


def _cell(text: str) -> str:
    return re.sub(r"([|*<>])", r"\\\1", text) if "`" not in text else text.replace("|", "\\|")


def roff(parser: argparse.ArgumentParser, version: str, statuses: str) -> str:
    """Write the manual page, for `man`.

    Args:
        parser: Of the command.
        version: Its name and version.
        statuses: What exit statuses mean, a line each.
    """
    lines = [
        f'.TH LOSSLAB 1 "" "{version}"',
        ".SH NAME",
        "losslab \\- measure what paths do to TCP congestion control, reproducibly",
        ".SH SYNOPSIS",
        ".B losslab",
        "COMMAND [OPTION]...",
        ".SH COMMANDS",
    ]
    for command in described(parser):
        lines += [f'.SS "{_roff(command.title)}"', _roff(command.summary) + "."]
        for option in command.options:
            lines += [".TP", f".B {_roff(option.written)}", _roff(option.help or "-")]
        if command.examples:
            lines += [".PP", "Examples:", ".nf", *map(_roff, command.examples), ".fi"]
    lines += [".SH EXIT STATUS", ".nf", *map(_roff, statuses.splitlines()), ".fi"]
    return "\n".join(lines)


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """Write what completes words in a shell: commands, options, and the words that an option has.

    Where an option names a file or has no list of words, files are offered.

    Args:
        parser: Of the command.
        shell: One of SHELLS; zsh runs what bash does.
    """
    cases = []
    for command in described(parser):
        name = " ".join(command.words)
        flags = [w for option in command.options for w in option.flags or option.choices]
        cases.append(f"'{name}') words='{' '.join([*flags, '--help'])}' ;;")
        for option in command.options:
            if not (option.choices and option.flags):
                continue
            place = "|".join(f"'{name} {flag}'" for flag in option.flags)
            cases.append(f"{place}) words='{' '.join(option.choices)}' ;;")
    firsts = dict.fromkeys(command.words[0] for command in described(parser))
    seconds: dict[str, list[str]] = {}
    for command in described(parser):
        if len(command.words) > 1:
            seconds.setdefault(command.words[0], []).append(command.words[1])
    cases += [f"'{first}') words='{' '.join(rest)}' ;;" for first, rest in seconds.items()]
    head = "autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    return head + TEMPLATE.format(
        firsts=" ".join(firsts), nested="|".join(seconds) or "-", cases="\n        ".join(cases)
    )


TEMPLATE = """\
# Completion of losslab; put this into the shell's start-up file:
#   eval "$(losslab completion bash)"
_losslab() {{
    local here="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command="${{COMP_WORDS[1]}}" words=""
    if [ "$COMP_CWORD" = 1 ]; then
        COMPREPLY=( $(compgen -W "{firsts} --help --version" -- "$here") )
        return
    fi
    case "$command" in
        {nested}) [ "$COMP_CWORD" = 2 ] || command="$command ${{COMP_WORDS[2]}}" ;;
    esac
    # The words of an option come before the list of options.
    case "$before" in --*) place="$command $before" ;; *) place="$command" ;; esac
    case "$here" in -*) place="$command" ;; esac
    case "$place" in
        {cases}
    esac
    COMPREPLY=( $(compgen -W "$words" -- "$here") )
    [ -n "${{COMPREPLY[*]}}" ] || COMPREPLY=( $(compgen -f -- "$here") )
}}
complete -F _losslab losslab
"""
