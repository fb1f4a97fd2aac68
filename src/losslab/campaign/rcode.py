"""Which files of R functions a piece of R code needs: those that define a name that it uses.

A figure then is drawn again when a function that it uses changes, and not when another does. Names
in strings do not count, but for what a chapter's sentence has in braces; a column that is called
like a function counts for it, which costs a redraw and no more.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from losslab.errors import LosslabError

# What a `#` or a quote begins is no name; the last alternative is one.
_TOKEN = re.compile(
    r"""\#[^\n]* | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | `[^`]*` | ([A-Za-z.][\w.]*)""",
    re.VERBOSE,
)
_DEFINITION = re.compile(r"^([A-Za-z.][\w.]*) *<-", re.MULTILINE)
# R code in a sentence of a document (`tell()` in analysis/R/prose.R).
_BRACES = re.compile(r"\{([^{}]+)\}")
# A document's R code: its chunks, and what stands inside its sentences.
_CHUNK = re.compile(r"^```\{r\}\n(.*?)^```|`r ([^`]+)`", re.MULTILINE | re.DOTALL)


def needed(code: Iterable[Path], functions: Sequence[Path]) -> list[Path]:
    """List the files of functions that code uses, directly or by way of others, in their order.

    Args:
        code: R scripts or Quarto documents.
        functions: Files that define functions and constants at their top level.

    Raises:
        LosslabError: two files of functions define the same name, or have the same.
    """
    home = definitions(functions)
    todo, found = list(code), set[Path]()
    while todo:
        uses = {home[name] for name in used_names(todo.pop()) & home.keys()} - found
        found |= uses
        todo += uses
    return [path for path in functions if path in found]


def definitions(functions: Iterable[Path]) -> dict[str, Path]:
    """Map what files of functions define at their top level to the file; errors as for `needed`."""
    home: dict[str, Path] = {}
    files: dict[str, Path] = {}
    for path in functions:
        # The report reads them all from one folder.
        other = files.setdefault(path.name, path)
        if other != path:
            raise LosslabError(f"files of R functions must differ in name, found {other}, {path}")
        for name in _defined(path.read_text()):
            other = home.setdefault(name, path)
            if other != path:
                raise LosslabError(
                    f"R functions must be defined once, found {name} in {other} and {path}",
                    hint="give the one of the study another name",
                )
    return home


@functools.cache
def _defined(text: str) -> tuple[str, ...]:
    """List the names that R code defines; by its text, as every figure asks for the same files."""
    return tuple(_DEFINITION.findall(text))


def used_names(path: Path) -> frozenset[str]:
    """List the names in an R script, or in the R code of a Quarto document."""
    return _names_in(path.read_text(), path.suffix == ".qmd")


@functools.cache
def _names_in(text: str, of_document: bool) -> frozenset[str]:
    if of_document:
        text = "\n".join(chunk or words for chunk, words in _CHUNK.findall(text))
        text += "\n" + "\n".join(_BRACES.findall(text))
    return frozenset(match[1] for match in _TOKEN.finditer(text) if match[1])
