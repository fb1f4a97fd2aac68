"""Files and parameters of the workflow's rules, and its actions at the start and the end.

Rules name inputs and outputs and compute nothing. `workflow/rules/common.smk` makes one `Campaign`
of Snakemake's configuration; rules refer to its methods, which take the wildcards of a job.
"""

from __future__ import annotations

import atexit
import functools
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from losslab import lock, reading
from losslab.campaign import fingerprint, instrument, meaning, recorded, staleness
from losslab.campaign.cellrun import LOST_FILE, self_test, self_test_on
from losslab.campaign.instrument import image_of, kernel_of
from losslab.campaign.staleness import Ledger
from losslab.campaign.verdicts import CLAIMS
from losslab.errors import LosslabError
from losslab.instrument import kernels, packed, records
from losslab.study import claims, design, files, metrics
from losslab.study.design import Cell
from losslab.workflow.analysis import Analysis
from losslab.workflow.instruments import parts_of, tried_record

P = ParamSpec("P")
T = TypeVar("T")
RESULTS, STATE = Path("results"), Path(".snakemake")
# Tables of numbers that a study has; `summary` is called as the study itself.
TABLES = ("cells", "replicates", "intervals", "flows", "queue", "ratios")
# The command of a campaign that names no file of configuration, and the one of `make report`.
FULL, QUICK = "config/config.yaml", "config/quick.yaml"


def refusing(do: Callable[P, T]) -> Callable[P, T]:
    """Turn errors of ours into Snakemake's, of which it prints the message without a traceback."""

    @functools.wraps(do)
    def call(*words: P.args, **more: P.kwargs) -> T:
        try:
            return do(*words, **more)
        except LosslabError as error:
            from snakemake.exceptions import WorkflowError

            raise WorkflowError(str(error)) from None

    return call


class Campaign:
    """A configuration's studies and cells, and what rules need to know of them.

    Attributes:
        studies: The studies, by name and in the configuration's order.
        cells: Their cells, by study and cell.
        analysis: Their R code, figures and tables.
    """

    @refusing
    def __init__(
        self, config: Mapping[str, Any], configfiles: Iterable[str | Path], root: Path = design.ROOT
    ) -> None:
        """Read the studies."""
        self._config, self._configfiles, self._root = config, list(configfiles), root
        reading.check_configs(self._configfiles)
        self.studies = {study.name: study for study in design.load_studies(dict(config), root)}
        claims.check(self.studies, root)
        files.check(self.studies.values(), root)
        self.analysis = Analysis(self.studies, root)
        self.cells = {
            (study.name, cell.name): cell for study in self.studies.values() for cell in study.cells
        }
        self._ledger = Ledger(STATE / "losslab-ledger.json")
        # Also after a start that has nothing to do, so that the next one reads no cell again.
        atexit.register(self._ledger.write)

    # A start's begin and end

    @refusing
    def start(self, jobs: Iterable[Any]) -> None:
        """Note what made the results so far, and test the instrument.

        `jobs`: the jobs that Snakemake is going to run.
        """
        lock.hold_for_life(STATE)
        outputs = {str(file) for job in jobs for file in job.output}
        staleness.record_code(self.cells.values())
        for name, problem in self._ledger.found.items():
            print(f"losslab: note: {name} is made again: {problem}", file=sys.stderr)
        self._ledger.write()
        self._test_instruments(outputs)

    def _test_instruments(self, outputs: set[str]) -> None:
        """Measure a short cell where cells are about to be measured; stop where it fails.

        Cells in real time refuse a machine that cannot measure them by themselves. What is yet to
        be built is tested by a rule.
        """
        cells = [cell for key, cell in self.cells.items() if _result(*key) in outputs]
        tools = {
            (cell.backend, kernel_of(cell.condition).key, image_of(cell.condition))
            for cell in cells
            if not cell.real_time
            and tried_record(cell) not in outputs
            and not records.absent(Path(tried_record(cell)))
        }
        for backend, key, name in sorted(tools):
            hosts, which = self_test_on(name), kernels.of_key(key)
            tool = instrument.instrument(backend, condition=hosts, which=which)
            instrument.require_first(tool, records.FOLDER)
            print(self_test(tool), file=sys.stderr)

    def end(self) -> None:
        """Record the campaign and its tables as this start leaves them."""
        recorded.record(RESULTS, self._configfiles, self._config)
        tables = [path for study in self.studies for path in study_tables(study).values()]
        self._ledger.record([*tables, CLAIMS])

    def name_lost_cells(self) -> None:
        """Print which cells lost a guest: their last row is not kept."""
        lost = []
        for folder in (Path(_folder(*key)) for key in self.cells):
            if (folder / LOST_FILE).exists():
                rows = reading.read_json(folder / "cell.json")["replicates"]
                lost += [str(folder)] if any(row["lost"] for row in rows) else []
        if lost:
            print(
                f"losslab: a guest was lost in {', '.join(lost)}: an invalid row there; the same "
                "command tries it again",
                file=sys.stderr,
            )

    # Parameters of a cell

    def cell(self, wildcards: Any) -> Cell:
        """Return the cell of a job."""
        return self.cells[wildcards.study, wildcards.cell]

    def options(self, wildcards: Any) -> list[str]:
        """Return the options of `losslab cell` that say what is measured, how often and by what."""
        cell = self.cell(wildcards)
        its = cell.stopping
        found = {
            "block": cell.block,
            "condition": json.dumps(cell.condition.to_json(), sort_keys=True),
            "backend": cell.backend,
            "where": cell.where,
            "replicates": its.least,
        }
        if its.half_width_percent is not None:
            found |= {"max-replicates": its.most, "half-width-percent": its.half_width_percent}
        return [word for name, value in found.items() for word in (f"--{name}", str(value))]

    def real_time(self, wildcards: Any) -> int:
        """Return how much of the machine's real time a cell takes: all of it (1), or none (0)."""
        return int(self.cell(wildcards).real_time)

    def fingerprint(self, wildcards: Any) -> str:
        """Return a cell's fingerprint: a job whose parameter changes is run again."""
        cell = self.cell(wildcards)
        return fingerprint.of(cell.condition, cell.backend, cell.where).digest

    def lost(self, wildcards: Any) -> str:
        """Return when a cell last lost a guest; a later time than before, and it is tried again.

        A cell without an instrument is tried again where there is one by now.
        """
        note = Path(_folder(wildcards.study, wildcards.cell), LOST_FILE)
        lost = json.loads(note.read_text()) if note.exists() else {"when_utc": ""}
        needs = parts_of(self.cell(wildcards))
        absent = "absent" in lost and not all(records.in_cache(*part) for part in needs)
        return "" if absent else str(lost["when_utc"])

    def damaged(self, wildcards: Any) -> str:
        """Return when files of a cell were last found damaged; then it is measured again."""
        return self._ledger.cell(Path(_folder(wildcards.study, wildcards.cell)))

    def image_optional(self, wildcards: Any) -> list[str]:
        """Return the option of an image that only cells need that may be left out."""
        need_it = [
            cell.optional
            for cell in self.cells.values()
            if (packed.IMAGE, wildcards.variant) in parts_of(cell)
        ]
        return ["--optional"] if need_it and all(need_it) else []

    # Studies

    def results(self, study: str | None = None) -> list[str]:
        """List the results of a study's cells, or of all."""
        return [_result(*key) for key in self.cells if study in (None, key[0])]

    def left_out(self, wildcards: Any) -> list[str]:
        """List how many cells of which blocks of a study the campaign does not measure."""
        return [f"{b}={count}" for b, count in self.studies[wildcards.study].left_out.items()]

    def summaries(self, *tables: str) -> list[str]:
        """List tables of numbers of every study."""
        return [study_tables(study)[table] for study in self.studies for table in tables]

    def changed(self, *tables: str) -> Callable[[Any], str]:
        """Return the parameter that says when tables of a job's study were last found changed."""
        return lambda wildcards: self._ledger.files(
            study_tables(wildcards.study)[table] for table in tables
        )

    def claims_changed(self, _: Any) -> str:
        """Return when the judged claims were last found changed."""
        return self._ledger.files([CLAIMS])

    def claims(self) -> list[str]:
        """List the studies' files of claims."""
        return [str(files.claims(self._root, study)) for study in self.studies]

    def verdicts(self) -> list[str]:
        """List the file of the campaign's recorded verdicts, if it has one."""
        named = f"{self._config.get('campaign', '')}.tsv"
        path = self._root / "report" / "verdicts" / named
        return [str(path)] if path.is_file() else []

    def command(self) -> str:
        """Return the command that measures and reports this campaign again, in a clone."""
        root = self._root.resolve()
        paths = [Path(path).resolve() for path in self._configfiles]
        named = [path for path in paths if path != root / FULL]
        if not named:
            return "snakemake --cores all"
        if len(named) == 1 and named[0].is_relative_to(root):
            name = named[0].relative_to(root).as_posix()
            return "make report" if name == QUICK else f"make report CONFIG={name}"
        # Files of somebody's own: their names, since their folders are nobody else's.
        return " ".join(["snakemake --cores all --configfile", *(path.name for path in named)])


def study_tables(study: str) -> dict[str, str]:
    """Map the names of a study's tables of numbers to their files."""
    named = {table: f"results/summary/{study}_{table}.csv" for table in TABLES}
    return named | {"summary": f"results/summary/{study}.csv"}


def collecting() -> str:
    """Return what the code means that collects a study's cells."""
    return meaning.of_files([fingerprint.PACKAGE / "campaign" / "collect.py"])


def stopping_rule() -> list[str]:
    """Return what ends a cell's replicates: the rule, its interval, and the metrics it looks at."""
    code = (fingerprint.PACKAGE / "study" / name for name in ("stopping.py", "intervals.py"))
    return [meaning.of_files(code), *metrics.primary_names()]


def _folder(study: str, cell: str) -> str:
    return f"results/cells/{study}/{cell}"


def _result(study: str, cell: str) -> str:
    return f"{_folder(study, cell)}/cell.json"
