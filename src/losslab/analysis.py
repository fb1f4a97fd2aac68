"""Programs that statistics, figures and reports need: R, its packages and a renderer.

`python -m losslab.analysis` installs the pinned release of Quarto into the cache.
LOSSLAB_QUARTO_SOURCE names another folder or address with its archive.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import re
import shutil
import sys
from pathlib import Path

from losslab import processes
from losslab.errors import HostError, LosslabError
from losslab.instrument.cache import building, cache_folder
from losslab.instrument.fetch import Fetcher, File, UnavailableError
from losslab.instrument.packed import url
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
    """List the R packages that R lacks; LosslabError if R ends without an answer."""
    names = ", ".join(f"'{name}'" for name in r_packages())
    code = rf"p <- c({names}); cat(p[!nzchar(vapply(p, \(each) system.file(package = each), ''))])"
    return processes.run(["Rscript", "--vanilla", "-e", code]).split()


def renderer() -> str:
    """Return the renderer of reports: Quarto, or else pandoc and typst; empty if there is none."""
    program = quarto()
    installed = all(importlib.util.find_spec(name) for name in ("pypandoc", "typst"))
    fallback = "knitr, pandoc and typst (no Quarto >= 1.9)" if installed else ""
    return str(program) if program else fallback


def require_r(use: str) -> list[str]:
    """Return the R packages; HostError if `use` lacks R or one of them, LosslabError if R fails."""
    require_programs(PART, use)
    if missing := missing_r_packages():
        raise HostError(
            f"{use} needs R packages, found missing: {', '.join(missing)}",
            hint=f"run as root: {install_command(PART)}",
        )
    return r_packages()


def require_renderer(use: str) -> None:
    """Raise HostError if `use` lacks a renderer of reports."""
    if not renderer():
        raise HostError(f"{use} needs Quarto, or pandoc and typst, found none", hint=FOR_CAMPAIGNS)


SOURCE = "LOSSLAB_QUARTO_SOURCE"
PINS = ROOT / "report" / "render" / "quarto.toml"
MINIMUM = (1, 9)  # earlier versions of Quarto need the network for typst callouts
SYSTEMS = {"x86_64": "linux-amd64", "aarch64": "linux-arm64"}  # by machine, as releases name them
UNPACKED = ("--strip-components=1", "--no-same-owner")


def quarto_release() -> tuple[File, Path]:
    """Return the archive of the pinned release for this machine, and its program in the cache.

    Raises UnavailableError if none is pinned.
    """
    data, system = read_toml(PINS), SYSTEMS.get(platform.machine(), "")
    if system not in data["sha256"]:
        raise UnavailableError(f"no Quarto release is pinned for {platform.machine()}")
    file = File(f"quarto-{data['version']}-{system}.tar.gz", data["sha256"][system], 0)
    folder = cache_folder() / f"quarto-{data['version']}-{file.sha256[:16]}"
    return file, folder / "bin" / "quarto"


def install_quarto() -> Path:
    """Install the pinned release, unless it is installed; return its program.

    Raises UnavailableError if it cannot be downloaded, or has another content.
    """
    file, program = quarto_release()
    with building(program.parents[1]) as partial:
        if partial:
            place = os.environ.get(SOURCE) or read_toml(PINS)["url"]
            found = Fetcher().fetch([(file, url(place, file.name))])
            processes.run(["tar", "-xzf", found, "-C", partial, *UNPACKED])
            found.unlink()
    return program


def quarto() -> Path | None:
    """Return the pinned Quarto if it is installed, or else a new enough one on PATH, or None."""
    with contextlib.suppress(UnavailableError):
        if (program := quarto_release()[1]).is_file():
            return program
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
        print(
            f"losslab: note: the report is rendered with {quarto() or 'knitr, pandoc and typst'}, "
            f"because the pinned Quarto cannot be installed: {error.message}\n"
            f"  -> name a folder or address that has it: {SOURCE}",
            file=sys.stderr,
        )
    except LosslabError as error:
        print(f"losslab: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
