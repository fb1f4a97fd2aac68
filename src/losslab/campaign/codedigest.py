"""Digests of source code without docstrings, comments, annotations, layout and help texts.

Fingerprints use these digests: a change of code repeats measurements, and a change of prose does
not. The digests are the same in all versions of Python.
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

# Keyword arguments that are prose, and one whose dictionary has prose as its values.
PROSE, PROSE_BY_KEY = frozenset({"help", "hint"}), "choices"
# Fields of nodes without effect: annotations, type comments, and the spelling of literals.
IGNORED = frozenset(
    {"annotation", "returns", "type_comment", "type_params", "kind", "ctx", "simple"}
)
DIGEST_DIGITS = 16
# Comments, strings and white space of an R file.
_R_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*) | (?P<string>"(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | `[^`]*`)
    | (?P<space>\s+)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Module:
    """The digest and the imports of a Python module."""

    digest: str
    # Dotted names, including imports inside functions but not those for type checking.
    imports: tuple[str, ...]


class Modules:
    """A cache of Python modules by the SHA-256 of their text, kept between runs.

    Parsing the modules of one cell takes half a second, and every cell's job needs them.
    """

    def __init__(self) -> None:
        """Read the cache's file; start with an empty cache if it is unreadable."""
        # A digest of this file, so that a change of the rules here discards the cache.
        own = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:DIGEST_DIGITS]
        self._path = cache_folder() / "meaning" / f"{own}.json"
        try:
            self._modules = {
                key: Module(str(code_digest), tuple(imports))
                for key, (code_digest, imports) in json.loads(self._path.read_text()).items()
            }
        except (OSError, ValueError, TypeError, AttributeError):
            self._modules = {}

        self._new = False

    def read(self, path: Path) -> Module:
        """Return a module's digest and imports; LosslabError if the file is not Python."""
        content = path.read_bytes()
        key = hashlib.sha256(content).hexdigest()
        if key not in self._modules:
            try:
                self._modules[key] = of_python(content.decode())
            except (SyntaxError, ValueError) as error:
                raise LosslabError(f"{path} must be a Python module, found: {error}") from error
            self._new = True
        return self._modules[key]

    def save(self) -> None:
        """Write new entries to the cache's file in one step; ignore errors."""
        if not self._new:
            return
        data = {key: [module.digest, module.imports] for key, module in self._modules.items()}
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial = self._path.with_name(f".{self._path.name}.{os.getpid()}")
            partial.write_text(json.dumps(data, sort_keys=True))
            partial.replace(self._path)
        self._new = False


def of_python(text: str) -> Module:
    """Return the digest and imports of a module's text; SyntaxError if it is not Python."""
    tree = ast.parse(text)
    return Module(_digest(json.dumps(_reduced(tree))), tuple(dict.fromkeys(_imports(tree))))


def of_r(text: str) -> str:
    """Return the digest of R code without comments; a different line break changes it."""

    def replacement(match: re.Match[str]) -> str:
        if match["string"]:
            return match[0]
        return "\n" if "\n" in match[0] else " " * bool(match["space"])

    plain = _R_TOKEN.sub(replacement, text)
    return _digest("\n".join(line.strip() for line in plain.splitlines() if line.strip()))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]


def _reduced(node: Any, in_error: bool = False) -> Any:
    """Return the parts of a node, value or list that have an effect, as nested lists.

    The text of an error has none.
    """
    if isinstance(node, list):
        return [_reduced(item, in_error) for item in node if not _is_prose(item, in_error)]
    if not isinstance(node, ast.AST):
        return repr(node)
    in_error = in_error or _is_error(node)
    reduced: list[Any] = [type(node).__name__]
    for name, value in ast.iter_fields(node):
        if name in IGNORED or value is None or value == [] or _is_prose(value, in_error):
            continue
        field = _without_prose(value) if name == "keywords" else value
        reduced.append([name, _reduced(field, in_error)])
    return reduced


def _without_prose(keywords: list[ast.keyword]) -> list[ast.keyword]:
    """Return keyword arguments without prose, and `choices` without their descriptions."""
    return [
        ast.keyword(keyword.arg, ast.Set([key for key in keyword.value.keys if key]))
        if keyword.arg == PROSE_BY_KEY and isinstance(keyword.value, ast.Dict)
        else keyword
        for keyword in keywords
        if keyword.arg not in PROSE
    ]


def _is_error(node: ast.AST) -> bool:
    """Return whether a node raises or creates an error."""
    called = node.func if isinstance(node, ast.Call) else None
    name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
    return isinstance(node, ast.Raise) or name.endswith("Error")


def _is_prose(node: Any, in_error: bool) -> bool:
    """Return whether a node is a docstring, another unused string, or text of an error."""
    string = node.value if isinstance(node, ast.Expr) else node if in_error else None
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
        for child in ast.iter_child_nodes(node):
            yield from _imports(child)


def _for_types(test: ast.expr) -> bool:
    """Return whether a condition guards imports for type checking."""
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def of_files(paths: Iterable[Path]) -> str:
    """Return one digest of the code of Python and R files in any order; LosslabError for others."""
    digests: dict[str, str] = {}
    for path in sorted(paths):
        is_r = path.suffix == ".R"
        code_digest = of_r(path.read_text()) if is_r else modules().read(path).digest
        # A script and a file of functions may have the same name.
        digests[path.name] = digests.get(path.name, "") + code_digest
    return _digest(json.dumps(digests, sort_keys=True))


@functools.cache
def modules() -> Modules:
    """Return the process's cache of modules."""
    return Modules()
