"""Programs that statistics, figures and reports need: R, its packages and a renderer.

`python -m losslab.instrument.analysis` installs the pinned release of Quarto into the cache.
LOSSLAB_QUARTO_SOURCE replaces the address of its files.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from losslab import processes
from losslab.errors import HostError, LosslabError
from losslab.instrument.archive import CHECK_TIMEOUT_S, Fetcher, File, Place, UnavailableError
from losslab.instrument.cache import building, cache_folder
from losslab.reading import read_toml
from losslab.repository import (
    FOR_CAMPAIGNS,
    ROOT,
    debian_packages,
    install_command,
    require_programs,
)

PART = "analysis"
R_PREFIX = "r-cran-"  # of Debian's packages of R packages


def r_packages(part: str = PART) -> list[str]:
    """List the R packages of a part of scripts/packages.txt."""
    names = debian_packages(part)
    return [name.removeprefix(R_PREFIX) for name in names if name.startswith(R_PREFIX)]


def missing_r_packages() -> list[str]:
    """List the R packages that R cannot load; LosslabError if R ends without an answer."""
    names = ", ".join(f"'{name}'" for name in r_packages())
    code = f"p <- c({names}); cat(p[!vapply(p, requireNamespace, TRUE, quietly = TRUE)])"
    # Without TZ, R queries systemd and prints a warning.
    return processes.run(["Rscript", "--vanilla", "-e", code], more={"TZ": "UTC"}).split()


def renderer() -> str:
    """Return the renderer of reports: Quarto, or else pandoc and typst; empty if there is none."""
    program = quarto()
    installed = all(importlib.util.find_spec(name) for name in ("pypandoc", "typst"))
    fallback = "knitr, pandoc and typst (no Quarto >= 1.9)" if installed else ""
    return str(program) if program else fallback


def require_r(use: str) -> None:
    """Raise HostError if `use` lacks R or an R package; LosslabError if R fails."""
    require_programs(PART, use)
    if missing := missing_r_packages():
        raise HostError(
            f"{use} needs R packages, found missing: {', '.join(missing)}",
            hint=f"run as root: {install_command(PART)}",
        )


def require_renderer(use: str) -> None:
    """Raise HostError if `use` lacks a renderer of reports."""
    if not renderer():
        raise HostError(f"{use} needs Quarto, or pandoc and typst, found none", hint=FOR_CAMPAIGNS)


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


def quarto_release() -> Release | None:
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


def install_quarto() -> Path:
    """Install the pinned release, unless it is installed; return its program.

    Raises UnavailableError if it cannot be downloaded, or has another content.
    """
    release = quarto_release()
    if release is None:
        raise UnavailableError(f"no Quarto release is pinned for {platform.machine()}")
    with building(release.folder) as partial:
        if partial:
            found = Fetcher(CHECK_TIMEOUT_S).fetch([(release.file, release.place)])
            processes.run(["tar", "-xzf", found.path, "-C", partial, *UNPACKED])
            found.path.unlink()
    return release.program


def quarto() -> Path | None:
    """Return the pinned Quarto if it is installed, or else a new enough one on PATH, or None."""
    release = quarto_release()
    if release and release.program.is_file():
        return release.program
    found = shutil.which("quarto")
    match = re.match(r"(\d+)\.(\d+)", quarto_version(Path(found))) if found else None
    new_enough = match is not None and (int(match[1]), int(match[2])) >= MINIMUM
    return Path(found) if found and new_enough else None


def quarto_version(program: Path) -> str:
    """Return a Quarto's version; empty if it does not run."""
    return processes.attempt([program, "--version"]).out.strip()


def main() -> int:
    """Install the pinned release; without it, say how the report is rendered instead."""
    try:
        print(f"losslab: Quarto {quarto_version(install_quarto())}")
    except UnavailableError as error:
        found = quarto()
        instead = f"{found}" if found else "knitr, pandoc and typst"
        print(
            f"losslab: note: the report is rendered with {instead}, because the pinned Quarto "
            f"cannot be installed: {error.message}\n"
            f"  -> name a folder or address that has it: {SOURCE}",
            file=sys.stderr,
        )
    except LosslabError as error:
        print(f"losslab: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
