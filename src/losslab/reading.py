"""Readers of input files and options, with errors that name the place.

Every reader raises only `UsageError` for input that it does not accept.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import json
import os
import re
import shutil
import struct
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.errors import HostError, LosslabError, did_you_mean
from losslab.moved import now_at

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]
    Samples = dict[str, Numbers]

# Limits of a file's size. The longest configuration file of the repository has 30 kB, a manifest
# some 10 kB, and the longest table of a large campaign some 100 MB.
CONFIG_BYTES = 2**20
RESULT_BYTES = 2**26
TABLE_BYTES = 2**30
CONFIG_SUFFIXES = (".yaml", ".yml", ".json")
# All control characters but tabs and line ends: editors hide them, and terminals execute some. A
# byte order mark would become part of a table's first column.
GZIP = b"\x1f\x8b"
PCAPNG = b"\x0a\x0d\x0d\x0a"
# First word of a capture in either byte order, and its ticks per second.
PCAP = {
    struct.pack(f"{order}I", magic): (order, ticks)
    for order in "<>"
    for magic, ticks in ((0xA1B2C3D4, 1_000_000), (0xA1B23C4D, 1_000_000_000))
}
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
# Measured numbers are shorter, and Python takes quadratic time to parse long integers.
MAX_NUMBER_LENGTH = 40
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
PARAMETER = re.compile(r"\bmodule_param(?!_desc)(\w*)\s*\(((?:[^()]|\([^()]*\))*)\)\s*;")
MACRO = re.compile(r"^[ \t]*#[ \t]*define\b(?:[^\\\n]|\\.)*(?:\\\n(?:[^\\\n]|\\.)*)*", re.MULTILINE)
# Numbers of a socket option's value: the type of a module's parameter, the smallest, the next
# after the largest.
FIELDS = {
    "u8": ("byte", 0, 2**8), "u16": ("ushort", 0, 2**16), "u32": ("uint", 0, 2**32),
    "u64": ("ullong", 0, 2**64), "s32": ("int", -(2**31), 2**31), "s64": ("long", 1 - 2**63, 2**63),
}  # fmt: skip
# Larger than all meaningful numbers; a float can hold its square.
LARGEST = 1e100
MAX_SHOWN_LENGTH = 60
# No configuration nests deeper; libyaml's C code would overflow the stack.
MAX_DEPTH = 100
# Values of a YAML file, with those that aliases repeat. The largest file of the repository has some
# thousands.
MAX_NODES = 100_000
# With less free space, a run cannot be written.
MIN_FREE_BYTES = 4 * 2**20


class UsageError(LosslabError):
    """An error in the command line or an input file, found before anything ran."""


@contextlib.contextmanager
def input_errors() -> Iterator[None]:
    """Convert errors of the block, which come from a user's input, to `UsageError`."""
    try:
        yield
    except (UsageError, HostError):
        raise
    except LosslabError as error:
        raise UsageError(error.message, hint=error.hint) from error


def read_bytes(path: Path, max_bytes: int, hint: str = "") -> bytes:
    """Read a regular file."""
    try:
        if path.exists() and not path.is_file():  # opening a pipe would block
            raise UsageError(f"{path} must be a file, found a folder, a pipe or a device")
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except FileNotFoundError as error:
        raise UsageError(f"{path} does not exist{now_at(path)}") from error
    except (OSError, ValueError) as error:
        found = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path} must be a readable file, found: {found}") from error
    if len(data) > max_bytes:
        raise UsageError(f"{path} must have at most {max_bytes} bytes, found more", hint)
    return data


def read_text(path: Path, max_bytes: int = CONFIG_BYTES) -> str:
    """Read a regular text file in UTF-8; errors name the line."""
    data = read_bytes(path, max_bytes)
    if data.startswith(GZIP):
        raise UsageError(
            f"{path} must be text, found a file compressed with gzip",
            hint="unpack it with `gunzip --keep`",
        )
    if data.startswith((*PCAP, PCAPNG)):
        raise UsageError(
            f"{path} must be text, found a capture of packets",
            hint="`losslab path from-capture` and `losslab compare` read captures",
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{path} must be UTF-8, found byte 0x{data[error.start]:02X} in line {line}",
            hint="save it as UTF-8, for example with `iconv -f LATIN1 -t UTF-8`",
        ) from error
    if match := CONTROL.search(text):
        line = text.count("\n", 0, match.start()) + 1
        raise UsageError(
            f"{path} must be text, found the control character 0x{ord(match[0]):02X} in line "
            f"{line}",
            hint="save it as UTF-8 without a byte order mark",
        )
    return text


def read_json(path: Path, max_bytes: int = RESULT_BYTES) -> Any:
    """Read a JSON file; errors as for `parse_json` and `read_text`."""
    return parse_json(read_text(path, max_bytes), str(path))


def read_config(path: Path) -> Any:
    """Read a configuration as Snakemake does: JSON if the name ends in .json, or else YAML.

    The error for a missing file names its new place, or similar ones of its folder.
    """
    if not path.exists():
        # Names are compared without their suffixes, which would make all of them similar.
        folders = (path.parent, path.parent / "campaigns")
        others = (
            each
            for place in folders
            for each in place.glob("*")
            if each.suffix in CONFIG_SUFFIXES and not now_at(each)
        )
        similar = [str(each) for each in others if did_you_mean(path.stem, [each.stem])]
        place = now_at(path) or did_you_mean(str(path), similar)
        raise UsageError(f"{path} does not exist{place}")
    content = read_json(path, CONFIG_BYTES) if path.suffix == ".json" else read_yaml(path)
    # Snakemake itself reads the file first, and would only say that it does not exist.
    if isinstance(content, dict) and content.keys() == {"moved"}:
        raise UsageError(f"{path} has moved: it is now {content['moved']}")
    return content


def parse_json(text: str, where: str, duplicates: bool = False) -> Any:
    """Parse JSON with finite numbers; `where` names the file or option.

    Keys must be unique. With `duplicates`, the last value of a key counts.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            raise ValueError(f"keys must be unique, found {repeats(k for k, _ in pairs)} twice")
        return mapping

    with _syntax("JSON", where):
        data = json.loads(text, object_pairs_hook=None if duplicates else unique)
        json.dumps(data, allow_nan=False)  # refuses NaN and infinities
    return data


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; reject numbers that are not finite."""
    import tomllib

    text = read_text(path)
    with _syntax("TOML", str(path)):
        data = tomllib.loads(text)
        json.dumps(data, allow_nan=False, default=str)
    return data


def read_yaml(path: Path) -> Any:
    """Read a YAML file; errors as for `parse_yaml` and `read_text`."""
    return parse_yaml(read_text(path), str(path))


def parse_yaml(text: str, where: str) -> Any:
    """Parse one YAML document of mappings with unique text keys, lists and scalars.

    Scalars have YAML 1.2's types: `no`, `1:30` and dates are text, and the schemas refuse text in
    the place of a number. `where` names the file in errors.
    """
    import yaml

    with _syntax("YAML", where, yaml.YAMLError):
        _require_size(yaml.parse(text, _yaml_loader()))
        data = yaml.load(text, _yaml_loader())
        json.dumps(data, allow_nan=False)  # refuses an alias to its own node, too
    return data


def _require_size(events: Iterable[Any]) -> None:
    """Refuse a YAML document that is nested too deeply, or too large with all aliases expanded.

    An alias repeats its anchor's nodes: 300 bytes may stand for a billion values.
    """
    import yaml

    nodes = 0  # with those that aliases repeat
    sizes: dict[str, int] = {}  # nodes below each anchor
    open_nodes: list[tuple[str | None, int]] = []  # anchor, and the nodes before it
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor is not None:
                sizes[anchor] = nodes - before
        elif isinstance(event, yaml.AliasEvent):
            nodes += sizes.get(str(event.anchor), 1)
        elif isinstance(event, yaml.NodeEvent):
            nodes += 1
            if isinstance(event, yaml.CollectionStartEvent):
                open_nodes.append((event.anchor, nodes - 1))
            elif event.anchor is not None:
                sizes[event.anchor] = 1
        if len(open_nodes) > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} nested lists or mappings")
        if nodes > MAX_NODES:
            raise ValueError(f"more than {MAX_NODES} values, with those that aliases repeat")


@contextlib.contextmanager
def _syntax(language: str, where: str, *others: type[Exception]) -> Iterator[None]:
    # ValueError: errors of JSON, TOML and Unicode, and Python's limit of an integer's digits.
    errors: tuple[type[Exception], ...] = (ValueError, TypeError, RecursionError, *others)
    try:
        yield
    except errors as error:
        raise UsageError(f"{where} must be {language}, found: {error}") from error


@functools.cache
def _yaml_loader() -> Any:
    """Return the loader, on libyaml where PyYAML has it: it takes a tenth of the time."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            found = [shown(key) for key in keys if not isinstance(key, str)]
            what = f"keys must be text, found {', '.join(found)} (quote it)" if found else ""
            if repeated := not found and repeats(keys):
                what = f"keys must be unique, found {repeated} twice"
            if what:
                raise yaml.MarkedYAMLError(problem=what, problem_mark=node.start_mark)
            mapping: dict[Any, Any] = super().construct_mapping(node, deep)
            return mapping

    # The core schema of YAML 1.2, with decimal integers only.
    for tag, pattern, first in (
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
        ("int", r"[-+]?(0|[1-9]\d*)", list("-+0123456789")),
        ("float", r"[-+]?(\.\d+|(0|[1-9]\d*)(\.\d*)?)([eE][-+]?\d+)?", list("-+.0123456789")),
    ):
        regex = re.compile(rf"(?:{pattern})\Z", re.ASCII)
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", regex, first)
    return Loader


def read_rows(
    path: Path, delimiter: str = ",", columns: Iterable[str] = (), max_bytes: int = TABLE_BYTES
) -> list[dict[str, str]]:
    """Read a table whose first line names the columns, which must include `columns`."""
    lines = csv.reader(
        io.StringIO(read_text(path, max_bytes), newline=""), delimiter=delimiter, strict=True
    )
    rows = []
    try:
        head = next(lines, [])
        if not head:
            raise UsageError(f"{path} must name its columns in its first line, found none")
        if repeated := repeats(head):
            raise UsageError(f"columns must be unique, found {repeated} twice in {path}")
        if missing := [name for name in columns if name not in head]:
            raise UsageError(
                f"{path} must have the columns {', '.join(missing)}, found {shown(', '.join(head))}"
            )
        for fields in filter(None, lines):
            if len(fields) != len(head):
                raise UsageError(
                    f"{path}, line {lines.line_num} must have {len(head)} fields, one for each "
                    f"column, found {len(fields)}"
                )
            rows.append(dict(zip(head, fields, strict=True)))
    except csv.Error as error:
        raise UsageError(
            f"{path}, line {lines.line_num} is not a valid row: {shown(str(error))}"
        ) from error
    return rows


def read_samples(path: Path) -> Samples:
    """Read a measured table of numbers by column; an empty field is NaN."""
    import numpy as np

    head, _, rows = read_bytes(path, TABLE_BYTES).removesuffix(b"\n").partition(b"\n")
    names = head.decode(errors="replace").split(",")
    for empty in (b",,", b",,", b",\n"):
        rows = rows.replace(empty, empty[:1] + b"nan" + empty[1:])
    rows += b"nan" if rows.endswith(b",") else b""
    try:
        with warnings.catch_warnings(action="error"):  # of a text between the numbers
            found = np.fromstring(rows.replace(b"\n", b","), sep=",")
        columns = found.reshape(rows.count(b"\n") + 1 if rows else 0, len(names)).T
    except (DeprecationWarning, ValueError) as error:
        raise UsageError(
            f"{path} must have a number or nothing for each column in each row, found: {error}"
        ) from error
    return dict(zip(names, columns, strict=True))


def shown(value: object) -> str:
    """Format a value for an error message: cut long values and escape control characters."""
    text = value if isinstance(value, str) else repr(value)
    short = text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}..."
    return short if short and short.isprintable() else repr(short)


def repeats(names: Iterable[str]) -> str:
    """Return the names that occur more than once as text; "" if there are none."""
    found = sorted(name for name, count in Counter(names).items() if count > 1)
    return shown(", ".join(name or "''" for name in found)) if found else ""


def number(text: str, name: str = "a number") -> float:
    """Parse a finite decimal number: `1`, `0.5`, `1e3`; not `nan`, `1_0` or `0x10`."""
    if len(text) <= MAX_NUMBER_LENGTH and NUMBER.fullmatch(text):
        value = float(text)
        if abs(value) <= LARGEST:
            return value
    raise UsageError(f"{name} must be a finite number, found {shown(text)}")


def whole(text: str, name: str = "a number") -> int:
    """Parse a decimal integer."""
    if len(text) <= MAX_NUMBER_LENGTH and WHOLE.fullmatch(text):
        return int(text)
    raise UsageError(f"{name} must be a whole number, found {shown(text)}")


def whole_option(name: str, minimum: int, maximum: int = 10**9) -> Callable[[str], int]:
    """Return the argparse `type` of an option for integers from `minimum` to `maximum`.

    It raises `UsageError`, which argparse does not catch and replace by its own message.
    """

    def read(text: str) -> int:
        value = whole(text, name)
        if not minimum <= value <= maximum:
            raise UsageError(f"{name} must be from {minimum} to {maximum}, found {value}")
        return value

    return read


def out_folder(given: str | os.PathLike[str]) -> Path:
    """Return an output folder, new or existing; refuse one that cannot be written to."""
    folder = Path(given)
    _require_writable(folder, folder)
    return folder


def out_file(given: str | os.PathLike[str]) -> Path:
    """Return an output file; refuse one that cannot be written."""
    file = Path(given)
    if file.is_dir():
        raise UsageError(f"the output must be a file, found the folder {file}")
    _require_writable(file, file.parent)
    return file


def write_text(file: Path, text: str) -> None:
    """Write an output file, with the folder that it is in."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _require_writable(named: Path, folder: Path) -> None:
    """Write to a folder, or to the existing one in which it will be made; nothing stays there."""
    try:
        within = next(
            each for each in (folder, *folder.absolute().parents) if os.path.lexists(each)
        )
        with tempfile.TemporaryDirectory(prefix=".losslab-", dir=within) as probe:
            # Each part of the path is made later; its name must be valid in this file system.
            for part in named.absolute().relative_to(within.absolute()).parts:
                Path(probe, part).mkdir(exist_ok=True)
        free = shutil.disk_usage(within).free
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"the output must be in a writable folder, found {shown(str(named))}: {problem}",
            hint="choose another place with --out, or change the folder's permissions",
        ) from error
    if free < MIN_FREE_BYTES:
        raise UsageError(
            f"the output must be on a disk with free space, found {free} bytes at {named}",
            hint="free disk space there, or choose another place with --out",
        )


def code(text: str) -> str:
    """Return a C source without comments, with the same lines."""

    def blank(found: re.Match[str]) -> str:
        return found[0] if found[0][0] == '"' else re.sub(r"[^\n]+", " ", found[0])

    return COMMENT.sub(blank, text)


def module_parameters(text: str) -> list[tuple[str, str, str, str]]:
    """List the parameters of a C source without comments: name, type, default and mode.

    The type is "" if functions of the source read and write the parameter.
    """
    found = []
    # The parameters of a macro are no names.
    text = MACRO.sub("", text)
    for how, inside in PARAMETER.findall(text):
        if "," not in inside:
            continue  # does not compile
        name, *words, mode = (word.strip() for word in inside.split(","))
        kind = words[-1] if how in ("", "_unsafe") and words else ""
        variable = name
        if how.startswith(("_named", "_array_named")) and len(words) > 1:
            variable, kind = words[0], words[1]
        elif how == "_array" and words:
            kind = words[0]
        elif how == "_cb" and len(words) > 1:
            variable = words[1].lstrip("& ")
        kind += "[]" if how.startswith("_array") else ""
        start = rf"\b{re.escape(variable)}\b(?:\s*\[\w*\])?(?:\s+__\w+)*\s*="
        default = re.search(start + r"\s*(\{[^}]*\}|[^;,]+)", text)
        found.append((name, kind, " ".join(default[1].split()) if default else "0", mode))
    return found


def option_fields(value: str) -> list[tuple[str, str, str]]:
    """List the fields of a socket option's value, which its schema has checked.

    Each has a type of `FIELDS`, or `hex`; the name of a parameter, or ""; and a number, or bytes.
    """
    found = []
    for field in value.split(", "):
        kind, _, text = field.partition(" ")
        name, _, number = text.rpartition("=")
        if kind in FIELDS and int(number) not in range(FIELDS[kind][1], FIELDS[kind][2]):
            raise UsageError(f"a {kind} of a socket option must be in its range, found {field:.40}")
        found.append((kind, name, number))
    return found
