"""Images: their recipes in `containers/`, and the cache's folders of those that are built.

The host image is what an emulated host has; the engine image adds what runs it as containers, every
other (`containers/NAME/packages.txt`) programs of some cells. All are made of exactly the packages
of their `packages.lock`, whatever Debian's archive has today. `imagebuild` builds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from losslab.errors import LosslabError
from losslab.instrument import cache
from losslab.instrument.cache import ROOT, cache_folder, hash_files
from losslab.instrument.debian import Lock, read_lock
from losslab.reading import UsageError, read_toml

RECIPES = ROOT / "containers"
HOST, ENGINE = "host", "engine"
SUITE = "trixie"
EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
FIXED_FILES = {
    "etc/apt/sources.list": f"deb http://deb.debian.org/debian {SUITE} main\n",
    "etc/resolv.conf": "",
    "etc/hostname": "losslab\n",
    # Names for the addresses of emulation.topology, which a test compares.
    "etc/hosts": (RECIPES / HOST / "hosts").read_text(),
}
# Part of the hash: change it when `imagebuild` builds something else from the same recipe.
LAYOUT = f"3 {SUITE} {' '.join(EXCLUDED)}"
# After an image's hash.
UNPINNED = "-unpinned"
provenance = cache.provenance


@dataclass(frozen=True)
class Replacement:
    """Bytes of an image's file, to be found there exactly once, and as many in their place."""

    file: str
    found: bytes
    by: bytes
    where: str  # the recipe, for errors

    def apply(self, root: Path) -> None:
        """Replace them in an image."""
        path = root / self.file
        content = path.read_bytes()
        count = content.count(self.found)
        if count != 1:
            words = self.found.decode() if self.found.isascii() else self.found.hex()
            raise LosslabError(
                f"{path} must contain {words} once, found it {count} times",
                hint=f"another version of the package: see {self.where}",
            )
        path.write_bytes(content.replace(self.found, self.by))


def names() -> list[str]:
    """Name the images that have recipes, the host's first."""
    found = {path.parent.name for path in RECIPES.glob("*/packages.txt")}
    return [HOST, *sorted(found - {HOST})]


def packages(name: str = HOST) -> list[str]:
    """List an image's packages; all others have the host image's, too."""
    lines = (RECIPES / name / "packages.txt").read_text().splitlines()
    own = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return own if name == HOST else packages(HOST) + own


def lock(name: str = HOST) -> Lock:
    """Return the packages that an image is made of."""
    return read_lock(RECIPES / name / "packages.lock")


def init(name: str) -> Path:
    """Return the first program of an image's guest."""
    return RECIPES / (ENGINE if name == ENGINE else HOST) / "init"


def containernet() -> dict[str, str]:
    """Return the pins of Containernet, which the engine image has: `url` and `commit`."""
    pins: dict[str, str] = read_toml(RECIPES / ENGINE / "source.toml")["containernet"]
    return pins


def replacements(name: str) -> list[Replacement]:
    """Return the bytes that an image's recipe replaces."""
    return read_replacements(RECIPES / name / "replace.toml")


def read_replacements(recipe: Path) -> list[Replacement]:
    """Read a replace.toml; nothing where there is none. UsageError if it is malformed."""
    if not recipe.is_file():
        return []
    where = "/".join(recipe.parts[-3:])
    try:
        found = [
            Replacement(
                str(row["file"]), bytes.fromhex(row["found"]), bytes.fromhex(row["by"]), where
            )
            for row in read_toml(recipe)["replace"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{where} must have [[replace]] with file, found and by, in hexadecimal digits, found "
            f"{error}"
        ) from error
    if any(len(each.found) != len(each.by) for each in found):
        raise UsageError(f"{where} must replace bytes by as many others, found more or fewer")
    return found


def content_hash(name: str = HOST, locked: Lock | None = None) -> str:
    """Hash everything that decides what is built, from the image's own lock or another."""
    texts = [LAYOUT, repr(FIXED_FILES), *packages(name), *(locked or lock(name)).rows()]
    replaced = replacements(name)
    if name == ENGINE:
        pairs = {each.file: (each.found, each.by) for each in replaced}
        texts += [containernet()["commit"], repr(pairs)]
    else:
        texts += [each.by.hex() for each in replaced]
    return hash_files([init(name)], *texts)


def target(name: str = HOST, pinned: bool = True) -> Path:
    """Return the folder of the image of this recipe, built or not."""
    return cache_folder() / "image" / (content_hash(name) + ("" if pinned else UNPINNED))


def existing(name: str = HOST) -> Path | None:
    """Return the built image's folder, or None; an unpinned one only where no other is."""
    pinned = target(name)
    folders = (pinned, pinned.with_name(f"{pinned.name}{UNPINNED}"))
    return next((folder for folder in folders if folder.is_dir()), None)
