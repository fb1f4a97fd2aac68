"""Measure golden conditions and compare their bytes with the recorded digests.

    python -m bench.golden                    compare; exit 1 if a byte differs
    python -m bench.golden --record           record again, and print the changes
    python -m bench.golden --only web --keep FOLDER    (then `losslab diff` two kept replicates)
    python -m bench.golden --cuts 20          cut each condition at 20 instants: the future of the
                                              last fork must equal the uncut replicate

The digests in tests/golden/golden.yaml belong to an instrument: the recipes of kernel and image.
They must be recorded again for another instrument. The measuring modules and the kernels may change
as long as no byte does: a run of all conditions with the same bytes, or with --record, writes their
digests to src/losslab/code.lock.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import hashlib
import io
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from losslab import cellspec, cli
from losslab.backends import snapshot_server
from losslab.backends.base import CONTAINERNET, VIRTUAL
from losslab.campaign import codelock, packets, rerun, results
from losslab.campaign.instrument import instrument, kernel_of, video
from losslab.campaign.replicate import run
from losslab.errors import LosslabError
from losslab.instrument import image, kernel, kernels
from losslab.reading import read_yaml
from losslab.study.condition import AXES, IN_NAMES, Condition
from losslab.study.design import check_schema
from losslab.tools.timetravel import futures, whatif

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "golden" / "golden.yaml"
RECORD_COMMAND = "python -m bench.golden --record"
HEADER = f"""\
# What small replicates must leave, byte by byte, on every machine. A condition is the words of
# `losslab measure`; write one here without digests, and `{RECORD_COMMAND}` adds them.
"""
LOCK_HEADER = """\
# Digest and version of each part of the measuring code (src/losslab/campaign/codelock.py).
# `python -m bench.golden` writes this file, and only that command.
"""
# Parts of the manifest that the digests omit: the instrument, which the record has itself, and the
# files' digests, which are listed separately.
NOT_DIGESTED = ("fingerprint", "instrument", "files")
RECIPES = ("kernel", "image", "engine")
# Axes that every condition has. A later axis is included only if it is not at its default, so that
# a new axis does not change digests of old conditions.
FIRST_AXES = {*IN_NAMES, "kernel", "duration_s", "warmup_s"}
# A condition takes 2 s; the limit distinguishes a hanging guest from one on a busy host.
TIMEOUT_S = 600.0
# The first cut: earlier, a guest has no connection.
FIRST_CUT_S = 0.0001


@dataclass(frozen=True)
class Golden:
    """A condition and its expected output: SHA-256 by file, and by part of the manifest."""

    name: str
    measure: str
    sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def backend(self) -> str:
        """Return the backend of the condition."""
        return CONTAINERNET if f"--backend {CONTAINERNET}" in self.measure else VIRTUAL

    @property
    def kernel(self) -> str:
        """Return the name of the condition's kernel."""
        words = shlex.split(self.measure)
        named = "--kernel" in words
        return words[words.index("--kernel") + 1] if named else kernels.default().name


@dataclass(frozen=True)
class Record:
    """The content of golden.yaml."""

    instruments: dict[str, dict[str, Any]]
    conditions: dict[str, Golden]


def load(path: Path = FILE) -> Record:
    """Read the recorded digests; LosslabError if the file does not follow its schema."""
    data = read_yaml(path)
    check_schema(data, "golden", str(path))
    return Record(
        data["instruments"],
        {name: Golden(name, **entry) for name, entry in sorted(data["conditions"].items())},
    )


def write(record: Record, path: Path = FILE) -> None:
    """Write the record, sorted, so that equal records have equal bytes."""
    data = {
        "instruments": record.instruments,
        "conditions": {
            golden.name: {"measure": golden.measure}
            | ({"sha256": dict(golden.sha256)} if golden.sha256 else {})
            for golden in record.conditions.values()
        },
    }
    # Lines are wide enough for a condition's words and a digest.
    path.write_text(HEADER + yaml.safe_dump(data, sort_keys=True, width=1000))


def identity(backend: str) -> dict[str, Any]:
    """Return the identity of the installed instrument.

    The final kernel configuration names the compiler, so the recipe counts instead (fragment,
    patches and pinned source, `kernel.content_hash`): machines with other compilers agree. Raises
    LosslabError if a part is not built.
    """
    found = instrument(backend).provenance
    kept = ("hash", "version", "packages_sha256", "containernet", "pinned")
    return {
        part: {key: found[part][key] for key in kept if key in found[part]}
        for part in RECIPES
        if part in found
    }


def cannot_measure(golden: Golden) -> str | None:
    """Return why this machine cannot measure a condition; None if it can.

    A missing default kernel or host image is an error instead: without them nothing can be
    measured.
    """
    of_default = golden.kernel == kernels.default().name
    if not of_default and kernel.part(kernels.get(golden.kernel)).existing() is None:
        return f"kernel {golden.kernel} is not built: `losslab kernel --name {golden.kernel}`"
    if golden.backend == CONTAINERNET and image.part(image.ENGINE).existing() is None:
        return "the engine image is not built: run `make containernet`"
    return None


def instrument_changes(record: Record, backend: str) -> list[str]:
    """Return the parts that differ from the record, with both hashes."""
    then, now = record.instruments.get(backend, {}), identity(backend)
    return [
        f"{part} was {_short(then.get(part))}, is {_short(now.get(part))}"
        for part in RECIPES
        if then.get(part) != now.get(part)
    ]


def _short(recipe: dict[str, Any] | None) -> str:
    return " ".join(str(value)[:16] for value in recipe.values()) if recipe else "not recorded"


def measure(golden: Golden, out: Path, more: Mapping[str, str]) -> Path:
    """Measure a condition's replicate into folder `out`, with additional environment variables.

    Raises LosslabError if the replicate is not valid, or could not be measured.
    """
    words = [*shlex.split(golden.measure), "--out", str(out), "--timeout-s", str(TIMEOUT_S)]
    done = subprocess.run(
        [sys.executable, "-m", "losslab.cli", "measure", *words],
        capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")} | more,
    )  # fmt: skip
    if done.returncode != 0:
        raise LosslabError(
            f"golden condition {golden.name} must be valid, found: {done.stderr.strip()}"
        )
    return out


@contextlib.contextmanager
def measuring(
    goldens: Iterable[Golden], folder: Path, more: Mapping[str, str]
) -> Iterator[dict[str, Future[Path]]]:
    """Measure conditions in parallel into an existing folder; pending ones can be cancelled."""
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        yield {g.name: pool.submit(measure, g, folder / g.name, more) for g in goldens}
    finally:
        pool.shutdown(cancel_futures=True)


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a replicate, and of every part of its manifest."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.name == results.MANIFEST_FILE:
            for part, value in json.loads(path.read_text()).items():
                if part not in NOT_DIGESTED and value is not None:
                    kept = digested_axes(value) if part == "cell" else value
                    text = json.dumps(kept, sort_keys=True)
                    found[f"{path.name}: {part}"] = hashlib.sha256(text.encode()).hexdigest()
        elif path.name not in rerun.NOT_COMPARED:
            found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def digested_axes(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return a condition without later axes that are at their default."""
    return {
        name: value
        for name, value in cell.items()
        if name in FIRST_AXES or value != AXES[name].default
    }


def without_later_axes(table: str) -> str:
    """Return a CSV table without the columns of such axes."""
    rows = list(csv.reader(io.StringIO(table)))
    kept = [
        at
        for at, name in enumerate(rows[0])
        if name not in AXES
        or name in FIRST_AXES
        or any(row[at] not in ("", "NA", *_written(AXES[name].default)) for row in rows[1:])
    ]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([row[at] for at in kept] for row in rows)
    return table if len(kept) == len(rows[0]) else out.getvalue()


def _written(value: object) -> tuple[str, ...]:
    """Write a value like Python and like R."""
    return (str(value), f"{value:g}") if isinstance(value, float) else (str(value),)


def differences(recorded: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return the files and parts of the manifest that differ, were added or were removed."""
    changed = [f"{n} differs" for n in found if n in recorded and found[n] != recorded[n]]
    changed += [f"{n} is new" for n in found if n not in recorded]
    return sorted(changed) + [f"{n} is gone" for n in sorted(recorded) if n not in found]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare or record; return 1 if bytes or the instrument differ."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.golden", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--record", action="store_true", help="write the digests found")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these conditions")
    parser.add_argument("--keep", type=Path, help="leave what was measured in this new folder")
    parser.add_argument("--cuts", type=int, help="compare an uncut run with one cut so often")
    options = parser.parse_args(arguments)
    try:
        if options.cuts:
            return _run_cuts(chosen(load(), options.only), options.cuts)
        with tempfile.TemporaryDirectory(prefix="losslab-golden-") as name:
            folder = options.keep or Path(name) / "cells"
            folder.mkdir(parents=True)
            return _run(options, folder)
    except (LosslabError, FileExistsError) as error:
        print(f"golden: error: {error}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace, folder: Path) -> int:
    record = load()
    goldens = chosen(record, options.only)
    backends = sorted({golden.backend for golden in goldens})
    changes = {backend: instrument_changes(record, backend) for backend in backends}
    for backend, changed in changes.items():
        for change in changed:
            print(f"{backend}: another instrument: {change}", flush=True)
    not_measured = [
        golden.name
        for golden in record.conditions.values()
        if changes.get(golden.backend)
        and golden not in goldens
        and golden.kernel == kernels.default().name
    ]
    if options.record and not_measured:
        raise LosslabError(
            "with another instrument each of its conditions must be recorded, found left out: "
            + ", ".join(not_measured),
            hint=f"run `{RECORD_COMMAND}`",
        )
    found = _measured(goldens, folder)
    if options.record:
        with tempfile.TemporaryDirectory(prefix="losslab-golden-") as name:
            _require_confirmed(goldens, found, _measured(goldens[::-1], Path(name)))
    different = 0
    parts: dict[bool, list[list[str]]] = {True: [], False: []}  # by whether the bytes are the same
    for golden in goldens:
        if golden.name not in found:
            different += 1
            continue
        changed_files = differences(golden.sha256, found[golden.name])
        different += bool(changed_files)
        if golden.sha256:  # a new condition says nothing about bytes before it
            parts[not changed_files].append(parts_of(folder / golden.name))
        print(_verdict(golden, changed_files), flush=True)
    if options.record:
        merged = {g.name: replace(g, sha256=found[g.name]) for g in goldens}
        instruments = {backend: identity(backend) for backend in backends}
        write(Record(record.instruments | instruments, record.conditions | merged))
        print(f"recorded in {FILE.relative_to(ROOT)}; say in the commit why bytes changed")
    failed = not options.record and (different or any(changes.values()))
    locked = updated_lock(parts[True], parts[False])
    if not failed and not options.only and write_lock(locked):
        print(f"wrote {codelock.LOCK.relative_to(ROOT)}")
    return int(failed)


def updated_lock(
    equal: Iterable[Iterable[str]], different: Iterable[Iterable[str]]
) -> dict[str, dict[str, Any]]:
    """Return the content of code.lock after golden runs.

    `equal` and `different` have the parts of each run whose bytes are as before, or not. A part has
    a new version if it explains a difference, or was edited and no equal run uses it. A difference
    is explained by the parts that no equal run uses, or else by all parts of the run. A kernel that
    no run uses keeps its entry: a run where it is built may still show that its bytes are the same.
    """
    proven = {part for parts in equal for part in parts}
    changed = {part for parts in map(set, different) for part in parts - proven or parts}
    entries = {}
    for part, sha256 in codelock.digests().items():
        before = codelock.lock().get(part, {})
        edited = before.get("sha256") != sha256
        new = part in changed or (edited and part not in proven)
        version = before["version"] + new if before else 1
        entries[part] = {"sha256": sha256, "version": version}
    for part, recipe in kernel_recipes().items():
        before = codelock.lock().get(part, {"version": recipe})
        if part in changed:
            entries[part] = {"sha256": recipe, "version": recipe}
        elif part in proven or "sha256" not in before:
            entries[part] = {"sha256": recipe, "version": before["version"]}
        else:
            entries[part] = dict(before)
    return entries


def kernel_recipes() -> dict[str, str]:
    """Return the recipe of each of losslab's kernels, by its part of code.lock."""
    return {
        codelock.kernel_part(spec.name): kernel.content_hash(spec)
        for spec in kernels.declared().values()
    }


def write_lock(content: Mapping[str, Mapping[str, Any]]) -> bool:
    """Write code.lock; return whether it changed."""
    text = LOCK_HEADER + "".join(
        f'\n["{part}"]\nsha256 = "{its["sha256"]}"\nversion = {json.dumps(its["version"])}\n'
        for part, its in content.items()
    )
    before = codelock.LOCK.read_text() if codelock.LOCK.exists() else ""
    codelock.LOCK.write_text(text)
    codelock.lock.cache_clear()
    return text != before


def instants(duration_s: float, count: int) -> list[float]:
    """Return times spread over a run, from `FIRST_CUT_S` to shortly before its end."""
    if count == 1:
        return [duration_s / 2]
    step_s = (0.999 * duration_s - FIRST_CUT_S) / (count - 1)
    return [FIRST_CUT_S + step_s * number for number in range(count)]


def check_cuts(words: str, folder: Path, count: int) -> None:
    """Measure the words of `losslab measure`, cut the run, and compare.

    Raises LosslabError if the future differs.
    """
    arguments = ["measure", *shlex.split(words), "--out", str(folder / "whole")]
    options = cli.parser(arguments).parse_args(arguments)
    condition = cellspec.condition_of(options)
    tools = instrument(options.backend, options.where, condition)
    film = video(condition, tools)
    captures = packets.links(options.capture, condition)
    whole = run(
        condition,
        1 if options.seed is None else options.seed,
        folder / "whole",
        tools,
        film,
        captures=captures,
    )
    rerun.require_result(whole, "the uncut replicate")
    first_s, *later = instants(condition.duration_s, count)
    with contextlib.ExitStack() as stack:
        (folder / "0").mkdir()
        prepared = condition, tools, film
        past = stack.enter_context(futures.past(whole, prepared, first_s, folder / "0"))
        guest, before_s = past.guest, first_s
        for number, at_s in enumerate(later, 1):
            (folder / str(number)).mkdir()
            order = f"cut {round(1e9 * (at_s - before_s))}"
            guest = stack.enter_context(guest.again(folder / str(number), [order]))
            before_s = at_s
        its = replace(past, guest=guest).run(futures.UNTOUCHED, folder / "future")
    whatif.require_same(folder / "whole", its.folder, whole)


def _run_cuts(goldens: Sequence[Golden], count: int) -> int:
    failed = 0
    for each in goldens:
        with tempfile.TemporaryDirectory(prefix="losslab-cuts-") as name:
            try:
                check_cuts(each.measure, Path(name), count)
                found = f"same bytes, {count} cuts"
            except LosslabError as error:
                failed, found = failed + 1, f"DIFFERENT: {error}"
        print(f"{each.name}: {found}", flush=True)
    return int(failed > 0)


def parts_of(folder: Path) -> list[str]:
    """Return the names of the parts that measured a replicate: of the code, and its kernel."""
    manifest = json.loads((folder / results.MANIFEST_FILE).read_text())
    spec = kernel_of(Condition.from_json(manifest["cell"]))
    parts = codelock.digests().keys() & manifest["fingerprint"]["parts"]
    return [*parts, codelock.kernel_part(spec.name)]


def _require_confirmed(
    goldens: Sequence[Golden], found: Mapping[str, Any], again: Mapping[str, Any]
) -> None:
    """Refuse to record results that a second run in another order does not confirm."""
    unsteady = [g.name for g in goldens if found.get(g.name) != again.get(g.name)]
    unsteady += [g.name for g in goldens if g.name not in found]
    if unsteady:
        raise LosslabError(
            "two runs with the same seed must leave the same bytes, found not so for "
            + ", ".join(sorted(set(unsteady)))
        )


def chosen(record: Record, names: Sequence[str] | None) -> list[Golden]:
    """Return conditions by name, or all; report those that cannot be measured here."""
    unknown = sorted(set(names or []) - set(record.conditions))
    if unknown:
        raise LosslabError(
            f"--only must name conditions of {FILE.relative_to(ROOT)} "
            f"({', '.join(record.conditions)}), found {', '.join(unknown)}"
        )
    goldens = []
    for golden in record.conditions.values():
        if names is not None and golden.name not in names:
            continue
        if reason := cannot_measure(golden):
            print(f"{golden.name}: skipped: {reason}", flush=True)
        else:
            goldens.append(golden)
    return goldens


def _measured(goldens: Sequence[Golden], folder: Path) -> dict[str, dict[str, str]]:
    """Measure conditions; report failed ones and omit them from the result."""
    found = {}
    with (
        snapshot_server.serving() as shared,
        measuring(goldens, folder, shared) as runs,
    ):
        for name, run in runs.items():
            try:
                found[name] = digests(run.result())
            except LosslabError as error:
                print(f"golden: error: {error}", file=sys.stderr, flush=True)
    return found


def _verdict(golden: Golden, changed: list[str]) -> str:
    if not golden.sha256:
        return f"{golden.name}: new"
    if changed:
        return f"{golden.name}: DIFFERENT: {', '.join(changed)}"
    return f"{golden.name}: the same bytes in {len(golden.sha256)} of {len(golden.sha256)} parts"


if __name__ == "__main__":
    sys.exit(main())
