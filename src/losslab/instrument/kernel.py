"""Build the virtual-time kernel from pinned source with losslab's configuration and patches."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument import (
    cache,
    compiled,
    integrity,
    kernels,
    kernelsource,
    kerneltree,
    packed,
)
from losslab.instrument.archive import UnavailableError, digest
from losslab.instrument.cache import building, cache_folder, hash_files, progress
from losslab.instrument.kernels import Kernel
from losslab.instrument.kernelsource import DEBIAN, KERNEL_ORG, Source
from losslab.repository import ROOT

RECIPE = ROOT / "containers" / "kernel"
# Configuration fragment of every kernel; a series' folder may have its own.
FRAGMENT = "fragment.config"
LOG = "build.log"  # in the folder of a kernel
BUILD_TAKES = "ten minutes of CPU time"
ADDITION_TAKES = "half a minute"
TREES = "tree"  # folder of the cache: object files of kernels to which algorithms are added
provenance = cache.provenance


def fragments(spec: Kernel) -> list[Path]:
    """List a configuration's fragments: of every kernel, of the series, and the user's own."""
    base, series = RECIPE / FRAGMENT, spec.series.folder / FRAGMENT
    found = [base] if series == base or not series.exists() else [base, series]
    return [*found, spec.fragment] if spec.fragment else found


def _source_facts(spec: Kernel, origin: str = DEBIAN) -> list[str]:
    """List the facts that identify a kernel's source."""
    if spec.source:
        return [spec.source.sha256]
    return kernelsource.pins(spec.series).facts(origin)


def content_hash(spec: Kernel | None = None, source: list[str] | None = None) -> str:
    """Hash all inputs of a kernel's build, from Debian's pinned source or another."""
    spec = spec or kernels.default()
    settings = [
        line
        for part in fragments(spec)
        for line in part.read_text().splitlines()
        if line.startswith("CONFIG_")
    ]
    source = source or _source_facts(spec)
    return hash_files(spec.series.patches, *settings, *source, *spec.facts())


def target(spec: Kernel | None = None, origin: str = DEBIAN, pinned: bool = True) -> Path:
    """Return the folder of the kernel of the current recipe, built or not."""
    spec = spec or kernels.default()
    name = content_hash(spec, _source_facts(spec, origin))
    return cache_folder() / "kernel" / (name if pinned else f"{name}-unpinned")


def existing(spec: Kernel | None = None) -> Path | None:
    """Return the built kernel's folder, a pinned one if there is one, or None."""
    folders = (target(spec), target(spec, KERNEL_ORG), target(spec, pinned=False))
    return next((folder for folder in folders if folder.is_dir()), None)


def build(unpinned: bool = False, spec: Kernel | None = None) -> Path:
    """Build a kernel unless the cache has it; return its folder (linux, config, provenance.json).

    If the pinned source is unavailable, `unpinned` uses Debian's newest; otherwise this raises
    UnavailableError, as it does for a public patch. Raises LosslabError if a command fails or a
    symbol is missing from the finished configuration.
    """
    spec = spec or kernels.default()
    folder = existing(spec)
    if folder is not None and (unpinned or folder != target(spec, pinned=False)):
        return folder
    own = spec != spec.base
    if not own and packed.install(packed.KERNEL, target(spec)):
        return target(spec)
    # Adding an algorithm needs the object files of the kernel without it (300 MB). Those of the
    # default kernel are always kept, because most users add their algorithm to it; those of other
    # kernels are kept on first use.
    if own or spec == kernels.default():
        return _from_objects(spec, unpinned)
    with progress(f"kernel {spec.title}", BUILD_TAKES):
        source = _source(spec, unpinned)
        made = target(spec, source.origin, source.pinned)
        with building(made) as partial:
            if partial is not None:
                # In the cache, which has space, in a folder that the next build removes.
                with tempfile.TemporaryDirectory(dir=partial.parent) as work:
                    tree = _compiled(spec, source, Path(work), partial / LOG)
                    _finish(_provenance(spec, source, tree), tree, partial)
    return made


def _from_objects(spec: Kernel, unpinned: bool) -> Path:
    """Build a kernel from the object files of the same kernel without additions."""
    kept = kept_objects(spec.base, unpinned)
    facts = provenance(kept)
    source = facts["source"]
    made = target(spec, source["from"], facts["pinned"])
    own = progress(f"kernel {spec.title}", ADDITION_TAKES)
    with own if spec != spec.base else contextlib.nullcontext(), building(made) as partial:
        if partial is not None:
            with kerneltree.with_additions(
                kept, spec.algorithms, spec.replaced, partial / LOG
            ) as tree:
                facts["hash"] = _recipe(spec, source, facts["pinned"])
                facts |= _additions(spec)
                if spec.replaced:
                    facts["config_sha256"] = digest(tree / ".config")
                    unused = compiled.not_compiled(tree, [each.path for each in spec.replaced])
                    (partial / compiled.UNCOMPILED).write_text("".join(f"{u}\n" for u in unused))
                _finish(facts, tree, partial)
    return made


def _additions(spec: Kernel) -> dict[str, Any]:
    found: dict[str, Any] = {} if spec == spec.base else {"name": spec.name}
    if spec.algorithms:
        found["algorithms"] = {path.name: digest(path) for path in spec.algorithms}
    if spec.replaced:
        found["replaced"] = {each.path: each.sha256 for each in spec.replaced}
    return found


def objects(spec: Kernel, origin: str = DEBIAN, pinned: bool = True) -> Path:
    """Return the folder of a kernel's object files, which another compiler cannot add to."""
    made = target(spec, origin, pinned)
    return cache_folder() / TREES / f"{made.name}-{kerneltree.compiler()}"


def existing_objects(spec: Kernel) -> Path | None:
    """Return the folder of a kernel's kept object files, or None."""
    folders = (objects(spec), objects(spec, KERNEL_ORG), objects(spec, pinned=False))
    return next((folder for folder in folders if folder.is_dir()), None)


def kept_objects(spec: Kernel, unpinned: bool) -> Path:
    """Return the folder of a kernel's object files: kept, fetched or compiled."""
    kept = existing_objects(spec)
    if kept is not None and (unpinned or kept != objects(spec, pinned=False)):
        return kept
    built = existing(spec) is not None
    if packed.install(packed.OBJECTS, objects(spec)):
        return objects(spec)
    if built:
        print(
            f"losslab: note: compiling {spec.label} again, because its object files are not in the "
            "cache (300 MB); adding further algorithms takes seconds",
            file=sys.stderr,
        )
    with progress(f"kernel {spec.title}", BUILD_TAKES):
        source = _source(spec, unpinned)
        folder = objects(spec, source.origin, source.pinned)
        with building(folder) as partial:
            if partial is not None:
                tree = _compiled(spec, source, partial, partial / LOG)
                kerneltree.prune(tree)
                facts = _provenance(spec, source, tree) | {"hash": folder.name}
                _write(facts, partial)
    return folder


def quickly_made(spec: Kernel) -> bool:
    """Return whether only added algorithms and replaced files have to be compiled."""
    return spec != spec.base and existing_objects(spec.base) is not None


def _source(spec: Kernel, unpinned: bool) -> Source:
    """Download public patches, then the source: a missing patch fails the build early."""
    for patch in spec.fetched:
        patch.get()
    if spec.source:
        return Source(spec.series, spec.source.address, "", spec.source.get(), pinned=True)
    try:
        return kernelsource.fetch(spec.series)
    except UnavailableError as error:
        if not unpinned:
            raise
        print(f"losslab: note: building an unpinned kernel: {error.message}", file=sys.stderr)
        return kernelsource.fetch_newest(spec.series)


def _compiled(spec: Kernel, source: Source, work: Path, log: Path) -> Path:
    """Unpack, patch, configure and compile a source in `work`; return the tree."""
    log.touch()
    tree = work / kerneltree.NAME
    source.unpack(work, tree, log)
    fetched = [patch.get().path for patch in spec.fetched]
    for patch in (*spec.series.patches, *fetched, *spec.patches):
        processes.run(["patch", "-p1", "--forward", "--fuzz=0", "-i", patch], log=log, cwd=tree)
    fragment = work / FRAGMENT
    fragment.write_text("".join(part.read_text() for part in fragments(spec)))
    configure = [*kerneltree.MAKE, "allnoconfig", f"KCONFIG_ALLCONFIG={fragment}"]
    processes.run(configure, log=log, cwd=tree)
    missing = dropped_symbols(fragment.read_text(), (tree / ".config").read_text())
    if missing:
        parts = " and ".join(map(str, fragments(spec)))
        raise LosslabError(
            f"every symbol of {parts} must be in the finished .config, found missing: "
            f"{', '.join(missing)}",
            hint="a missing symbol has an unmet dependency or does not exist in this kernel",
        )
    processes.run(kerneltree.MAKE_LINUX, log=log, cwd=tree)
    shutil.rmtree(work / "package", ignore_errors=True)
    return tree


def _finish(facts: dict[str, Any], tree: Path, folder: Path) -> None:
    """Copy a compiled tree's binary and configuration to `folder`; write its provenance."""
    shutil.copy2(tree / "linux", folder / "linux")
    processes.run(["strip", "--strip-debug", folder / "linux"], log=folder / LOG)
    # Not one of the facts below, which every manifest has: compilers differ, results do not.
    (folder / integrity.LINUX_DIGEST).write_text(digest(folder / "linux") + "\n")
    shutil.copyfile(tree / ".config", folder / "config")
    _write(facts, folder)


def _provenance(spec: Kernel, source: Source, tree: Path) -> dict[str, Any]:
    facts = {
        "version": processes.run(["make", "-s", "ARCH=um", "kernelversion"], cwd=tree).strip(),
        "hash": _recipe(spec, source.provenance(), source.pinned),
        "pinned": source.pinned,
        "source": source.provenance(),
        "patches": spec.patch_names,
        "config_sha256": digest(tree / ".config"),
    }
    return facts if spec == kernels.default() else facts | {"name": spec.name}


def _recipe(spec: Kernel, source: dict[str, str], pinned: bool) -> str:
    """Return the content hash of a kernel from a source with this provenance."""
    pins = _source_facts(spec, source["from"]) if pinned else list(source.values())
    return content_hash(spec, pins)


def _write(facts: dict[str, Any], folder: Path) -> None:
    (folder / "provenance.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")


def dropped_symbols(fragment: str, config: str) -> list[str]:
    """List the fragment's symbols without their value in a finished configuration."""
    lines = set(config.splitlines())
    defined = {line.partition("=")[0] for line in lines if "=" in line}
    return [
        name
        for name, value in re.findall(r"^(CONFIG_\w+)=(.+)$", fragment, re.MULTILINE)
        if (name in defined if value == "n" else f"{name}={value}" not in lines)
    ]
