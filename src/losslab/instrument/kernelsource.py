"""The source of a kernel: changes of it, and the layouts of its algorithms' state (`csource`).

A change is a file, a patch, or a series of patches. It becomes a folder of files that replace the
source's own. Files of which the kernel has no object change no result, so their changes are
skipped.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from losslab import extensions, processes
from losslab.instrument import csource, kernel, kernels, kerneltree
from losslab.instrument.cache import building, cache_folder, progress
from losslab.instrument.csource import Layouts
from losslab.instrument.fetch import unpinned_allowed
from losslab.instrument.kernels import Kernel
from losslab.reading import UsageError, code, read_json, read_text
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


def make_change(given: Sequence[str], spec: Kernel, into: Path) -> Change:
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
                    (into / place).write_text(csource.prepared(read_text(file)))
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
        declared = ((extensions.folder() or ROOT) / "algorithms").glob(f"*/{csource.FILE}")
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


# Layouts of losslab's own kernels. `python -m losslab.instrument.kernelsource` writes this file.
TABLE = kernel.RECIPE / "layouts.json"
TABLE_BYTES = 2**22
LAYOUTS = "layouts"  # folder of the cache: those of other kernels


def layouts(spec: Kernel) -> Layouts:
    """Return the layouts of a built kernel's algorithms.

    Those of a user's algorithm, kernel or changed source are compiled once, from the kernel's
    object files.
    """
    part = kernel.part(spec)
    built = part.existing() or part.target()
    pinned = built != part.target(pinned=False)
    table = read_json(TABLE, TABLE_BYTES) if pinned else {}
    known = csource.typed_layouts(table.get(spec.name, {}))
    if known and spec == spec.base:
        return known
    folder = cache_folder() / LAYOUTS / built.name
    if not folder.is_dir():
        with progress(f"layout of the state of {spec.title}", "half a minute"):
            _make_layouts(spec, pinned, bool(known), folder)
    return known | csource.typed_layouts(read_json(folder / TABLE.name, TABLE_BYTES))


def _make_layouts(spec: Kernel, pinned: bool, known: bool, folder: Path) -> None:
    """Compile layouts of a kernel: all, or those that a known base does not have."""
    replaced = {Path(each.path).name for each in spec.replaced}
    only = replaced | {path.parent.name for path in spec.algorithms}
    every = not known or any(name.endswith(".h") for name in replaced)
    with building(folder) as partial:
        if partial is not None:
            added = spec.algorithms, spec.replaced, partial / kernel.LOG
            kept = kernel.objects(spec.base).build(unpinned=not pinned)
            with kerneltree.with_additions(kept, *added) as tree:
                found = layouts_of_tree(tree, spec.algorithms, None if every else only)
                (partial / TABLE.name).write_text(csource.layouts_text(found))


def layouts_of_tree(tree: Path, added: Iterable[Path], only: set[str] | None = None) -> Layouts:
    """Return the layouts of all algorithms in a compiled tree, or of some names and sources."""
    found: dict[str, list[Path]] = {}
    for path in sorted((tree / kerneltree.IPV4).glob("tcp_*.c")):
        if path.with_suffix(".o").exists():
            names = csource.registered(code(read_text(path)))
            found |= {name: [path] for name in names if name}
    for path in added:
        if path.name == csource.FILE:
            name = path.parent.name
            folder = tree / kerneltree.IPV4 / (name + kerneltree.SUFFIX) / "src"
            found[name] = [folder / each for each in csource.read(path).sources]
    return {
        name: csource.layout(tree, paths)
        for name, paths in found.items()
        if only is None or only & {name, *(path.name for path in paths)}
    }


def require_room(tree: Path, spec: Kernel) -> None:
    """Refuse an algorithm whose state is larger than its room, and would overwrite the socket."""
    header = (tree / "include/net/inet_connection_sock.h").read_text(errors="replace")
    most = int(re.findall(r"(?:icsk_ca_priv\[|ICSK_CA_PRIV_SIZE\s+\(?)(\d+)", header)[0])
    groups = [[tree / each.path] for each in spec.replaced if each.path.endswith(".c")]
    for path in spec.algorithms:
        folder = tree / kerneltree.IPV4 / f"{path.parent.name}{kerneltree.SUFFIX}"
        declared = path.name == csource.FILE
        groups.append([*folder.rglob("src/**/*.[ch]")] if declared else [folder.parent / path.name])
    for files in groups:
        text = "\n".join(code(each.read_text(errors="replace")) for each in files)
        # A variable of the same name elsewhere may point to one of the kernel's structures.
        own = r"struct\s+{0}\s*\{{|\}}[^{{;]*\b{0}\s*;"
        names = {each for each in csource.pointed(text) if re.search(own.format(each), text)}
        for file in (each for each in files if each.with_suffix(".o").is_file()):
            dump = ["env", "LC_ALL=C", "readelf", "--debug-dump=info", str(file.with_suffix(".o"))]
            for _, its in csource.structures(processes.run(dump) if names else "", names):
                if (size := its.number("byte_size")) > most:
                    raise kerneltree.SourceError(
                        f"the state of a connection must have at most {most} bytes, found {size} "
                        f"in struct {its.values.get('name', '')} of "
                        f"{kerneltree.shown(kerneltree.user_source(str(file)) or file)}"
                    )


def main() -> None:
    """Write the layouts of losslab's own kernels, from the object files on this machine."""
    found = {}
    for name in kernels.declared():
        spec = kernels.get(name)
        kept = kernel.objects(spec).existing()
        if kept is not None:
            with kerneltree.own_files(kept) as tree:
                found[name] = csource.layouts_text(layouts_of_tree(tree, ()))
    TABLE.write_text("{" + ",\n".join(f'"{k}": {found[k]}' for k in sorted(found)) + "}\n")


if __name__ == "__main__":
    main()
