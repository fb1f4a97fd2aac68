"""Meaning of source code: without docstrings, comments, annotations, layout and help texts.

A fingerprint rests on it, so that a better sentence measures nothing again, and a changed operator
does. The same meaning has the same digest in every version of Python.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.errors import LosslabError
from losslab.instrument.cache import cache_folder

# Text for readers: keyword arguments of these names, and the values of a dictionary that is
# given as `choices`.
PROSE, PROSE_BY_KEY = frozenset({"help", "hint"}), "choices"
# Fields of nodes that decide nothing: annotations, positions of types, how a literal is written.
IGNORED = frozenset(
    {"annotation", "returns", "type_comment", "type_params", "kind", "ctx", "simple"}
)
DIGEST_DIGITS = 16
# Comments, strings, and space between an R file's tokens.
_R_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*) | (?P<string>"(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | `[^`]*`)
    | (?P<space>\s+)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Module:
    """Meaning of a Python module."""

    meaning: str  # digest of what it does
    # Dotted names that it imports, also inside functions, but not for types alone.
    imports: tuple[str, ...]


class Modules:
    """Meanings of Python modules by their text's digest, kept in the cache from run to run.

    Parsing what one cell is measured by takes half a second, and every cell's job needs it.
    """

    def __init__(self) -> None:
        """Read what is kept; an unreadable file counts as empty."""
        # Of this file's own text, so that another rule here forgets what the last one found.
        own = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:DIGEST_DIGITS]
        self._path = cache_folder() / "meaning" / f"{own}.json"
        try:
            self._kept = {
                key: Module(str(meaning), tuple(imports))
                for key, (meaning, imports) in json.loads(self._path.read_text()).items()
            }
        except (OSError, ValueError, TypeError, AttributeError):
            self._kept = {}

        self._new = False

    def read(self, path: Path) -> Module:
        """Return a module's meaning. Raises LosslabError if it is not Python."""
        content = path.read_bytes()
        key = hashlib.sha256(content).hexdigest()
        if key not in self._kept:
            try:
                self._kept[key] = of_python(content.decode())
            except (SyntaxError, ValueError) as error:
                raise LosslabError(f"{path} must be a Python module, found: {error}") from error
            self._new = True
        return self._kept[key]

    def keep(self) -> None:
        """Write what was found since the start; a cache that cannot be written to costs time."""
        if not self._new:
            return
        data = {key: [each.meaning, each.imports] for key, each in self._kept.items()}
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial = self._path.with_name(f".{self._path.name}.{os.getpid()}")
            partial.write_text(json.dumps(data, sort_keys=True))
            partial.replace(self._path)
        self._new = False


def of_python(text: str) -> Module:
    """Parse a module; a mistake in it is a SyntaxError."""
    tree = ast.parse(text)
    return Module(_digest(json.dumps(_plain(tree))), tuple(dict.fromkeys(_imports(tree))))


def of_r(text: str) -> str:
    """Return the digest of what R code means; wrapping a line differently counts as a change."""

    def kept(match: re.Match[str]) -> str:
        if match["string"]:
            return match[0]
        return "\n" if "\n" in match[0] else " " * bool(match["space"])

    plain = _R_TOKEN.sub(kept, text)
    return _digest("\n".join(line.strip() for line in plain.splitlines() if line.strip()))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]


def _plain(node: Any, of_error: bool = False) -> Any:
    """Turn a node into lists of what counts of it.

    `node`: a node, a field's value, or a list of them; `of_error`: it is part of an error, whose
    words do not count.
    """
    if isinstance(node, list):
        return [_plain(each, of_error) for each in node if not _is_prose(each, of_error)]
    if not isinstance(node, ast.AST):
        return repr(node)
    of_error = of_error or _is_error(node)
    found: list[Any] = [type(node).__name__]
    for name, value in ast.iter_fields(node):
        if name in IGNORED or value is None or value == [] or _is_prose(value, of_error):
            continue
        its = _without_prose(value) if name == "keywords" else value
        found.append([name, _plain(its, of_error)])
    return found


def _without_prose(keywords: list[ast.keyword]) -> list[ast.keyword]:
    """Leave out prose; of a dictionary of `choices`, its values."""
    return [
        ast.keyword(each.arg, ast.Set([key for key in each.value.keys if key]))
        if each.arg == PROSE_BY_KEY and isinstance(each.value, ast.Dict)
        else each
        for each in keywords
        if each.arg not in PROSE
    ]


def _is_error(node: ast.AST) -> bool:
    """Tell whether a node raises or makes an error."""
    called = node.func if isinstance(node, ast.Call) else None
    name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
    return isinstance(node, ast.Raise) or name.endswith("Error")


def _is_prose(node: Any, of_error: bool) -> bool:
    """Tell whether a node is a string that nothing uses, such as a docstring, or an error's."""
    string = node.value if isinstance(node, ast.Expr) else node if of_error else None
    return isinstance(string, ast.Constant) and isinstance(string.value, str)


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom) and node.module:
        yield from [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.If) and _for_types(node.test):
        for other in node.orelse:
            yield from _imports(other)
    else:
        for each in ast.iter_child_nodes(node):
            yield from _imports(each)


def _for_types(test: ast.expr) -> bool:
    """Tell whether what follows a condition is imported for types' sake only."""
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def of_files(paths: Iterable[Path]) -> str:
    """Return a digest of what some Python and R files mean, in any order.

    Raises LosslabError if one of them is not Python.
    """
    found: dict[str, str] = {}
    for path in sorted(paths):
        its = of_r(path.read_text()) if path.suffix == ".R" else modules().read(path).meaning
        # A script and a file of functions may have the same name.
        found[path.name] = found.get(path.name, "") + its
    return _digest(json.dumps(found, sort_keys=True))


@functools.cache
def modules() -> Modules:
    """Return this process's modules."""
    return Modules()
