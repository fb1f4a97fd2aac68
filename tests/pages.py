"""Commands of the pages, from their ```sh blocks."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.sources import tracked

FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INNER = re.compile(r"\$\(([^()]+)\)")
ASSIGNMENT = re.compile(r"[A-Z][A-Z0-9_]*=.*")
OPERATORS = {"|", "||", "&", "&&", ";"}


@dataclass(frozen=True)
class Shown:
    """A command of a page: its words, and the variables set before it."""

    page: str
    words: tuple[str, ...]
    variables: tuple[str, ...] = ()

    def __str__(self):
        return f"{self.page}: {shlex.join(self.words)}"


def pages(root: Path) -> list[Path]:
    """Return the pages."""
    return tracked("README.md", "CONTRIBUTING.md", ":(glob)*/README.md", "docs/*.md", root=root)


def lines(text: str) -> list[str]:
    """Return the lines of a text's code blocks; continued lines are joined."""
    return [
        line.strip()
        for fence in FENCE.findall(text)
        for line in fence.replace("\\\n", " ").splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]


def commands(line: str, page: str = "") -> list[Shown]:
    """Split a line of shell into its commands, including those in `$(...)`."""
    found = [each for inner in INNER.findall(line) for each in commands(inner, page)]
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word not in OPERATORS:
            words.append(word)
        elif words:
            variables = [w for w in words if ASSIGNMENT.fullmatch(w)]
            first = next((i for i, w in enumerate(words) if not ASSIGNMENT.fullmatch(w)), None)
            if first is not None:
                found.append(Shown(page, tuple(words[first:]), tuple(variables[:first])))
            words = []
    return found


def shown(root: Path) -> list[Shown]:
    """Return every command of every page."""
    return [
        command
        for page in pages(root)
        for line in lines(page.read_text())
        for command in commands(line, str(page.relative_to(root)))
    ]


def program(command: Shown) -> str:
    """Return the name of a command's program, without its path."""
    return command.words[0].rpartition("/")[2]
