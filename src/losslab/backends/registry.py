"""Registry of backends, by their names in campaigns and on the command line.

An installed package adds a backend by an entry point in the group `losslab.backends`: a class with
the methods of `base.Backend`. Its name is a further place where Mininet hosts run, for `--where`.
One in the group `losslab.backends.containernet` is a place where containers run.
"""

from __future__ import annotations

from importlib import metadata

from losslab import extensions
from losslab.backends.base import CONTAINERNET, GUEST, VIRTUAL, Backend, Needs
from losslab.backends.virtual import EngineGuest, Guest
from losslab.errors import LosslabError
from losslab.reading import UsageError

# By kind of hosts.
GROUPS = {VIRTUAL: "losslab.backends", CONTAINERNET: "losslab.backends.containernet"}


class _Backends(dict[tuple[str, str], Backend]):
    """Backends by kind of hosts, and where they run."""

    def __missing__(self, key: tuple[str, str]) -> Backend:
        kind, where = key
        found = ", ".join(f"{name} on {place}" for name, place in self)
        raise UsageError(f"the backend must be one of {found}, found {kind} on {where}")


BACKENDS = _Backends({(VIRTUAL, GUEST): Guest(), (CONTAINERNET, GUEST): EngineGuest()})


def _load(kind: str, entry: metadata.EntryPoint) -> Backend:
    """Return the backend of an entry point."""
    declaration = f"the entry point {entry.name} = {entry.value} of {GROUPS[kind]}"
    if not extensions.NAME.fullmatch(entry.name) or (kind, entry.name) in BACKENDS:
        raise LosslabError(
            f"a backend must have a new name of lower-case letters, found {declaration}"
        )
    try:
        backend: Backend = entry.load()()
    except Exception as error:
        raise LosslabError(
            f"{declaration} must be a backend, found {type(error).__name__}: {error}"
        ) from error
    if not isinstance(getattr(backend, "needs", None), Needs):
        raise LosslabError(f"{declaration} must be a backend with Needs, found {backend!r:.80}")
    return backend


for _kind, _group in GROUPS.items():
    for _entry in metadata.entry_points(group=_group):
        BACKENDS[_kind, _entry.name] = _load(_kind, _entry)
NAMES = tuple(GROUPS)
PLACES = tuple(dict.fromkeys(where for _, where in BACKENDS))
