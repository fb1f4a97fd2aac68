"""Python interface: `losslab.measure`, `losslab.sweep` and `losslab.read`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from losslab import cellspec, pyarguments, sweeps
from losslab.backends.base import GUEST, VIRTUAL
from losslab.campaign import export, fingerprint, inputs, replicate, results
from losslab.campaign.cellrun import finished
from losslab.campaign.instrument import instrument, video
from losslab.errors import LosslabError
from losslab.frames import InvalidRunError, Results, Run, Value
from losslab.provide import at_first_use
from losslab.reading import UsageError
from losslab.study.condition import Condition

# Default folders of runs and sweeps, in the current folder.
RUNS, SWEEPS = Path("results", "runs"), Path("results", "sweeps")


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
            after the condition, the seed and the captures.
        backend: `virtual` or `containernet`.
        where: `guest`, in virtual time, or `host`, this machine's own kernel.
        captures: Interfaces whose packets are captured, such as `r1-r2`.
        timeout_s: Wall-clock limit of the guest.
        allow_invalid: Return a run that failed a check instead of raising InvalidRunError.
        axes: Axes of the condition, such as `algorithm="bbr", loss_percent=1`.
    """
    pyarguments.require_backend(backend, where)
    condition = _condition(axes, cellspec.on_own_kernel(backend, where))
    number = pyarguments.whole("seed", seed, 0, cellspec.SEED_MAX)
    limit_s = pyarguments.limit_s("timeout_s", timeout_s)
    accepted = pyarguments.flag("allow_invalid", allow_invalid)
    links = export.links(pyarguments.names("captures", captures), condition)
    default = _default_folder(condition, backend, where, number, links)
    folder = pyarguments.output(default if out is None else out)
    at_first_use(condition, backend, where)
    tools = instrument(backend, where, condition)
    manifest = finished(folder, condition, number, tools)
    if manifest is None or {*links} - {*manifest.get("captures", ())}:
        if folder.exists():
            raise UsageError(
                f"out must name a new folder or this run's, found {_other(folder, condition)} in "
                f"{folder}",
                hint="remove it or choose another; losslab never overwrites results",
            )
        replicate.run(
            condition, number, folder, tools, video(condition, tools, limit_s), limit_s,
            attempts=1, captures=links,
        )  # fmt: skip
    run = Run(folder)
    if not (run.valid or accepted):
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
    pyarguments.require_backend(backend, where)
    pyarguments.require_axes(axes)
    given = {name: pyarguments.axis_values(name, value) for name, value in axes.items()}
    folder = pyarguments.output(SWEEPS if out is None else out)
    todo = sweeps.cells(given, folder, cellspec.on_own_kernel(backend, where))
    runs = pyarguments.whole("replicates", replicates, 1)
    available = len(os.sched_getaffinity(0))
    processors = available if cores is None else pyarguments.whole("cores", cores, 1)
    for cell in todo:
        at_first_use(cell.condition, backend, where)
    sweeps.measure(todo, runs, processors, backend, where)
    return Results(folder, tuple(cell.file for cell in todo))


def read(folder: str | Path) -> Results:
    """Read the measured cells of a campaign's or sweep's results; LosslabError if damaged."""
    found = results.read_cells(pyarguments.folder("folder", folder))
    return Results(Path(folder), tuple(cell.file for cell in found.values()))


def _condition(axes: Mapping[str, Value], own_kernel: bool) -> Condition:
    pyarguments.require_axes(axes)
    given = {name: pyarguments.axis_value(name, value) for name, value in axes.items()}
    condition = cellspec.condition(given, own_kernel=own_kernel)
    inputs.require([condition])
    return condition


def _other(folder: Path, condition: Condition) -> str:
    """Describe what is in a folder instead of a finished run: both values of what differs."""
    try:
        manifest = results.Replicate(folder).manifest
    except LosslabError:
        return "other files"
    different = results.other_values(Condition.from_json(manifest["cell"]), condition)
    captured = ", ".join(manifest.get("captures", ())) or "none"
    return "; ".join(different) or (
        f"a run with the seed {manifest['seed']}, the captures {captured} and its own version of "
        "losslab, kernel and image"
    )


def _default_folder(
    condition: Condition, backend: str, where: str, seed: int, links: Sequence[str]
) -> Path:
    digest = fingerprint.of(condition, backend, where).digest
    return RUNS / f"{condition.full_name()}_{digest}" / "_".join([str(seed), *sorted(links)])
