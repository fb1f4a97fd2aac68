"""Registry of backends, by their names in campaigns and on the command line.

An installed package adds a backend by an entry point in the group `losslab.backends`: a class with
the methods of `base.Backend`. Its name is a further place where Mininet hosts run, for `--where`.
"""

from __future__ import annotations

from importlib import metadata

from losslab import extensions
from losslab.backends.base import CONTAINERNET, GUEST, HOST, VIRTUAL, Backend, Needs
from losslab.backends.onhost import EngineOnHost, OnHost
from losslab.backends.virtual import EngineGuest, Guest
from losslab.errors import LosslabError

GROUP = "losslab.backends"
# By kind of hosts, and where they run.
BACKENDS: dict[tuple[str, str], Backend] = {
    (VIRTUAL, GUEST): Guest(),
    (CONTAINERNET, GUEST): EngineGuest(),
    (VIRTUAL, HOST): OnHost(),
    (CONTAINERNET, HOST): EngineOnHost(),
}


def _load(entry: metadata.EntryPoint) -> Backend:
    """Return the backend of an entry point."""
    found = f"the entry point {entry.name} = {entry.value} of {GROUP}"
    if not extensions.NAME.fullmatch(entry.name) or (VIRTUAL, entry.name) in BACKENDS:
        raise LosslabError(f"a backend must have a new name of lower-case letters, found {found}")
    try:
        backend: Backend = entry.load()()
    except Exception as error:
        raise LosslabError(
            f"{found} must be a backend, found {type(error).__name__}: {error}"
        ) from error
    if not isinstance(getattr(backend, "needs", None), Needs):
        raise LosslabError(f"{found} must be a backend with Needs, found {backend!r:.80}")
    return backend


for _entry in metadata.entry_points(group=GROUP):
    BACKENDS[VIRTUAL, _entry.name] = _load(_entry)
NAMES = tuple(dict.fromkeys(name for name, _ in BACKENDS))
PLACES = tuple(dict.fromkeys(where for _, where in BACKENDS))
