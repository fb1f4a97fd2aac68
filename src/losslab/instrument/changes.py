"""Changes of a kernel's source, as folders of files that replace the source's own.

A change is a file, a patch, or a series of patches. Files of which the kernel has no object change
no result, so their changes are skipped.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from losslab import extensions, processes
from losslab.instrument import algorithms, kernel, kernels, kerneltree
from losslab.instrument.archive import unpinned_allowed
from losslab.instrument.kernels import Kernel
from losslab.reading import UsageError, read_text
from losslab.repository import ROOT

PATCHES = (".patch", ".diff", ".mbox", ".eml")
SHOWN = 5  # names in an error
CREATED = re.compile(r"^ create mode \d+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Change:
    """A change: a folder of replaced files, their paths in the source, and skipped paths.

    `added` are the paths that the kernel's source does not have.
    """

    folder: Path
    paths: tuple[str, ...]
    skipped: tuple[str, ...]
    added: tuple[str, ...] = ()


def files_given(given: Sequence[str]) -> list[Path]:
    """Return the files and folders of a change; UsageError if one is missing or has no place."""
    found = []
    for text in given:
        path, _, name = text.rpartition("=")
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise UsageError(
                f"PATH of PATH=FILE must be a path in the kernel's source, found {path}",
                hint="such as net/ipv4/tcp_cubic.c",
            )
        if not Path(name).exists():
            raise UsageError(
                "a change must be a file of the kernel's source, a patch or a folder of patches, "
                f"found no file {name}"
            )
        found.append(Path(name))
    return found


def of_files(given: Sequence[str], spec: Kernel, into: Path) -> Change:
    """Write the files that a change replaces to the new folder `into`.

    `given` are files of the source (`tcp_cubic.c`, or `PATH=FILE` with the path in the source),
    patches, and folders of patches, applied in the order of their names. Raises LosslabError if a
    file's place is unknown, or a patch does not apply.
    """
    files = files_given(given)
    into.mkdir(parents=True)
    skipped: list[str] = []
    with kerneltree.own_files(kernel.objects(spec.base).build(unpinned_allowed())) as tree:
        for text, file in zip(given, files, strict=True):
            if file.is_dir() or file.suffix in PATCHES:
                for patch in series(file) if file.is_dir() else [file]:
                    skipped += _apply(patch, tree, into)
            else:
                place = text.rpartition("=")[0] or _place(str(file), tree)
                (into / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, into / place)
                if f"{kerneltree.SUFFIX}/src/" in place:
                    (into / place).write_text(algorithms.prepared(read_text(file)))
        paths = []
        for file in sorted(path for path in into.rglob("*") if path.is_file()):
            path = file.relative_to(into)
            if (tree / path).is_file() and (tree / path).read_bytes() == file.read_bytes():
                file.unlink()  # as in the source
            else:
                paths.append(str(path))
        added = tuple(path for path in paths if not (tree / path).is_file())
    return Change(into, tuple(paths), tuple(dict.fromkeys(skipped)), added)


def require_compiled(change: Change, built: Iterable[Path]) -> list[str]:
    """Return the changed files that none of the built kernels, paths of their files, compiles.

    Raises UsageError for an added file, and if none of the changed sources is compiled: the kernels
    are then those without the change.
    """
    lists = [its.parent / kerneltree.UNCOMPILED for its in built if change.paths]
    each = [set(file.read_text().splitlines()) if file.is_file() else set() for file in lists]
    files = sorted(set.intersection(*each)) if each else []
    sources = [path for path in change.paths if Path(path).suffix in kerneltree.COMPILED]
    skipped = [path for path in change.skipped if Path(path).suffix in kerneltree.COMPILED]
    refused = [path for path in files if path in change.added]
    if not set(sources) - set(files):
        refused += [path for path in (*files, *skipped) if path not in refused]
    for path in refused[:1]:
        raise UsageError(
            f"a changed source must be compiled into the kernel, found that no object has {path}",
            hint="name it by its path in the source, such as net/ipv4/tcp_bbr.c; let the change "
            "add `obj-y += NAME.o` to its folder's Makefile, or include it in "
            "a file that is compiled; for your own algorithm, add `--algorithm NAME`",
        )
    return files


def original(given: str, spec: Kernel) -> tuple[str, bytes]:
    """Return the path and the content of a file in a kernel's source, with losslab's patches.

    `given` is its path in the source, or its name if only one file has it.
    """
    with kerneltree.own_files(kernel.objects(spec.base).build(unpinned_allowed())) as tree:
        inside = not Path(given).is_absolute() and ".." not in Path(given).parts
        path = given if inside and (tree / given).is_file() else _place(Path(given).name, tree)
        if not (tree / path).is_file():
            raise UsageError(f"the kernel's source must have the file {given}, found none")
        return path, (tree / path).read_bytes()


def series(folder: Path) -> list[Path]:
    """List the patches of a folder in the order of their names; UsageError if there are none."""
    found = sorted(path for path in folder.iterdir() if path.suffix in PATCHES)
    if not found:
        raise UsageError(
            f"a series must be a folder with patches ({', '.join(PATCHES)}), found none in {folder}"
        )
    return found


def _place(given: str, tree: Path) -> str:
    """Return the path in the source of a file: the end of its own path, or the only such name."""
    parts = Path(given).parts
    for at in range(len(parts) - 1):
        if not Path(*parts[at:]).is_absolute() and (tree / Path(*parts[at:])).is_file():
            return str(Path(*parts[at:]))
    name = parts[-1]
    found = sorted(str(path.relative_to(tree)) for path in tree.rglob(name) if path.is_file())
    if not found:
        declared = ((extensions.folder() or ROOT) / "algorithms").glob(f"*/{algorithms.FILE}")
        found = [f"{kerneltree.IPV4}/{own.name}{kerneltree.SUFFIX}/src/{path.relative_to(own)}"
                 for own in (each.parent for each in sorted(declared))
                 for path in sorted(own.rglob(name))]  # fmt: skip
    own = kernels.source_of(name.removeprefix("tcp_").removesuffix(".c"))
    if not found and own.is_file() and own.name == name:
        return str(kerneltree.IPV4 / name)
    if len(found) != 1:
        place = found[0] if found else f"net/ipv4/{name}"
        adding = "" if found else "; `losslab new algorithm NAME` adds an algorithm"
        what = ", ".join(found[:SHOWN]) if found else "none"
        raise UsageError(
            f"the kernel's source must have one file {name}, found {what}",
            hint=f"name its place: {place}, or {place}=FILE for a change of it{adding}",
        )
    return found[0]


def _apply(patch: Path, tree: Path, into: Path) -> Iterator[str]:
    """Apply a patch to the files of `into`, or copies of the tree's; yield skipped paths."""
    # Above it, git looks for no repository.
    more = {"GIT_CEILING_DIRECTORIES": str(into.resolve().parent)}
    command, file = ["git", "apply"], patch.resolve()

    def applied(*words: str) -> str:
        done = processes.attempt([*command, *words, file], cwd=into, more=more)
        if not done.good:
            raise kerneltree.SourceError(
                f"{patch} must apply to the kernel's source, found:\n{done.err.strip()}",
                hint="make it from the source that `losslab kernel` builds, without fuzz",
            )
        return done.out

    rows = applied("--numstat", "-z").split("\0")
    paths = [row.split("\t", 2)[2] for row in rows if row.count("\t") == 2]
    created = CREATED.findall(applied("--summary"))
    excluded = []
    for path in paths:
        if (into / path).exists():
            continue
        if (tree / path).is_file():
            (into / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tree / path, into / path)
        elif path not in created:
            excluded.append(path)
    if set(excluded) != set(paths):
        applied(*(f"--exclude={path}" for path in excluded))
    yield from excluded
