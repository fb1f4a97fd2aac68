"""Congestion controls in C from anywhere: reading them, and preparing them for a kernel's source.

The layout of a control's state (names, places and types of its fields) comes from the debugging
information of its sources, compiled a second time outside of the kernel's tree.

A folder of `algorithms/` with an `algorithm.toml` is compiled in a folder of its own below
net/ipv4, with `algorithms/compat.h` included before each file.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from losslab import processes
from losslab.instrument import makefile
from losslab.instrument.makefile import Build
from losslab.reading import (
    FIELDS,
    UsageError,
    code,
    module_parameters,
    option_fields,
    read_rows,
    read_text,
    read_toml,
    repeats,
)
from losslab.repository import ROOT

FILE = "algorithm.toml"
COMPAT = ROOT / "algorithms" / "compat.h"
# Source of an algorithm's options of sockets, without its ending.
OPTIONS = "losslab_options"
# A constant that a module compares with the name of an option.
OPTION = re.compile(r"\bopt(?:name)?\s*==\s*([A-Z]\w+)|\bcase\s+(TCP_\w+)\s*:")
# The compiler's options for the lines in a crash's message. Without the map, the binary's build ID
# would depend on the kept tree's path; the last keeps the function of a tail call on the stack.
DEBUG_INFO = "-g -fdebug-prefix-map=$(CURDIR)=. -fno-optimize-sibling-calls"
NAME_BYTES = 15  # TCP_CA_NAME_MAX without the zero at the end
# Headers that the kernel's net/ipv4 has for its own algorithms.
OF_KERNEL = {"tcp_vegas.h", "tcp_dctcp.h"}
# Hooks of struct tcp_congestion_ops whose type differs between versions (`compat.h`).
HOOKS = ("cong_control", "pkts_acked", "cong_avoid", "get_info")
OPS = re.compile(
    r"(?:static\s+|const\s+)*struct\s+tcp_congestion_ops\s+\w+[^={};()]*=\s*\{.*?\}\s*;", re.DOTALL
)
# Of a module; a kernel warns of two in files that are one part of it.
VERSION = re.compile(r"\bMODULE_VERSION\s*\([^()\n]*\)\s*;")
EXPORTED = re.compile(r"\bEXPORT_SYMBOL(?:_GPL)?\s*\(\s*(\w+)\s*\)")
INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
OLD_CLOCK = re.compile(r"\btcp_time_stamp\b(?!\s*\()")
TIMESTAMP = re.compile(r"\brcv_ts(?:val|ecr)\b")
# A function's body, which ends at the first brace in the first column.
BODY = re.compile(r"^[^\n#]*\)\s*\n?\{.*?^\}", re.MULTILINE | re.DOTALL)
# A function that other files may call, its type perhaps on another line; calls that open a file.
DEFINED = re.compile(
    r"^(?:(?!static\b)[A-Za-z_]\w*[\s*]+)+(\w+)\s*\([^;{}()]*\)\s*\{", re.MULTILINE
)
OPENING = re.compile(r"\b(filp_open|kernel_read(?:_file\w*)?|request_firmware\w*)\s*\(")
# The time before a message of the kernel; string literals, which may be joined; a conversion of
# printk; and what a message's prefix may add before a format.
TIMED = re.compile(r"^\[ *[0-9.]+\] ")
LITERALS = re.compile(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+')
CONVERSION = re.compile(r"%[-+ #0-9.*]*(?:hh|ll|[hlLzt])?(?:p\w*|[a-zA-Z])")
PREFIX = r"(?:\S+ ?)?"
# Fewer letters could be of any message.
FORMAT_LETTERS = 4
NEW_KERNEL = re.compile(
    r"\.tso_segs\b|\bfast_ack_mode\b|\bskb_marked_lost\b|TCP_CONG_WANTS_CE_EVENTS"
)
# What no kernel of losslab can run: a pattern, and the reason.
IMPOSSIBLE = (
    (r'SEC\s*\(\s*"struct_ops|vmlinux\.h|bpf_helpers\.h',
     "it is a BPF program (struct_ops), which needs the JIT compiler that User-Mode Linux lacks"),
    (r"net/mptcp\.h|\bmptcp_cb\b|\bMPTCP_",
     "it is a scheduler or a control of the MPTCP outside Linux, which needs that kernel"),
)  # fmt: skip
# Patterns of the compiler's messages, and what to say about them.
CHANGES = ROOT / "config" / "compiler-messages.tsv"


@dataclass(frozen=True)
class Algorithm:
    """Content of an `algorithm.toml`."""

    folder: Path
    registers: str
    sources: Sequence[str]
    flags: Sequence[str] = ()
    parameters: Mapping[str, Any] | None = None
    socket_options: Sequence[Mapping[str, Any]] = ()
    source: str = ""
    commit: str = ""
    licence: str = ""
    file_flags: Mapping[str, Sequence[str]] | None = None  # by source, in addition

    @property
    def text(self) -> str:
        """The content of its file."""
        words = {key: value for key, value in vars(self).items() if key != "folder"}
        tables = {key: words.pop(key) for key in ("parameters", "file_flags")}
        lines = [f"{key} = {_toml(value)}" for key, value in words.items() if value]
        for key, table in tables.items():
            lines += ["", f"[{key}]"] if table else []
            lines += [f"{k if k.isidentifier() else _toml(k)} = {_toml(v)}"
                      for k, v in (table or {}).items()]  # fmt: skip
        return "\n".join([*lines, ""])


def _toml(value: Any) -> str:
    if isinstance(value, str | int):  # TOML has JSON's texts and integers
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{k} = {_toml(v)}' for k, v in value.items())} }}"
    return f"[{', '.join(map(_toml, value))}]"


def read(path: Path) -> Algorithm:
    """Read an `algorithm.toml`, whose schema is checked before (`study.design.load_names`)."""
    try:
        found = Algorithm(path.parent, **read_toml(path))
    except TypeError as error:
        raise UsageError(
            f"{path} must follow workflow/schemas/algorithm.schema.yaml, found: {error}"
        ) from error
    missing = [name for name in found.sources if not (path.parent / name).is_file()]
    if missing:
        raise UsageError(f"sources of {path} must exist, found no {', '.join(missing)}")
    return found


def files(path: Path) -> dict[str, Path]:
    """Return the files that an algorithm is made of, by their names in provenance and hashes."""
    if path.name != FILE:
        return {path.name: path}
    own = (each for each in path.parent.rglob("*") if each.suffix in {".c", ".h", ".toml"})
    found = {f"{path.parent.name}/{each.relative_to(path.parent)}": each for each in sorted(own)}
    return found | {COMPAT.name: COMPAT}


def untimed(line: str) -> str:
    """Return a message of the kernel without its time."""
    return TIMED.sub("", line)


def printed(lines: Sequence[str], modules: Iterable[Path]) -> list[str]:
    """Return those of the kernel's messages that modules have printed.

    They have the format of one of a module's string literals, or come while its init function runs,
    which `compat.h` marks.
    """
    formats = [pattern for path in modules for pattern in _formats(path)]
    names, inside, kept = {path.parent.name for path in modules}, "", []
    for line in lines:
        text = untimed(line)
        if mark := re.fullmatch(r"losslab: init of (\S+) (begins|returned .*)", text):
            inside = mark[1] if mark[2] == "begins" else ""
        elif not text.startswith("losslab: ") and (
            inside in names or any(pattern.fullmatch(text) for pattern in formats)
        ):
            kept.append(line)
    return kept


def _formats(path: Path) -> Iterator[re.Pattern[str]]:
    """Yield a pattern for each string literal of a module that a message could be made from."""
    for file in files(path).values():
        if file.suffix not in {".c", ".h"} or file == COMPAT:
            continue
        for literals in LITERALS.findall(code(read_text(file))):
            text = re.sub(r'"\s*"', "", literals.strip())[1:-1]
            parts = CONVERSION.split(re.sub(r"(\\[nt])+$", "", text).replace("%%", "%"))
            if sum(char.isalpha() for char in "".join(parts)) >= FORMAT_LETTERS:
                yield re.compile(PREFIX + ".*".join(map(re.escape, parts)))


def registered(text: str, called: bool = False) -> list[str]:
    """List the names of a source's structs, or of those that it registers; "" if unknown."""
    macros = dict(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.+)$", text, re.MULTILINE))
    found = []
    for each in OPS.findall(text):
        # dctcp has a second struct, to which it falls back.
        variable = re.findall(r"tcp_congestion_ops\s+(\w+)", each)[0]
        if called and not re.search(rf"_congestion_control\s*\(\s*&{variable}\b", text):
            continue
        value = (re.findall(r"\.?\bname\s*[=:]\s*((?:\"[^\"]*\"|[^,}\"=;])+)", each) or [""])[0]
        for _ in macros:
            value = re.sub(r"\b[A-Za-z_]\w*\b(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)",
                           lambda word: macros.get(word[0], word[0]), value)  # fmt: skip
            if value.strip().startswith('"'):
                break
        found.append("".join(re.findall(r'"([^"]*)"', value)))
    return found


def sources(folder: Path, start: Path, name: str, build: Build) -> list[str]:
    """List the sources of the module that registers a name, or else of the only one.

    A folder of `algorithms/` declares them. Modules are those of the Makefile, and then each file
    that registers one. Raises UsageError if several could be meant.
    """
    if declared := _declared(folder, start):
        return list(declared.sources)
    modules = [its for its in build.modules if any(_registers(folder / each) for each in its)]
    if start != folder:
        modules = [its for its in modules if str(start.relative_to(folder)) in its]
        named = [its for its in modules if name in _names(folder, its)]
        return (named or modules or [[start.name]])[0]
    linked = {each for its in build.modules for each in its}
    files = [[str(path.relative_to(folder))] for path in sorted(folder.rglob("*.c"))
             if _registers(path)]  # fmt: skip
    alone = [its for its in files if its[0] not in linked]
    named = [its for its in modules if name in _names(folder, its)]
    named = named or [its for its in alone if name in _names(folder, its)]
    modules = named or modules or [its for its in alone if "/" not in its[0]]
    if len(modules) > 1:
        listed = {each: its for its in modules for each in _names(folder, its) or [its[0]]}
        shown = ", ".join(f"{each} ({' '.join(its)})" for each, its in listed.items())
        first = next((each for its in modules for each in its if _registers(folder / each)), "")
        raise UsageError(
            f"{folder} must have one congestion control that registers {name}, found "
            + (f"{len(named)}: {shown}" if named else shown),
            hint=f"name one file: --from {folder}/{first}"
            if named
            else f"choose one of them: losslab new algorithm {next(iter(listed))}, or name its "
            f"file: --from {folder}/{first}",
        )
    return modules[0] if modules else []


def _with_exporters(folder: Path, its: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return a module's sources with those of modules that export what it calls, and the new ones.

    A module that registers a congestion control itself stays another one.
    """
    found = [*its]
    while True:
        texts = [(folder / each).read_text(errors="replace")
                 for each in found if (folder / each).is_file()]  # fmt: skip
        whole = "\n".join(map(code, texts))
        for called, file in _elsewhere(folder, "*.c", found, whole):
            text = code((folder / file).read_text(errors="replace"))
            if called in EXPORTED.findall(text) and not _registers(folder / file):
                found.append(file)
                break
        else:
            return found, found[len(its) :]


def _elsewhere(
    folder: Path, below: str, found: Sequence[str], whole: str
) -> Iterator[tuple[str, str]]:
    """Yield functions that sources call but that only another file of the folder has."""
    defined = {*DEFINED.findall(whole)}
    for path in sorted(folder.glob(below)):
        file = str(path.relative_to(folder))
        if file not in found:
            for name in DEFINED.findall(code(path.read_text(errors="replace"))):
                if name not in defined and re.search(rf"\b{name}\s*\(", whole):
                    yield name, file


def _names(folder: Path, its: Iterable[str]) -> list[str]:
    """List the names that a module's files register."""
    text = "\n".join(code((folder / each).read_text(errors="replace"))
                     for each in its if (folder / each).is_file())  # fmt: skip
    return [each for each in dict.fromkeys(registered(text, True) or registered(text)) if each]


def _declared(folder: Path, start: Path) -> Algorithm | None:
    """Return the declaration of a whole folder of `algorithms/`, which may have none."""
    file = folder / FILE
    return read(file) if start == folder and file.is_file() else None


def _registers(path: Path) -> bool:
    text = code(path.read_text(errors="replace")) if path.is_file() else ""
    return "tcp_register_congestion_control" in text or bool(OPS.search(text))


def included(folder: Path, start: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the files that sources include with quotes, themselves first, and missing ones."""
    found, missing, left = [], [], list(start)
    while left:
        name = os.path.normpath(left.pop(0))
        own = (folder / name).is_file()
        if name in found or name in missing or (Path(name).name in OF_KERNEL and not own):
            continue
        # A file outside of the folder would be copied to outside of its copy.
        if name.startswith("..") or Path(name).is_absolute() or not own:
            missing.append(name)
            continue
        found.append(name)
        text = code((folder / name).read_text(errors="replace"))
        for each in INCLUDED.findall(text):
            near = Path(name).parent / each
            # A Makefile's -I may name any folder; those of headers are searched (`staged`).
            below = [path.relative_to(folder) for path in sorted(folder.rglob(Path(each).name))
                     if path.match(each)]  # fmt: skip
            places = [near, Path(each), *below]
            left.append(str(next((p for p in places if (folder / p).is_file()), each)))
    return found, missing


def inspect(folder: Path, start: Path, name: str) -> tuple[Algorithm, list[str], list[str]]:
    """Return the algorithm of a file or folder, its files, and notes for its user.

    Raises UsageError if it cannot become a part of a kernel, and says why.
    """
    every = (
        [start] if start != folder else [p for p in folder.rglob("*") if p.suffix in (".c", ".h")]
    )
    whole = "\n".join(code(path.read_text(errors="replace")) for path in every)
    declared = _declared(folder, start)
    build = Build() if declared else makefile.read(folder)
    its = sources(folder, start, name, build)
    its, exporters = (its, []) if declared else _with_exporters(folder, its)
    none = not any(_registers(folder / each) for each in its)
    for pattern, reason in IMPOSSIBLE:
        if (none or start != folder) and re.search(pattern, whole):
            raise UsageError(f"{start} cannot be compiled into a kernel: {reason}")
    if start != folder and start.suffix != ".c":
        raise UsageError(
            f"an algorithm must be a C file or a module's folder, found {start.name}",
            hint="for a patch of the kernel, see docs/how-to/modules.md and docs/how-to/check.md",
        )
    if none:
        below = [each.parent for each in every if _registers(each)]
        raise UsageError(
            f"{start} must have a struct tcp_congestion_ops, found none in "
            f"{', '.join(each.name for each in every if each.parent == folder) or 'it'}",
            hint=f"name the folder that has one: --from {below[0]}"
            if below
            else "a program that sends by itself runs with `--app command`, see "
            "docs/how-to/programs.md; a patch of the kernel, with docs/how-to/modules.md",
        )
    found, missing = included(folder, its)
    if missing:
        raise UsageError(
            f"{start} must have the files that it includes, found no {', '.join(missing)} in "
            f"{folder}",
            hint=(
                "its Makefile makes it: run make there first"
                if any(
                    Path(missing[0]).name in read_text(folder / each)
                    for each in makefile.NAMES
                    if (folder / each).is_file()
                )
                else "put them there"
                + " (`git submodule update --init` gets those of .gitmodules)"
                * (folder / ".gitmodules").is_file()
            )
            + (f", or name a folder: --from {folder}" if start != folder else ""),
        )
    whole = "\n".join(code((folder / each).read_text(errors="replace")) for each in found)
    names = [each for each in dict.fromkeys(registered(whole, True) or registered(whole)) if each]
    if name not in names and len(names) > 1:
        raise UsageError(
            f"{start} must register one name (.name), or {name}, found {', '.join(names)}",
            hint=f"choose one of them: losslab new algorithm {names[0]}",
        )
    if long := [each for each in names if len(each.encode()) > NAME_BYTES]:
        raise UsageError(
            f"the name that {start} registers (.name) must have at most {NAME_BYTES} characters, "
            f"the kernel's limit, found {long[0]}",
            hint="shorten it there; here its name is yours",
        )
    licence = re.findall(r'MODULE_LICENSE\s*\(\s*"([^"]*)"', whole)
    given = build.flags
    of_files = {each: flags for each, flags in build.file_flags.items() if each in its}
    parameters: dict[str, Any] = {each: kind for each, kind, _, _ in module_parameters(whole)}
    if declared:
        given, of_files = (
            [*declared.flags],
            {k: [*v] for k, v in (declared.file_flags or {}).items()},
        )
        parameters = parameters | dict(declared.parameters or {})
    options = declared.socket_options if declared else ()
    notes = [f"its name is in macros, and must be {name}"] * (not names)
    names = names or [name]
    notes += [f"it registers {names[0]}; here its name is {name}"] * (name not in names)
    notes += build.notes
    notes += [f"{file} exports what it calls, so it is a part of it" for file in exporters]
    # A single file may be in a folder of anything.
    others = _elsewhere(folder, "**/*.c" if start == folder else "*.c", found, whole)
    notes += [f"it calls {name} of {file}, which is not copied: copy it, and add it to sources in "
              f"{FILE}" for name, file in others]  # fmt: skip
    notes += [f"it opens a file ({each}), and runs without it: the guest has no such file"
              for each in dict.fromkeys(OPENING.findall(whole))]  # fmt: skip
    notes += ["it has no MODULE_LICENSE"] * (not licence)
    if re.search(r"\b(?:double|float)\b", whole):
        notes.append("it uses floating point, which kernels other than User-Mode Linux refuse")
    if not options and re.search(r"\bset_?sockopt\b", whole):
        taken = dict.fromkeys("".join(found) for found in OPTION.findall(whole))
        notes.append(
            f"it takes options of sockets{''.join(f', {each}' for each in taken)}: declare in "
            f"{FILE} those that each connection needs ([[socket_options]])"
        )
    made = Algorithm(folder, name if name in names else names[0], its, given, parameters, options,
                     licence=(licence or [""])[0], file_flags=of_files)  # fmt: skip
    return made, found, notes


def needs_bbr3(sources: Iterable[bytes]) -> bool:
    """Return whether a source uses what only kernels with BBRv3 have."""
    return any(NEW_KERNEL.search(code(its.decode(errors="replace"))) for its in sources)


def prepared(text: str) -> str:
    """Return a source with the hooks of its structs in macros of `compat.h`; lines are kept."""
    defined = set[tuple[str, str]]()  # structs that share a function have one definition of it

    def hooks(found: re.Match[str]) -> str:
        before, ops = "", found[0].replace(".tso_segs_goal", ".min_tso_segs")
        for hook in HOOKS:
            uses = re.findall(rf"\.{hook}\s*=\s*([A-Za-z_]\w*)\s*(?=[,}}])", ops)
            if len(uses) == 1 and uses[0] not in {"NULL", "tcp_reno_cong_avoid"}:
                if (hook, uses[0]) not in defined:
                    before += f"LOSSLAB_DEFINE_{hook}({uses[0]}) "
                defined.add((hook, uses[0]))
                use = rf"(\.{hook}\s*=\s*)({uses[0]})\b"
                ops = re.sub(use, rf"\1LOSSLAB_USE_{hook}(\2)", ops)
        return before + ops

    # Before Linux 4.13 a macro, the clock's ticks, of which TCP's timestamps consisted, too; since
    # then a function. Timestamps are milliseconds now: what computes with them needs their unit.
    if OLD_CLOCK.search(text):
        text = BODY.sub(lambda body: _timestamps(body[0]), text)
        text = OLD_CLOCK.sub("tcp_jiffies32", text)
    return OPS.sub(hooks, VERSION.sub("", text))


def _timestamps(body: str) -> str:
    """Return a function that uses received timestamps with their unit instead of the clock's."""
    if not TIMESTAMP.search(body):
        return body
    statements = re.split(r"([;{}])", body)
    for number, each in enumerate(statements):
        if TIMESTAMP.search(each):
            statements[number] = OLD_CLOCK.sub("((u32)tcp_clock_ms())", each)
    return re.sub(r"\bHZ\b", "TCP_TS_HZ", "".join(statements))


def digest_staged(path: Path) -> str:
    """Return the SHA-256 of an algorithm's folder as it is in the kernel."""
    parts = ((place, content) for place, _, content in staged(path))
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()


def staged(path: Path) -> Iterator[tuple[str, Path | None, str]]:
    """Yield the files of an algorithm's folder in the kernel: name there, its file, content."""
    its = read(path)
    name = path.parent.name
    texts = {
        each.relative_to(path.parent): read_text(each)
        for each in sorted(path.parent.rglob("*"))
        if each.suffix in {".c", ".h"}
    }
    for where, text in texts.items():
        yield f"src/{where}", path.parent / where, prepared(text)
    whole = "\n".join(map(code, texts.values()))
    words = ["-Wno-missing-prototypes", "-Wno-missing-declarations", *its.flags]
    words += [f'-DLOSSLAB_NAME=\\"{name}\\"', f'-DLOSSLAB_REGISTERS=\\"{its.registers}\\"']
    words += ["-DLOSSLAB_PR_FMT"] * bool(re.search(r"#\s*define\s+pr_fmt\b", whole))
    # A copy of a kernel's file exports the same names.
    prefix = f"losslab_{re.sub(r'[^A-Za-z0-9]', '_', name)}"
    words += [f"-D{symbol}={prefix}_{symbol}" for symbol in sorted({*EXPORTED.findall(whole)})]
    here = f"$(srctree)/net/ipv4/{path.parent.name}.losslab"
    objects = " ".join(f"src/{each.removesuffix('.c')}.o" for each in its.sources)
    folders = sorted({f"src/{each.parent}" for each in texts if each.suffix == ".h"} - {"src/."})
    words += [f"-I{here}/{each}" for each in ("src", *folders)]
    if its.socket_options:
        fields = [f for each in its.socket_options for f in option_fields(each["value"])]
        named = [
            *(name for _, name, _ in fields if name),
            *(p[0] for p in module_parameters(whole)),
        ]
        if twice := repeats(named):
            raise UsageError(
                f"parameters of {path} must have different names, found twice: {twice}",
                hint="name the number of the socket option otherwise",
            )
        words.append(f"-DLOSSLAB_OPTIONS={prefix}_options")
        objects += f" {OPTIONS}.o"
        yield f"{OPTIONS}.c", None, option_code(its)
    yield COMPAT.name, None, read_text(COMPAT)
    yield (
        "Makefile", None,
        f"obj-y := tcp_{name}.o\ntcp_{name}-y := {objects}\n"
        f"ccflags-y := {DEBUG_INFO} {' '.join(words)} -I$(srctree)/net/ipv4 "
        f"-include {here}/{COMPAT.name}\n"
        + "".join(f"CFLAGS_src/{each.removesuffix('.c')}.o := {' '.join(flags)}\n"
                  for each, flags in (its.file_flags or {}).items()),
    )  # fmt: skip


def option_code(its: Algorithm) -> str:
    """Return the C source that sets an algorithm's options on a socket (`compat.h`)."""
    parameters, values, calls = [], [], []
    for number, option in enumerate(its.socket_options):
        members, content = [], []
        for at, (kind, name, value) in enumerate(option_fields(option["value"])):
            if kind == "hex":
                members.append(f"u8 f{at}[{len(value) // 2}];")
                content.append(f"{{ {', '.join(map(str, bytes.fromhex(value)))} }}")
                continue
            suffix = {"u32": "U", "u64": "ULL", "s64": "LL"}.get(kind, "")
            members.append(f"{kind} f{at};")
            content.append(f"losslab_{name}" if name else f"{value}{suffix}")
            if name:
                its_type = FIELDS[kind][0]
                parameters += [
                    f"static {'long' if kind == 's64' else kind} losslab_{name} = {value}{suffix};",
                    f"module_param_named({name}, losslab_{name}, {its_type}, 0644);",
                ]
        values.append(
            f"\tstruct {{ {' '.join(members)} }} __packed v{number} = {{ {', '.join(content)} }};"
        )
        where = f"{option['level']}, {option['name']}"
        calls.append(f"\tlosslab_option(sk, {where}, &v{number}, sizeof(v{number}));")
    lines = [*parameters, "", "void LOSSLAB_OPTIONS(struct sock *sk)", "{", *values, "", *calls]
    return "\n".join([*lines, "}", ""])


def explained(messages: str) -> list[str]:
    """List what changed in Linux, or is impossible in it, that explains a compiler's messages."""
    rows = read_rows(CHANGES, "\t")
    return [row["reason"] for row in rows if re.search(row["message"], messages)]


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


def typed_layouts(content: Mapping[str, Iterable[Sequence[Any]]]) -> Layouts:
    """Return layouts from JSON; ValueError or TypeError if they are none."""
    found = {name: [Field(*each) for each in fields] for name, fields in content.items()}
    for each in (each for fields in found.values() for each in fields):
        placed = isinstance(each.begin, int) and each.begin >= 0 and TYPE.fullmatch(each.type)
        if not (placed and isinstance(each.name, str) and isinstance(each.names, Mapping)):
            raise ValueError(f"a field must have a name, a first bit and a type, found {each}")
    return found


def layouts_text(layouts: Layouts) -> str:
    """Return layouts as JSON with one algorithm per line."""
    rows = [
        f"{json.dumps(name)}: {json.dumps([each if each.names else each[:3] for each in fields])}"
        for name, fields in sorted(layouts.items())
    ]
    return "{\n" + ",\n".join(rows) + "\n}"


def layout(tree: Path, paths: Sequence[Path]) -> list[Field]:
    """Return the layout of the state that sources get from their sockets; the largest of several.

    A congestion control that embeds another's state has it at the beginning of its own.
    """
    found: list[tuple[dict[int, Entry], Entry]] = []
    for path in paths:
        if wanted := pointed(code(read_text(path))):
            found += structures(_debugging_information(tree, path), wanted)
    if not found:
        return []
    types, largest = max(found, key=lambda each: each[1].number("byte_size"))
    return sorted(_fields(types, largest, "", 0), key=lambda each: each.begin)


def pointed(source: str) -> set[str]:
    """Return the names of the types as which a source uses a socket's state."""
    variables = {*POINTER.findall(source)}
    patterns = [re.compile(POINTED.format(name)) for name in variables]
    return {name for pattern in (*TYPES, *patterns) for name in pattern.findall(source)}


def _debugging_information(tree: Path, path: Path) -> str:
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


def structures(dump: str, names: set[str]) -> Iterator[tuple[dict[int, Entry], Entry]]:
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
