"""Extensions: apps, path mechanisms and schemes that a user adds without a change of this package.

Each is a module NAME.py with the same contents as losslab's own: in the folder `apps`, `mechanisms`
or `schemes` of a campaign's folder, or named by an installed package's entry point in the group
`losslab.apps`, `losslab.mechanisms` or `losslab.schemes`. It becomes a module of the package that
has losslab's own. Jobs have a copy of it there (`backends/payload.py`), so they add nothing.

These modules declare axes, check conditions and plan runs on the user's machine, with the user's
rights. So losslab loads those of a campaign's folder only if the user trusts the folder (`losslab
init`, `losslab trust`): a command in a stranger's folder runs none of its code.

The guest imports this module: use only the standard library.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from losslab.errors import LosslabError

PACKAGE = Path(__file__).resolve().parent
# The package's folder of each kind. Modules with an underscore are programs that apps start.
KINDS: Mapping[str, str] = {
    "apps": "emulation/apps", "mechanisms": "emulation/path", "schemes": "emulation/schemes",
}  # fmt: skip
NAME = re.compile(r"[a-z][a-z0-9]*")
# Marks a campaign's folder (`losslab init`).
MARK = ".losslab-folder"
# The campaign's folder, for programs that run in another folder.
VARIABLE = "LOSSLAB_FOLDER"
IN_JOB = not (PACKAGE / "cli.py").is_file()


def campaign() -> Path | None:
    """Return the campaign's folder in which losslab runs, or None."""
    try:
        found = Path(os.environ.get(VARIABLE) or Path.cwd()).resolve()
    except OSError:  # the current folder was removed
        return None
    return found if (found / MARK).is_file() else None


def folder() -> Path | None:
    """Return the folder that may add modules: a campaign's, or else a clone; None if neither."""
    if own := campaign():
        return own
    clone = PACKAGE.parents[1]
    return clone if (clone / "workflow").is_dir() else None


def _record_of_trust(place: Path) -> Path:
    """Return the file in the cache that says that the user trusts a folder.

    It depends on the folder's path and on its mark's inode: another folder that takes its place is
    not trusted.
    """
    cache = os.environ.get("LOSSLAB_CACHE") or Path.home() / ".cache" / "losslab"
    facts = f"{place.resolve()}\n{(place / MARK).stat().st_ino}"
    return Path(cache, "trusted", hashlib.sha256(facts.encode()).hexdigest())


def trust(place: Path) -> None:
    """Let the code of a campaign's folder run with the user's rights from now on."""
    record = _record_of_trust(place)
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(f"{place.resolve()}\n")
    _may_load.cache_clear()
    added.cache_clear()


def trusted(place: Path) -> bool:
    """Return whether the user trusts the code of a campaign's folder."""
    try:
        return _record_of_trust(place).is_file()
    except (OSError, RuntimeError):  # no mark, or no home
        return False


def own_modules(place: Path) -> list[Path]:
    """List the modules and their programs in a campaign's folder or a clone."""
    return sorted(path for kind in KINDS for path in (place / kind).glob("*.py"))


@functools.cache
def _may_load(place: Path) -> bool:
    """Return whether the modules of a folder may be loaded; print a note if not."""
    found = own_modules(place)
    if not found or place != campaign() or trusted(place):
        return True
    names = ", ".join(str(path.relative_to(place)) for path in found)
    print(
        f"losslab: note: the modules of {place} were not loaded ({names}), because they would run "
        "with your rights\n  -> read them, then allow it with `losslab trust`",
        file=sys.stderr,
    )
    return False


@functools.cache
def added(kind: str) -> Mapping[str, Path]:
    """Return the added modules of a kind, by name.

    Raises LosslabError if a name is not allowed, or is one of losslab's.
    """
    if IN_JOB:
        return {}
    from importlib import metadata  # slow, and not needed in a job

    found: dict[str, Path] = {}
    for entry in metadata.entry_points(group=f"losslab.{kind}"):
        spec = importlib.util.find_spec(entry.module)
        if spec is None or spec.origin is None or Path(spec.origin).stem != entry.name:
            raise LosslabError(
                f"the entry point {entry.name} of losslab.{kind} must name a module "
                f"{entry.name}.py, found {entry.value}"
            )
        found[entry.name] = Path(spec.origin)
    place = folder()
    own = sorted((place / kind).glob("*.py")) if place and _may_load(place) else []
    for path in own:
        if "_" not in path.stem:
            found[path.stem] = path
    for name, path in found.items():
        if not NAME.fullmatch(name) or (PACKAGE / KINDS[kind] / f"{name}.py").exists():
            raise LosslabError(
                f"a module of {kind} must have a new name of lower-case letters and digits, found "
                f"{path}",
                hint="rename it",
            )
    return found


def names(kind: str) -> list[str]:
    """List the names of a kind's modules, losslab's and the added ones."""
    own = (path.stem for path in (PACKAGE / KINDS[kind]).glob("*.py"))
    return sorted({*(name for name in own if "_" not in name), *added(kind)})


def load(kind: str, name: str) -> ModuleType:
    """Import a module; LosslabError says where an added one fails."""
    package = importlib.import_module(f"losslab.{KINDS[kind].replace('/', '.')}")
    path = added(kind).get(name)
    if path is None:
        return importlib.import_module(f"{package.__name__}.{name}")
    if str(path.parent) not in package.__path__:
        package.__path__.append(str(path.parent))
    try:
        _require_guest_imports(path)
        return importlib.import_module(f"{package.__name__}.{name}")
    except LosslabError:
        raise
    except (Exception, SystemExit) as error:
        raise _not_importable(path, error) from error


def _not_importable(path: Path, error: BaseException) -> LosslabError:
    line, trace = getattr(error, "lineno", None), error.__traceback__
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == str(path) else line
        trace = trace.tb_next
    found = f"{type(error).__name__}: {error}"
    return LosslabError(f"{path} must be importable, found at line {line or 1}: {found}")


def _require_guest_imports(path: Path) -> None:
    """Refuse an import of a package that not every guest has; a program may use its image's."""
    import ast  # not needed in a job

    for node in ast.walk(ast.parse(path.read_bytes(), path.name)):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        for name in names:
            if name.partition(".")[0] not in {"losslab", *sys.stdlib_module_names}:
                raise LosslabError(
                    f"{path} must import only Python's standard library and losslab's modules, "
                    f"found {name} at line {getattr(node, 'lineno', 1)}"
                )


def files() -> dict[str, Path]:
    """Return the files of all added modules and their programs, by their path in the package."""
    return {
        f"{KINDS[kind]}/{path.name}": path
        for kind in KINDS
        for name, module in added(kind).items()
        for path in [module, *module.parent.glob(f"{name}_*.py")]
    }
