"""Programs that statistics, figures and reports need: R, its packages and a renderer."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path

from losslab import processes
from losslab.errors import HostError
from losslab.repository import (
    FOR_CAMPAIGNS,
    debian_packages,
    install_command,
    require_programs,
)

PART = "analysis"
R_PREFIX = "r-cran-"  # of Debian's packages of R packages
MINIMUM = (1, 9)  # earlier versions of Quarto need the network for typst callouts


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


def quarto() -> Path | None:
    """Return the Quarto on PATH if it is new enough, or None."""
    found = shutil.which("quarto")
    match = re.match(r"(\d+)\.(\d+)", quarto_version(Path(found))) if found else None
    new_enough = match is not None and (int(match[1]), int(match[2])) >= MINIMUM
    return Path(found) if found and new_enough else None


def quarto_version(program: Path) -> str:
    """Return a Quarto's version; empty if it does not run."""
    return processes.attempt([program, "--version"]).out.strip()
