"""What decides a cell's numbers: the files of this repository that make another instrument.

A cell's code is what its guest imports, but for what this cell does not use: the apps that it does
not run, the trace-driven link of a cell without a trace, flows beside its own, other schemes. A
version number, words of errors and another backend decide nothing.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from losslab.backends.known import BACKENDS
from losslab.campaign import brought
from losslab.campaign.which import image_of, kernel_of
from losslab.emulation.schemes import make_scheme
from losslab.instrument import image, kernel
from losslab.instrument.cache import hash_files
from losslab.instrument.kernels import Kernel
from losslab.study.condition import DRAWN_TRACE, NO_SCHEME, NO_TRACE, Condition
from losslab.study.crowd import NO_FLOWS

PACKAGE = Path(__file__).resolve().parents[1]
TRACES = PACKAGE.parents[1] / "config" / "traces"
# What starts a job, whatever the backend.
RUNNER = "backends/runner.py"
# What imports every app, and a link that a cell may not have.
IMPORTERS = {"emulation/measure.py", "emulation/outcome.py", "emulation/plan.py"}
# Programs that are started by their names, which no import shows.
DATAGRAM, LINK = "emulation/apps/datagram_program.py", "emulation/link/forward.py"
CROWD, OF_CROWDS = "emulation/crowd/program.py", "emulation/crowd/"
PAGES = "emulation/apps/page_server.py"
OF_TRACES = {LINK, "emulation/link/tracelink.py", "emulation/link/traces.py"}
# Imported, but not by what measures: words, an interactive shell, captures, a look at the machine;
# and what kernel and images are made by, of which what was made counts (`built`).
UNDECIDING = {
    "errors.py", "emulation/jobs/console.py", "emulation/capture.py", "backends/preflight.py",
}  # fmt: skip
MAKERS = "instrument/"
# What may hold an import; expressions, most of a module, cannot.
STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)
# Of the packages' own files, this one holds more than a sentence.
SCHEMES = "emulation/schemes/__init__.py"


def files(condition: Condition, backend: str, where: str) -> list[Path]:
    """List the files that decide a cell's numbers: code, recipes of kernel and images, trace."""
    needs = BACKENDS[backend, where].needs
    found = [*modules(condition, backend, where)]
    images = (image_of(condition), *needs.images[1:])
    found += [path for name in images for path in image.recipe(name)]
    found += brought.files(condition)
    found += kernel.recipe(needs.kernel, kernel_of(condition)) if needs.kernel else []
    links = (condition.trace, condition.trace_back)
    found += [TRACES / trace for trace in links if trace not in (NO_TRACE, DRAWN_TRACE)]
    return list(dict.fromkeys(found))


def source_hash(condition: Condition, backend: str, where: str) -> str:
    """Hash the code that decides a cell's numbers, for its manifests."""
    return _hash(modules(condition, backend, where))


@functools.cache
def _hash(paths: tuple[Path, ...]) -> str:
    return hash_files(paths)


def modules(condition: Condition, backend: str, where: str) -> tuple[Path, ...]:
    """List the modules that decide a cell's numbers."""
    scheme = None
    if condition.scheme != NO_SCHEME:
        scheme = type(make_scheme(condition.scheme)).__module__.rpartition(".")[2]
    crowd, trace = condition.flows != NO_FLOWS, condition.trace != NO_TRACE
    return _modules(condition.app, crowd, trace, scheme, backend, where)


@functools.cache
def _modules(
    app: str, crowd: bool, trace: bool, scheme: str | None, backend: str, where: str
) -> tuple[Path, ...]:
    """Follow the imports from a cell's entries."""

    def unused(importer: str, imported: str) -> bool:
        if imported in UNDECIDING or imported.startswith(MAKERS) or _empty(imported):
            return True
        if importer in IMPORTERS and imported.startswith("emulation/apps/"):
            return imported != f"emulation/apps/{app}.py"
        if importer in IMPORTERS and imported in OF_TRACES:
            return not trace
        if imported.startswith(OF_CROWDS) and not importer.startswith(OF_CROWDS):
            return not crowd
        if importer == SCHEMES:
            return imported not in ("emulation/schemes/base.py", f"emulation/schemes/{scheme}.py")
        return False

    runs = BACKENDS[backend, where]
    waiting = [RUNNER, *_files_of(type(runs).__module__), runs.needs.job]
    waiting += [DATAGRAM] if scheme else []
    waiting += [LINK] if trace else []
    waiting += [CROWD] if crowd else []
    waiting += [PAGES] if app == "web" else []
    found: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += [name for name in _imports(module) if not unused(module, name)]
    return tuple(PACKAGE / name for name in sorted(found))


def _empty(module: str) -> bool:
    """Tell whether a file holds no more than a version number or a sentence."""
    return module.endswith("__init__.py") and module != SCHEMES


@functools.cache
def _imports(module: str) -> tuple[str, ...]:
    """List the modules of this package that one imports, but for its types' sake."""
    found: list[str] = []
    waiting: list[ast.AST] = [_parsed((PACKAGE / module).read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            found += [file for name in names for file in _files_of(name)]
        elif isinstance(node, ast.Import):
            found += [file for alias in node.names for file in _files_of(alias.name)]
        elif not (isinstance(node, ast.If) and _for_types(node.test)):
            waiting += [each for each in ast.iter_child_nodes(node) if isinstance(each, STATEMENTS)]
    return tuple(dict.fromkeys(found))


def _parsed(text: str) -> ast.Module:
    """Parse a module as far as the last line that has the word `import`: every cell's start waits.

    Where statements end before, what follows cannot change them.
    """
    end = text.find("\n", text.rfind("import"))
    try:
        return ast.parse(text if end < 0 else text[: end + 1])
    except SyntaxError:  # in brackets, in a sentence, or in what needs more, such as `try`
        return ast.parse(text)


def _for_types(test: ast.expr) -> bool:
    """Tell whether what follows a condition is imported for types' sake only."""
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _files_of(dotted: str) -> Iterator[str]:
    """Name the file of a module or package of this package, where there is one."""
    first, _, rest = dotted.partition(".")
    if first != "losslab" or not rest:
        return
    path = rest.replace(".", "/")
    for name in (f"{path}.py", f"{path}/__init__.py"):
        if os.path.isfile(f"{PACKAGE}/{name}"):  # a thousand of them: a Path each takes longer
            yield name


def built(condition: Condition, backend: str, where: str) -> str:
    """Hash what a cell's kernel and images are: by their recipes, built or not.

    Where something else was built for want of the pinned sources, it is that.
    """
    return _built(kernel_of(condition), image_of(condition), backend, where)


@functools.cache
def _built(which: Kernel, hosts: str, backend: str, where: str) -> str:
    parts: list[object] = []
    needs = BACKENDS[backend, where].needs
    for name in (hosts, *needs.images[1:]):
        folder = image.existing(name)
        other = folder is not None and folder != image.target(name)
        parts.append(image.provenance(folder) if folder and other else image.content_hash(name))
    if needs.kernel:
        folder = kernel.existing(needs.kernel, which)
        other = folder is not None and folder != kernel.target(needs.kernel, which)
        recipe = kernel.content_hash(needs.kernel, which)
        parts.append(kernel.provenance(folder) if folder and other else recipe)
        parts += which.boot
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
