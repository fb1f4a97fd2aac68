"""Python interface: `losslab.measure`, `losslab.sweep` and `losslab.read`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from losslab import cellspec, sweeps
from losslab.backends.base import GUEST, VIRTUAL
from losslab.backends.registry import BACKENDS
from losslab.campaign import cellfiles, export, fingerprint, inputs, replicate
from losslab.campaign.cellrun import finished
from losslab.campaign.instrument import instrument, video
from losslab.frames import InvalidRunError, Results, Run, Value
from losslab.provide import at_first_use
from losslab.reading import UsageError, input_errors, whole_option
from losslab.study.axes import NONE
from losslab.study.condition import Condition

# Default folders of runs and sweeps, in the current folder.
RUNS, SWEEPS = Path("results", "runs"), Path("results", "sweeps")
DIGITS = 8  # of the fingerprint in the name of a run's folder


def measure(
    *,
    seed: int = 1,
    out: str | Path | None = None,
    backend: str = VIRTUAL,
    where: str = GUEST,
    captures: Sequence[str] = (),
    timeout_s: float | None = None,
    allow_invalid: bool = False,
    **axes: Value,
) -> Run:
    """Measure one run, as `losslab measure` does, or return it if it is already measured.

    Raises UsageError if an axis or a value is impossible, or `out` has another run. Nothing ran.
    Raises HostError if the machine or the instrument failed. Raises InvalidRunError if the run
    failed a check.

    Args:
        seed: Seed of all random draws.
        out: Folder of the run. By default a folder of `results/runs` in the current folder, named
            after the condition.
        backend: `virtual` or `containernet`.
        where: `guest`, in virtual time, or `host`, this machine's own kernel.
        captures: Interfaces whose packets are captured, such as `r1-r2`.
        timeout_s: Wall-clock limit of the guest.
        allow_invalid: Return a run that failed a check instead of raising InvalidRunError.
        axes: Axes of the condition, such as `algorithm="bbr", loss_percent=1`.
    """
    _require_backend(backend, where)
    condition = _condition(axes, cellspec.on_own_kernel(backend, where))
    cellspec.SEED(str(seed))
    links = export.links(captures, condition)
    at_first_use(condition, backend, where)
    tools = instrument(backend, where, condition)
    folder = Path(out) if out is not None else _default_folder(condition, backend, where, seed)
    if finished(folder, condition, seed, tools) is None:
        if folder.exists():
            raise UsageError(
                f"out must name a new folder or this run's, found other files in {folder}",
                hint="remove it or choose another; losslab never overwrites results",
            )
        replicate.run(
            condition, seed, folder, tools, video(condition, tools, timeout_s), timeout_s,
            attempts=1, captures=links,
        )  # fmt: skip
    run = Run(folder)
    if not (run.valid or allow_invalid):
        raise InvalidRunError(run)
    return run


def sweep(
    *,
    replicates: int = 5,
    cores: int | None = None,
    out: str | Path | None = None,
    backend: str = VIRTUAL,
    where: str = GUEST,
    **axes: Value | Iterable[Value],
) -> Results:
    """Measure all combinations of values of some axes; finished runs are kept.

    Raises UsageError if an axis or a value is impossible, or there are too many cells. Nothing ran.
    Raises LosslabError if a cell could not be measured.

    Args:
        replicates: Runs of each cell.
        cores: Cells to measure at a time; by default all cores.
        out: Folder of the results; by default `results/sweeps` in the current folder.
        backend: As in `measure`.
        where: As in `measure`.
        axes: A value or a list of values of each axis, such as `algorithm=["cubic", "bbr"]`.
    """
    _require_backend(backend, where)
    given = {name: _values(value) for name, value in axes.items()}
    folder = Path(out) if out is not None else SWEEPS
    todo = sweeps.cells(given, folder, cellspec.on_own_kernel(backend, where))
    runs = whole_option("replicates", 1)(str(replicates))
    available = len(os.sched_getaffinity(0))
    processors = available if cores is None else whole_option("cores", 1)(str(cores))
    for cell in todo:
        at_first_use(cell.condition, backend, where)
    options = ["--backend", backend, "--where", where]
    sweeps.measure(todo, runs, processors, options)
    return Results(folder, tuple(cell.file for cell in todo))


def read(folder: str | Path) -> Results:
    """Read the measured cells of a campaign's or sweep's results; LosslabError if damaged."""
    found = cellfiles.load_cells(Path(folder))
    return Results(Path(folder), tuple(cell.file for cell in found.values()))


def _condition(axes: Mapping[str, Value], own_kernel: bool) -> Condition:
    given = {name: _plain(value) for name, value in axes.items()}
    if given.get("bring", NONE) != NONE:
        given["bring"] = inputs.named(Path(str(given["bring"])))
    with input_errors():
        return cellspec.condition(given, own_kernel=own_kernel)


def _plain(value: Any) -> Value:
    """Return a number of numpy or pandas as Python's; other values stay as they are."""
    plain: Value = value.item() if hasattr(value, "item") else value
    return plain


def _values(given: Value | Iterable[Value]) -> list[Value]:
    """Return a sweep's values of an axis, each once."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        return [_plain(given)]
    return list(dict.fromkeys(map(_plain, given)))


def _require_backend(backend: str, where: str) -> None:
    if (backend, where) not in BACKENDS:
        found = ", ".join(f"{name} on {place}" for name, place in BACKENDS)
        raise UsageError(f"the backend must be one of {found}, found {backend} on {where}")


def _default_folder(condition: Condition, backend: str, where: str, seed: int) -> Path:
    digest = fingerprint.of(condition, backend, where).digest[:DIGITS]
    return RUNS / f"{condition.slug()}_{digest}" / str(seed)
