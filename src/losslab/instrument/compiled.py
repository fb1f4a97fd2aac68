"""Compiled files of a changed source, and the symbols of Kconfig that these need."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

# In the folder of a kernel with replaced files: those that no object depends on, a line each.
UNCOMPILED = "not-compiled.txt"
CODE = (".c", ".S")
COMPILED = (*CODE, ".h")
KCONFIG = "Kconfig"
SYMBOL = re.compile(r"^\s*(?:menu)?config\s+(\w+)")
SWITCH = re.compile(r"^\s+(?:def_)?(?:bool|tristate)\b")
# A word of a .cmd file that may be a path; `kerneltree.prune` looks for them, too.
PATH = re.compile(r"[\w./+-]+\.[\w.]+")
OBJECT = re.compile(r"^\s*[\w-]+-(\S+?)\s*[+:]?=(.*)$")


def not_compiled(tree: Path, paths: Collection[str]) -> list[str]:
    """List the sources and headers among `paths` that no object of a compiled tree depends on.

    An object that is older than the file was compiled from another one.
    """
    left = {path for path in paths if Path(path).suffix in COMPILED}
    for command in tree.rglob(".*.cmd") if left else ():
        made = command.with_name(command.name[1:].removesuffix(".cmd"))
        text = command.read_text(errors="replace")
        if any(Path(path).name in text for path in left) and made.is_file():
            needed = left & {os.path.normpath(word) for word in PATH.findall(text)}
            made_ns = made.stat().st_mtime_ns
            left -= {path for path in needed if (tree / path).stat().st_mtime_ns <= made_ns}
    return sorted(left)


def new_symbols(before: str, after: str) -> list[str]:
    """List the switches that a Kconfig file declares in addition to those before.

    The members of a choice are left out: one of them is chosen already.
    """
    known = set(_symbols(before))
    return [name for name in dict.fromkeys(_symbols(after)) if name not in known]


def _symbols(text: str) -> Iterator[str]:
    name, choices = "", 0
    for line in text.splitlines():
        word = (line.split() or [""])[0]
        choices += {"choice": 1, "endchoice": -1}.get(word, 0)
        if found := SYMBOL.match(line):
            name = found[1]
        elif name and not choices and SWITCH.match(line):
            yield name
            name = ""


def is_kconfig(path: str) -> bool:
    """Return whether a file of the source declares symbols."""
    return Path(path).name.startswith(KCONFIG)


def fix_of(path: str, makefile: str) -> str:
    """Return the fix for a file that is not compiled, given the Makefile of its folder."""
    if Path(path).suffix not in CODE:
        return "include it in a file that is compiled"
    made = f"{Path(path).stem}.o"
    for line in makefile.splitlines():
        found = OBJECT.match(line)
        if found and made in found[2].split():
            switch = found[1].strip("$()")
            if switch.startswith("CONFIG_"):
                return (
                    f"the Makefile compiles it with {switch}, which is not set: change "
                    f"`obj-$({switch}) += {made}` to `obj-y += {made}`, or let the change declare "
                    f"{switch.removeprefix('CONFIG_')} in Kconfig"
                )
    algorithm = Path(path).stem.removeprefix("tcp_")
    return (
        f"add `obj-y += {made}` to {Path(path).with_name('Makefile')} in the change; if it is your "
        f"own algorithm, add `--algorithm {algorithm}`"
    )
