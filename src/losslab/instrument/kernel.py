"""Build the virtual-time kernel: pinned source, our configuration, our patches. Not root."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument import cache, integrity, kernels, kernelsource, kerneltree, packed
from losslab.instrument.archive import UnavailableError, digest, write_sources
from losslab.instrument.cache import ROOT, building, cache_folder, hash_files
from losslab.instrument.kernels import Kernel
from losslab.instrument.kernelsource import DEBIAN, KERNEL_ORG, Source

RECIPE = ROOT / "containers" / "kernel"
# Kernels of the same source. A variant adds its fragment to the plain kernel's, which does not
# depend on it.
PLAIN, CONTAINERS = "plain", "containers"
VARIANTS = (PLAIN, CONTAINERS)
# Of every kernel, and in the folder of a series what it has alone.
FRAGMENT = "fragment.config"
LOG = "build.log"  # in a kernel's folder
TREES = "tree"  # in the cache, the objects of kernels to which algorithms are added
provenance = cache.provenance


def fragments(variant: str, which: Kernel) -> list[Path]:
    """List the parts of a configuration: every kernel's, the variant's, and the series' own."""
    base, own = RECIPE / FRAGMENT, which.series.folder / FRAGMENT
    found = [base] if variant == PLAIN else [base, RECIPE / f"{variant}.config"]
    return found if own == base or not own.exists() else [*found, own]


def content_hash(
    variant: str = PLAIN, which: Kernel | None = None, source: list[str] | None = None
) -> str:
    """Hash everything that decides what is built, from Debian's pinned source or another."""
    which = which or kernels.default()
    settings = [
        line
        for part in fragments(variant, which)
        for line in part.read_text().splitlines()
        if line.startswith("CONFIG_")
    ]
    source = source or kernelsource.pins(which.series).facts(DEBIAN)
    return hash_files(which.series.patches, *settings, *source, *which.facts())


def target(
    variant: str = PLAIN,
    which: Kernel | None = None,
    origin: str = DEBIAN,
    pinned: bool = True,
) -> Path:
    """Return the folder of the kernel of this recipe, built or not."""
    which = which or kernels.default()
    name = content_hash(variant, which, kernelsource.pins(which.series).facts(origin))
    return cache_folder() / "kernel" / (name if pinned else f"{name}-unpinned")


def existing(variant: str = PLAIN, which: Kernel | None = None) -> Path | None:
    """Return the built kernel's folder, or None; an unpinned one only where no other is."""
    folders = (
        target(variant, which),
        target(variant, which, KERNEL_ORG),
        target(variant, which, pinned=False),
    )
    return next((folder for folder in folders if folder.is_dir()), None)


def named(variant: str, which: Kernel) -> str:
    """Write a kernel as one word: its variant, and which it is where that is not the default."""
    return variant if which == kernels.default() else f"{variant}+{which.key}"


def parsed(name: str) -> tuple[str, Kernel]:
    """Read what `named` wrote; UsageError if there is no such kernel."""
    variant, _, key = name.partition("+")
    return variant, kernels.of_key(key or kernels.DEFAULT)


def build(variant: str = PLAIN, unpinned: bool = False, which: Kernel | None = None) -> Path:
    """Build a kernel unless the cache has it; return its folder (linux, config, provenance.json).

    If the pinned source is not available, `unpinned` takes the newest that Debian has; without it,
    that is an UnavailableError, as for a public patch. LosslabError: a symbol was dropped, or a
    command failed.
    """
    which = which or kernels.default()
    folder = existing(variant, which)
    if folder is not None and (unpinned or folder != target(variant, which, pinned=False)):
        return folder
    if not which.algorithms and packed.install(packed.KERNEL, target(variant, which)):
        return target(variant, which)
    source = _source(which, unpinned)
    made = target(variant, which, source.origin, source.pinned)
    # Kernels with an added algorithm need the object files of the kernel without. The default
    # kernel's are kept at once, because most users add their algorithm to it; they take 300 MB, so
    # the others keep them on first use.
    keeps_objects = which.algorithms or (variant == PLAIN and which == kernels.default())
    # The folder of work, a tree of 80,000 files, is removed when the kernel is there already.
    with contextlib.ExitStack() as left, building(made) as partial:
        if partial is not None:
            if keeps_objects:
                kept = _kept_tree(variant, replace(which, algorithms=()), source)
                compiled = kerneltree.with_algorithms(kept, which.algorithms, partial / LOG)
                tree = left.enter_context(compiled)
            else:
                # In the cache, which has room, and under a name that the next build removes.
                work = tempfile.TemporaryDirectory(prefix=f"{partial.name}-", dir=made.parent)
                folder = Path(left.enter_context(work))
                tree = _compiled(variant, which, source, folder, partial / LOG)
            _finish(variant, which, source, tree, partial)
    return made


def _kept_tree(variant: str, which: Kernel, source: Source) -> Path:
    """Return the folder of a kernel's objects, compiled if missing; algorithms are added to it."""
    made = target(variant, which, source.origin, source.pinned)
    folder = cache_folder() / TREES / made.name
    with building(folder) as partial:
        if partial is not None:
            if made.is_dir():
                print(
                    f"losslab: note: compiling {which.label} again, because its object files are "
                    "not in the cache (ten minutes of CPU time, 300 MB); from now on, adding an "
                    "algorithm takes seconds",
                    file=sys.stderr,
                )
            tree = _compiled(variant, which, source, partial, partial / LOG)
            kerneltree.keep_what_is_needed(tree)
    return folder


def quickly_made(variant: str, which: Kernel) -> bool:
    """Tell whether nothing but algorithms of one's own is to be compiled."""
    return bool(which.algorithms) and objects_kept(variant, replace(which, algorithms=()))


def objects_kept(variant: str, which: Kernel) -> bool:
    """Tell whether a kernel's objects are in the cache."""
    return (cache_folder() / TREES / target(variant, which).name).is_dir()


def _source(which: Kernel, unpinned: bool) -> Source:
    """Get the source, after the public patches: the build fails early where one is missing."""
    for patch in which.fetched:
        patch.get()
    try:
        return kernelsource.fetch(which.series)
    except UnavailableError as error:
        if not unpinned:
            raise
        print(f"losslab: note: unpinned kernel, because {error.message}", file=sys.stderr)
        return kernelsource.fetch_newest(which.series)


def _compiled(variant: str, which: Kernel, source: Source, work: Path, log: Path) -> Path:
    """Unpack, patch, configure and compile a source in `work`; return the tree."""
    log.touch()
    tree = work / kerneltree.NAME
    source.unpack(work, tree, log)
    fetched = [patch.get() for patch in which.fetched]
    for patch in (*which.series.patches, *fetched, *which.patches):
        processes.run(["patch", "-p1", "--forward", "--fuzz=0", "-i", patch], log=log, cwd=tree)
    fragment = work / FRAGMENT
    fragment.write_text("".join(part.read_text() for part in fragments(variant, which)))
    configure = [*kerneltree.MAKE, "allnoconfig", f"KCONFIG_ALLCONFIG={fragment}"]
    processes.run(configure, log=log, cwd=tree)
    missing = dropped_symbols(fragment.read_text(), (tree / ".config").read_text())
    if missing:
        parts = " and ".join(map(str, fragments(variant, which)))
        raise LosslabError(
            f"every symbol of {parts} must be in the finished .config, found dropped: "
            f"{', '.join(missing)}",
            hint="a dropped symbol has an unmet dependency or does not exist in this kernel",
        )
    processes.run(kerneltree.MAKE_LINUX, log=log, cwd=tree)
    shutil.rmtree(work / "package", ignore_errors=True)
    return tree


def _finish(variant: str, which: Kernel, source: Source, tree: Path, folder: Path) -> None:
    """Put the results of a compiled tree, and what they were made of, into `folder`."""
    version = processes.run(["make", "-s", "ARCH=um", "kernelversion"], cwd=tree).strip()
    shutil.copy2(tree / "linux", folder / "linux")
    processes.run(["strip", "--strip-debug", folder / "linux"], log=folder / LOG)
    # Not among the facts below, which are part of every manifest: compilers differ, numbers do not.
    (folder / integrity.LINUX_DIGEST).write_text(digest(folder / "linux") + "\n")
    shutil.copyfile(tree / ".config", folder / "config")
    write_sources([source.found], folder)
    made_of = source.provenance()
    pins = kernelsource.pins(which.series).facts(source.origin)
    more: dict[str, Any] = {} if which == kernels.default() else {"name": which.name}
    if which.algorithms:
        more["algorithms"] = {path.name: digest(path) for path in which.algorithms}
    facts = {
        "version": version,
        "hash": content_hash(variant, which, pins if source.pinned else list(made_of.values())),
        "pinned": source.pinned,
        "source": made_of,
        "patches": which.patch_names,
        "config_sha256": hashlib.sha256((folder / "config").read_bytes()).hexdigest(),
    }
    text = json.dumps(facts | more, indent=1, sort_keys=True)
    (folder / "provenance.json").write_text(text + "\n")


def dropped_symbols(fragment: str, config: str) -> list[str]:
    """List the fragment's symbols that do not have their value in a finished configuration."""
    have = set(config.splitlines())
    set_there = {line.partition("=")[0] for line in have if "=" in line}
    return [
        name
        for name, value in re.findall(r"^(CONFIG_\w+)=(.+)$", fragment, re.MULTILINE)
        if (name in set_there if value == "n" else f"{name}={value}" not in have)
    ]
