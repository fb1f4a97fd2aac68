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
from typing import Any, ParamSpec, TypeVar

from losslab import lock, reading
from losslab.backends import snapshot_server
from losslab.campaign import fingerprint, hosts, instrument, recorded, staleness
from losslab.campaign.cellrun import LOST_FILE, self_test, self_test_on
from losslab.campaign.instrument import image_of, kernel_of
from losslab.campaign.recorded_verdicts import TABLE, read_recorded
from losslab.campaign.staleness import Ledger
from losslab.campaign.verdicts import CLAIMS
from losslab.errors import LosslabError
from losslab.instrument import kernels, packed, records
from losslab.repository import MARK, ROOT
from losslab.study import claims, design, files
from losslab.study.design import Cell
from losslab.study.grid import declared_values
from losslab.study.seed_family import FIRST
from losslab.study.suite import load_study
from losslab.workflow.analysis import Analysis, require_programs
from losslab.workflow.instruments import parts_of, smoke_test_record
from losslab.workflow.recorded_numbers import RecordedNumbers
from losslab.workflow.run import Run

P = ParamSpec("P")
T = TypeVar("T")
RESULTS, STATE = Path("results"), Path(".snakemake")
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


class Campaign:
    """A configuration's studies and cells.

    Attributes:
        studies: The studies by name, in the configuration's order.
        cells: The cells by study and cell name.
        analysis: The studies' R code, figures and tables.
        recorded: The cells that need no measurement.
    """

    @as_workflow_error
    def __init__(
        self, config: Mapping[str, Any], configfiles: Iterable[str | Path], root: Path = ROOT
    ) -> None:
        """Load and check the studies of a configuration."""
        self._config, self._configfiles, self._root = config, list(configfiles), root
        for path in self._configfiles:  # Snakemake accepts repeated keys
            reading.read_config(Path(path))
        studies = design.load_studies(hosts.chosen(config), root)
        self.studies = {study.name: study for study in studies}
        claims.check(self.studies, root)
        files.check(self.studies.values(), root)
        self.analysis = Analysis(self.studies, root)
        self.cells = {
            (study.name, cell.name): cell for study in self.studies.values() for cell in study.cells
        }
        self.recorded = RecordedNumbers(config.get("recorded"), self.cells.values())
        self._ledger = Ledger(STATE / "losslab-ledger.json")
        self._run: Run | None = None
        # Snakemake calls neither `start` nor `end` when there is nothing to do.
        atexit.register(self._ledger.write)

    # Start and end of a run of the workflow

    @as_workflow_error
    def start(self, workflow: Any) -> None:
        """Record the code of cells, report results to be made again, and test the instrument."""
        require_programs(workflow)
        lock.hold_for_life(STATE)
        self._run = Run(workflow, self._config, self._root)
        staleness.record_code(self.cells.values())
        for name, problem in self._ledger.found.items():
            print(f"losslab: note: making {name} again: {problem}", file=sys.stderr)
        self._ledger.write()
        self._test_instruments(self._run.planned)
        # One boot for all cells. Jobs on other machines find no server, and boot guests themselves.
        server = contextlib.ExitStack()
        os.environ |= server.enter_context(snapshot_server.serving()) | hosts.variable(self._config)
        atexit.register(server.close)

    def _test_instruments(self, outputs: set[str]) -> None:
        """Run the self-test of every instrument that is about to measure cells.

        Instruments that are not built yet are tested by a rule. Cells in real time check the
        machine themselves. Raises HostError if a self-test failed.
        """
        cells = [cell for key, cell in self.cells.items() if _result(*key) in outputs]
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
        """Record the campaign, the files that the workflow made, and the digests of its tables."""
        recorded.record(RESULTS, self._configfiles, self._config)
        if self._run is not None:
            self._run.record(Path(), self.results())
        tables = [path for study in self.studies for path in study_tables(study).values()]
        self._ledger.record([*tables, CLAIMS])

    def name_lost_cells(self) -> None:
        """Print the cells that end with a lost guest."""
        lost = []
        for folder in (_folder(*key) for key in self.cells):
            if (folder / LOST_FILE).exists():
                rows = reading.read_json(folder / "cell.json")["replicates"]
                lost += [str(folder)] if any(row["lost"] for row in rows) else []
        if lost:
            print(
                f"losslab: a guest was lost in {', '.join(lost)}. The last replicate there is "
                "invalid; run the same command to retry it.",
                file=sys.stderr,
            )

    # Parameters of a cell

    def cell(self, wildcards: Any) -> Cell:
        """Return the cell of a job."""
        return self.cells[wildcards.study, wildcards.cell]

    def options(self, wildcards: Any) -> list[str]:
        """Return the options of `losslab cell` for a job: condition, backend and stopping rule."""
        cell = self.cell(wildcards)
        rule = cell.stopping
        options = {
            "block": cell.block,
            "condition": json.dumps(cell.condition.to_json(), sort_keys=True),
            "backend": cell.backend,
            "where": cell.where,
            "replicates": rule.minimum,
        }
        if rule.half_width_percent is not None:
            options |= {
                "max-replicates": rule.maximum, "half-width-percent": rule.half_width_percent,
            }  # fmt: skip
        if cell.seed_family != FIRST:
            options["seed-family"] = cell.seed_family
        return [part for name, value in options.items() for part in (f"--{name}", str(value))]

    def real_time(self, wildcards: Any) -> int:
        """Return how much of the resource `real_time` a cell takes: 1 in real time, or else 0."""
        return int(self.cell(wildcards).real_time)

    def fingerprint(self, wildcards: Any) -> str:
        """Return a cell's fingerprint; Snakemake runs a job again when the parameter changes."""
        cell = self.cell(wildcards)
        return fingerprint.of(cell.condition, cell.backend, cell.where).digest

    def lost(self, wildcards: Any) -> str:
        """Return when a cell last lost a guest; a change makes Snakemake retry the cell.

        For a cell that was skipped for want of an instrument, the value changes when its
        instrument becomes available.
        """
        note = _folder(wildcards.study, wildcards.cell) / LOST_FILE
        lost = json.loads(note.read_text()) if note.exists() else {"when_utc": ""}
        needs = parts_of(self.cell(wildcards))
        absent = "absent" in lost and not all(records.in_cache(*part) for part in needs)
        return "" if absent else str(lost["when_utc"])

    def damaged(self, wildcards: Any) -> str:
        """Return when a cell was last found damaged or another's; a change measures it again."""
        return self._ledger.cell(_folder(wildcards.study, wildcards.cell), self.cell(wildcards))

    def image_optional(self, wildcards: Any) -> list[str]:
        """Return the option of an image that is needed only by optional cells."""
        optional = [
            cell.optional
            for cell in self.cells.values()
            if (packed.IMAGE, wildcards.variant) in parts_of(cell)
        ]
        return ["--optional"] if optional and all(optional) else []

    # Studies

    def results(self, study: str | None = None) -> list[str]:
        """List the results of the cells to measure, of a study or of all studies."""
        return [
            _result(*key)
            for key in self.cells
            if study in (None, key[0]) and key not in self.recorded
        ]

    def all_results(self, wildcards: Any) -> list[str]:
        """List the results of a study's cells, measured here or not."""
        return [_result(*key) for key in self.cells if key[0] == wildcards.study]

    def rules(self, wildcards: Any) -> list[str]:
        """List the stopping rules of a study's cells, in the order of `all_results`."""
        return [str(c.stopping) for (study, _), c in self.cells.items() if study == wildcards.study]

    def left_out(self, wildcards: Any) -> list[str]:
        """List the numbers of cells, by block, that the campaign does not measure of a study."""
        return [f"{b}={count}" for b, count in self.studies[wildcards.study].left_out.items()]

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

    def changed(self, *tables: str) -> Callable[[Any], str]:
        """Return a parameter: when the given tables of a job's study were last found changed."""
        return lambda wildcards: self._ledger.files(
            study_tables(wildcards.study)[table] for table in tables
        )

    def claims_changed(self, _: Any) -> str:
        """Return when the judged claims were last found changed."""
        return self._ledger.files([CLAIMS])

    def claims(self) -> list[str]:
        """List the files of the studies' claims."""
        return [str(files.claims(self._root, study)) for study in self.studies]

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


def _folder(study: str, cell: str) -> Path:
    return Path("results/cells", study, cell)


def _result(study: str, cell: str) -> str:
    return f"{_folder(study, cell)}/cell.json"
