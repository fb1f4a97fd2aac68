"""`losslab init`: a folder with a campaign that uses losslab's workflow as a Snakemake module."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from losslab.reading import UsageError
from losslab.repository import ROOT

TEMPLATE = ROOT / "config" / "template" / "campaign"
# Snakemake's options, losslab's display of the progress among them; copied from losslab's files.
PROFILE = Path("profiles", "default", "profile.yaml")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `init`."""
    command = commands.add_parser("init")
    command.add_argument("folder", type=Path, help="new or empty folder")
    command.set_defaults(run=_init)


def _init(options: argparse.Namespace) -> int:
    print(
        f"Wrote {', '.join(map(str, make(options.folder)))} to {options.folder}\n"
        f"Next: cd {options.folder} && snakemake --cores all --dry-run"
    )
    return 0


def make(folder: Path) -> list[Path]:
    """Write a campaign's files to a new or empty folder; UsageError for any other."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"the folder must be new or empty, found files in {folder}",
            hint="name another folder; losslab overwrites nothing",
        )
    shutil.copytree(TEMPLATE, folder, dirs_exist_ok=True)
    (folder / PROFILE).parent.mkdir(parents=True)
    shutil.copy(ROOT / PROFILE, folder / PROFILE)
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
