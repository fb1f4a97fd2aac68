"""Runs and results of measurements as pandas data frames.

Polars converts them: `polars.from_pandas(run.tcp)`, which needs pyarrow for columns of text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab import pyarguments
from losslab.campaign import limiters, tables
from losslab.campaign.results import MeasuredCell, Replicate, read_cell
from losslab.errors import LosslabError
from losslab.reading import input_errors
from losslab.study import metrics
from losslab.study.condition import AXES, Condition
from losslab.ui import cellstable

if TYPE_CHECKING:
    import pandas as pd

Value = str | float
IDENTITY = ("study", "block", "cell")


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
    def condition(self) -> dict[str, Value]:
        """The axes of the run, by name; `losslab axes` describes them."""
        return dict(self.manifest["cell"])

    @property
    def limits(self) -> dict[str, float]:
        """Limits of the first flow, in percent of its time, such as `path` and `pacing`."""
        return limiters.of_run(self.folder, self.manifest)

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

        path = self.folder / f"{pyarguments.text('name', name)}.csv"
        if not path.is_file():
            found = sorted(each.stem for each in self.folder.glob("*.csv"))
            raise LosslabError(
                f"a table must be one of the run's files, found no {path}",
                hint=f"this run has {', '.join(found)}",
            )
        return pd.read_csv(path)

    @property
    def tcp(self) -> pd.DataFrame:
        """cwnd, ssthresh, smoothed RTT, pacing and delivery rate of each flow, every 20 ms."""
        return self.table("tcp")

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

    @cached_property
    def _tables(self) -> tables.Tables:
        return tables.gather(map(tables.numbers_of, self._cells))

    @cached_property
    def _cells(self) -> list[MeasuredCell]:
        return [read_cell(file).checked() for file in self.files]

    @property
    def cells(self) -> pd.DataFrame:
        """One row per cell: its axes, numbers of replicates, and violations."""
        columns = [name for name in tables.CELL_COLUMNS if name != "recorded"]
        return _frame(self._tables.cells, columns)

    @property
    def replicates(self) -> pd.DataFrame:
        """One row per replicate: its axes, its seed, whether it is valid, and its metrics."""
        # A campaign computes the error's share from its stopping rule, which is not in cell.json.
        columns = [name for name in tables.REPLICATE_COLUMNS if name != "error_share"]
        columns += self._tables.metrics()
        frame = _frame(self._tables.replicates, columns)
        return frame.assign(valid=frame["valid"] == "TRUE")

    @property
    def intervals(self) -> pd.DataFrame:
        """Goodput of each second of iperf3's valid replicates."""
        return _frame(self._tables.intervals, tables.INTERVAL_COLUMNS)

    def means(self, metric: str | None = None) -> pd.DataFrame:
        """Return the mean of a metric per cell, with a 95 % confidence interval from five runs on.

        The interval is for a fixed number of runs, as in a sweep. `results/summary/STUDY.csv` has
        the wider intervals of a campaign's cells that may end early.

        Args:
            metric: Name of the metric; by default the main metric of each cell's app.
        """
        chosen = None if metric is None else pyarguments.text("metric", metric)
        conditions = [cell.condition for cell in self._cells]
        varied = [name for name in AXES if len({getattr(c, name) for c in conditions}) > 1]
        rows = cellstable.rows(self._cells, varied or ["algorithm"], chosen)
        names = [{key: row[key] for key in IDENTITY} for row in self._tables.cells]
        found = [named | row for named, row in zip(names, rows, strict=True)]
        columns = [*IDENTITY, *(varied or ["algorithm"]), "metric", *cellstable.STATISTICS]
        # Cells without five valid runs have no interval.
        return _frame(found, columns).astype({end: float for end in ("mean", "low", "high")})

    def runs(self, **axes: Value) -> list[Run]:
        """List the valid runs whose axes have the given values."""
        pyarguments.require_axes(axes)
        with input_errors():
            wanted = {
                name: AXES[name].typed(pyarguments.axis_value(name, value))
                for name, value in axes.items()
            }
        return [
            Run(each.folder)
            for cell in self._cells
            if all(getattr(cell.condition, name) == value for name, value in wanted.items())
            for row, each in zip(cell.rows, cell.replicates, strict=True)
            if row["valid"]
        ]


def _frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([dict(row) for row in rows], columns=list(columns))
