"""Registry of backends, by their names in campaigns and on the command line."""

from __future__ import annotations

from losslab.backends.base import CONTAINERNET, GUEST, HOST, VIRTUAL, Backend
from losslab.backends.onhost import EngineOnHost, OnHost
from losslab.backends.virtual import EngineGuest, Guest

# By kind of hosts, and where they run.
BACKENDS: dict[tuple[str, str], Backend] = {
    (VIRTUAL, GUEST): Guest(),
    (CONTAINERNET, GUEST): EngineGuest(),
    (VIRTUAL, HOST): OnHost(),
    (CONTAINERNET, HOST): EngineOnHost(),
}
NAMES = tuple(dict.fromkeys(name for name, _ in BACKENDS))
PLACES = tuple(dict.fromkeys(where for _, where in BACKENDS))
