"""Repeat a replicate from its manifest and compare the bytes.

`losslab rerun`, `export` and `artifact verify` repeat by `again`; they and `diff` use `compare`.
A manifest from elsewhere runs here only if it names none of its author's programs.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from losslab.backends.base import GUEST, Instrument
from losslab.backends.known import BACKENDS
from losslab.campaign import inputs
from losslab.campaign.documents import read_host, read_manifest
from losslab.campaign.folder import HOST_FILE, MANIFEST_FILE
from losslab.campaign.instrument import instrument, video
from losslab.campaign.replicate import run
from losslab.errors import LosslabError
from losslab.instrument.archive import digest
from losslab.lock import own_folder
from losslab.reading import UsageError
from losslab.study import design
from losslab.study.axes import NONE
from losslab.study.condition import Condition

TRUST = "--trust"
TRUST_HELP = (
    "run what the manifest names besides losslab's own programs: commands of the app `command`, "
    "and jobs on this machine's own kernel"
)

# A console log exists only for invalid replicates and ends with the host's own words.
NOT_COMPARED = (HOST_FILE, "console.log")
# Of a line that differs; a manifest's may have a megabyte.
SHOWN_BYTES = 200


@dataclass(frozen=True)
class Agreement:
    """How two folders of a replicate compare, file by file."""

    same: list[str]
    different: dict[str, str]  # file: what differs

    @property
    def whole(self) -> bool:
        """Tell whether there are files, and every one has the same bytes."""
        return bool(self.same) and not self.different


def load_manifest(path: Path) -> dict[str, Any]:
    """Read a manifest, given by its file or its folder.

    Raises UsageError if it is not there or is no manifest.
    """
    file = path / MANIFEST_FILE if path.is_dir() else path
    beside = file.parent / HOST_FILE
    if beside.exists():  # a manifest may stand alone
        read_host(beside)
    return read_manifest(file)


# A manifest's condition, what measures it again, and the video that it streams, if it does.
Ready = tuple[Condition, Instrument, Path | None]


def ready(manifest: Mapping[str, Any], trust: bool) -> Ready:
    """Find what measures a manifest's condition again.

    Raises LosslabError if it is not here, or if the manifest may not run here (`require_trusted`).
    """
    condition = require_trusted(manifest, trust)
    where = manifest["instrument"].get("where", GUEST)
    tools = instrument(manifest["backend"], where, condition)
    movie = None
    if condition.app == "ffmpeg":
        movie = video(condition.video, condition.duration_s, tools)
    return condition, tools, movie


@contextlib.contextmanager
def again(
    manifest: Mapping[str, Any],
    what: Ready,
    out: Path | None = None,
    attempts: int = 1,
    captures: Sequence[str] = (),
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Measure a replicate again; give its folder and its manifest.

    The folder is `out`, or a temporary one, which is gone when the block ends. `captures` are
    interfaces to capture besides those of the manifest.
    """
    links = (*manifest.get("captures", ()), *captures)
    condition, tools, movie = what
    with own_folder(Path(tempfile.gettempdir()), "losslab-rerun-") as folder:
        out = out or folder / "again"
        found = run(
            condition, manifest["seed"], out, tools, movie, attempts=attempts, captures=links
        )
        yield out, found


def changes(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Name what another manifest was measured with, where that differs, with both values."""
    whats = ("instrument", "fingerprint")
    old, new = ({what: manifest.get(what, {}) for what in whats} for manifest in (then, now))
    return instrument_differences(old, new)


def instrument_differences(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Name the parts of the instrument that are not what they were, with both values."""
    found = []
    for part in sorted(then.keys() | now.keys()):
        old, new = then.get(part), now.get(part)
        if isinstance(old, dict) and isinstance(new, dict):
            found += [f"{part}: {line}" for line in instrument_differences(old, new)]
        elif old != new:
            found.append(f"{part} was {_said(old)}, is {_said(new)}")
    return found


def _said(value: Any) -> str:
    """Put a value of a manifest into words."""
    return "not there" if value is None else str(value)


def require_result(manifest: dict[str, Any], which: str) -> None:
    """Refuse a run that measured nothing, which agrees with nothing.

    Raises LosslabError if its guest was lost.
    """
    if manifest.get("lost"):
        raise LosslabError(
            f"{which} must have measured something to compare, found a lost guest: "
            + "; ".join(manifest["reasons"]),
            hint="measure it again; `losslab doctor` says what this machine lacks",
        )


def compare(
    first: Path, second: Path, digests: Mapping[str, str] = MappingProxyType({})
) -> Agreement:
    """Compare two replicate folders, but for the files that describe the host.

    `digests` are of files that the first folder may lack, as its manifest lists them.
    """
    same, different = [], {}
    for name in sorted(names(first) | names(second) | digests.keys()):
        a, b = first / name, second / name
        if name in digests and b.is_file() and not a.is_file():
            if digest(b) == digests[name]:
                same.append(name)
            else:
                different[name] = "another file"
        elif not (a.is_file() and b.is_file()):
            different[name] = f"only in {second if b.is_file() else first}"
        elif (bytes_a := a.read_bytes()) == (bytes_b := b.read_bytes()):
            same.append(name)
        else:
            different[name] = first_difference(bytes_a, bytes_b)
    return Agreement(same, different)


def names(folder: Path) -> set[str]:
    """Return the paths below a replicate's folder of the files that are compared."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
    return {str(path) for path in found} - {*NOT_COMPARED}


def first_difference(a: bytes, b: bytes) -> str:
    """Describe the first line in which two files differ."""
    lines = [content.split(b"\n") for content in (a, b)]
    for number, (one, other) in enumerate(zip(*lines, strict=False), start=1):
        if one != other:
            binary = b"\0" in one + other
            return f"line {number}" + ("" if binary else f": {_shown(one)}, {_shown(other)}")
    return f"{len(lines[0]) - 1} and {len(lines[1]) - 1} lines"


def _shown(line: bytes) -> str:
    """Quote the start of a line, with escapes for what is no text."""
    text = line[:SHOWN_BYTES].decode(errors="backslashreplace")
    return repr(text) + ("..." if len(line) > SHOWN_BYTES else "")


def require_trusted(manifest: Mapping[str, Any], trust: bool) -> Condition:
    """Return the condition that a manifest asks to be measured, if it may be measured here.

    Algorithms, schemes, kernels, images and traces are names of this repository's own; a manifest
    cannot carry one. What it can carry is commands, a folder whose files they get, and the wish to
    be measured on this machine's own kernel. Raises LosslabError if it names something that this
    repository does not have, or it would run programs of its author's without the caller's
    permission.
    """
    condition = Condition.from_json(manifest["cell"])
    problems = condition.problems() + design.load_names(design.ROOT).problems(condition)
    if problems:
        raise UsageError(
            f"a manifest must have a condition that can be measured, found: {'; '.join(problems)}"
        )
    place = manifest["backend"], manifest["instrument"].get("where", GUEST)
    if place not in BACKENDS:
        raise UsageError(
            "a manifest must name one of the backends "
            f"{', '.join(' '.join(each) for each in BACKENDS)}, found {' '.join(map(str, place))}"
        )
    found = [] if trust else _foreign(condition, own_kernel=BACKENDS[place].needs.kernel is None)
    if found:
        raise LosslabError(
            "a manifest may run only losslab's own programs, found one that would run:\n"
            + "\n".join(f"    {line}" for line in found),
            hint=f"if you trust its author, repeat the command with {TRUST}",
        )
    return condition


def _foreign(condition: Condition, own_kernel: bool) -> list[str]:
    """List what would run besides losslab's own programs; quoted, as it may hold control codes."""
    found = []
    if condition.app == "command":
        found += [
            f"on the receiver: {condition.receiver_command!r}",
            f"on the sender: {condition.sender_command!r}",
        ]
        if condition.bring != NONE:
            found.append(f"both with copies of the files in {inputs.source(condition)}")
    if own_kernel:
        found.append("on this machine's own kernel, as root")
    return found
