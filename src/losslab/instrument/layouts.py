"""Layouts of congestion controls' private state: names, places and types of its fields in C.

They come from the debugging information of a kernel's sources, compiled a second time outside of
its tree. The repository has those of losslab's own kernels.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from losslab import processes
from losslab.instrument import algorithms as algorithmfiles
from losslab.instrument import kernel, kernels, kerneltree
from losslab.instrument.cache import building, cache_folder, progress
from losslab.instrument.kernels import Kernel
from losslab.reading import code, read_json, read_text

# Layouts of losslab's own kernels. `python -m losslab.instrument.layouts` writes this file.
TABLE = kernel.RECIPE / "layouts.json"
FOLDER = "layouts"  # of the cache: those of other kernels
TABLE_BYTES = 2**22
# Flags of the second compilation. With DWARF 5, a bit field has its distance from the struct's
# beginning.
DEBUG = ["-gdwarf-5", "-w", "-c"]
ENTRY = re.compile(r"^ <(\d+)><([0-9a-f]+)>: Abbrev Number: \d+ \(DW_TAG_(\w+)\)")
# Before a value, readelf may print its form and place in brackets.
ATTRIBUTE = re.compile(r"^    <[0-9a-f]+>\s+DW_AT_(\w+)\s*: (?:\([^)]*\)[: ]*)*(.*)$")
STATE = r"inet_csk_ca\s*\("
# A variable that points to the state, and a type that the state is cast to or returned as.
POINTER = re.compile(rf"\b(\w+)\s*=\s*(?:\([^()]*\)\s*)?{STATE}")
TYPES = (
    re.compile(rf"\(\s*(?:const\s+)?(?:struct\s+)?(\w+)\s*\*\s*\)\s*{STATE}"),
    re.compile(rf"(\w+)\s*\*\s*\w+\s*\([^()]*\)\s*\{{\s*return\s+{STATE}"),
)
POINTED = r"(?:struct\s+)?\b(\w+)\s*\*\s*(?:const\s+)?{}\b"
# DW_ATE_boolean, DW_ATE_unsigned, DW_ATE_unsigned_char; other integers are signed.
UNSIGNED = {2, 7, 8}
TYPE = re.compile(r"[iu](?:[1-9]|[1-5]\d|6[0-4])")
NAMELESS = ("typedef", "const_type", "volatile_type")


class Field(NamedTuple):
    """Integer of a structure."""

    name: str
    begin: int  # its first bit
    type: str  # u or i, and its number of bits
    names: Mapping[str, str] = MappingProxyType({})  # of an enumeration, by value


Layouts = dict[str, list[Field]]


@dataclass
class Entry:
    """Entry of an object's debugging information."""

    tag: str
    values: dict[str, str] = field(default_factory=dict)
    within: list[Entry] = field(default_factory=list)

    def number(self, name: str) -> int:
        """Return an attribute as a number."""
        return int(self.values[name].split()[0], 0)


def of(spec: Kernel) -> Layouts:
    """Return the layouts of a built kernel's algorithms.

    Those of a user's algorithm, kernel or changed source are compiled once, from the kernel's
    object files.
    """
    part = kernel.part(spec)
    built = part.existing() or part.target()
    pinned = built != part.target(pinned=False)
    known = typed(read_json(TABLE, TABLE_BYTES).get(spec.name, {})) if pinned else {}
    if known and spec == spec.base:
        return known
    folder = cache_folder() / FOLDER / built.name
    if not folder.is_dir():
        with progress(f"layout of the state of {spec.title}", "half a minute"):
            _make(spec, pinned, bool(known), folder)
    return known | typed(read_json(folder / TABLE.name, TABLE_BYTES))


def typed(content: Mapping[str, Iterable[Sequence[Any]]]) -> Layouts:
    """Return layouts from JSON; ValueError or TypeError if they are none."""
    found = {name: [Field(*each) for each in fields] for name, fields in content.items()}
    for each in (each for fields in found.values() for each in fields):
        placed = isinstance(each.begin, int) and each.begin >= 0 and TYPE.fullmatch(each.type)
        if not (placed and isinstance(each.name, str) and isinstance(each.names, Mapping)):
            raise ValueError(f"a field must have a name, a first bit and a type, found {each}")
    return found


def text(layouts: Layouts) -> str:
    """Return layouts as JSON with one algorithm per line."""
    rows = [
        f"{json.dumps(name)}: {json.dumps([each if each.names else each[:3] for each in fields])}"
        for name, fields in sorted(layouts.items())
    ]
    return "{\n" + ",\n".join(rows) + "\n}"


def _make(spec: Kernel, pinned: bool, known: bool, folder: Path) -> None:
    """Compile layouts of a kernel: all, or those that a known base does not have."""
    replaced = {Path(each.path).name for each in spec.replaced}
    only = replaced | {path.parent.name for path in spec.algorithms}
    every = not known or any(name.endswith(".h") for name in replaced)
    with building(folder) as partial:
        if partial is not None:
            added = spec.algorithms, spec.replaced, partial / kernel.LOG
            kept = kernel.objects(spec.base).build(unpinned=not pinned)
            with kerneltree.with_additions(kept, *added) as tree:
                found = of_tree(tree, spec.algorithms, None if every else only)
                (partial / TABLE.name).write_text(text(found))


def of_tree(tree: Path, added: Iterable[Path], only: set[str] | None = None) -> Layouts:
    """Return the layouts of all algorithms in a compiled tree, or of some names and sources."""
    found: dict[str, list[Path]] = {}
    for path in sorted((tree / kerneltree.IPV4).glob("tcp_*.c")):
        if path.with_suffix(".o").exists():
            names = algorithmfiles.registered(code(read_text(path)))
            found |= {name: [path] for name in names if name}
    for path in added:
        if path.name == algorithmfiles.FILE:
            name = path.parent.name
            folder = tree / kerneltree.IPV4 / (name + kerneltree.SUFFIX) / "src"
            found[name] = [folder / each for each in algorithmfiles.read(path).sources]
    return {
        name: of_sources(tree, paths)
        for name, paths in found.items()
        if only is None or only & {name, *(path.name for path in paths)}
    }


def of_sources(tree: Path, paths: Sequence[Path]) -> list[Field]:
    """Return the layout of the state that sources get from their sockets; the largest of several.

    A congestion control that embeds another's state has it at the beginning of its own.
    """
    structures: list[tuple[dict[int, Entry], Entry]] = []
    for path in paths:
        if wanted := pointed(code(read_text(path))):
            structures += _structures(_compiled(tree, path), wanted)
    if not structures:
        return []
    types, largest = max(structures, key=lambda each: each[1].number("byte_size"))
    return sorted(_fields(types, largest, "", 0), key=lambda each: each.begin)


def require_room(tree: Path, spec: Kernel) -> None:
    """Refuse an algorithm whose state is larger than its room, and would overwrite the socket."""
    header = (tree / "include/net/inet_connection_sock.h").read_text(errors="replace")
    most = int(re.findall(r"(?:icsk_ca_priv\[|ICSK_CA_PRIV_SIZE\s+\(?)(\d+)", header)[0])
    groups = [[tree / each.path] for each in spec.replaced if each.path.endswith(".c")]
    for path in spec.algorithms:
        folder = tree / kerneltree.IPV4 / f"{path.parent.name}{kerneltree.SUFFIX}"
        declared = path.name == algorithmfiles.FILE
        groups.append([*folder.rglob("src/**/*.[ch]")] if declared else [folder.parent / path.name])
    for files in groups:
        text = "\n".join(code(each.read_text(errors="replace")) for each in files)
        # A variable of the same name elsewhere may point to one of the kernel's structures.
        own = r"struct\s+{0}\s*\{{|\}}[^{{;]*\b{0}\s*;"
        names = {each for each in pointed(text) if re.search(own.format(each), text)}
        for file in (each for each in files if each.with_suffix(".o").is_file()):
            dump = ["env", "LC_ALL=C", "readelf", "--debug-dump=info", str(file.with_suffix(".o"))]
            for _, its in _structures(processes.run(dump) if names else "", names):
                if (size := its.number("byte_size")) > most:
                    raise kerneltree.SourceError(
                        f"the state of a connection must have at most {most} bytes, found {size} "
                        f"in struct {its.values.get('name', '')} of "
                        f"{kerneltree.shown(kerneltree.user_source(str(file)) or file)}"
                    )


def pointed(source: str) -> set[str]:
    """Return the names of the types as which a source uses a socket's state."""
    variables = {*POINTER.findall(source)}
    patterns = [re.compile(POINTED.format(name)) for name in variables]
    return {name for pattern in (*TYPES, *patterns) for name in pattern.findall(source)}


def _compiled(tree: Path, path: Path) -> str:
    """Compile a source of a tree again, outside of the tree; return its debugging information."""
    command = path.with_name(f".{path.stem}.o.cmd").read_text().splitlines()[0]
    words = shlex.split(command.partition(":=")[2].partition(";")[0])
    out = words.index("-o")
    kept = [*words[:out], *words[out + 2 :]]
    kept = [word for word in kept if not word.startswith("-Wp,-M")]
    with tempfile.TemporaryDirectory(prefix="losslab-layout-") as folder:
        made = Path(folder) / "state.o"
        processes.run([*kept, *DEBUG, "-o", made], cwd=tree)
        return processes.run(["env", "LC_ALL=C", "readelf", "--debug-dump=info", made])


def _structures(dump: str, names: set[str]) -> Iterator[tuple[dict[int, Entry], Entry]]:
    """Yield the structures of some names, or of types of these names, with all entries."""
    entries: dict[int, Entry] = {}
    stack: list[Entry] = []
    for line in dump.splitlines():
        if begins := ENTRY.match(line):
            entry = Entry(begins[3])
            entries[int(begins[2], 16)] = entry
            del stack[int(begins[1]) :]
            if stack:
                stack[-1].within.append(entry)
            stack.append(entry)
        elif (attribute := ATTRIBUTE.match(line)) and stack:
            stack[-1].values[attribute[1]] = attribute[2].strip()
    for entry in entries.values():
        if entry.tag in ("structure_type", "typedef") and entry.values.get("name") in names:
            structure = _type(entries, entry) if entry.tag == "typedef" else entry
            if structure.tag == "structure_type" and "byte_size" in structure.values:
                yield entries, structure


def _type(entries: Mapping[int, Entry], entry: Entry) -> Entry:
    """Return an entry's type, without names and qualifiers."""
    while True:
        at = entry.values.get("type", "").strip("<>")
        entry = entries[int(at, 16)] if at else Entry("unspecified_type")
        if entry.tag not in NAMELESS:
            return entry


def _fields(entries: Mapping[int, Entry], of: Entry, prefix: str, begin: int) -> Iterator[Field]:
    """Yield the integers of a structure or union; those within others have dotted names."""
    for member in of.within:
        if member.tag != "member":
            continue
        its = _type(entries, member)
        name = prefix + member.values.get("name", "")
        if "data_bit_offset" in member.values:
            at = begin + member.number("data_bit_offset")
            yield _integer(name, at, member.number("bit_size"), its)
            continue
        at = begin
        if "data_member_location" in member.values:  # none in a union
            at += 8 * member.number("data_member_location")
        yield from _values(entries, its, name, at)


def _values(entries: Mapping[int, Entry], its: Entry, name: str, at: int) -> Iterator[Field]:
    """Yield the integers of a type at a bit of the state."""
    if its.tag in ("structure_type", "union_type"):
        # What has no name of its own adds nothing to the names of its members.
        yield from _fields(entries, its, name if name[-1:] in ("", ".") else f"{name}.", at)
    elif its.tag == "array_type":
        counts = [each.number("upper_bound") + 1 if "upper_bound" in each.values else 0
                  for each in its.within]  # fmt: skip
        element = _type(entries, its)
        size = 8 * element.number("byte_size") if "byte_size" in element.values else 0
        for number, place in enumerate(itertools.product(*map(range, counts if size else [0]))):
            index = "".join(f"[{each}]" for each in place)
            yield from _values(entries, element, name + index, at + number * size)
    elif its.tag in ("base_type", "enumeration_type"):
        yield _integer(name, at, 8 * its.number("byte_size"), its)


def _integer(name: str, at: int, bits: int, its: Entry) -> Field:
    """Return an integer's field; an enumeration has the sign of its smallest value."""
    names = {each.values["const_value"].split()[0]: each.values["name"] for each in its.within}
    unsigned = int(its.values.get("encoding", "7").split()[0]) in UNSIGNED
    signed = not unsigned or any(value.startswith("-") for value in names)
    return Field(name, at, f"{'i' if signed else 'u'}{bits}", names)


def main() -> None:
    """Write the layouts of losslab's own kernels, from the object files on this machine."""
    found = {}
    for name in kernels.declared():
        spec = kernels.get(name)
        kept = kernel.objects(spec).existing()
        if kept is not None:
            with kerneltree.own_files(kept) as tree:
                found[name] = text(of_tree(tree, ()))
    TABLE.write_text("{" + ",\n".join(f'"{k}": {found[k]}' for k in sorted(found)) + "}\n")


if __name__ == "__main__":
    main()
