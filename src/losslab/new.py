"""`losslab init` and `losslab new`: a campaign's folder, and skeletons for what a user adds to it.

The folder's campaign uses losslab's workflow as a Snakemake module.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from losslab import extensions, processes
from losslab.campaign.results import ALGORITHMS_FILE
from losslab.errors import did_you_mean
from losslab.instrument import csource, kernel, kernels, kernelsource, kerneltree
from losslab.reading import UsageError, code, out_file, read_json, read_text
from losslab.repository import INSTALLED, ROOT, find
from losslab.study import names
from losslab.study.names import load_algorithms
from losslab.study.schemas import check_schema

TEMPLATE = "template"
ALGORITHMS = "config/algorithms.tsv"
# Snakemake's options, copied from losslab's files to a campaign's folder.
PROFILE = Path("profiles", "default", "profile.yaml")
# TCP_CA_NAME_MAX of the kernel is 16, with the zero at the end.
NAME = r"[a-z][a-z0-9_]{0,14}"
# Names in files of others, which no identifier has.
ANY_NAME = r"[A-Za-z][A-Za-z0-9_-]{0,14}"
GIT = re.compile(r"git:(.+)@([0-9a-f]{40}):(.+)")
BBR3 = "6.12-bbr3"
# A file net/ipv4/tcp_NAME.c of a kernel, which an algorithm's file would replace.
KERNELS = frozenset((
    "ao", "bbr", "bic", "bpf", "cdg", "cong", "cubic", "dctcp", "diag", "fastopen",
    "highspeed", "htcp", "hybla", "illinois", "input", "ipv4", "ipv6", "lp", "metrics",
    "minisocks", "nv", "offload", "output", "plb", "probe", "rate", "recovery", "scalable",
    "sigpool", "timer", "ulp", "vegas", "veno", "westwood", "yeah",
))  # fmt: skip
# Python modules: the folder of each kind (`extensions.KINDS`), its template, and how to measure it.
MODULES = {
    "app": ("apps", ROOT / "config/template/app.py", "--app {}"),
    "mechanism": (
        "mechanisms", ROOT / "config/template/mechanism.py", "--{}-percent 2 --rtt-ms 20"
    ),
    "scheme": (
        "schemes", extensions.PACKAGE / "emulation" / "schemes" / f"{TEMPLATE}.py",
        "--app datagram --scheme {} --trace cellular --rtt-ms 40",
    ),
}  # fmt: skip
STUDY_NAME = r"[a-z][a-z0-9]{0,39}"
# The study of `losslab init --paper`, which the template's files name.
PAPER_STUDY = "mine"
# Characters that tables, R and Markdown would not read as text.
SPECIAL = frozenset('{}`#"\\')
# Title in the study's template.
TITLE = f"The title of {TEMPLATE}"
# Distinguishable shapes (ggplot2, filled first).
SHAPES = ("15", "16", "17", "18", "3", "4", "8", "0", "1", "2", "5", "6")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `init`, `trust` and `new`."""
    folder = commands.add_parser("init")
    folder.add_argument("folder", type=Path, help="new or empty folder")
    folder.add_argument(
        "--paper", action="store_true",
        help="add a paper: a study, LaTeX with its numbers, and a workflow of GitHub that makes it",
    )  # fmt: skip
    folder.set_defaults(run=_init)
    trust = commands.add_parser("trust")
    trust.set_defaults(run=_trust)
    command = commands.add_parser("new")
    kinds = command.add_subparsers(required=True, metavar="KIND")
    made = kinds.add_parser("algorithm", help="a congestion control, compiled into the kernel")
    made.add_argument("name", help="its name in the kernel: letters, digits, _ and -")
    made.add_argument(
        "--from", dest="source", metavar="PLACE",
        help="copy a C file, a module's folder, another algorithm such as cubic, or "
        "git:ADDRESS@COMMIT:PATH, instead of Reno",
    )  # fmt: skip
    made.add_argument("--label", help="its name in figures and tables (default: NAME)")
    made.set_defaults(run=_algorithm)
    study = kinds.add_parser("study", help="cells, a figure, a table, a claim and a chapter")
    study.add_argument("name", help="its name in files: lower-case letters and digits")
    study.add_argument("--title", help="its title in the report (default: NAME)")
    study.set_defaults(run=_study)
    for kind, what in (
        ("app", "programs that make traffic, and what is measured of them"),
        ("mechanism", "what a path does to packets"),
        ("scheme", "a congestion control in Python, over UDP"),
    ):
        module = kinds.add_parser(kind, help=what)
        module.add_argument("name", help="its name: lower-case letters and digits")
        module.set_defaults(run=_module, kind=kind)


def _init(options: argparse.Namespace) -> int:
    """Write a campaign's files to a new or empty folder."""
    folder: Path = options.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"the folder must be new or empty, found files in {folder}",
            hint="name another folder; losslab overwrites nothing",
        )
    templates = ROOT / "config" / "template"
    shutil.copytree(templates / "campaign", folder, dirs_exist_ok=True)
    if options.paper:
        _copy_study(PAPER_STUDY, "The title of the study", folder)
        shutil.copytree(templates / "paper", folder, dirs_exist_ok=True)
    (folder / PROFILE).parent.mkdir(parents=True)
    shutil.copy(ROOT / PROFILE, folder / PROFILE)
    extensions.trust(folder)
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    print(
        f"Wrote {', '.join(files)} to {folder}\n"
        f"Next: cd {shlex.quote(str(folder))} && snakemake --cores all --dry-run"
    )
    return 0


def _trust(options: argparse.Namespace) -> int:
    """Let the code of the current campaign's folder run with the user's rights."""
    place = extensions.campaign()
    if place is None:
        raise UsageError(
            f"losslab trust must be started in a campaign's folder, found no {extensions.MARK} in "
            f"{Path.cwd()}",
            hint="change to the folder, or make one: `losslab init my-campaign`",
        )
    extensions.trust(place)
    modules = [str(path.relative_to(place)) for path in extensions.own_modules(place)]
    print(f"losslab loads the modules of {place}: {', '.join(modules) or 'it has none yet'}")
    return 0


def _study(options: argparse.Namespace) -> int:
    """Write a study's files to a campaign's folder or the clone."""
    name, folder = options.name, _folder()
    title = name if options.title is None else options.title
    if not re.fullmatch(STUDY_NAME, name):
        raise UsageError(f"a study's name must match {STUDY_NAME}, found {name!r}")
    _require_line("title", title)
    place = Path("studies", name)
    if find(place).exists() or (folder / place).exists():
        raise UsageError(f"a study's name must be new, found {place}")
    for path in _copy_study(name, title, folder):
        print(f"Wrote {path.relative_to(folder)}")
    if folder == ROOT:
        print(f"Next: losslab cells {name}    # the full campaign has it, by its `runs`")
    else:
        print(
            "Next: copy its `runs` to your campaign's `studies`, for example in config/config.yaml:"
        )
        print(f"        {name}: {{ main: {{ replicates: 5, duration_s: 4, warmup_s: 2 }} }}")
    print("      snakemake --cores all")
    return 0


def _copy_study(name: str, title: str, folder: Path) -> list[Path]:
    """Write the study of the template under a name; return its files."""
    place = folder / "studies" / name
    shutil.copytree(ROOT / "config" / "template" / "study", place)
    files = sorted(place.rglob("*.*"))
    for path in files:
        path.write_text(path.read_text().replace(TITLE, title).replace(TEMPLATE, name))
    return files


def _module(options: argparse.Namespace) -> int:
    """Write a module of a kind to a campaign's folder or the clone."""
    kind, name, folder = options.kind, options.name, _folder()
    place, template, measured = MODULES[kind]
    if not extensions.NAME.fullmatch(name) or len(name) > 20:
        raise UsageError(
            f"the name of a new {kind} must be at most 20 lower-case letters and digits, found "
            f"{name!r:.80}"
        )
    if name in extensions.names(place):
        raise UsageError(f"the name of a new {kind} must be new, found {name}")
    path = out_file(folder / place / f"{name}.py")
    text = template.read_text()
    path.parent.mkdir(exist_ok=True)
    path.write_text(text.replace(TEMPLATE.capitalize(), name.capitalize()).replace(TEMPLATE, name))
    print(
        f"Wrote {path.relative_to(folder)}, an example to edit\n"
        f"Next: losslab measure --algorithm cubic {measured.format(name)} --out runs/{name}"
    )
    return 0


def _algorithm(options: argparse.Namespace) -> int:
    name, source = options.name, options.source
    label, what = name if options.label is None else options.label, "a copy of Reno to edit"
    if source is None:
        path = new_algorithm(name, label, _folder())
    elif (kept := Path(source) / ALGORITHMS_FILE).is_file():
        path, what = restored(name, label, _folder(), kept), "as the run had it"
    else:
        path, notes = imported(name, label, _folder(), source)
        its = ", ".join(f"{k} ({v.default})" for k, v in names.parameters_of(name).items())
        notes += [f"its parameters are {its}"] * bool(its)
        what = "; ".join(["and copied its files", *notes])
    print(
        f"Wrote {path}, {what}\n"
        f"Added a row to {ALGORITHMS}\n"
        f"Next: losslab measure --algorithm {name} --loss-percent 1 --out runs/{name}\n"
        f"      losslab kernel --algorithm {name}    # compiles the kernel; needed once if this "
        "machine has not compiled one yet"
    )
    return 0


def _folder() -> Path:
    """Return the folder for own algorithms and studies: a campaign's, or else the clone."""
    if own := extensions.campaign():
        return own
    if INSTALLED:
        raise UsageError(
            "own algorithms and studies must be in a campaign's folder, found no "
            f"{extensions.MARK} in {Path.cwd()}",
            hint="make such a folder: `losslab init my-campaign && cd my-campaign`",
        )
    if Path.cwd() != ROOT:
        print(f"losslab: note: this folder is no campaign's: writing to {ROOT}", file=sys.stderr)
    return ROOT


def _require_line(what: str, text: str) -> None:
    """Refuse a label or title that is not one line of plain text."""
    if not text.strip() or not text.isprintable() or set(text) & SPECIAL:
        listed = " ".join(sorted(SPECIAL))
        raise UsageError(f"a {what} must be a line of text without {listed}, found {text!r:.80}")


def new_algorithm(name: str, label: str, folder: Path) -> Path:
    """Write an algorithm's file and row to a campaign's folder or the clone; return the file."""
    if not re.fullmatch(NAME, name):
        raise UsageError(f"an algorithm's name must match {NAME} (to 15 letters), found {name!r}")
    if name in KERNELS:
        raise UsageError(
            f"an algorithm's name must be new, found {name}: its file would replace the kernel's "
            f"own net/ipv4/tcp_{name}.c",
            hint=f"choose another name, such as my_{name}"[:80],
        )
    text = re.sub(rf"(?<![a-z]){TEMPLATE}", name, kernels.source_of(TEMPLATE).read_text())
    return _add(name, label, folder, {f"tcp_{name}.c": text.encode()})


def restored(name: str, label: str, folder: Path, kept: Path) -> Path:
    """Copy an algorithm from the file in which a run keeps those of its kernel; return its file."""
    texts = read_json(kept).get(name)
    if not isinstance(texts, dict) or not re.fullmatch(ANY_NAME, name):
        raise UsageError(f"the name must be of an algorithm in {kept}, found {name:.80}")
    place = (folder / "algorithms" / name).resolve()
    for each, text in texts.items():
        if not isinstance(text, str) or not (place / each).resolve().is_relative_to(place):
            raise UsageError(f"files in {kept} must be below the algorithm's, found {each:.200}")
    files = {each: text.encode(errors="surrogateescape") for each, text in texts.items()}
    return _add(name, label, folder, files)


def imported(name: str, label: str, folder: Path, place: str) -> tuple[Path, list[str]]:
    """Copy an algorithm of others with its row; return its `algorithm.toml`, and notes."""
    if not re.fullmatch(ANY_NAME, name):
        raise UsageError(
            f"an algorithm's name must match {ANY_NAME} (at most 15 characters), found {name!r}"
        )
    with _place(place) as (start, commit):
        its = start if start.is_dir() else start.parent
        made, copied, notes = csource.inspect(its, start, name)
        made = replace(made, source=place, commit=commit)
        check_schema(tomllib.loads(made.text), "algorithm", f"{name}/{csource.FILE}")
        files = {each: (its / each).read_bytes() for each in copied}
    path = _add(name, label, folder, files | {csource.FILE: made.text.encode()})
    if csource.needs_bbr3(files.values()):
        notes.append(_choose_kernel(name, folder))
    return path, notes


def _choose_kernel(name: str, folder: Path) -> str:
    """Compile an algorithm that names BBRv3's hooks on the default kernel; return a note.

    Hooks may be in a branch of `#ifdef` that is not compiled. If it does not compile, or the kernel
    has no object files here, its row gets the kernel with BBRv3.
    """
    first = kernels.get(kernels.DEFAULT, [name])
    reason = "its source names BBRv3's hooks, and was not compiled yet"
    if kernel.objects(first.base).existing() is not None:
        try:
            kernel.part(first, kernelsource.require_room).build(unpinned=True)
        except kerneltree.SourceError as error:
            said = csource.explained(error.message) or error.message.splitlines()[1:2]
            reason = f"it does not compile on {first.name}: {''.join(said[:1])}"
        else:
            return f"it compiles on {first.name}; to measure it with BBRv3's hooks, --kernel {BBR3}"
    table = folder / ALGORITHMS
    text = table.read_text()
    table.write_text(f"{text.removesuffix('default' + chr(10))}{BBR3}\n")
    return (
        f"its kernel is {BBR3} (`losslab kernel --name {BBR3}`), because {reason}; `--kernel` "
        "chooses another"
    )


def _add(name: str, label: str, folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write an algorithm's files and its row; refuse a name or label that is not new.

    Returns its `algorithm.toml`, or else its source.
    """
    names.require_free(name, ALGORITHMS)
    _require_line("label", label)
    table, place = folder / ALGORITHMS, folder / "algorithms" / name
    known = table if table.is_file() else ROOT / ALGORITHMS
    rows = load_algorithms(known)
    if name in {row["name"] for row in rows} or place.exists():
        raise UsageError(
            f"an algorithm's name must be new, found {name} in {ALGORITHMS} or algorithms/",
            hint=f"choose another name, such as my_{name}"[:80],
        )
    if label in {row["label"] for row in rows}:
        raise UsageError(f"an algorithm's label must be new, found {label} in {ALGORITHMS}")
    for path in (table, *(place / each for each in files)):
        out_file(path)
    for each, content in files.items():
        (place / each).parent.mkdir(parents=True, exist_ok=True)
        (place / each).write_bytes(content)
    colour = names.next_colour([row["colour"] for row in rows])
    shape = min(SHAPES, key=[row["shape"] for row in rows].count)
    row = "\t".join([name, label, colour, shape, kernels.DEFAULT])
    text = known.read_text().rstrip("\n")
    table.parent.mkdir(exist_ok=True)
    table.write_text(f"{text}\n{row}\n")
    main = min(files, key=lambda each: each != csource.FILE)
    return (place / main).relative_to(folder)


@contextlib.contextmanager
def _place(place: str) -> Iterator[tuple[Path, str]]:
    """Yield the file or folder that `--from` names, and its commit, if it is in git."""
    with tempfile.TemporaryDirectory(prefix="losslab-algorithm-") as name:
        start, commit = Path(place), ""
        if place.startswith("git:"):
            if not (found := GIT.fullmatch(place)):
                raise UsageError(
                    f"a place in git must be git:ADDRESS@COMMIT:PATH, found {place:.80}",
                    hint="the commit has 40 hexadecimal digits; the path of the whole is .",
                )
            address, commit, inside = found.groups()
            git = ["git", "-C", name]
            processes.run([*git, "init", "--quiet"])
            if not processes.attempt([*git, "fetch", "--depth=1", "--", address, commit]).good:
                processes.run([*git, "fetch", "--", address])
            processes.run([*git, "-c", "advice.detachedHead=false", "checkout", "-q", commit])
            start = Path(name) / inside
        if start.exists():
            try:
                yield start.resolve(), commit
            except UsageError as error:
                if commit:  # its temporary folder is gone when the user reads this
                    here, shown = Path(name).resolve(), place[: -len(inside)]
                    error.message, error.hint = (
                        text.replace(f"{here}/", shown).replace(f"{here}", f"{shown}.")
                        for text in (error.message, error.hint)
                    )
                raise
            return
        with _known_source(place) as known:
            yield known.resolve(), commit


@contextlib.contextmanager
def _known_source(name: str) -> Iterator[Path]:
    """Yield the folder of an algorithm of `algorithms/`, or the file of one of the kernel's."""
    own = kernels.source_of(name)
    if own.is_file():
        yield own.parent
        return
    known = {row["name"]: row["kernel"] for row in load_algorithms(find(ALGORITHMS))}
    its_kernel = kernels.get(known.get(name, kernels.DEFAULT)).base
    tree = kernel.objects(its_kernel).existing()
    folder = (tree or Path()) / kerneltree.NAME / kerneltree.IPV4
    # Without the lock, a file could be the change that another command tries.
    with kerneltree.own_files(tree) if tree else contextlib.nullcontext():
        files = sorted(folder.glob("tcp_*.c")) if tree else []
        own_file = [f for f in files if name in csource.registered(code(read_text(f)))]
        if not own_file:
            raise UsageError(
                f"--from must name a file, a folder or an algorithm, found no {name:.200}"
                + did_you_mean(name, known),
                hint="" if tree else "the kernel's own need its tree: "
                f"`losslab kernel --name {its_kernel.name} --algorithm gaimd` compiles it",
            )  # fmt: skip
        yield own_file[0]
