"""Repetition of a replicate from its manifest, and comparison of the bytes.

A manifest that names programs of its author runs only with the user's permission.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.backends.base import CONSOLE_FILE, GUEST, Instrument
from losslab.backends.registry import BACKENDS
from losslab.campaign import inputs, results
from losslab.campaign.instrument import instrument, video
from losslab.campaign.replicate import run
from losslab.emulation.app import apps
from losslab.errors import LosslabError
from losslab.lock import own_folder
from losslab.reading import UsageError
from losslab.repository import ROOT
from losslab.study import design
from losslab.study.condition import Condition

TRUST = "--trust"
TRUST_HELP = (
    "also run the manifest's commands of the app `command`, and its jobs on this machine's own "
    "kernel"
)

# A manifest's key of a future that is no replicate of a condition.
FUTURE = "future"
# Few replicates have a console log, whose end depends on the host.
NOT_COMPARED = (results.HOST_FILE, CONSOLE_FILE, results.ALGORITHMS_FILE)
# Limit of the quoted part of a line; a line of a manifest may have a megabyte.
MAX_SHOWN_BYTES = 200


@dataclass(frozen=True)
class Agreement:
    """The comparison of two folders of a replicate, by file."""

    same: list[str]
    different: dict[str, str]  # the first difference of each file

    @property
    def whole(self) -> bool:
        """True if there are files and all have the same bytes."""
        return bool(self.same) and not self.different

    def problems(self, *without: str) -> str:
        """Describe the differences, except those of some files; empty if there are none."""
        others = ((name, what) for name, what in self.different.items() if name not in without)
        return "; ".join(f"{name}: {what}" for name, what in others)


def load_manifest(path: Path) -> dict[str, Any]:
    """Read a manifest, given as a file or a replicate's folder; UsageError if it is none."""
    file = path / results.MANIFEST_FILE if path.is_dir() else path
    if (file.parent / results.HOST_FILE).exists():  # a manifest may come without it
        _ = results.Replicate(file.parent).host
    if not file.exists():
        raise UsageError(
            f"{path} must be a run's folder or its {results.MANIFEST_FILE}, found no {file}",
            hint="name a folder of `losslab measure --out`, or results/cells/STUDY/CELL/N",
        )
    manifest = results.read_manifest(file)
    inputs.adopt_traces(file.parent, manifest["cell"])
    return manifest


# The condition of a manifest, the instrument, and the video of the app ffmpeg.
Ready = tuple[Condition, Instrument, Path | None]


def ready(manifest: Mapping[str, Any], trust: bool) -> Ready:
    """Return what repeats a manifest's measurement, if the manifest is trusted."""
    condition = require_trusted(manifest, trust)
    where = manifest["instrument"].get("where", GUEST)
    tools = instrument(manifest["backend"], where, condition)
    return condition, tools, video(condition, tools)


@contextlib.contextmanager
def again(
    manifest: Mapping[str, Any],
    prepared: Ready,
    out: Path | None = None,
    attempts: int = 1,
    captures: Sequence[str] = (),
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Measure a replicate again with the result of `ready`; yield its folder and its manifest.

    Without `out`, the folder exists only during the block. Interfaces of `captures` are captured in
    addition to the manifest's.
    """
    if FUTURE in manifest:
        raise LosslabError(
            "a run must begin at 0 s to be measured again, found a future, whose "
            "connections changed their algorithm",
            hint="repeat the command that made it",
        )
    links = (*manifest.get("captures", ()), *captures)
    condition, tools, movie = prepared
    with own_folder(Path(tempfile.gettempdir()), "losslab-rerun-") as folder:
        out = out or folder / "again"
        seed = manifest["seed"]
        yield out, run(condition, seed, out, tools, movie, attempts=attempts, captures=links)


def changes(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """List the differences of instrument and fingerprint between two manifests, with values."""
    keys = ("instrument", "fingerprint")
    old, new = ({key: manifest.get(key, {}) for key in keys} for manifest in (then, now))
    return instrument_differences(old, new)


def instrument_differences(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """List the differences between two instruments, with both values."""
    differences = []
    for part in sorted(then.keys() | now.keys()):
        old, new = then.get(part), now.get(part)
        if isinstance(old, dict) and isinstance(new, dict):
            differences += [f"{part}: {line}" for line in instrument_differences(old, new)]
        elif old != new:
            old, new = ("absent" if value is None else value for value in (old, new))
            differences.append(f"{part} was {old}, is {new}")
    return differences


def require_result(manifest: dict[str, Any], run_name: str) -> None:
    """Raise LosslabError for a run whose guest was lost: it has no results to compare."""
    if manifest.get("lost"):
        raise LosslabError(
            f"{run_name} has no results to compare, because its guest was lost: "
            + "; ".join(manifest["reasons"]),
            hint="measure it again; `losslab doctor` reports what this machine lacks",
        )


def compare(first: Path, second: Path) -> Agreement:
    """Compare two replicate folders, without the files that describe the host."""
    same, different = [], {}
    for name in sorted(names(first) | names(second)):
        a, b = first / name, second / name
        if not (a.is_file() and b.is_file()):
            different[name] = f"only in {second if b.is_file() else first}"
        elif (bytes_a := a.read_bytes()) == (bytes_b := b.read_bytes()):
            same.append(name)
        else:
            different[name] = first_difference(bytes_a, bytes_b)
    return Agreement(same, different)


def names(folder: Path) -> set[str]:
    """Return the paths of the compared files, relative to a replicate's folder."""
    return results.files(folder) - {*NOT_COMPARED}


def first_difference(a: bytes, b: bytes) -> str:
    """Describe the first line in which two files differ."""
    lines = [content.split(b"\n") for content in (a, b)]
    for number, (one, other) in enumerate(zip(*lines, strict=False), start=1):
        if one != other:
            binary = b"\0" in one + other
            return f"line {number}" + ("" if binary else f": {_shown(one)}, {_shown(other)}")
    return f"{len(lines[0]) - 1} and {len(lines[1]) - 1} lines"


def _shown(line: bytes) -> str:
    """Quote the start of a line, with escapes for bytes that are not UTF-8."""
    text = line[:MAX_SHOWN_BYTES].decode(errors="backslashreplace")
    return repr(text) + ("..." if len(line) > MAX_SHOWN_BYTES else "")


def require_trusted(manifest: Mapping[str, Any], trust: bool) -> Condition:
    """Return the condition of a manifest that may be measured on this machine.

    A manifest refers to algorithms, schemes, kernels, images and traces by names of this
    repository. But it may contain commands, name a folder whose files these commands get, and ask
    for a measurement on this machine's own kernel, as root. That needs `trust`.
    """
    condition = Condition.from_json(manifest["cell"])
    names = design.load_names(ROOT)
    place = manifest["backend"], manifest["instrument"].get("where", GUEST)
    own_kernel = not BACKENDS[place].needs.guest
    problems = condition.problems() + names.problems(condition, own_kernel=own_kernel)
    if problems:
        raise UsageError(
            f"the manifest's condition cannot be measured: {'; '.join(problems)}",
            hint="`losslab new algorithm NAME --from RUN` copies an algorithm from a run's folder",
        )
    foreign = apps()[condition.app].foreign(condition)
    if own_kernel:
        foreign.append("on this machine's own kernel, as root")
    if foreign and not trust:
        raise LosslabError(
            "the manifest would run programs that are not losslab's:\n"
            + "\n".join(f"    {line}" for line in foreign),
            hint=f"if you trust its author, repeat the command with {TRUST}",
        )
    return condition
