"""Input files of a condition: user files of the app `command`, and traces of links."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from losslab.emulation.link import tracelink
from losslab.errors import HostError, LosslabError, did_you_mean
from losslab.instrument.archive import digest
from losslab.instrument.cache import cache_folder
from losslab.instrument.kernels import PublicFile
from losslab.lock import own_folder
from losslab.reading import UsageError, input_errors, read_text, read_toml
from losslab.repository import INSTALLED, ROOT, find, listed
from losslab.study.axes import DIGEST_DIGITS, DRAWN_TRACE, NONE, name_digest
from losslab.study.condition import AXES, NO_TRACE, Condition

# Byte code of one run must not become an input of the next.
IGNORED = "__pycache__"
# Prefix of a path relative to the current folder; other paths are relative to the repository.
HERE = "./"
# Ten minutes of a link with 50 Mbit/s.
MAX_TRACE_BYTES = 2**24
# The link's program takes up to 40 s of wall time for a second of such a trace; a guest may take 50
# (`replicate.WATCHDOG_S_PER_VIRTUAL_S`). A link of 6000 Mbit/s was full, too, but took longer.
MAX_TRACE_MBIT = 3000
# Axes that name traces, with the files' names in the folders of jobs and replicates.
TRACES = {"trace": "trace", "trace_back": "trace-back"}
# Environment variable: a folder with copies of the public traces of config/traces.toml.
COPIES = "LOSSLAB_TRACES"
# Axes that name files of the user.
OF_FILES = ("bring", *TRACES)
IMPORT = "convert other files with `losslab trace import FILE`"


def value(axis: str, given: str) -> str:
    """Return the value that names a user's files in conditions."""
    if axis in TRACES:
        return named_trace(given)
    return named(Path(given)) if axis == "bring" else given


def named_trace(given: str) -> str:
    """Return a trace's name in conditions: of a file in config/traces, or `NAME@DIGEST`.

    A public trace is fetched. Any other file is copied to the cache, where its content identifies
    it. Raises UsageError if there is no such file, or it is not a trace, and UnavailableError if no
    place has a public trace.
    """
    known = re.fullmatch(AXES["trace"].pattern, given) is not None
    if given in (NO_TRACE, DRAWN_TRACE) or (known and _trace_path(given).is_file()):
        return given
    if not Path(given).is_file():
        for name, public in public_traces().items():
            if given in (name, public.name):
                return _keep_trace(name, _read_trace(public.get().path))
        place = "your campaign's folder (`losslab init`)" if INSTALLED else "the clone"
        files = [path for path in listed("config/traces/*") if path.is_file()]
        names = [path.name for path in files if path.suffix != ".md"]
        near = [*names, *(public.name for public in public_traces().values()), DRAWN_TRACE]
        raise UsageError(
            f"trace {given} must be a file, by its path or its name in config/traces of {place}, "
            f"found {', '.join(names) or 'none'} there{did_you_mean(given, near)}",
            hint=f"`{DRAWN_TRACE}` is drawn for each replicate; {IMPORT}",
        )
    text = _read_trace(Path(given))
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", Path(given).name).strip("-.") or "trace"
    return _keep_trace(f"{name}@{name_digest(text)}", text)


def public_traces() -> dict[str, PublicFile]:
    """Return the public traces by their names in conditions, `NAME@DIGEST`.

    A folder that LOSSLAB_TRACES names has copies.
    """
    copies = os.environ.get(COPIES)
    pinned = _pinned_traces()
    address = f"{Path(copies).resolve().as_uri()}/" if copies else pinned["address"]
    other = f"set {COPIES} to its folder"
    return {
        f"{name}@{sha256[:DIGEST_DIGITS]}": PublicFile(
            name, address + name, sha256, otherwise=other
        )
        for name, sha256 in pinned["sha256"].items()
    }


@functools.cache
def _pinned_traces() -> dict[str, Any]:
    return read_toml(ROOT / "config/traces.toml")


def has_public_traces(condition: Condition) -> bool:
    """Return whether this machine has the public traces of a condition without fetching them."""
    public, folder = public_traces(), Path(os.environ.get(COPIES, "/nowhere"))
    return all(
        _trace_path(name).is_file() or (folder / public[name].name).is_file()
        for name in (condition.trace, condition.trace_back)
        if name in public
    )


def _keep_trace(trace: str, text: str) -> str:
    """Write a trace `NAME@DIGEST` to the cache; return its name."""
    path = _trace_path(trace)
    if path.is_file():
        return trace
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with own_folder(path.parent, ".partial-") as partial:
            (partial / path.name).write_text(text)
            (partial / path.name).rename(path)
    except OSError as error:
        raise HostError(
            f"the cache must be a writable folder to keep a trace, found: {error}",
            hint="set LOSSLAB_CACHE to such a folder, or copy the trace to config/traces",
        ) from error
    return trace


def _trace_path(trace: str) -> Path:
    """Return the path of a trace's file, which need not exist."""
    return cache_folder() / "traces" / trace if "@" in trace else find(f"config/traces/{trace}")


def _read_trace(path: Path) -> str:
    """Return the text of a trace's file; UsageError if it is not a trace."""
    text = read_text(path, MAX_TRACE_BYTES)
    try:
        tracelink.parse(text, str(path))
    except LosslabError as error:
        raise UsageError(error.message, hint=f"{error.hint}; {IMPORT}") from error
    return text


def kept_traces(condition: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of traces that a replicate's folder keeps: those of no config/traces."""
    texts = {TRACES[axis]: str(condition.get(axis, NONE)) for axis in TRACES}
    return {file: _trace(trace) for file, trace in texts.items() if "@" in trace}


def adopt_traces(folder: Path, condition: Mapping[str, Any]) -> None:
    """Copy the traces that a replicate's folder keeps to the cache, to measure it again."""
    for axis, file in TRACES.items():
        trace = str(condition.get(axis, NONE))
        if "@" in trace and (folder / file).is_file():
            text = _read_trace(folder / file)
            if re.fullmatch(AXES[axis].pattern, trace) and trace.endswith(f"@{name_digest(text)}"):
                _keep_trace(trace, text)


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
    axes = (*OF_FILES, "rate_mbit", "trace_start_s")
    with input_errors():
        for each in {
            tuple(getattr(its, axis) for axis in axes): its for its in conditions
        }.values():
            for text in trace_texts(each).values():
                _require_fit(each, tracelink.parse(text, "the trace"))
            files(each)


def _require_fit(condition: Condition, times: Sequence[int]) -> None:
    """Refuse a trace that starts after its end, or whose packets would wait behind the link."""
    length_s = times[-1] / 1e3
    if condition.trace_start_s >= length_s:
        raise UsageError(
            f"trace_start_s must be below the trace's length of {length_s:g} s, found "
            f"{condition.trace_start_s:g}"
        )
    if (mean_mbit := tracelink.mean_mbit(times)) > MAX_TRACE_MBIT:
        raise UsageError(
            f"a trace must have at most {MAX_TRACE_MBIT} Mbit/s on average, found {mean_mbit:.0f}: "
            "faster links take more wall time than a guest may"
        )
    if tracelink.wait_behind_ms(times, condition.rate_mbit) > tracelink.WAIT_MAX_MS:
        raise UsageError(
            "rate_mbit must be above the trace's rate, so that packets do not wait behind the "
            f"trace-driven link, found {condition.rate_mbit:g}",
            hint="set rate_mbit to more; `losslab axes` has its largest value",
        )


def notes(condition: Condition) -> Iterator[str]:
    """Yield what a user should know of a condition's traces before the run."""
    until_s = condition.trace_start_s + condition.duration_s
    for file, text in trace_texts(condition).items():
        length_s = tracelink.parse(text, file)[-1] / 1e3
        if length_s < until_s:
            yield f"the {file} lasts {length_s:g} s and repeats in this run, until {until_s:g} s"


def trace_texts(condition: Condition) -> dict[str, str]:
    """Return the texts of a condition's trace files, by their file names in a job's folder."""
    named = {file: getattr(condition, axis) for axis, file in TRACES.items()}
    return {
        name: _trace(trace) for name, trace in named.items() if trace not in (NO_TRACE, DRAWN_TRACE)
    }


def _trace(trace: str) -> str:
    """Return the text of a trace that a condition names."""
    text = _read_trace(_trace_path(named_trace(trace)))
    if "@" in trace and not trace.endswith(f"@{name_digest(text)}"):
        raise UsageError(
            f"{_trace_path(trace)} must have the content of which it has the digest, found another",
            hint="remove it and name the trace's file again",
        )
    return text


def trace_digests(condition: Condition) -> dict[str, str]:
    """Return the SHA-256 of each of `trace_texts`. Those of public traces need no file."""
    public = public_traces()
    named = {file: str(getattr(condition, axis)) for axis, file in TRACES.items()}
    return {
        file: public[trace].sha256
        if trace in public
        else hashlib.sha256(_trace(trace).encode()).hexdigest()
        for file, trace in named.items()
        if trace not in (NO_TRACE, DRAWN_TRACE)
    }
