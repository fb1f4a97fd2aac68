"""Root images: their recipes in `containers/` and their folders in the cache.

The host image is the root file system of an emulated host. The engine image adds the software that
runs hosts as containers. Every other image (`containers/NAME/packages.txt`, or a user's own,
`images/NAME/packages.txt`) adds programs of some cells. Each image has exactly the packages of its
`packages.lock`. `imagebuild` builds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from losslab.errors import LosslabError, did_you_mean
from losslab.instrument import cache
from losslab.instrument.cache import cache_folder, hash_files
from losslab.instrument.debian import Lock, read_lock
from losslab.reading import UsageError, read_toml, shown
from losslab.repository import ROOT, recipes

RECIPES = ROOT / "containers"
HOST, ENGINE = "host", "engine"
SUITE = "trixie"
EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
FIXED_FILES = {
    "etc/apt/sources.list": f"deb http://deb.debian.org/debian {SUITE} main\n",
    "etc/resolv.conf": "",
    "etc/hostname": "losslab\n",
    # Names of the addresses in emulation.topology; a test compares both.
    "etc/hosts": (RECIPES / HOST / "hosts").read_text(),
}
# Part of the hash: change it when `imagebuild` builds a different image from the same recipe.
LAYOUT = f"3 {SUITE} {' '.join(EXCLUDED)}"
# Suffix of an unpinned image's folder, after its hash.
UNPINNED = "-unpinned"
provenance = cache.provenance


@dataclass(frozen=True)
class Replacement:
    """Bytes that occur once in a file of an image, and as many bytes that replace them."""

    file: str
    found: bytes
    by: bytes
    where: str  # recipe, for error messages

    def apply(self, root: Path) -> None:
        """Replace the bytes in an image."""
        path = root / self.file
        content = path.read_bytes()
        count = content.count(self.found)
        if count != 1:
            text = self.found.decode() if self.found.isascii() else self.found.hex()
            raise LosslabError(
                f"{path} must contain {text} once, found it {count} times",
                hint=f"the package has another version: adapt {self.where}",
            )
        path.write_bytes(content.replace(self.found, self.by))


def names() -> list[str]:
    """List the images that have recipes, the host image first."""
    return [HOST, *sorted(_recipes().keys() - {HOST})]


def _recipes() -> dict[str, Path]:
    """Return the folders of all recipes by name, losslab's and a user's own."""
    found = {path.parent.name: path.parent for path in RECIPES.glob("*/packages.txt")}
    return found | recipes("images", "packages.txt", found)


def recipe(name: str) -> Path:
    """Return the folder of an image's recipe; UsageError if there is none."""
    if name not in (found := _recipes()):
        raise UsageError(
            f"an image must be one of containers/ or images/ ({', '.join(names())}), found "
            f"{shown(name)}{did_you_mean(name, found)}"
        )
    return found[name]


def packages(name: str = HOST) -> list[str]:
    """List an image's packages; every image includes those of the host image."""
    lines = (recipe(name) / "packages.txt").read_text().splitlines()
    own = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return own if name == HOST else packages(HOST) + own


def lock(name: str = HOST) -> Lock:
    """Return the pinned packages of an image."""
    path = recipe(name) / "packages.lock"
    if not path.is_file():
        raise LosslabError(
            f"{path} must pin the packages of the image {name}, found no such file",
            hint=f"write it with `losslab image --variant {name} --relock`",
        )
    return read_lock(path)


def init(name: str) -> Path:
    """Return the init program of guests of an image."""
    return RECIPES / (ENGINE if name == ENGINE else HOST) / "init"


def containernet() -> dict[str, str]:
    """Return the pins (`url`, `commit`) of Containernet, which the engine image contains."""
    pins: dict[str, str] = read_toml(RECIPES / ENGINE / "source.toml")["containernet"]
    return pins


def replacements(name: str) -> list[Replacement]:
    """Return the replacements of an image's recipe."""
    return read_replacements(recipe(name) / "replace.toml")


def read_replacements(recipe: Path) -> list[Replacement]:
    """Read a replace.toml, which is optional. Raises UsageError if it is malformed."""
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
            f"{where} must have [[replace]] with file, and found and by in hexadecimal digits, "
            f"found {error}"
        ) from error
    if any(len(each.found) != len(each.by) for each in found):
        raise UsageError(f"{where} must replace bytes by as many others, found different lengths")
    return found


def content_hash(name: str = HOST, locked: Lock | None = None) -> str:
    """Hash all inputs of an image's build, with the image's own lock or another."""
    texts = [LAYOUT, repr(FIXED_FILES), *packages(name), *(locked or lock(name)).rows()]
    replaced = replacements(name)
    if name == ENGINE:
        pairs = {each.file: (each.found, each.by) for each in replaced}
        texts += [containernet()["commit"], repr(pairs)]
    else:
        texts += [each.by.hex() for each in replaced]
    return hash_files([init(name)], *texts)


def target(name: str = HOST, pinned: bool = True) -> Path:
    """Return the folder of the image of the current recipe, built or not."""
    return cache_folder() / "image" / (content_hash(name) + ("" if pinned else UNPINNED))


def existing(name: str = HOST) -> Path | None:
    """Return the built image's folder, the pinned one if there is one, or None."""
    pinned = target(name)
    folders = (pinned, pinned.with_name(f"{pinned.name}{UNPINNED}"))
    return next((folder for folder in folders if folder.is_dir()), None)
