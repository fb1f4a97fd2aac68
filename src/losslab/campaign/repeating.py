"""The command that measures and reports a campaign again, in a clone of the project."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

# What is measured where no other campaign is named, and what `make report` names by itself.
FULL, QUICK = "config/config.yaml", "config/quick.yaml"


def command(configfiles: Iterable[str | Path], root: Path) -> str:
    """Say how a campaign is measured again.

    Args:
        configfiles: Snakemake's files of configuration.
        root: The project's folder.
    """
    paths = [Path(path).resolve() for path in configfiles]
    named = [path for path in paths if path != (root / FULL).resolve()]
    if not named:
        return "snakemake --cores all"
    if len(named) == 1 and named[0].is_relative_to(root.resolve()):
        name = named[0].relative_to(root.resolve()).as_posix()
        return "make report" if name == QUICK else f"make report CONFIG={name}"
    # Files of somebody's own: their names, since their folders are nobody else's.
    return " ".join(["snakemake --cores all --configfile", *(path.name for path in named)])
