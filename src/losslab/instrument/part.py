"""Parts of an instrument: kernels, their object files, and images.

The cache has a folder of each, named after the hash of the part's recipe, that is of all inputs of
its build. A part from Debian's newest sources instead of the pinned ones is unpinned.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from losslab.instrument import packed
from losslab.instrument.cache import cache_folder
from losslab.instrument.fetch import UnavailableError

T = TypeVar("T")
# Folders of the cache, by kind. Object files are kept to add algorithms to a kernel in seconds.
FOLDERS = {packed.KERNEL: "kernel", packed.OBJECTS: "tree", packed.IMAGE: "image"}


@dataclass(frozen=True)
class Part:
    """A kernel, its object files, or an image."""

    kind: str  # a key of FOLDERS
    recipe: str  # the hash of its recipe
    # Makes it and returns its folder; UnavailableError if it may only use pinned sources (False),
    # and one of them is unavailable.
    make: Callable[[bool], Path] = field(compare=False)
    suffix: str = ""  # of the folder's name, after the hash
    fetched: bool = True  # look for an archive before making it

    def target(self, pinned: bool = True) -> Path:
        """Return its folder, built or not."""
        name = f"{self.recipe}{'' if pinned else '-unpinned'}{self.suffix}"
        return cache_folder() / FOLDERS[self.kind] / name

    def existing(self) -> Path | None:
        """Return its folder if it is built, the pinned one if there is one, or None."""
        folders = (self.target(), self.target(pinned=False))
        return next((folder for folder in folders if folder.is_dir()), None)

    def fetch(self) -> Path | None:
        """Return its folder, existing or unpacked from an archive, or None."""
        return self.existing() or packed.install(self.kind, self.target())

    def build(self, unpinned: bool = False) -> Path:
        """Return its folder: existing, unpacked from an archive, or made.

        If its pinned sources are unavailable, `unpinned` uses Debian's newest; otherwise this
        raises UnavailableError. Raises LosslabError if it cannot be made.
        """
        folder = self.existing()
        if folder is not None and (unpinned or folder == self.target()):
            return folder
        if self.fetched and packed.install(self.kind, self.target()):
            return self.target()
        return self.make(unpinned)


def pinned_or_newest(get: Callable[[bool], T], unpinned: bool, what: str) -> T:
    """Return what `get` returns for pinned sources (True), or else, if `unpinned`, for the newest.

    Raises UnavailableError if they are unavailable.
    """
    try:
        return get(True)
    except UnavailableError as error:
        if not unpinned:
            raise
        print(f"losslab: note: building an unpinned {what}: {error.message}", file=sys.stderr)
    return get(False)
