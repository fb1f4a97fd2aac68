"""A kernel's compiled tree, kept so that congestion controls of one's own are added in seconds."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument.cache import ROOT
from losslab.lock import open_lock

# The tree in its folder, and beside it what its network code's Makefile says without additions.
NAME, MAKEFILE = "linux", "Makefile.before"
IPV4 = Path("net", "ipv4")
# Kernel and compiler write these into the binary; fixed, so that equal sources look equal.
FIXED = {
    "KBUILD_BUILD_TIMESTAMP": "2024-01-01 00:00:00 UTC",
    "KBUILD_BUILD_USER": "losslab",
    "KBUILD_BUILD_HOST": "losslab",
    "KBUILD_BUILD_VERSION": "1",
    "LC_ALL": "C",
}
MAKE = ["env", *(f"{k}={v}" for k, v in FIXED.items()), "make", "ARCH=um"]
# What may go where no object depends on it: three quarters of a source are other machines'.
SOURCES = {".c", ".h", ".S", ".dts", ".dtsi", ".rst", ".txt", ".yaml", ".json", ".svg", ".rs"}
# What the compiler quotes of a source.
OF_SOURCE = re.compile(r" +[0-9]* +\|")
# What makes the others, and what an algorithm may include.
KEPT = ("include/", "scripts/", "arch/um/", "arch/x86/um/", "arch/x86/include/", "net/ipv4/")


def jobs() -> str:
    """Return make's option for as many jobs as there are processors."""
    return f"-j{len(os.sched_getaffinity(0))}"


def keep_what_is_needed(tree: Path) -> None:
    """Remove the sources of what is not compiled."""
    needed = _dependencies(tree)
    for folder, _, names in os.walk(tree):
        inside = Path(folder).relative_to(tree)
        for name in names:
            path = str(inside / name)
            if Path(name).suffix in SOURCES and not path.startswith(KEPT) and path not in needed:
                (tree / path).unlink()
    shutil.copy2(tree / IPV4 / "Makefile", tree.parent / MAKEFILE)


def _dependencies(tree: Path) -> set[str]:
    """List the files that make looks at: each object has them in a file beside it."""
    found: set[str] = set()
    for path in tree.rglob(".*.cmd"):
        for word in re.findall(r"[\w./+-]+\.[\w.]+", path.read_text(errors="replace")):
            found.add(os.path.normpath(word))
    return found


@contextlib.contextmanager
def with_algorithms(folder: Path, algorithms: Sequence[Path], log: Path) -> Iterator[Path]:
    """Compile algorithms into a kept tree, which is this process's own for the length of the block.

    Args:
        folder: Of the tree.
        algorithms: Files tcp_NAME.c.
        log: Where make's words go.

    Raises:
        LosslabError: one does not compile, with the compiler's words; or it has a name of the
            kernel's own.
    """
    tree = folder / NAME
    with os.fdopen(open_lock(folder / "lock")) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        makefile = (folder / MAKEFILE).read_text()
        for path in algorithms:
            _refuse_misnamed(path, makefile)
            _update(tree / IPV4 / path.name, path.read_text())
        lines = "".join(f"obj-y += {path.stem}.o\n" for path in algorithms)
        _update(tree / IPV4 / "Makefile", makefile + lines)
        done = processes.attempt(
            [*MAKE, jobs(), "linux"], limit_s=processes.WORK_LIMIT_S, log=log, cwd=tree
        )
        said = log.read_text(errors="replace")
        words = "\n".join(_words_on(path, said) for path in algorithms).strip()
        if not done.good:
            names = " and ".join(_shown(path) for path in algorithms)
            last = "\n".join(said.strip().splitlines()[-processes.QUOTED_LINES :])
            raise LosslabError(
                f"{names} must compile, found:\n{words or last}",
                hint="mend it and start again; the skeleton is `losslab new algorithm NAME`",
            )
        if words:
            print(words, file=sys.stderr)
        yield tree


def _refuse_misnamed(path: Path, makefile: str) -> None:
    name = path.parent.name
    if re.search(rf"\b{path.stem}\.o\b", makefile):
        raise LosslabError(
            f"an algorithm of your own must have a name of its own, found {_shown(path)}: the "
            "kernel has a tcp_" + name,
            hint=f"rename its folder, its file and its row in config/algorithms.tsv from {name}",
        )
    if f'"{name}"' not in path.read_text():
        raise LosslabError(
            f'{_shown(path)} must register the algorithm that its folder names (.name = "{name}"), '
            "found no such name in it"
        )


def _update(path: Path, text: str) -> None:
    """Write a file whose time counts to make only where it changes."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _words_on(path: Path, said: str) -> str:
    """Quote what the compiler said of a file, by the name that its author knows."""
    there = str(IPV4 / path.name)
    lines, within = [], False
    for line in said.splitlines():
        # What follows belongs to it: the line in question, and where in it.
        within = line.startswith(there) or (within and bool(OF_SOURCE.match(line)))
        if within or (path.stem in line and "undefined reference" in line):
            lines.append(line.replace(there, _shown(path)))
    return "\n".join(lines)


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
