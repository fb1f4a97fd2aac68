"""Compiled kernel trees, kept so that a changed file or another algorithm takes seconds."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from pathlib import Path

from losslab import extensions, processes
from losslab.errors import LosslabError
from losslab.instrument import csource
from losslab.instrument.kernels import ReplacedFile, replaced_files, source_of
from losslab.lock import locked
from losslab.reading import code
from losslab.repository import ROOT, install_command

# Names in a kept folder: the tree, and its net/ipv4 Makefile without added algorithms.
NAME, MAKEFILE = "linux", "Makefile.before"
IPV4 = Path("net", "ipv4")
CONFIG = ".config"
# Folder of a kept folder: the tree's own files while others replace them, and the suffix of empty
# files that stand for added ones.
ORIGINALS, ADDED = "originals", ".added"
# The build writes these into the binary; fixed values make builds of equal sources equal.
FIXED = {
    "KBUILD_BUILD_TIMESTAMP": "2024-01-01 00:00:00 UTC",
    "KBUILD_BUILD_USER": "losslab",
    "KBUILD_BUILD_HOST": "losslab",
    "KBUILD_BUILD_VERSION": "1",
    "LC_ALL": "C",
}
MAKE = ["env", *(f"{k}={v}" for k, v in FIXED.items()), "make", "ARCH=um"]
MAKE_LINUX = [*MAKE, f"-j{len(os.sched_getaffinity(0))}", "linux"]
# Removed unless an object depends on them: 3/4 of a source is for other architectures.
SOURCES = {".c", ".h", ".S", ".dts", ".dtsi", ".rst", ".txt", ".yaml", ".json", ".svg", ".rs"}
# make's own lines in a build's output, and the first line of a message of the compiler or linker.
OF_MAKE = re.compile(
    r"^(?:make(?:\[\d+\])?: |  [A-Z]+\s+\S|\s*\d+ (?:errors?|warnings?) generated)"
)
FIRST = re.compile(
    r"^(?:In file included|\S+: (?:In function|At top level)|\S*ld: "
    r"|\S+?:[^ ]* (?:fatal )?(?:error|warning): )"
)
PROBLEM = re.compile(r"\b(?:error|warning): |multiple definition|undefined reference")
# A user's algorithm with several files is in a folder NAME.losslab of net/ipv4.
SUFFIX = ".losslab"
# Kept: needed for further builds, or an algorithm may include them.
KEPT = ("include/", "scripts/", "arch/um/", "arch/x86/um/", "arch/x86/include/", "net/ipv4/")


class SourceError(LosslabError):
    """A changed source of the kernel does not apply or compile."""

    status = 125  # on which `git bisect run` skips a commit


def compiler() -> str:
    """Return 8 hexadecimal digits, the hash of the versions of compiler and linker.

    make compiles a whole tree again if one of them differs. Raises LosslabError if one is missing.
    """
    lines = []
    for name in ("gcc", "ld"):
        done = processes.attempt([name, "--version"])
        if not done.good:
            raise LosslabError(
                f"a kernel with another algorithm needs a compiler, found no {name}",
                hint=f"run `{install_command('build')}`",
            )
        lines += done.out.splitlines()[:1]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]


def prune(tree: Path) -> None:
    """Remove links, and sources on which no object depends, according to the .cmd files."""
    needed = {
        os.path.normpath(word)
        for path in tree.rglob(".*.cmd")
        for word in PATH.findall(path.read_text(errors="replace"))
    }
    for folder, _, names in os.walk(tree):
        inside = Path(folder).relative_to(tree)
        for name in names:
            path = str(inside / name)
            unneeded = Path(name).suffix in SOURCES and not path.startswith(KEPT)
            if (unneeded and path not in needed) or (tree / path).is_symlink():
                (tree / path).unlink()
    shutil.copy2(tree / IPV4 / "Makefile", tree.parent / MAKEFILE)


@contextlib.contextmanager
def own_files(folder: Path) -> Iterator[Path]:
    """Yield the kept tree of `folder` with its own files; lock it for the block."""
    with locked(folder / "lock"):
        _restore(folder)  # a killed build leaves others
        yield folder / NAME


@contextlib.contextmanager
def with_additions(
    folder: Path, algorithms: Sequence[Path], replaced: Sequence[ReplacedFile], log: Path
) -> Iterator[Path]:
    """Compile the kept tree of `folder` with additions; lock it for the block.

    `algorithms` are source files tcp_NAME.c or algorithm.toml, and `replaced` files that replace
    the tree's or are added. Raises LosslabError if a file does not compile (with the compiler's
    messages), or an algorithm has the name of one in the kernel.
    """
    makefile = (folder / MAKEFILE).read_text()
    all_names = {path.parent.name for path in algorithms}
    added = [each for path in algorithms for each in _staged(path, makefile, all_names)]
    sources = {place: file for place, file, _ in added if file is not None}
    sources |= {each.path: each.file for each in replaced}
    with contextlib.ExitStack() as left:
        tree = left.enter_context(own_files(folder))
        for place, _, content in added:
            (tree / place).parent.mkdir(parents=True, exist_ok=True)
            _update(tree / place, content)
        left.callback(_remove, tree, algorithms, makefile)
        left.callback(_restore, folder)
        for each in replaced:
            _replace(folder, each)
        compiled = (f"{path.parent.name}{SUFFIX}/" if path.name == csource.FILE
                   else f"{path.stem}.o" for path in algorithms)  # fmt: skip
        lines = "".join(f"obj-y += {each}\n" for each in compiled)
        lines += "".join(
            f"CFLAGS_{Path(name).stem}.o += {csource.DEBUG_INFO}\n"
            for name in sources
            if Path(name).parent == IPV4 and name.endswith(".c")
        )
        _configure(folder, replaced, log)
        own = sources.get(str(IPV4 / "Makefile"), folder / MAKEFILE)
        _update(tree / IPV4 / "Makefile", (own.read_text() + lines).encode())
        done = processes.attempt(MAKE_LINUX, limit_s=processes.WORK_LIMIT_S, log=log, cwd=tree)
        output = log.read_text(errors="replace")
        messages = _messages(sources, output).strip()
        if not done.good:
            its = (path.parent if path.name == csource.FILE else path for path in algorithms)
            names = " and ".join(map(shown, (*its, *(each.file for each in replaced))))
            reasons = "".join(f"\n{each}" for each in csource.explained(messages))
            last = "\n".join(output.strip().splitlines()[-processes.QUOTED_LINES :])
            skeleton = "; `losslab new algorithm NAME` makes a skeleton" if algorithms else ""
            raise SourceError(
                f"{names} must compile, found:\n{messages or last}{reasons}",
                hint=f"fix it and start again{skeleton}",
            )
        if messages:
            print(messages, file=sys.stderr)
        yield tree


def _configure(folder: Path, replaced: Sequence[ReplacedFile], log: Path) -> None:
    """Set the symbols that replaced Kconfig files add."""
    kconfigs = [each for each in replaced if Path(each.path).name.startswith("Kconfig")]
    if not kconfigs:
        return
    symbols = []
    for each in kconfigs:
        kept = folder / ORIGINALS / each.path
        before = kept.read_text() if kept.is_file() else ""
        symbols += new_symbols(before, each.file.read_text(errors="replace"))
    _keep(folder, CONFIG)
    config = folder / NAME / CONFIG
    config.write_text(config.read_text() + "".join(f"CONFIG_{name}=y\n" for name in symbols))
    processes.run([*MAKE, "olddefconfig"], log=log, cwd=folder / NAME)


def _replace(folder: Path, each: ReplacedFile) -> None:
    """Replace or add a file of the tree; keep the original, even if this process is killed."""
    _keep(folder, each.path)
    _update(folder / NAME / each.path, each.file.read_bytes())


def _keep(folder: Path, name: str) -> None:
    """Keep a file of the tree, or note that there is none, until `_restore`."""
    path, kept = folder / NAME / name, folder / ORIGINALS / name
    kept.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file():
        whole = kept.with_name(f"{kept.name}.partial")
        shutil.copyfile(path, whole)
        whole.replace(kept)
    else:
        kept.with_name(kept.name + ADDED).touch()
        path.parent.mkdir(parents=True, exist_ok=True)


def _restore(folder: Path) -> None:
    """Restore the tree's own files, with new times: make must compile them again."""
    originals = folder / ORIGINALS
    for kept in originals.rglob("*"):
        path = folder / NAME / kept.relative_to(originals)
        if kept.name.endswith(ADDED):
            path.with_name(path.name.removesuffix(ADDED)).unlink(missing_ok=True)
        elif kept.is_file() and not kept.name.endswith(".partial"):
            _update(path, kept.read_bytes())
    shutil.rmtree(originals, ignore_errors=True)


def _staged(path: Path, makefile: str, names: Set[str]) -> Iterator[tuple[str, Path | None, bytes]]:
    """Yield an algorithm's files: path in the tree, the user's file if it is one, content."""
    name = path.parent.name
    if path.name == csource.FILE:
        for inside, file, text in csource.staged(path):
            yield str(IPV4 / f"{name}{SUFFIX}" / inside), file, text.encode()
        return
    if re.search(rf"\b{path.stem}\.o\b", makefile):
        raise LosslabError(
            f"an algorithm's name must differ from those in the kernel, found {shown(path)}: the "
            "kernel has a tcp_" + name,
            hint=f"rename its folder, its file and its row in config/algorithms.tsv from {name}",
        )
    content = path.read_bytes()
    if f'"{name}"'.encode() not in content:
        raise LosslabError(
            f'{shown(path)} must register an algorithm named like its folder (.name = "{name}"), '
            "found no such name"
        )
    # Which code a name has that two register would depend on their order.
    if twice := (names - {name}) & {*csource.registered(code(content.decode(errors="replace")))}:
        raise LosslabError(
            f"{shown(path)} must register no other algorithm's name, found {min(twice)}"
        )
    yield str(IPV4 / path.name), path, content


def user_source(path: str) -> Path | None:
    """Return the user's file that was compiled at a path of the tree; None for the kernel's own."""
    path = f"/{os.path.normpath(path)}"
    for each in replaced_files():
        if path.endswith(f"/{each.path}"):
            return each.file
    inside = path.rpartition(f"/{IPV4}/")[2]
    name, _, file = inside.partition(f"{SUFFIX}/src/")
    if not file:
        name, file = Path(inside).stem.removeprefix("tcp_"), Path(inside).name
    found = source_of(name).parent / file
    return found if found.is_file() else None


def _remove(tree: Path, algorithms: Sequence[Path], makefile: str) -> None:
    """Remove algorithms from a tree, which may be packed for others."""
    for path in algorithms:
        if path.name == csource.FILE:
            shutil.rmtree(tree / IPV4 / f"{path.parent.name}{SUFFIX}", ignore_errors=True)
            continue
        for made in (tree / IPV4).glob(f"*{path.stem}.*"):
            made.unlink()
    _update(tree / IPV4 / "Makefile", makefile.encode())


def _update(path: Path, content: bytes) -> None:
    """Write a file only if its content changes, because make compares times."""
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def _messages(sources: Mapping[str, Path], output: str) -> str:
    """Return the messages on files of the tree, whole, with the paths of their sources.

    A message may begin in a header, whose macro one of the files uses.
    """
    found: list[list[str]] = [[]]
    for line in output.splitlines():
        if OF_MAKE.match(line) or not line.strip():
            found.append([])
        elif FIRST.match(line) and any(map(PROBLEM.search, found[-1])):
            found.append([line])
        else:
            found[-1].append(line)
    # The linker names objects.
    names = [name for there in sources for name in (there, there.removesuffix(".c") + ".o")]
    kept = "\n".join(
        line
        for lines in found
        if any(name in line for line in lines for name in names)
        for line in lines
        if any(map(PROBLEM.search, lines))
    )
    for there, path in sources.items():
        kept = kept.replace(there, shown(path))
    return kept


def shown(path: Path) -> str:
    """Return the path of a user's file for messages."""
    folder = extensions.folder() or ROOT
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


# In the folder of a kernel with replaced files: those that no object depends on, a line each.
UNCOMPILED = "not-compiled.txt"
COMPILED = (".c", ".S", ".h")
SYMBOL = re.compile(r"^\s*(?:menu)?config\s+(\w+)")
SWITCH = re.compile(r"^\s+(?:def_)?(?:bool|tristate)\b")
# A word of a .cmd file that may be a path.
PATH = re.compile(r"[\w./+-]+\.[\w.]+")


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
