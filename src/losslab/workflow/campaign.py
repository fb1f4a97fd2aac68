"""Inputs and parameters of the workflow's rules, and its actions at the start and the end.

Rules contain no computations. `workflow/rules/common.smk` creates a `Campaign` from Snakemake's
configuration. Rules use its methods as input functions and parameters, which take a job's
wildcards.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from losslab import lock, reading
from losslab.backends import snapshot_server
from losslab.campaign import hosts, instrument, plan, recorded, recorded_numbers
from losslab.campaign.cellrun import LOST_FILE, self_test, self_test_on
from losslab.campaign.codelock import PACKAGE
from losslab.campaign.folder import CELL_FILE, digest_of
from losslab.campaign.instrument import image_of, kernel_of
from losslab.campaign.plan import Planned
from losslab.campaign.recorded_verdicts import TABLE, read_recorded
from losslab.doors import MARK
from losslab.errors import LosslabError
from losslab.instrument import kernels, packed, records
from losslab.instrument.archive import digest
from losslab.repository import ROOT
from losslab.study import claims, design, metrics, studyfiles
from losslab.study.design import Cell
from losslab.study.studyfiles import declared_values, load_study
from losslab.workflow.analysis import Analysis, require_programs
from losslab.workflow.instruments import parts_of, smoke_test_record

P = ParamSpec("P")
T = TypeVar("T")
STATE = Path(".snakemake")
# A study's tables of numbers, besides `summary`, whose file has the study's name alone.
TABLES = ("cells", "replicates", "intervals", "flows", "queue", "ratios")
# The default configurations of `snakemake` and of `make report`.
FULL, QUICK = "config/config.yaml", "config/quick.yaml"


def as_workflow_error(function: Callable[P, T]) -> Callable[P, T]:
    """Convert losslab's errors to Snakemake's, which it prints without a traceback."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except LosslabError as error:
            from snakemake.exceptions import WorkflowError

            raise WorkflowError(str(error)) from None

    return call


def without_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Handle an exception that Snakemake does not: of an interrupt, print no traceback.

    Snakemake handles interrupts while jobs run. Planning a large campaign takes many seconds.
    """
    if issubclass(kind, KeyboardInterrupt):
        print("losslab: interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


class Campaign:
    """A configuration's studies and cells.

    Attributes:
        studies: The studies by name, in the configuration's order.
        plan: The cells, with all that decides their results.
        analysis: The studies' R code, figures and tables.
    """

    @as_workflow_error
    def __init__(
        self, config: Mapping[str, Any], configfiles: Iterable[str | Path], root: Path = ROOT
    ) -> None:
        """Load and check the studies of a configuration."""
        self._config, self._configfiles, self._root = config, list(configfiles), root
        for path in self._configfiles:  # Snakemake accepts repeated keys
            reading.read_config(Path(path))
        studies, self.plan = plan.make(config, root)
        self.studies = {study.name: study for study in studies}
        claims.check(self.studies, root)
        design.check_files(self.studies.values(), root)
        self.analysis = Analysis(self.studies, root)
        self._cells = [cell for study in studies for cell in study.cells]

    # Start and end of a run of the workflow

    @as_workflow_error
    def start(self, workflow: Any) -> None:
        """Write the plan of the cells, test the instrument, and boot the base snapshot."""
        require_programs(workflow)
        lock.hold_for_life(STATE)
        self.plan.write()
        self._test_instruments({str(f) for job in workflow.dag.needrun_jobs() for f in job.output})
        # One boot for all cells. Jobs on other machines find no server, and boot guests themselves.
        server = contextlib.ExitStack()
        os.environ |= server.enter_context(snapshot_server.serving()) | hosts.variable(self._config)
        atexit.register(server.close)

    def _test_instruments(self, outputs: set[str]) -> None:
        """Run the self-test of every instrument that is about to measure cells.

        Instruments that are not built yet are tested by a rule. Cells in real time check the
        machine themselves. Raises HostError if a self-test failed.
        """
        cells = [each.cell for each in self.plan.cells.values() if _result(each) in outputs]
        tools = {
            (cell.backend, kernel_of(cell.condition).key, image_of(cell.condition))
            for cell in cells
            if not cell.real_time
            and smoke_test_record(cell) not in outputs
            and not records.absent(Path(smoke_test_record(cell)))
        }
        for backend, key, name in sorted(tools):
            hosts, spec = self_test_on(name), kernels.of_key(key)
            tool = instrument.instrument(backend, condition=hosts, spec=spec)
            instrument.require_first(tool, records.FOLDER)
            print(self_test(tool), file=sys.stderr)

    def end(self) -> None:
        """Record the campaign, and print the cells that end with a lost guest."""
        recorded.record(plan.RESULTS, self._configfiles, self._config)
        lost = []
        for folder in (plan.RESULTS / each.folder for each in self.plan.cells.values()):
            if (folder / LOST_FILE).exists() and (folder / CELL_FILE).exists():
                rows = reading.read_json(folder / CELL_FILE)["replicates"]
                lost += [str(folder)] if any(row["lost"] for row in rows) else []
        if lost:
            print(
                f"losslab: a guest was lost in {', '.join(lost)}. The last replicate there is "
                "invalid; run the same command to retry it.",
                file=sys.stderr,
            )

    # Inputs and parameters of a cell

    def cell(self, wildcards: Any) -> Cell:
        """Return the cell of a job."""
        return self._planned(wildcards).cell

    def _planned(self, wildcards: Any) -> Planned:
        return self.plan.cells[wildcards.study, wildcards.cell]

    def planned(self, wildcards: Any) -> str:
        """Return a cell's entry in the plan; Snakemake runs a job again when it changes."""
        return json.dumps(self._planned(wildcards).to_json())

    def real_time(self, wildcards: Any) -> int:
        """Return how much of the resource `real_time` a cell takes: 1 in real time, or else 0."""
        return int(self.cell(wildcards).real_time)

    def stopping_rule(self, _: Any) -> list[str]:
        """Return the digest of the stopping rule's code, and the metrics that it uses."""
        return [digest(PACKAGE / "study" / "intervals.py"), *metrics.primary_names()]

    def lost(self, wildcards: Any) -> str:
        """Return when a cell last lost a guest; a change makes Snakemake retry the cell.

        For a cell that was skipped for want of an instrument, the value changes when its
        instrument becomes available.
        """
        planned = self._planned(wildcards)
        note = plan.RESULTS / planned.folder / LOST_FILE
        lost = json.loads(note.read_text()) if note.exists() else {"when_utc": ""}
        needs = parts_of(planned.cell)
        absent = "absent" in lost and not all(records.in_cache(*part) for part in needs)
        return "" if absent else str(lost["when_utc"])

    def image_optional(self, wildcards: Any) -> list[str]:
        """Return the option of an image that is needed only by optional cells."""
        optional = [
            cell.optional
            for cell in self._cells
            if (packed.IMAGE, wildcards.variant) in parts_of(cell)
        ]
        return ["--optional"] if optional and all(optional) else []

    # Studies

    def results(self, study: str | None = None) -> list[str]:
        """List the results of the cells to measure, of a study or of all studies."""
        return [
            _result(each)
            for each in self.plan.cells.values()
            if study in (None, each.cell.study) and not each.recorded
        ]

    def records(self, study: str | None = None) -> list[str]:
        """List the files with recorded numbers of a study's cells, or of all studies'."""
        names = {each.cell.study for each in self.plan.cells.values() if each.recorded}
        return [
            str(recorded_numbers.file_of(folder, name))
            for name in sorted(names)
            if (folder := self.plan.record) and study in (None, name)
        ]

    def record_option(self) -> list[str]:
        """Return the option that names the folder of recorded numbers, if they are used."""
        return ["--recorded", str(self.plan.record)] if self.records() else []

    def planned_study(self, wildcards: Any) -> str:
        """Return a digest of a study's part of the plan."""
        return digest_of(self.plan.to_json(wildcards.study))

    def collecting(self) -> list[str]:
        """List the source files that collect a study's cells."""
        return [str(PACKAGE / "campaign" / name) for name in ("celldata.py", "collect.py")]

    def summaries(self, *tables: str) -> list[str]:
        """List the files of the given tables of every study."""
        return [study_tables(study)[table] for study in self.studies for table in tables]

    def declared(self, _: Any) -> str:
        """Return the values of each axis that all studies declare, as JSON.

        A chapter may ask for these values only, measured in this campaign or not.
        """
        known = (path.stem for path in (self._root / "config" / "studies").glob("*.yaml"))
        names, own = sorted({*self.studies, *known}), self._config.get("algorithms", ())
        studies = (load_study(name, self._root, own) for name in names)
        return json.dumps(declared_values(studies))

    def claims(self) -> list[str]:
        """List the files of the studies' claims."""
        return [str(studyfiles.claims_file(self._root, study)) for study in self.studies]

    def verdicts(self) -> list[str]:
        """List the table of recorded verdicts if it has this campaign's."""
        known = read_recorded().get(self._config.get("campaign", ""))
        return [str(TABLE)] if known else []

    def command(self) -> str:
        """Return the command that measures this campaign and makes its report in a clone."""
        root = self._root.resolve()
        paths = [Path(path).resolve() for path in self._configfiles]
        # A campaign's folder has a configuration of its own in the same place.
        here = Path(FULL).resolve() if Path(MARK).is_file() else root / FULL
        named = [path for path in paths if path not in (here, root / FULL)]
        if not named:
            return "snakemake --cores all"
        # Files outside the repository: by name only, because their folders differ elsewhere.
        names = [
            path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
            for path in named
        ]
        if len(named) == 1 and named[0].is_relative_to(root):
            return "make report" if names == [QUICK] else f"make report CONFIG={names[0]}"
        return " ".join(["snakemake --cores all --configfile", *names])


def study_tables(study: str) -> dict[str, str]:
    """Return the files of a study's tables of numbers by name."""
    named = {table: f"results/summary/{study}_{table}.csv" for table in TABLES}
    return named | {"summary": f"results/summary/{study}.csv"}


def _result(planned: Planned) -> str:
    return str(plan.RESULTS / planned.folder / CELL_FILE)
