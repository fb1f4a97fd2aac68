"""Build the virtual-time kernel from pinned source with losslab's configuration and patches."""

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
# Variants are built from the same source. A variant's configuration is the plain kernel's fragment
# followed by its own.
PLAIN, CONTAINERS = "plain", "containers"
VARIANTS = (PLAIN, CONTAINERS)
# Configuration fragment of every kernel; a series' folder may have its own.
FRAGMENT = "fragment.config"
LOG = "build.log"  # in a kernel's folder
TREES = "tree"  # folder of the cache: object files of kernels to which algorithms are added
provenance = cache.provenance


def fragments(variant: str, spec: Kernel) -> list[Path]:
    """List a configuration's fragments: of every kernel, of the variant, of the series."""
    base, own = RECIPE / FRAGMENT, spec.series.folder / FRAGMENT
    found = [base] if variant == PLAIN else [base, RECIPE / f"{variant}.config"]
    return found if own == base or not own.exists() else [*found, own]


def content_hash(
    variant: str = PLAIN, spec: Kernel | None = None, source: list[str] | None = None
) -> str:
    """Hash all inputs of a kernel's build, from Debian's pinned source or another."""
    spec = spec or kernels.default()
    settings = [
        line
        for part in fragments(variant, spec)
        for line in part.read_text().splitlines()
        if line.startswith("CONFIG_")
    ]
    source = source or kernelsource.pins(spec.series).facts(DEBIAN)
    return hash_files(spec.series.patches, *settings, *source, *spec.facts())


def target(
    variant: str = PLAIN,
    spec: Kernel | None = None,
    origin: str = DEBIAN,
    pinned: bool = True,
) -> Path:
    """Return the folder of the kernel of the current recipe, built or not."""
    spec = spec or kernels.default()
    name = content_hash(variant, spec, kernelsource.pins(spec.series).facts(origin))
    return cache_folder() / "kernel" / (name if pinned else f"{name}-unpinned")


def existing(variant: str = PLAIN, spec: Kernel | None = None) -> Path | None:
    """Return the built kernel's folder, a pinned one if there is one, or None."""
    folders = (
        target(variant, spec),
        target(variant, spec, KERNEL_ORG),
        target(variant, spec, pinned=False),
    )
    return next((folder for folder in folders if folder.is_dir()), None)


def named(variant: str, spec: Kernel) -> str:
    """Return a kernel's name in one word: its variant, and its key if not the default's."""
    return variant if spec == kernels.default() else f"{variant}+{spec.key}"


def parsed(name: str) -> tuple[str, Kernel]:
    """Return variant and kernel of a name from `named`; UsageError if there is none."""
    variant, _, key = name.partition("+")
    return variant, kernels.of_key(key or kernels.DEFAULT)


def build(variant: str = PLAIN, unpinned: bool = False, spec: Kernel | None = None) -> Path:
    """Build a kernel unless the cache has it; return its folder (linux, config, provenance.json).

    If the pinned source is unavailable, `unpinned` uses Debian's newest; otherwise this raises
    UnavailableError, as it does for a public patch. Raises LosslabError if a command fails or a
    symbol is missing from the finished configuration.
    """
    spec = spec or kernels.default()
    folder = existing(variant, spec)
    if folder is not None and (unpinned or folder != target(variant, spec, pinned=False)):
        return folder
    if not spec.algorithms and packed.install(packed.KERNEL, target(variant, spec)):
        return target(variant, spec)
    source = _source(spec, unpinned)
    made = target(variant, spec, source.origin, source.pinned)
    # Adding an algorithm needs the object files of the kernel without it (300 MB). Those of the
    # default kernel are always kept, because most users add their algorithm to it; those of other
    # kernels are kept on first use.
    keeps_objects = spec.algorithms or (variant == PLAIN and spec == kernels.default())
    # The ExitStack removes the source tree, 80,000 files, after the kernel is in the cache.
    with contextlib.ExitStack() as left, building(made) as partial:
        if partial is not None:
            if keeps_objects:
                kept = _kept_tree(variant, replace(spec, algorithms=()), source)
                compiled = kerneltree.with_algorithms(kept, spec.algorithms, partial / LOG)
                tree = left.enter_context(compiled)
            else:
                # In the cache, which has space, under a name that the next build removes.
                work = tempfile.TemporaryDirectory(prefix=f"{partial.name}-", dir=made.parent)
                folder = Path(left.enter_context(work))
                tree = _compiled(variant, spec, source, folder, partial / LOG)
            _finish(variant, spec, source, tree, partial)
    return made


def _kept_tree(variant: str, spec: Kernel, source: Source) -> Path:
    """Return the folder of a kernel's object files, compiled if missing."""
    made = target(variant, spec, source.origin, source.pinned)
    folder = cache_folder() / TREES / made.name
    with building(folder) as partial:
        if partial is not None:
            if made.is_dir():
                print(
                    f"losslab: note: compiling {spec.label} again, because its object files are "
                    "not in the cache (ten minutes of CPU time, 300 MB); adding further "
                    "algorithms takes seconds",
                    file=sys.stderr,
                )
            tree = _compiled(variant, spec, source, partial, partial / LOG)
            kerneltree.prune(tree)
    return folder


def quickly_made(variant: str, spec: Kernel) -> bool:
    """Return whether only added algorithms have to be compiled."""
    return bool(spec.algorithms) and objects_kept(variant, replace(spec, algorithms=()))


def objects_kept(variant: str, spec: Kernel) -> bool:
    """Return whether a kernel's object files are in the cache."""
    return (cache_folder() / TREES / target(variant, spec).name).is_dir()


def _source(spec: Kernel, unpinned: bool) -> Source:
    """Download public patches, then the source: a missing patch fails the build early."""
    for patch in spec.fetched:
        patch.get()
    try:
        return kernelsource.fetch(spec.series)
    except UnavailableError as error:
        if not unpinned:
            raise
        print(f"losslab: note: building an unpinned kernel: {error.message}", file=sys.stderr)
        return kernelsource.fetch_newest(spec.series)


def _compiled(variant: str, spec: Kernel, source: Source, work: Path, log: Path) -> Path:
    """Unpack, patch, configure and compile a source in `work`; return the tree."""
    log.touch()
    tree = work / kerneltree.NAME
    source.unpack(work, tree, log)
    fetched = [patch.get() for patch in spec.fetched]
    for patch in (*spec.series.patches, *fetched, *spec.patches):
        processes.run(["patch", "-p1", "--forward", "--fuzz=0", "-i", patch], log=log, cwd=tree)
    fragment = work / FRAGMENT
    fragment.write_text("".join(part.read_text() for part in fragments(variant, spec)))
    configure = [*kerneltree.MAKE, "allnoconfig", f"KCONFIG_ALLCONFIG={fragment}"]
    processes.run(configure, log=log, cwd=tree)
    missing = dropped_symbols(fragment.read_text(), (tree / ".config").read_text())
    if missing:
        parts = " and ".join(map(str, fragments(variant, spec)))
        raise LosslabError(
            f"every symbol of {parts} must be in the finished .config, found missing: "
            f"{', '.join(missing)}",
            hint="a missing symbol has an unmet dependency or does not exist in this kernel",
        )
    processes.run(kerneltree.MAKE_LINUX, log=log, cwd=tree)
    shutil.rmtree(work / "package", ignore_errors=True)
    return tree


def _finish(variant: str, spec: Kernel, source: Source, tree: Path, folder: Path) -> None:
    """Copy a compiled tree's binary and configuration to `folder`; write provenance."""
    version = processes.run(["make", "-s", "ARCH=um", "kernelversion"], cwd=tree).strip()
    shutil.copy2(tree / "linux", folder / "linux")
    processes.run(["strip", "--strip-debug", folder / "linux"], log=folder / LOG)
    # Not one of the facts below, which every manifest has: compilers differ, results do not.
    (folder / integrity.LINUX_DIGEST).write_text(digest(folder / "linux") + "\n")
    shutil.copyfile(tree / ".config", folder / "config")
    write_sources([source.found], folder)
    source_facts = source.provenance()
    pins = kernelsource.pins(spec.series).facts(source.origin)
    more: dict[str, Any] = {} if spec == kernels.default() else {"name": spec.name}
    if spec.algorithms:
        more["algorithms"] = {path.name: digest(path) for path in spec.algorithms}
    facts = {
        "version": version,
        "hash": content_hash(variant, spec, pins if source.pinned else list(source_facts.values())),
        "pinned": source.pinned,
        "source": source_facts,
        "patches": spec.patch_names,
        "config_sha256": hashlib.sha256((folder / "config").read_bytes()).hexdigest(),
    }
    text = json.dumps(facts | more, indent=1, sort_keys=True)
    (folder / "provenance.json").write_text(text + "\n")


def dropped_symbols(fragment: str, config: str) -> list[str]:
    """List the fragment's symbols without their value in a finished configuration."""
    lines = set(config.splitlines())
    defined = {line.partition("=")[0] for line in lines if "=" in line}
    return [
        name
        for name, value in re.findall(r"^(CONFIG_\w+)=(.+)$", fragment, re.MULTILINE)
        if (name in defined if value == "n" else f"{name}={value}" not in lines)
    ]
