"""Files that a condition names: user files of the app `command`, and traces that links follow."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from losslab.emulation.link.traces import parse
from losslab.emulation.path.trace import DRAWN
from losslab.errors import LosslabError
from losslab.instrument.archive import digest
from losslab.study.axes import NONE
from losslab.study.condition import NO_TRACE, Condition
from losslab.study.design import ROOT

# Byte code that one run leaves would be another one's.
IGNORED = "__pycache__"


# How a folder begins that is named by its path from the current folder, not from the repository.
HERE = "./"


def named(folder: Path) -> str:
    """Return the name that conditions have for a folder: a relative path, never an absolute one.

    Raises LosslabError if it is neither in the repository nor in the current folder.
    """
    whole, here = folder.resolve(), Path.cwd()
    if whole.is_relative_to(ROOT):
        return str(whole.relative_to(ROOT))
    if whole.is_relative_to(here):
        return f"{HERE}{whole.relative_to(here)}"
    raise _outside(str(folder), whole, here)


def source(condition: Condition) -> Path:
    """Return the folder of a condition's user files, without symbolic links in its path.

    Raises LosslabError if it is neither in the repository nor, where its name says so, in the
    current folder. A condition from elsewhere could name any file of this machine.
    """
    base = Path.cwd() if condition.bring.startswith(HERE) else ROOT
    whole = base.joinpath(str(condition.bring)).resolve()
    if not whole.is_relative_to(base):
        raise _outside(condition.bring, whole, base)
    return whole


def _outside(name: str, whole: Path, base: Path) -> LosslabError:
    return LosslabError(
        f"bring must name a folder in {base}, found {name!r}, which is {whole}",
        hint=f"copy the folder into the repository or the current folder; {HERE}NAME names one in "
        "the current folder",
    )


def files(condition: Condition) -> list[Path]:
    """List a condition's user files.

    Raises LosslabError if there is no such folder, nothing in it, or a file outside it.
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
            hint="name it by its path from the repository, or, as ./NAME, from the current folder",
        )
    for path in found:
        if not path.resolve().is_relative_to(folder):
            raise LosslabError(
                f"every file of {folder} must lie in it, found {path.relative_to(folder)}, a "
                f"symbolic link to {path.resolve()}",
                hint="copy the file there in place of the link",
            )
    return found


def digests(condition: Condition) -> dict[str, str]:
    """Return the SHA-256 of each of those files, by its name in the folder, as a manifest has it.

    Whether it may be executed counts, too.
    """
    found = {}
    for path in files(condition):
        executable = " x" if path.stat().st_mode & 0o100 else ""
        found[str(path.relative_to(source(condition)))] = digest(path) + executable
    return found


def give(condition: Condition, job_folder: Path, name: str) -> None:
    """Copy those files into a folder of a job's."""
    for path in files(condition):
        there = job_folder / name / path.relative_to(source(condition))
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, there)


TRACES = ROOT / "config" / "traces"


def trace_texts(condition: Condition) -> dict[str, str]:
    """Return the traces that a replicate's links follow and that are files, by their job's names.

    Raises LosslabError if a file is not there, or is no trace.
    """
    named = {"trace": condition.trace, "trace-back": condition.trace_back}
    return {name: _trace(trace) for name, trace in named.items() if trace not in (NO_TRACE, DRAWN)}


def _trace(trace: str) -> str:
    path = TRACES / trace
    if not path.is_file():
        raise LosslabError(
            f"trace {trace} must be a file in {TRACES}, found none",
            hint=f"put it there, or use `{DRAWN}`, which is drawn for each replicate",
        )
    text = path.read_text()
    parse(text, str(path))
    return text


def trace_digests(condition: Condition) -> dict[str, str]:
    """Return the digests of `trace_texts`, as a manifest has them."""
    return {
        name: hashlib.sha256(text.encode()).hexdigest()
        for name, text in trace_texts(condition).items()
    }
