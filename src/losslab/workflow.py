"""Inputs and parameters of the workflow's rules, and its actions at the start and the end.

Rules contain no computations. `workflow/rules/common.smk` creates a `Campaign` from Snakemake's
configuration. Rules use its methods as input functions and parameters, which take a job's
wildcards.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from losslab import analysis, extensions, lock, moved, reading, worker
from losslab.backends import snapshot_server
from losslab.campaign import cost, inputs, instrument, plan, records
from losslab.campaign.cellrun import SELF_TEST, self_test
from losslab.campaign.codelock import PACKAGE
from losslab.campaign.instrument import image_of, kernel_of, parts, parts_of, smoke_test_record
from losslab.campaign.plan import Planned
from losslab.campaign.results import LOST_FILE, digest_of, read_cell
from losslab.campaign.tables import R_LISTS
from losslab.campaign.verdicts import record_of
from losslab.errors import LosslabError
from losslab.instrument import built, image, kernels, packed
from losslab.instrument.fetch import digest
from losslab.repository import ROOT, find
from losslab.study import claims, design, metrics, studyfiles
from losslab.study.condition import AXES, FIRST_FAMILY
from losslab.study.design import Cell
from losslab.study.intervals import StoppingRule
from losslab.study.studyfiles import declared_values, load_study

P = ParamSpec("P")
T = TypeVar("T")
STATE = Path(".snakemake")
# Tables of a study's cells that `losslab collect` writes.
COLLECTED = ("cells", "replicates", "intervals", "flows", "queue", "criteria")
# The default configurations of `snakemake` and of `make report`.
FULL, QUICK = "config/config.yaml", "config/campaigns/quick.yaml"
# Output of the rule that renders the report.
RENDERED = ".snakemake/losslab/rendered"
# Top-level definitions of R files.
DEFINITION = re.compile(r"^([A-Za-z.][\w.]*) *<-", re.MULTILINE)


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
    """Handle an exception that Snakemake does not: of an interrupt, print no traceback."""
    if issubclass(kind, KeyboardInterrupt):  # while a campaign is planned, which takes seconds
        print("losslab: interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


class Campaign:
    """A configuration's `studies` by name, and the `plan` of their cells."""

    @as_workflow_error
    def __init__(
        self, config: Mapping[str, Any], configfiles: Iterable[str | Path], root: Path = ROOT
    ) -> None:
        """Load and check the studies of a configuration."""
        self._config, self._configfiles, self._root = config, list(configfiles), root
        moved.require_new_places(extensions.campaign())
        for path in self._configfiles:  # Snakemake accepts repeated keys
            reading.read_config(Path(path))
        studies, self.plan = plan.make(config, root, records.available)
        if config.get("measure") is False:
            self.plan.require_recorded()
            if missing := self.plan.not_recorded():
                print(
                    f"losslab: {len(missing)} of {len(self.plan.cells)} cells have no recorded "
                    f"numbers with today's sources, such as {missing[0].cell.study}/"
                    f"{missing[0].cell.name}: the report says that they are not measured",
                    file=sys.stderr,
                )
        self.studies = {study.name: study for study in studies}
        claims.check(self.studies, root)
        design.check_files(self.studies.values(), root)
        require_defined_once(self.functions(self.studies))

    def functions(self, studies: Iterable[str]) -> list[Path]:
        """List the R files with functions, and with the axes and metrics of a user's modules."""
        found = studyfiles.functions(self._root, studies)
        for path in [each for each in found if each.name in R_LISTS]:
            own, text = STATE / "losslab" / path.name, R_LISTS[path.name]()
            if text != path.read_text():
                # An unchanged file keeps its time, so that its jobs do not run again.
                if not own.is_file() or text != own.read_text():
                    reading.write_text(own, text)
                found[found.index(path)] = own
        return found

    # Start and end of a run of the workflow

    @as_workflow_error
    def start(self, workflow: Any) -> None:
        """Write the plan of the cells, test the instrument, and boot the base snapshot."""
        require_programs(workflow)
        if workflow.local_exec:
            # A limit of jobs per second is for clusters. Its timers, one per job, wake Snakemake
            # until the end, and the process cannot end before them.
            workflow.scheduler.job_rate_limiter = None
        lock.hold_for_life(STATE)
        self.plan.write(more=plan.facts(self._configfiles, self._config))
        outputs = {str(f) for job in workflow.dag.needrun_jobs() for f in job.output}
        self._expect(workflow, outputs)
        self._test_instruments(outputs)
        # One boot and one import of losslab for all cells. Jobs on other machines find no server,
        # and do both themselves.
        server = contextlib.ExitStack()
        os.environ |= server.enter_context(snapshot_server.serving())
        os.environ |= server.enter_context(worker.serving())
        os.environ[plan.HOSTS] = str(plan.with_hosts(self._config)["hosts"])
        atexit.register(server.close)

    def _expect(self, workflow: Any, outputs: set[str]) -> None:
        """Give the progress on the screen the estimated times of the cells to measure."""
        from snakemake_logger_plugin_losslab import LogHandler

        for handler in workflow.logger_manager.plugin_handlers:
            if isinstance(handler, LogHandler) and handler.progress:
                handler.progress.expect(
                    {
                        path: cost.cell_s(planned.cell)
                        for planned in self.plan.cells.values()
                        if (path := str(planned.file())) in outputs
                    }
                )

    def _test_instruments(self, outputs: set[str]) -> None:
        """Run the self-test of every instrument that is about to measure cells.

        Instruments that are not built yet are tested by a rule. Cells in real time check the
        machine themselves.
        """
        tools = {
            (cell.backend, kernel_of(cell.condition).key, image_of(cell.condition))
            for each in self.plan.cells.values()
            if str(each.file()) in outputs
            and not (cell := each.cell).real_time
            and (record := smoke_test_record(cell)) not in outputs
            and not built.absent(Path(record))
        }
        for backend, key, name in sorted(tools):
            hosts, spec = replace(SELF_TEST, image=name), kernels.of_key(key)
            tool = instrument.instrument(backend, condition=hosts, spec=spec)
            instrument.require_first(tool, built.FOLDER)
            print(self_test(tool), file=sys.stderr)

    def end(self) -> None:
        """Print the cells that end with a lost guest."""
        files = [each.file() for each in self.plan.cells.values()]
        lost = [
            str(file.parent)
            for file in files
            if (file.parent / LOST_FILE).exists() and file.exists()
            and any(row.get("lost") for row in read_cell(file).rows)
        ]  # fmt: skip
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

        For a cell that was skipped for want of an instrument or a trace, the value changes when
        that becomes available.
        """
        planned = self._planned(wildcards)
        note = planned.file().parent / LOST_FILE
        lost = json.loads(note.read_text()) if note.exists() else {"when_utc": ""}
        if "absent" in lost and not inputs.has_public_traces(planned.cell.condition):
            return ""
        there = "absent" not in lost or all(built.in_cache(*p) for p in parts_of(planned.cell))
        return str(lost["when_utc"]) if there else ""

    def image_optional(self, wildcards: Any) -> list[str]:
        """Return the option of an image that is needed only by optional cells."""
        cells, part = (e.cell for e in self.plan.cells.values()), (packed.IMAGE, wildcards.variant)
        optional = [cell.optional for cell in cells if part in parts_of(cell)]
        return ["--optional"] if optional and all(optional) else []

    # Kernels and images

    def smoke_test(self, wildcards: Any) -> str:
        """Return the record of the smoke test that a cell needs."""
        return smoke_test_record(self.cell(wildcards))

    @staticmethod
    def smoke_test_kernel(wildcards: Any) -> str:
        """Return the name of a smoke test's kernel."""
        return str(wildcards.on.removeprefix("+") or kernels.DEFAULT)

    @staticmethod
    def smoke_test_image(wildcards: Any) -> str:
        """Return the name of a smoke test's host image."""
        return str(wildcards.image.removeprefix("~") or image.HOST)

    def smoke_test_parts(self, wildcards: Any) -> list[str]:
        """List the records of the kernel and images that a smoke test needs."""
        spec = kernels.of_key(self.smoke_test_kernel(wildcards))
        hosts = self.smoke_test_image(wildcards)
        needs = parts(wildcards.backend, wildcards.where, spec, hosts)
        return [str(built.path(*part)) for part in needs]

    @staticmethod
    def kernel_options(wildcards: Any) -> list[str]:
        """Return the options of `losslab kernel` for a job.

        A campaign skips the cells of another kernel whose source or public patch is not available.
        """
        spec = kernels.of_key(wildcards.kernel)
        optional = spec.series != kernels.default().series or spec.fetched
        return spec.options + (["--optional"] if optional else [])

    # Studies

    def results(self, study: str | None = None) -> list[str]:
        """List the results of the cells to measure, of a study or of all studies."""
        return [
            str(each.file())
            for each in self.plan.cells.values()
            if study in (None, each.cell.study) and self.plan.measures and not each.recorded
        ]

    def deleted(self, _: Any) -> list[str]:
        """List the results that are absent though their study's tables are there.

        Snakemake does not miss them, because it needs them for these tables only.
        """
        return [
            path
            for study in self.studies
            if Path(f"results/summary/{study}/{COLLECTED[0]}.csv").exists()
            for path in self.results(study)
            if not Path(path).exists()
        ]

    def records(self, study: str | None = None) -> list[str]:
        """List the files with recorded numbers of a study's cells, or of all studies'."""
        names = {each.cell.study for each in self.plan.cells.values() if each.recorded}
        return [
            str(records.file_of(folder, name))
            for name in sorted(names)
            if (folder := self.plan.record) and study in (None, name)
        ]

    def record_option(self) -> list[str]:
        """Return the option that names the folder of recorded numbers, if they are used."""
        return ["--recorded", str(self.plan.record)] if self.records() else []

    def planned_study(self, wildcards: Any) -> str:
        """Return a digest of a study's part of the plan, and of the axes, which are columns."""
        return digest_of([self.plan.to_json(wildcards.study), *AXES])

    def summaries(self, *tables: str) -> list[str]:
        """List the files of the given tables of every study."""
        return [
            f"results/summary/{study}/{table}.csv" for study in self.studies for table in tables
        ]

    def declared(self, _: Any) -> str:
        """Return the values of each axis that all studies declare, as JSON.

        A chapter may ask for these values only, measured in this campaign or not.
        """
        known = studyfiles.study_names(self._root)
        names, own = sorted({*self.studies, *known}), self._config.get("algorithms", ())
        studies = (load_study(name, self._root, own) for name in names)
        return json.dumps(declared_values(studies))

    def figures(self, *suffixes: str, study: str | None = None) -> list[str]:
        """List the files of the figures of a study or of all studies, with some suffixes."""
        return [
            f"results/figures/{each.name}/{figure}.{suffix}"
            for each in self.studies.values()
            for figure in each.figures
            for suffix in suffixes
            if study in (None, each.name)
        ]

    def tables(self, study: str) -> list[str]:
        """List the files of a study's own tables."""
        return [f"results/tables/{study}/{name}.csv" for name in self.studies[study].tables]

    def figure_code(self, study: str) -> list[Path]:
        """List the R files that draw a study's figures."""
        names = [f"figures/{name}.R" for name in self.studies[study].figures]
        return [studyfiles.file(self._root, study, name) for name in names]

    def scripts(self) -> list[Path]:
        """List the R scripts that the report links to."""
        own = (
            [studyfiles.file(self._root, name, studyfiles.TABLES), *self.figure_code(name)]
            for name in self.studies
        )
        return [self._root / "analysis" / "compare.R", *itertools.chain.from_iterable(own)]

    # Test cases of drafts

    @property
    def _suites(self) -> dict[str, Any]:
        """Suites with the algorithms to judge; none if the campaign may not measure."""
        return {} if self._config.get("measure") is False else self._config.get("conform", {})

    def conformed(self) -> list[str]:
        """List the verdicts on drafts' test cases."""
        pairs = ((suite, name) for suite, its in self._suites.items() for name in its["algorithms"])
        return [f"results/conform/{suite}_{algorithm}.json" for suite, algorithm in pairs]

    def conform_smoke_test(self, wildcards: Any) -> str:
        """Return the record of the smoke test of the kernel that has an algorithm."""
        condition = replace(SELF_TEST, algorithm=wildcards.algorithm)
        return smoke_test_record(Cell("conform", "main", condition, StoppingRule(1, 1)))

    def conform_seeds(self, wildcards: Any) -> int:
        """Return the number of runs of each case of a suite."""
        return int(self._suites[wildcards.suite]["seeds"])

    def conform_tables(self) -> list[str]:
        """List the table of the verdicts, if the campaign has suites."""
        return ["results/tables/conform_verdicts.csv"] if self._suites else []

    def conform_chapter(self) -> list[Path]:
        """List the chapter on the verdicts, if the campaign has suites."""
        return [self._root / "report" / "_conform.qmd"] if self._suites else []

    def verdicts(self) -> list[str]:
        """List the recorded claims of this campaign, if it has any."""
        name = self._config.get("campaign", "")
        return [str(path)] if name and (path := record_of(name)).is_file() else []

    def described(self) -> bool:
        """Return whether the report's text describes this campaign, so all its sentences must hold.

        Its verdicts are recorded, and its seeds are those that the text was written on.
        """
        family = self._config.get("seed_family", FIRST_FAMILY)
        return bool(self.verdicts()) and family == FIRST_FAMILY

    def command(self) -> str:
        """Return the command that measures this campaign and makes its report in a clone."""
        root = self._root.resolve()
        # A campaign's folder has a configuration of its own in the same place.
        usual = {root / FULL, find(FULL, root).resolve()}
        paths = [Path(path).resolve() for path in self._configfiles]
        # Files outside the repository: by name only, because their folders differ elsewhere.
        names = [
            path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
            for path in paths
            if path not in usual
        ]
        more = plan.options(plan.overrides(self._configfiles, self._config) or {})
        if len(names) == 1 and (root / names[0]) in paths and not more:
            return "make report" if names == [QUICK] else f"make report CONFIG={names[0]}"
        files = ["--configfile", *names] if names else []
        return shlex.join(["snakemake", "--cores", "all", *files, *more])


def require_programs(workflow: Any) -> None:
    """Raise HostError if a program is missing that jobs in R, or the report, need."""
    # Jobs of other machines and of conda environments have programs that this process has not.
    if not workflow.local_exec or workflow.deployment_settings.deployment_method:
        return
    use, jobs = "this campaign", list(workflow.dag.needrun_jobs())
    if any(str(job.rule.script).endswith(".R") for job in jobs):
        analysis.require_r(use)
    if any(RENDERED in job.output for job in jobs):
        analysis.require_renderer(use)


def require_defined_once(functions: Iterable[Path]) -> None:
    """Raise LosslabError if two R files have the same name or define the same function.

    The report reads all files into one environment.
    """
    first: dict[str, Path] = {}
    for path in functions:
        for name in (path.name, *DEFINITION.findall(reading.read_text(path))):
            other = first.setdefault(name, path)
            if other != path:
                raise LosslabError(
                    "R files and functions must have unique names, found "
                    f"{name} in {other} and {path}",
                    hint="rename the study's file or function",
                )


def report_code() -> list[Path]:
    """List the source files of the report's renderer."""
    modules = [PACKAGE / name for name in ("report.py", "analysis.py")]
    return [*modules, *sorted((ROOT / "report" / "render").iterdir())]
