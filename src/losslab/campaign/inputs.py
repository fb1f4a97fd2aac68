"""Input files of a condition: user files of the app `command`, and traces of links."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from losslab.emulation.link.tracelink import parse
from losslab.errors import LosslabError, did_you_mean
from losslab.instrument.archive import digest
from losslab.reading import UsageError, input_errors, read_text
from losslab.repository import INSTALLED, ROOT
from losslab.study.axes import DRAWN_TRACE, NONE
from losslab.study.condition import NO_TRACE, Condition

# Byte code of one run must not become an input of the next.
IGNORED = "__pycache__"
# Prefix of a path relative to the current folder; other paths are relative to the repository.
HERE = "./"
# Ten minutes of a link with 50 Mbit/s.
MAX_TRACE_BYTES = 2**24


def named(folder: Path) -> str:
    """Return a folder's name in conditions: a path relative to the repository or `HERE`.

    `NONE` stays as it is. Raises UsageError if the folder is neither in the repository nor in the
    current folder.
    """
    if str(folder) == NONE:
        return NONE
    resolved, here = folder.resolve(), Path.cwd()
    if resolved.is_relative_to(ROOT):
        return str(resolved.relative_to(ROOT))
    if resolved.is_relative_to(here):
        return f"{HERE}{resolved.relative_to(here)}"
    raise _outside(str(folder), resolved, here)


def source(condition: Condition) -> Path:
    """Return the resolved folder of a condition's user files.

    Raises LosslabError if the folder is outside the repository or, if its name begins with `HERE`,
    outside the current folder. Otherwise the condition of a foreign manifest could read any file of
    this machine.
    """
    base = Path.cwd() if condition.bring.startswith(HERE) else ROOT
    resolved = base.joinpath(str(condition.bring)).resolve()
    if not resolved.is_relative_to(base):
        raise _outside(condition.bring, resolved, base)
    return resolved


def _outside(name: str, resolved: Path, base: Path) -> UsageError:
    return UsageError(
        f"bring must name a folder in {base}, found {name!r}, which is {resolved}",
        hint="copy the folder into the repository or the current folder; for the current folder, "
        f"write {HERE}NAME",
    )


def files(condition: Condition) -> list[Path]:
    """List a condition's user files.

    Raises LosslabError if the folder does not exist, is empty, or contains a link to a file
    outside.
    """
    if condition.bring == NONE:
        return []
    folder = source(condition)
    found = [
        path for path in sorted(folder.rglob("*")) if path.is_file() and IGNORED not in path.parts
    ]
    if not found:
        raise LosslabError(
            f"bring must name a folder with files, found none in {folder}",
            hint="write a path relative to the repository, or ./NAME for the current folder",
        )
    for path in found:
        if not path.resolve().is_relative_to(folder):
            raise LosslabError(
                f"files of {folder} must not be links to files outside it, found "
                f"{path.relative_to(folder)}, a symbolic link to {path.resolve()}",
                hint="replace the link by a copy of the file",
            )
    return found


def digests(condition: Condition) -> dict[str, str]:
    """Return the SHA-256 of a condition's user files by path, with " x" if executable."""
    found = {}
    for path in files(condition):
        executable = " x" if path.stat().st_mode & 0o100 else ""
        found[str(path.relative_to(source(condition)))] = digest(path) + executable
    return found


def give(condition: Condition, job_folder: Path, name: str) -> None:
    """Copy a condition's user files into the folder `name` of a job's folder."""
    for path in files(condition):
        target = job_folder / name / path.relative_to(source(condition))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)


def require(conditions: Iterable[Condition]) -> None:
    """Refuse conditions whose traces or user files are missing or malformed; read each once."""
    axes = ("trace", "trace_back", "bring")
    with input_errors():
        for each in {
            tuple(getattr(its, axis) for axis in axes): its for its in conditions
        }.values():
            trace_texts(each)
            files(each)


TRACES = ROOT / "config" / "traces"


def trace_texts(condition: Condition) -> dict[str, str]:
    """Return the texts of a condition's trace files, by their file names in a job's folder."""
    named = {"trace": condition.trace, "trace-back": condition.trace_back}
    return {
        name: _trace(trace) for name, trace in named.items() if trace not in (NO_TRACE, DRAWN_TRACE)
    }


def _trace(trace: str) -> str:
    path = TRACES / trace
    if not path.exists():
        place = "your campaign's folder (`losslab init`)" if INSTALLED else "the clone"
        names = sorted(path.name for path in TRACES.iterdir() if path.suffix != ".md")
        raise UsageError(
            f"trace {trace} must be a file in config/traces of {place}, found "
            f"{', '.join(names) or 'none'} there{did_you_mean(trace, [*names, DRAWN_TRACE])}",
            hint=f"copy it there, or use `{DRAWN_TRACE}`, which is drawn for each replicate",
        )
    text = read_text(path, MAX_TRACE_BYTES)
    with input_errors():
        parse(text, str(path))
    return text


def trace_digests(condition: Condition) -> dict[str, str]:
    """Return the SHA-256 of each of `trace_texts`."""
    return {
        name: hashlib.sha256(text.encode()).hexdigest()
        for name, text in trace_texts(condition).items()
    }
