"""Build the virtual-time kernel: pinned source, our configuration, our patches. Not root."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument import kernelsource
from losslab.instrument.archive import UnavailableError, write_sources
from losslab.instrument.cache import ROOT, building, cache_folder, hash_files, run_logged
from losslab.instrument.kernelsource import DEBIAN, KERNEL_ORG, Source

RECIPE = ROOT / "containers" / "kernel"
# What is built from the same source: a variant adds a fragment to the plain kernel's, which is as
# it would be if there were no variants.
PLAIN, CONTAINERS = "plain", "containers"
VARIANTS = (PLAIN, CONTAINERS)
# Kernel and compiler write these into the binary; fixed, so that equal sources look equal.
FIXED = {
    "KBUILD_BUILD_TIMESTAMP": "2024-01-01 00:00:00 UTC",
    "KBUILD_BUILD_USER": "losslab",
    "KBUILD_BUILD_HOST": "losslab",
    "LC_ALL": "C",
}


# In a kernel's folder, the SHA-256 of the finished `linux`.
DIGEST = "linux.sha256"


def digest(linux: Path) -> str:
    """Return the SHA-256 of a kernel's binary in hexadecimal digits."""
    return hashlib.sha256(linux.read_bytes()).hexdigest()


def _patches() -> list[Path]:
    return sorted((RECIPE / "patches").glob("*.patch"))


def _fragments(variant: str) -> list[Path]:
    more = [] if variant == PLAIN else [RECIPE / f"{variant}.config"]
    return [RECIPE / "fragment.config", *more]


def recipe(variant: str = PLAIN) -> list[Path]:
    """List the files that decide what is built."""
    return [*_fragments(variant), RECIPE / "source.toml", *_patches()]


def content_hash(variant: str = PLAIN, source: list[str] | None = None) -> str:
    """Hash everything that decides what is built, from Debian's pinned source or another."""
    settings = [
        line
        for part in _fragments(variant)
        for line in part.read_text().splitlines()
        if line.startswith("CONFIG_")
    ]
    return hash_files(_patches(), *settings, *(source or kernelsource.pins().facts(DEBIAN)))


def target(variant: str = PLAIN, origin: str = DEBIAN, pinned: bool = True) -> Path:
    """Return the folder of the kernel of this recipe, built or not."""
    name = content_hash(variant, kernelsource.pins().facts(origin))
    return cache_folder() / "kernel" / (name if pinned else f"{name}-unpinned")


def existing(variant: str = PLAIN) -> Path | None:
    """Return the built kernel's folder, or None; an unpinned one only where no other is."""
    folders = (
        target(variant),
        target(variant, KERNEL_ORG),
        target(variant, pinned=False),
    )
    return next((folder for folder in folders if folder.is_dir()), None)


def provenance(folder: Path) -> dict[str, Any]:
    """Return what the kernel in `folder` was made of."""
    result: dict[str, Any] = json.loads((folder / "provenance.json").read_text())
    return result


def build(variant: str = PLAIN, unpinned: bool = False) -> Path:
    """Build a kernel unless the cache has it; return its folder (linux, config, provenance.json).

    Args:
        variant: One of VARIANTS.
        unpinned: Where the pinned source cannot be had, take the newest that Debian has.

    Raises:
        UnavailableError: the pinned source cannot be had, and nothing else is allowed.
        LosslabError: a symbol was dropped, or a command failed.
    """
    folder = existing(variant)
    if folder is not None and (unpinned or folder != target(variant, pinned=False)):
        return folder
    try:
        source = kernelsource.fetch()
    except UnavailableError as error:
        if not unpinned:
            raise
        print(f"losslab: note: unpinned kernel, because {error.message}", file=sys.stderr)
        source = kernelsource.fetch_newest()
    made = target(variant, source.origin, source.pinned)
    with building(made) as partial:
        if partial is not None:
            # In the cache, which has room, and under a name that the next build removes.
            with tempfile.TemporaryDirectory(prefix=f"{partial.name}-", dir=made.parent) as work:
                _build(variant, source, Path(work), partial)
    return made


def _build(variant: str, source: Source, work: Path, folder: Path) -> None:
    log = folder / "build.log"
    log.touch()
    tree = work / "linux"
    source.unpack(work, tree, log)
    for patch in _patches():
        run_logged(["patch", "-p1", "--forward", "--fuzz=0", "-i", patch], log, cwd=tree)
    fragment = work / "fragment.config"
    fragment.write_text("".join(part.read_text() for part in _fragments(variant)))
    make = ["env", *(f"{k}={v}" for k, v in FIXED.items()), "make", "ARCH=um"]
    run_logged([*make, "allnoconfig", f"KCONFIG_ALLCONFIG={fragment}"], log, cwd=tree)
    missing = dropped_symbols(fragment.read_text(), (tree / ".config").read_text())
    if missing:
        parts = " and ".join(map(str, _fragments(variant)))
        raise LosslabError(
            f"every symbol of {parts} must be in the finished .config, found dropped: "
            f"{', '.join(missing)}",
            hint="a dropped symbol has an unmet dependency or does not exist in this kernel",
        )
    run_logged([*make, f"-j{len(os.sched_getaffinity(0))}", "linux"], log, cwd=tree)
    version = processes.run(["make", "-s", "ARCH=um", "kernelversion"], cwd=tree).strip()
    shutil.copy2(tree / "linux", folder / "linux")
    run_logged(["strip", "--strip-debug", folder / "linux"], log)
    # Not among the facts below, which are part of every manifest: compilers differ, numbers do not.
    (folder / DIGEST).write_text(digest(folder / "linux") + "\n")
    shutil.copyfile(tree / ".config", folder / "config")
    write_sources([source.found], folder / "sources.tsv")
    made_of = source.provenance()
    pins = kernelsource.pins().facts(source.origin)
    facts = {
        "version": version,
        "hash": content_hash(variant, pins if source.pinned else list(made_of.values())),
        "pinned": source.pinned,
        "source": made_of,
        "patches": [patch.name for patch in _patches()],
        "config_sha256": hashlib.sha256((folder / "config").read_bytes()).hexdigest(),
    }
    (folder / "provenance.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")


def dropped_symbols(fragment: str, config: str) -> list[str]:
    """List the fragment's symbols that do not have their value in a finished configuration."""
    have = set(config.splitlines())
    dropped = []
    for line in fragment.splitlines():
        match = re.fullmatch(r"(CONFIG_\w+)=(.+)", line)
        if not match:
            continue
        absent = f"# {match[1]} is not set"
        if match[2] == "n":
            if any(entry.startswith(f"{match[1]}=") for entry in have):
                dropped.append(match[1])
        elif line not in have or absent in have:
            dropped.append(match[1])
    return dropped
