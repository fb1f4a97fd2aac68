"""Quarto, which renders the report: its pinned release, and the one to use.

`python -m losslab.instrument.quarto` installs the pinned release into the cache.
LOSSLAB_QUARTO_SOURCE replaces the address of its files.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument.archive import CHECK_TIMEOUT_S, Fetcher, File, Place, UnavailableError
from losslab.instrument.cache import building, cache_folder
from losslab.reading import read_toml
from losslab.repository import ROOT

SOURCE = "LOSSLAB_QUARTO_SOURCE"
PINS = ROOT / "report" / "render" / "quarto.toml"
MINIMUM = (1, 9)  # earlier versions need the network for typst callouts
SYSTEMS = {"x86_64": "linux-amd64", "aarch64": "linux-arm64"}  # by machine, as releases name them
RELEASE_PLACE = "release"
UNPACKED = ("--strip-components=1", "--no-same-owner")


@dataclass(frozen=True)
class Release:
    """Pinned release for this machine."""

    version: str
    file: File
    place: Place

    @property
    def folder(self) -> Path:
        """Folder in the cache, which exists only if the release is installed."""
        return cache_folder() / f"quarto-{self.version}-{self.file.sha256[:16]}"

    @property
    def program(self) -> Path:
        """Program in the cache."""
        return self.folder / "bin" / "quarto"


def pinned() -> Release | None:
    """Return the pinned release; None on a machine for which no release is pinned."""
    data = read_toml(PINS)
    system = SYSTEMS.get(platform.machine(), "")
    if system not in data["sha256"]:
        return None
    version = data["version"]
    name = f"quarto-{version}-{system}.tar.gz"
    base = os.environ.get(SOURCE, data["url"]).rstrip("/")
    place = Place(RELEASE_PLACE, f"{base}/{name}")
    return Release(version, File(name, data["sha256"][system], 0), place)


def install() -> Path:
    """Install the pinned release, unless it is installed; return its program.

    Raises UnavailableError if it cannot be downloaded, or has another content.
    """
    release = pinned()
    if release is None:
        raise UnavailableError(f"no Quarto release is pinned for {platform.machine()}")
    with building(release.folder) as partial:
        if partial:
            found = Fetcher(CHECK_TIMEOUT_S).fetch([(release.file, release.place)])
            processes.run(["tar", "-xzf", found.path, "-C", partial, *UNPACKED])
            found.path.unlink()
    return release.program


def program() -> Path | None:
    """Return the pinned Quarto if it is installed, or else a new enough one on PATH, or None."""
    release = pinned()
    if release and release.program.is_file():
        return release.program
    found = shutil.which("quarto")
    match = re.match(r"(\d+)\.(\d+)", version(Path(found))) if found else None
    new_enough = match is not None and (int(match[1]), int(match[2])) >= MINIMUM
    return Path(found) if found and new_enough else None


def version(quarto: Path) -> str:
    """Return a Quarto's version; empty if it does not run."""
    return processes.attempt([quarto, "--version"]).out.strip()


def main() -> int:
    """Install the pinned release; without it, say how the report is rendered instead."""
    try:
        print(f"losslab: Quarto {version(install())}")
    except UnavailableError as error:
        reason = error.message.splitlines()[-1].strip()
        found = program()
        instead = f"{found}" if found else "knitr, pandoc and typst"
        print(
            f"losslab: note: the report is rendered with {instead}, because the pinned Quarto "
            f"cannot be installed: {reason}\n  -> name a folder or address that has it: {SOURCE}",
            file=sys.stderr,
        )
    except LosslabError as error:
        print(f"losslab: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
