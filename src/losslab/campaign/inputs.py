"""Input files of a condition: user files of the app `command`, and traces of links."""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from losslab.emulation.link import tracelink
from losslab.errors import HostError, LosslabError, did_you_mean
from losslab.instrument.cache import cache_folder
from losslab.instrument.fetch import digest
from losslab.instrument.kernels import PublicFile
from losslab.lock import own_folder
from losslab.reading import UsageError, input_errors, read_text, read_toml, shown
from losslab.repository import INSTALLED, ROOT, find, listed
from losslab.study.axes import DIGEST_DIGITS, DRAWN_TRACE, NONE, name_digest
from losslab.study.condition import AXES, NO_TRACE, Condition

# The tar file of user files in the cache and in replicates' folders, and its name in conditions.
BROUGHT = "brought.tar"
COPIED = re.compile("[A-Za-z0-9._-]{1,60}@[0-9a-f]{16}")
# Byte code of one run must not become an input of the next.
IGNORED = "__pycache__"
# Files are copied into memory and into each guest, so a mistaken path must not be the whole disk.
FILES_MAX, BYTES_MAX = 20_000, 2**30
# Prefix of a path relative to the current folder; other paths are relative to the repository.
HERE = "./"
# Ten minutes of a link with 50 Mbit/s.
MAX_TRACE_BYTES = 2**24
# Axes that name traces, with the files' names in the folders of jobs and replicates.
TRACES = {"trace": "trace", "trace_back": "trace-back"}
# Environment variable: a folder with copies of the public traces of config/traces.toml.
COPIES = "LOSSLAB_TRACES"
# Axes that name files of the user.
OF_FILES = ("bring", *TRACES)
IMPORT = "docs/how-to/paths.md says how to convert other files"


def value(axis: str, given: str) -> str:
    """Return the value that names a user's files in conditions."""
    if axis in TRACES:
        return named_trace(given)
    return named(given) if axis == "bring" else given


def named_trace(given: str) -> str:
    """Return a trace's name in conditions: of a file in config/traces, or `NAME@DIGEST`.

    A public trace is fetched (UnavailableError if no place has it). Any other file is copied to the
    cache, where its content identifies it.
    """
    known = re.fullmatch(AXES["trace"].pattern, given) is not None
    if given in (NO_TRACE, DRAWN_TRACE) or (known and _trace_path(given).is_file()):
        return given
    if Path(given).is_file():
        text = _read_trace(Path(given))
        return _keep_trace(f"{_label(given, 'trace')}@{name_digest(text)}", text)
    public = public_traces()
    for name, file in public.items():
        if given in (name, file.name):
            return _keep_trace(name, _read_trace(file.get()))
    place = "your campaign's folder (`losslab init`)" if INSTALLED else "the clone"
    files = [path for path in listed("config/traces/*") if path.is_file()]
    names = [path.name for path in files if path.suffix != ".md"]
    near = [*names, *(file.name for file in public.values()), DRAWN_TRACE]
    raise UsageError(
        f"trace {given} must be a file, by its path or its name in config/traces of {place}, "
        f"found {', '.join(names) or 'none'} there{did_you_mean(given, near)}",
        hint=f"`{DRAWN_TRACE}` is drawn for each replicate; {IMPORT}",
    )


def _label(path: str, default: str) -> str:
    """Return the part of a name in conditions that comes from a file's name."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", Path(path).name).strip("-.") or default


def public_traces() -> dict[str, PublicFile]:
    """Return the public traces by their names in conditions, `NAME@DIGEST`."""
    copies, pinned = os.environ.get(COPIES), _pinned_traces()
    address = f"{Path(copies).resolve().as_uri()}/" if copies else pinned["address"]
    return {
        f"{name}@{sha256[:DIGEST_DIGITS]}": PublicFile(
            name, address + name, sha256, otherwise=f"set {COPIES} to its folder"
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
    _keep(_trace_path(trace), lambda partial: partial.write_text(text))
    return trace


def _keep(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file of the cache, unless it is there."""
    if path.is_file():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with own_folder(path.parent, ".partial-") as partial:
            write(partial / path.name)
            (partial / path.name).rename(path)
    except OSError as error:
        raise HostError(
            f"the cache must be a writable folder to keep your file, found: {error}",
            hint="set LOSSLAB_CACHE to such a folder, or copy the file to the repository",
        ) from error


def _trace_path(trace: str) -> Path:
    """Return the path of a trace's file, which need not exist."""
    return cache_folder() / "traces" / trace if "@" in trace else find(f"config/traces/{trace}")


def _read_trace(path: Path) -> str:
    """Return the text of a trace's file."""
    text = read_text(path, MAX_TRACE_BYTES)
    try:
        tracelink.parse(text, str(path))
    except LosslabError as error:
        raise UsageError(error.message, hint=f"{error.hint}; {IMPORT}") from error
    return text


def opportunities_ms(trace: str) -> list[int]:
    """Return the times of a trace's opportunities in ms; empty if its file is not here."""
    path = _trace_path(trace)
    return tracelink.parse(_read_trace(path), str(path)) if path.is_file() else []


def kept_traces(condition: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of traces that a replicate's folder keeps: those of no config/traces."""
    texts = {TRACES[axis]: str(condition.get(axis, NONE)) for axis in TRACES}
    return {file: _trace(trace) for file, trace in texts.items() if "@" in trace}


def adopt_traces(folder: Path, condition: Mapping[str, Any]) -> None:
    """Copy the traces that a replicate's folder keeps to the cache, to measure it again."""
    bring = str(condition.get("bring", NONE))
    kept = COPIED.fullmatch(bring) and (folder / BROUGHT).is_file()
    if kept and bring.endswith(f"@{digest(folder / BROUGHT)[:DIGEST_DIGITS]}"):
        _keep(_tar_path(bring), lambda partial: shutil.copyfile(folder / BROUGHT, partial))
    for axis, file in TRACES.items():
        trace = str(condition.get(axis, NONE))
        if "@" in trace and (folder / file).is_file():
            text = _read_trace(folder / file)
            if re.fullmatch(AXES[axis].pattern, trace) and trace.endswith(f"@{name_digest(text)}"):
                _keep_trace(trace, text)


def named(given: str | Path) -> str:
    """Return the name of user files in conditions: a path relative to the repository or `HERE`.

    A file, a folder elsewhere and `PATH=NAME` become `NAME@DIGEST`, a tar file in the cache. `NONE`
    stays as it is, and so does such a name.
    """
    text, name = str(given), ""
    if text == NONE or (COPIED.fullmatch(text) and not Path(text).exists()):
        return text
    if renamed := "=" in text and not Path(text).exists():
        text, _, name = text.rpartition("=")
        if not re.fullmatch(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]*", name):
            raise UsageError(f"bring PATH=NAME must have a file's name, found {name!r:.60}")
    path, current = Path(text).resolve(), Path.cwd()
    if path.is_dir() and not renamed:
        if path.is_relative_to(ROOT):
            return str(path.relative_to(ROOT))
        if path.is_relative_to(current):
            return f"{HERE}{path.relative_to(current)}"
    if not (path.is_dir() or path.is_file()):
        raise UsageError(
            f"bring must name a folder or a file, found none at {shown(text)}",
            hint="write PATH, or PATH=NAME for another name in the programs' folder",
        )
    return _copied(path, name)


def _copied(path: Path, name: str) -> str:
    """Keep a file or a folder's files in the cache as a tar file; return its name.

    A NAME is that of the file, or of a folder with the folder's files.
    """
    if path.is_file():
        _require_size(path, [path])
        members = {name or path.name: path}
    else:
        prefix = f"{name}/" if name else ""
        members = {f"{prefix}{f.relative_to(path)}": f for f in _files_in(path)}
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member, file in sorted(members.items()):
            header = tarfile.TarInfo(member)
            header.size = file.stat().st_size
            header.mode = 0o755 if file.stat().st_mode & 0o100 else 0o644
            with file.open("rb") as data:
                tar.addfile(header, data)
    code = hashlib.sha256(content.getbuffer()).hexdigest()[:DIGEST_DIGITS]
    bring = f"{_label(name or path.name, 'files')[:60]}@{code}"
    _keep(_tar_path(bring), lambda partial: partial.write_bytes(content.getvalue()))
    return bring


def _tar_path(bring: str) -> Path:
    return cache_folder() / "brought" / bring / BROUGHT


def _user_files(condition: Condition) -> Iterator[tuple[str, bool, IO[bytes]]]:
    """Yield name, executability and content of a condition's user files, one at a time.

    Raises UsageError if the cache has not the content of copied files, or it is that of another
    program's archive: it may have come with somebody's run.
    """
    if condition.bring == NONE:
        return
    if not COPIED.fullmatch(condition.bring):
        folder = source(condition)
        for file in _files_in(folder):
            with file.open("rb") as data:
                yield str(file.relative_to(folder)), bool(file.stat().st_mode & 0o100), data
        return
    path = _tar_path(condition.bring)
    if not path.is_file() or not condition.bring.endswith(f"@{digest(path)[:DIGEST_DIGITS]}"):
        raise UsageError(
            f"the cache must have the user files {condition.bring}, found none with this content",
            hint=f"a run's folder has them in {BROUGHT}; or name them again with --bring",
        )
    with tarfile.open(path) as tar:
        for member in tar:
            parts, content = Path(member.name).parts, tar.extractfile(member)
            if not member.isreg() or content is None or {"/", ".."} & {*parts}:
                raise UsageError(f"{path} must have files below its folder, found {member.name!r}")
            yield member.name, bool(member.mode & 0o100), content


def kept_files(condition: Mapping[str, Any], folder: Path) -> None:
    """Keep copied user files in a replicate's folder, without a second copy on the disk."""
    bring = str(condition.get("bring", NONE))
    if not COPIED.fullmatch(bring):
        return
    try:
        os.link(_tar_path(bring), folder / BROUGHT)
    except OSError:  # another file system
        shutil.copyfile(_tar_path(bring), folder / BROUGHT)


def source(condition: Condition) -> Path:
    """Return the resolved folder of a condition's user files.

    Raises UsageError if the folder is outside the repository or, if its name begins with `HERE`,
    outside the current folder. Otherwise the condition of a foreign manifest could read any file of
    this machine.
    """
    base = Path.cwd() if condition.bring.startswith(HERE) else ROOT
    resolved = base.joinpath(str(condition.bring)).resolve()
    if not resolved.is_relative_to(base):
        raise UsageError(
            f"bring must name a folder in {base}, found {condition.bring!r}, which is {resolved}",
            hint="copy the folder into the repository or the current folder; for the current "
            f"folder, write {HERE}NAME",
        )
    return resolved


def _require_size(path: Path, files: Sequence[Path], count: int = 1) -> None:
    if count > FILES_MAX or sum(each.stat().st_size for each in files) > BYTES_MAX:
        raise LosslabError(
            f"bring must name at most {FILES_MAX} files and {BYTES_MAX >> 20} MiB, found more in "
            f"{path}",
            hint="name a folder with only the files that the programs need",
        )


def _files_in(folder: Path) -> list[Path]:
    """List a folder's files; LosslabError if it has none, too many, or a link to one outside."""
    listed = sorted(itertools.islice(folder.rglob("*"), FILES_MAX + 1))
    files = [path for path in listed if path.is_file() and IGNORED not in path.parts]
    _require_size(folder, files, len(listed))
    if not files:
        raise LosslabError(
            f"bring must name a folder with files, found none in {folder}",
            hint="write a path relative to the repository, or ./NAME for the current folder",
        )
    for path in files:
        if not path.resolve().is_relative_to(folder):
            raise LosslabError(
                f"files of {folder} must not be links to files outside it, found "
                f"{path.relative_to(folder)}, a symbolic link to {path.resolve()}",
                hint="replace the link by a copy of the file",
            )
    return files


def digests(condition: Condition) -> dict[str, str]:
    """Return the SHA-256 of a condition's user files by path, with " x" if executable."""
    digests = {}
    for name, executable, content in _user_files(condition):
        code = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
        digests[name] = code + (" x" if executable else "")
    return digests


def give(condition: Condition, job_folder: Path, name: str) -> None:
    """Copy a condition's user files into the folder `name` of a job's folder."""
    for member, executable, content in _user_files(condition):
        target = job_folder / name / member
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as out:
            shutil.copyfileobj(content, out)
        target.chmod(0o755 if executable else 0o644)


def require(conditions: Iterable[Condition]) -> None:
    """Refuse conditions whose traces or user files are missing or malformed; read each once."""
    axes = (*OF_FILES, "trace_start_s")
    distinct = {tuple(getattr(c, axis) for axis in axes): c for c in conditions}
    with input_errors():
        for condition in distinct.values():
            for text in trace_texts(condition).values():
                _require_fit(condition, tracelink.parse(text, "the trace"))
            for _ in _user_files(condition):
                pass


def _require_fit(condition: Condition, times: Sequence[int]) -> None:
    """Refuse a trace that starts after its end."""
    length_s = times[-1] / 1e3
    if condition.trace_start_s >= length_s:
        raise UsageError(
            f"trace_start_s must be below the trace's length of {length_s:g} s, found "
            f"{condition.trace_start_s:g}"
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
