"""Python interface: `losslab.measure`, `losslab.sweep` and `losslab.read`.

Runs and results have pandas data frames. Polars converts them: `polars.from_pandas(run.tcp)`, which
needs pyarrow for columns of text. Notebooks show runs, results and their plots.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from losslab import cellspec, crossing, pyarguments, sweeps
from losslab.backends.base import GUEST, VIRTUAL
from losslab.campaign import (
    fingerprint,
    halves,
    inputs,
    limiters,
    packets,
    records,
    replicate,
    results,
    state,
)
from losslab.campaign.cellrun import finished
from losslab.campaign.instrument import at_first_use, instrument, video
from losslab.campaign.results import MeasuredCell, Replicate, read_cell
from losslab.campaign.tables import (
    CELL_COLUMNS,
    INTERVAL_COLUMNS,
    NAMES,
    REPLICATE_COLUMNS,
    CellNumbers,
    Tables,
    gather,
    numbers_of,
)
from losslab.crossing import Crossing
from losslab.errors import LosslabError
from losslab.reading import UsageError, input_errors, out_folder
from losslab.repository import ROOT
from losslab.study import metrics, parameters, runlength, units
from losslab.study.condition import AXES, Condition
from losslab.ui import drawing, plot, printed, runsummary, series

if TYPE_CHECKING:
    from typing import Unpack

    import pandas as pd

    from losslab.arguments import Axes, AxisLists

F = TypeVar("F", bound=Callable[..., Any])
IDENTITY = ("study", "block", "cell")
# Default folders of runs and sweeps, in the current folder.
RUNS, SWEEPS = Path("results", "runs"), Path("results", "sweeps")


def _with_axes(function: F) -> F:
    """Add the axes to a function's signature, which notebooks complete."""
    signature = inspect.signature(function)
    keyword, empty = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    axes = [
        inspect.Parameter(name, keyword, default=empty if axis.default is None else axis.default)
        for name, axis in AXES.items()
    ]
    *named, rest = signature.parameters.values()
    function.__dict__["__signature__"] = signature.replace(parameters=[*named, *axes, rest])
    return function


class InvalidRunError(LosslabError):
    """Run that failed a check, so that its numbers must not be used; `run` has its files."""

    def __init__(self, run: Run) -> None:
        super().__init__(
            f"the run in {run.folder} must be valid, found: {'; '.join(run.violations)}",
            hint="`error.run` has its files; allow_invalid=True returns it",
        )
        self.run = run


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, its manifest, and its tables as data frames."""

    folder: Path

    def __repr__(self) -> str:
        """Return validity, cell and primary metric; the folder if the manifest is unreadable."""
        try:
            summary, slug = self.summary, Condition.from_json(self.condition).slug()
        except LosslabError:
            return f"<Run in {self.folder}: unreadable>"
        metric = metrics.primary([summary])
        number = metrics.value(summary, metric)
        shown = "no result" if number is None else f"{metric} {number:g}"
        return f"<Run {'valid' if self.valid else 'invalid'}: {slug}, {shown}>"

    def _repr_html_(self) -> str:
        """Show the summary that `losslab measure` prints; only `repr` if it is unreadable."""
        try:
            text = runsummary.text(self.manifest, self.folder)
            return drawing.preformatted("\n".join([*self.violations, text]))
        except LosslabError:
            return drawing.preformatted(repr(self))

    def plot(self, *others: Run, state: bool = False, trust: bool = False) -> drawing.Drawing:
        """Plot the run, and others beside it, as `losslab plot` does; notebooks show the plot.

        Args:
            others: Runs to draw in the same panels.
            state: Plot the state of the congestion control; see `state`.
            trust: As in `state`.
        """
        runs = [pyarguments.typed("others", each, Run, "a run") for each in others]
        folders = [each.folder for each in (self, *runs)]
        load = (lambda path: series.load_state(path, trust)) if state else series.load
        drawn = [load(path) for path in folders]
        text = plot.text(drawn, drawing.WIDTH)
        return drawing.Drawing(text, lambda file: plot.figure(drawn, [file]))

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The condition, the seed, the instrument, all values read back, and the summary.

        Raises LosslabError if a file of the run is missing or was changed.
        """
        return Replicate(self.folder).checked().manifest

    @property
    def valid(self) -> bool:
        """True if the run passed all checks."""
        return bool(self.manifest["valid"])

    @property
    def violations(self) -> list[str]:
        """The failed checks."""
        return list(self.manifest["reasons"])

    @property
    def summary(self) -> dict[str, float]:
        """The metrics of the run, by name; `losslab metrics` describes them."""
        return dict(self.manifest["summary"])

    @property
    def condition(self) -> dict[str, pyarguments.Value]:
        """The axes of the run, by name; `losslab axes` describes them."""
        return dict(self.manifest["cell"])

    @property
    def limits(self) -> dict[str, float]:
        """Limits of the first flow, in percent of its time, such as `path` and `pacing`."""
        return dict(limiters.of_run(self.folder, self.manifest).shares)

    @property
    def warnings(self) -> list[str]:
        """What to know of the goodput, as `losslab measure` prints it.

        That is what the source of its path has and it lacks, a run that is too short, and causes
        other than the path that limited the first flow.
        """
        condition = Condition.from_json(self.condition)
        limits = limiters.of_run(self.folder, self.manifest)
        replicate = Replicate(self.folder)
        of_length = halves.warnings([replicate], condition)
        return [*replicate.left_out, *of_length, *limiters.warnings(limits, condition)]

    @property
    def queueing_delay(self) -> limiters.QueueingDelay | None:
        """Mean and 95th percentile of the time that packets wait at the bottleneck, in ms.

        None if it cannot be known: several flows in queues of their own, the shaper htb-netem, or a
        second bottleneck.
        """
        return limiters.queueing_delay(self.folder, self.manifest)

    def table(self, name: str) -> pd.DataFrame:
        """Read one of the run's CSV files, such as `ping`; LosslabError if it has none."""
        import pandas as pd  # here, because it takes 0.5 s

        path = self.folder / f"{pyarguments.typed('name', name, str, 'text')}.csv"
        if not path.is_file():
            names = sorted(file.stem for file in self.folder.glob("*.csv"))
            raise LosslabError(
                f"a table must be one of the run's files, found no {path}",
                hint=f"this run has {', '.join(names)}",
            )
        return pd.read_csv(path)

    @property
    def tcp(self) -> pd.DataFrame:
        """cwnd, ssthresh, smoothed RTT, pacing and delivery rate of each flow, every 20 ms."""
        return self.table("tcp")

    def state(self, trust: bool = False) -> pd.DataFrame:
        """Return the state of the sender's congestion controls at each of their events.

        A run without the capture `state` is measured again. Raises LosslabError if its congestion
        control is not of losslab's kernel, the run cannot be measured again with the same bytes, or
        it is a run of programs of its author and not trusted.

        Args:
            trust: Run such programs.
        """
        return state.of_run(self.folder, self.manifest, trust)

    @property
    def queue(self) -> pd.DataFrame:
        """Backlog and drops of the bottleneck."""
        return self.table("queue")

    @property
    def intervals(self) -> pd.DataFrame:
        """Goodput over time; of iperf3, QUIC and other programs."""
        return self.table("intervals")


@dataclass(frozen=True)
class Results:
    """Measured cells of a campaign's results folder or of a sweep."""

    folder: Path
    files: tuple[Path, ...]  # the cells' cell.json

    def __repr__(self) -> str:
        """Return the folder and the number of cells."""
        return f"<Results of {len(self.files)} cells in {self.folder}>"

    def _repr_html_(self) -> str:
        """Show the means of each cell's main metric."""
        varied, _ = self._rows(None)
        shown = self.means()[[*varied, "metric", *printed.STATISTICS]]
        table: str = shown.to_html(index=False, float_format="{:.4g}".format)
        return table + (drawing.preformatted("\n".join(self.warnings)) if self.warnings else "")

    @cached_property
    def warnings(self) -> list[str]:
        """Runs that are too short, and causes other than the path that limited the first flows."""
        varied, _ = self._rows(None)

        def name(condition: Condition) -> str:
            return printed.cell_name(condition, varied)

        return [*halves.of_cells(self._cells, name), *limiters.of_cells(self._cells, name)]

    def plot(self, metric: str | None = None) -> drawing.Drawing:
        """Plot the means over the varied axes, as `losslab sweep` does; notebooks show the plot.

        Args:
            metric: Name of the metric; by default the main metric of each cell's app.
        """
        varied, rows = self._rows(metric)
        text = printed.text(rows, varied)
        return drawing.Drawing(text, lambda file: printed.draw(rows, varied, [file]))

    def _rows(self, metric: str | None) -> tuple[list[str], list[dict[str, Any]]]:
        """Return the varied axes, or the algorithm, and a row of statistics per cell."""
        chosen = None if metric is None else pyarguments.typed("metric", metric, str, "text")
        conditions = [cell.condition for cell in self._cells]
        varied = [name for name in AXES if len({getattr(c, name) for c in conditions}) > 1]
        return varied or ["algorithm"], printed.rows(self._cells, varied or ["algorithm"], chosen)

    @cached_property
    def _tables(self) -> Tables:
        return gather(map(numbers_of, self._cells))

    @cached_property
    def _cells(self) -> list[MeasuredCell]:
        return [read_cell(file).checked() for file in self.files]

    @property
    def cells(self) -> pd.DataFrame:
        """One row per cell: its axes, numbers of replicates, and violations."""
        columns = [name for name in CELL_COLUMNS if name != "recorded"]
        return _frame(self._tables.cells, columns)

    @property
    def replicates(self) -> pd.DataFrame:
        """One row per replicate: its axes, its seed, whether it is valid, and its metrics."""
        # A campaign computes the error's share from its stopping rule, which is not in cell.json.
        columns = [name for name in REPLICATE_COLUMNS if name != "error_share"]
        columns += self._tables.metrics()
        frame = _frame(self._tables.replicates, columns)
        return frame.assign(valid=frame["valid"] == "TRUE")

    @property
    def intervals(self) -> pd.DataFrame:
        """Goodput of each second of iperf3's valid replicates, with their axes."""
        rows = _frame(self._tables.intervals, INTERVAL_COLUMNS)
        return rows.merge(self.cells[[*NAMES, *AXES]], on=list(NAMES))

    def means(self, metric: str | None = None) -> pd.DataFrame:
        """Return the mean of a metric per cell, with a 95 % confidence interval from five runs on.

        The axes that vary come first, the others last. The interval is for a fixed number of runs,
        as in a sweep. A campaign's cells that may end early have wider intervals, in
        `results/summary/STUDY/statistics.csv`.

        Args:
            metric: Name of the metric; by default the main metric of each cell's app.
        """
        varied, rows = self._rows(metric)
        names = [{key: row[key] for key in IDENTITY} for row in self._tables.cells]
        means = [
            named | cell.condition.to_json() | row
            for named, cell, row in zip(names, self._cells, rows, strict=True)
        ]
        fixed = [name for name in AXES if name not in varied]
        columns = [*IDENTITY, *varied, "metric", *printed.STATISTICS, *fixed]
        # Cells without five valid runs have no interval.
        return _frame(means, columns).astype({end: float for end in ("mean", "low", "high")})

    def runs(self, **axes: Unpack[Axes]) -> list[Run]:
        """List the valid runs whose axes have the given values."""
        pyarguments.require_axes(axes)
        given = {name: pyarguments.axis_value(name, value) for name, value in axes.items()}

        def chosen(point: Mapping[str, Any]) -> bool:
            pairs = ((name, units.one(name, value, point)) for name, value in given.items())
            return all(point[name] == AXES[name].typed(value) for name, value in pairs)

        with input_errors():
            given |= parameters.resolved(given)
            cells = [cell for cell in self._cells if chosen(cell.condition.to_json())]
        return [
            Run(replicate.folder)
            for cell in cells
            for row, replicate in zip(cell.rows, cell.replicates, strict=True)
            if row["valid"]
        ]


class RecordedResults(Results):
    """Recorded numbers of a campaign's cells, without the files of their runs."""

    def __repr__(self) -> str:
        """Return the folder and the number of cells."""
        return f"<Results of {len(self._numbers)} recorded cells in {self.folder}>"

    @cached_property
    def _numbers(self) -> list[CellNumbers]:
        return records.read_all(self.folder)

    @cached_property
    def _tables(self) -> Tables:
        return gather(self._numbers)

    @cached_property
    def _cells(self) -> list[MeasuredCell]:
        return [
            MeasuredCell(results.cell_file(self.folder, its["study"], its["cell"]), its)
            for its in (each.content for each in self._numbers)
        ]

    @property
    def warnings(self) -> list[str]:
        """None: what limited the flows is in the files of the runs."""
        return []

    def runs(self, **axes: Unpack[Axes]) -> list[Run]:
        """Refuse, because recorded runs have no files."""
        raise UsageError(
            f"runs must have files, found only recorded numbers in {self.folder}",
            hint="`replicates` has the metrics of each run; losslab.measure with its axes and "
            "seed measures it again",
        )


@_with_axes
def measure(
    *,
    seed: int = 1,
    out: str | Path | None = None,
    backend: str = VIRTUAL,
    where: str = GUEST,
    captures: Sequence[str] = (),
    timeout_s: float | None = None,
    allow_invalid: bool = False,
    **axes: Unpack[Axes],
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
        captures: Interfaces whose packets are captured, such as `r1-r2`; or `state`.
        timeout_s: Wall-clock limit of the guest.
        allow_invalid: Return a run that failed a check instead of raising InvalidRunError.
        axes: Axes of the condition, such as `algorithm="bbr", loss_percent=1`.
    """
    pyarguments.require_backend(backend, where)
    pyarguments.require_axes(axes)
    given = {name: pyarguments.axis_value(name, value) for name, value in axes.items()}
    condition = cellspec.condition(given, own_kernel=cellspec.on_own_kernel(backend, where))
    own_lengths = (name in given for name in runlength.LENGTH_AXES)
    (condition,), _ = runlength.with_length([condition], *own_lengths)
    inputs.require([condition])
    number = pyarguments.whole("seed", seed, 0, cellspec.SEED_MAX)
    limit_s = pyarguments.timeout_s(timeout_s)
    accepted = pyarguments.typed("allow_invalid", allow_invalid, bool, "True or False")
    links = packets.links(pyarguments.names("captures", captures), condition, where)
    default = _default_folder(condition, backend, where, number, links)
    folder = out_folder(pyarguments.folder("out", default if out is None else out))
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


@_with_axes
def sweep(
    *,
    replicates: int = 5,
    cores: int | None = None,
    out: str | Path | None = None,
    backend: str = VIRTUAL,
    where: str = GUEST,
    **axes: Unpack[AxisLists],
) -> Results:
    """Measure all combinations of values of some axes; finished runs are kept.

    Raises UsageError if an axis or a value is impossible, or there are too many cells. Nothing ran.
    Raises LosslabError if a cell could not be measured.

    Args:
        replicates: Runs of each cell.
        cores: Cells to measure at a time; by default all cores.
        out: Folder of the results, with the tables and the figure of `losslab sweep`; by default
            `results/sweeps` in the current folder, which has the runs of several sweeps and no
            tables.
        backend: As in `measure`.
        where: As in `measure`.
        axes: A value or a list of values of each axis, such as `algorithm=["cubic", "bbr"]`.
    """
    pyarguments.require_backend(backend, where)
    pyarguments.require_axes(axes)
    given = {name: pyarguments.axis_values(name, value) for name, value in axes.items()}
    folder = out_folder(pyarguments.folder("out", SWEEPS if out is None else out))
    own_kernel = cellspec.on_own_kernel(backend, where)
    with_length, _ = sweeps.with_length(given, folder, own_kernel)
    todo = sweeps.cells(with_length, folder, own_kernel)
    runs = pyarguments.whole("replicates", replicates, 1)
    available = len(os.sched_getaffinity(0))
    processors = available if cores is None else pyarguments.whole("cores", cores, 1)
    figure = out is not None and sweeps.can_draw()
    if out is not None:
        sweeps.write_study(with_length, runs, folder)
    with _continued():
        for cell in todo:
            at_first_use(cell.condition, backend, where)
        sweeps.measure(todo, runs, processors, backend, where)
    found = Results(folder, tuple(cell.file for cell in todo))
    if out is not None:
        measured = found._cells
        varied = sweeps.varied_axes(with_length, [cell.condition for cell in measured])
        rows = printed.rows(measured, varied, None)
        sweeps.write_tables(rows, varied, measured, folder, figure)
    return found


@_with_axes
def cross(
    metric: str,
    ratio: float,
    *,
    replicates: int = 5,
    cores: int | None = None,
    out: str | Path | None = None,
    **axes: Unpack[AxisLists],
) -> Crossing:
    """Return the value of an axis at which two algorithms have a ratio, with its interval.

    It is found by bisection, as by `losslab sweep --cross`; finished runs are kept. Raises
    UsageError if the ratio does not cross that value in the range, or an axis is impossible.

    Args:
        metric: Name of the metric, such as `goodput_mbit`.
        ratio: The first algorithm's metric over the second's.
        replicates: Runs of each algorithm at each value.
        cores: As in `sweep`.
        out: As in `sweep`.
        axes: Two algorithms, two values of the axis to bisect, and single values of others, such as
            `algorithm=["bbr", "cubic"], loss_percent=[0.001, 0.1], rate_mbit=50`.
    """
    pyarguments.require_axes(axes)
    given = {name: pyarguments.axis_values(name, value) for name, value in axes.items()}
    name = metrics.name_option(pyarguments.typed("metric", metric, str, "text"))
    factor = crossing.factor_of(pyarguments.plain(ratio))
    folder = out_folder(pyarguments.folder("out", SWEEPS if out is None else out))
    runs = pyarguments.whole("replicates", replicates, 1)
    available = len(os.sched_getaffinity(0))
    processors = available if cores is None else pyarguments.whole("cores", cores, 1)
    with _continued():
        found, _ = sweeps.cross(given, name, factor, runs, folder, processors)
    return found


@contextlib.contextmanager
def _continued() -> Iterator[None]:
    """Say what an interrupt leaves behind."""
    try:
        yield
    except KeyboardInterrupt:
        print("losslab: interrupted: finished runs are kept; the same call continues",
              file=sys.stderr)  # fmt: skip
        raise


def read(folder: str | Path) -> Results:
    """Read a campaign's or sweep's results, or a folder of recorded numbers, as tables.

    Raises LosslabError if they are damaged. Recorded numbers, such as those of `recorded/full`,
    which losslab has with it, have no files of runs.
    """
    path = pyarguments.folder("folder", folder)
    if not path.exists() and records.has_numbers(ROOT / path):
        path = ROOT / path  # losslab's own records, from any folder
    if records.has_numbers(path):
        return RecordedResults(path, ())
    if not path.is_dir():
        raise UsageError(
            f"{path} must contain measured cells, found "
            + ("a file" if path.exists() else "no such folder"),
            hint="name the folder of `losslab sweep`, of a campaign, or of recorded numbers, such "
            "as recorded/full",
        )
    if (path / records.RECORD).is_file():
        raise UsageError(
            f"{path} must have the numbers of runs, found only their digests ({records.RECORD})",
            hint="`losslab diff RESULTS RECORD` compares with digests; recorded/full has numbers",
        )
    found = results.read_cells(path)
    return Results(Path(folder), tuple(cell.file for cell in found.values()))


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


def _frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([dict(row) for row in rows], columns=list(columns))
