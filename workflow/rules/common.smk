"""The studies and cells of the configuration; every rule looks its names and numbers up here."""

import json
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from losslab import lock, reading
from losslab.backends.known import BACKENDS
from losslab.campaign import (
    fingerprint,
    instrument,
    meaning,
    rcode,
    repeating,
    selftest,
    staleness,
)
from losslab.campaign.which import image_of, kernel_of
from losslab.instrument import image, kernel, kernels, records
from losslab.study import claims, design, files, metrics
from losslab.campaign.cellrun import LOST_FILE
from losslab.errors import LosslabError

try:
    reading.check_configs(workflow.configfiles)
    STUDIES = {study.name: study for study in design.load_studies(config, design.ROOT)}
    claims.check(STUDIES, design.ROOT)
    files.check(STUDIES.values(), design.ROOT)
    rcode.definitions(files.functions(design.ROOT, STUDIES))
except LosslabError as error:
    raise WorkflowError(str(error)) from None
ANALYSIS = design.ROOT / "analysis"
# The file of the suite that a study runs, if it runs one.
SUITES = {study: list(map(str, files.suite(design.ROOT, study))) for study in STUDIES}
CELLS = {
    (study.name, cell.name): cell for study in STUDIES.values() for cell in study.cells
}


def recorded_verdicts():
    """List the file of the campaign's recorded verdicts, if it has one."""
    path = design.ROOT / "report" / "verdicts" / f"{config.get('campaign', '')}.tsv"
    return [str(path)] if path.is_file() else []


# `losslab` and `python` of the environment that runs Snakemake, also when it is not activated.
shell.prefix(f"PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")


def hold_folder():
    """Keep other workflows out of this folder for as long as this one lives."""
    try:
        lock.hold_for_life(Path(".snakemake"))
    except LosslabError as error:
        raise WorkflowError(str(error)) from None


def test_instruments():
    """Measure a short cell where cells are about to be measured; stop where it fails.

    Cells in real time refuse a machine that cannot measure them by themselves. What is yet to be
    built is tried by a rule.
    """
    jobs = list(workflow.dag.needrun_jobs())
    to_try = {str(job.output[0]) for job in jobs if job.rule.name == "try_instrument"}
    cells = [
        CELLS[job.wildcards.study, job.wildcards.cell]
        for job in jobs
        if job.rule.name == "measure_cell"
    ]
    tools = {
        (cell.backend, kernel_of(cell.condition).key, image_of(cell.condition))
        for cell in cells
        if not cell.real_time
        and tried_record(cell) not in to_try
        and not records.absent(Path(tried_record(cell)))
    }
    try:
        for backend, key, name in sorted(tools):
            hosts, which = selftest.condition(name), kernels.of_key(key)
            tool = instrument.instrument(backend, condition=hosts, which=which)
            instrument.require_first(tool, records.FOLDER)
            print(selftest.require(tool), file=sys.stderr)
    except LosslabError as error:
        raise WorkflowError(str(error)) from None


def name_lost_cells():
    """Say which cells lost a guest: their last row is not kept."""
    lost = []
    for study, cell in CELLS:
        folder = Path("results", "cells", study, cell)
        if (folder / LOST_FILE).exists():
            rows = reading.read_json(folder / "cell.json")["replicates"]
            lost += [str(folder)] if any(row["lost"] for row in rows) else []
    if lost:
        print(
            f"losslab: a guest was lost in {', '.join(lost)}: an invalid row there; the same "
            "command tries it again",
            file=sys.stderr,
        )


wildcard_constraints:
    # Only those there are: other tables and figures are other rules'.
    study="|".join(STUDIES),
    cell="[a-z0-9._-]+",
    figure="[a-z0-9_]+",
    variant="[a-z0-9-]+",
    kernel="[a-z0-9._+-]+",
    backend="[a-z]+",
    where="[a-z]+",
    # Nothing where a cell is on the default kernel.
    on="([+][a-z0-9._+-]+)?",
    # Nothing where its hosts have the default image.
    image="(~[a-z0-9-]+)?",


def cell_files(wildcards):
    """List the results of a study's cells."""
    return [
        f"results/cells/{study}/{cell}/cell.json"
        for study, cell in CELLS
        if study == wildcards.study
    ]


def series_cells(wildcards):
    """List the cells whose samples over time a study wants."""
    return STUDIES[wildcards.study].series


def left_out_blocks(wildcards):
    """Say how many cells of which blocks of a study the campaign does not measure."""
    return [f"{b}={count}" for b, count in STUDIES[wildcards.study].left_out.items()]


def cell_condition(wildcards):
    """Give a cell's condition as JSON."""
    cell = CELLS[wildcards.study, wildcards.cell]
    return json.dumps(cell.condition.to_json(), sort_keys=True)


def cell_stopping(wildcards):
    """Give the options that say how often a cell is measured."""
    stopping = CELLS[wildcards.study, wildcards.cell].stopping
    options = ["--replicates", stopping.least]
    if stopping.half_width_percent is not None:
        options += ["--max-replicates", stopping.most]
        options += ["--half-width-percent", stopping.half_width_percent]
    return options


def cell_backend(wildcards):
    """Give the options that say what measures a cell."""
    cell = CELLS[wildcards.study, wildcards.cell]
    return ["--backend", cell.backend, "--where", cell.where]


def cell_real_time(wildcards):
    """Tell how much of the machine's real time a cell takes: all of it, or none."""
    return int(CELLS[wildcards.study, wildcards.cell].real_time)


def cell_fingerprint(wildcards):
    """Give a cell's fingerprint: a job whose parameter changes is run again."""
    cell = CELLS[wildcards.study, wildcards.cell]
    return fingerprint.of(cell.condition, cell.backend, cell.where).digest


def module_meaning(*names):
    """Say what Python modules mean that count after measuring."""
    return meaning.of_files(fingerprint.PACKAGE / name for name in names)


def stopping_rule():
    """Say what ends a cell's replicates: the rule, its interval, and the metrics that it looks at."""
    code = module_meaning("study/stopping.py", "study/intervals.py")
    return [code, *metrics.primary_names()]


def cell_lost(wildcards):
    """Say when a cell last lost a guest; later than it was told before, and it is tried again.

    A cell without an instrument is tried again where there is one by now.
    """
    note = Path("results", "cells", wildcards.study, wildcards.cell, LOST_FILE)
    lost = json.loads(note.read_text()) if note.exists() else {"when_utc": ""}
    cell = CELLS[wildcards.study, wildcards.cell]
    still_absent = "absent" in lost and not all(
        records.in_cache(*part) for part in cell_parts(cell)
    )
    return "" if still_absent else lost["when_utc"]


def cell_parts(cell):
    """List the images and the kernel that a cell needs."""
    which, hosts = kernel_of(cell.condition), image_of(cell.condition)
    return parts(cell.backend, cell.where, which, hosts)


def parts(backend, where, which, hosts):
    """List the images and the kernel that a backend needs, with an image for its hosts."""
    needs = BACKENDS[backend, where].needs
    # The videos are made in a guest, also where cells are not.
    which = which if needs.kernel else kernels.default()
    built = kernel.named(needs.kernel or kernel.PLAIN, which)
    images = (hosts, *needs.images[1:])
    return [(records.IMAGE, name) for name in images] + [(records.KERNEL, built)]


def tried_record(cell):
    """Name the record of the first short cell of a backend on a kernel, with an image."""
    which, hosts = kernel_of(cell.condition), image_of(cell.condition)
    on = "" if which == kernels.default() or cell.real_time else f"+{which.key}"
    on += "" if hosts == image.HOST else f"~{hosts}"
    return str(records.FOLDER / f"tried-{cell.backend}-{cell.where}{on}.json")


def cell_tried(wildcards):
    """Name the record of a cell's instrument."""
    return tried_record(CELLS[wildcards.study, wildcards.cell])


def cell_block(wildcards):
    """Give the block that a cell belongs to."""
    return CELLS[wildcards.study, wildcards.cell].block


def published_numbers(study):
    """List the file of a study's published numbers, if it has one."""
    return list(map(str, files.published(design.ROOT, study)))


def functions_of(*code, studies=()):
    """List the files of R functions that scripts or chapters of these studies use."""
    library = files.functions(design.ROOT, studies)
    return list(map(str, rcode.needed(code, library)))


def r_meaning(*code, studies=()):
    """Say what the R code of a job means, which counts in place of its files' times.

    Snakemake compares no parameter that depends on `input`.
    """
    return meaning.of_files([*map(Path, functions_of(*code, studies=studies)), *code])


def figure_meaning(wildcards):
    """Say what the R code of a figure means."""
    code = files.figure(design.ROOT, wildcards.study, wildcards.figure)
    return r_meaning(ANALYSIS / "figure.R", code, studies=[wildcards.study])


def figure_functions(wildcards):
    """List the files of R functions that a figure uses."""
    code = files.figure(design.ROOT, wildcards.study, wildcards.figure)
    return functions_of(ANALYSIS / "figure.R", code, studies=[wildcards.study])


def figure_code(wildcards):
    """Give the R file that draws a figure."""
    return str(files.figure(design.ROOT, wildcards.study, wildcards.figure))


def figure_files(study, *formats):
    """List a study's figures in the given formats."""
    return expand(
        "results/figures/{study}_{figure}.{format}",
        study=study,
        figure=STUDIES[study].figures,
        format=formats,
    )


def table_files(study):
    """Map the names of a study's tables to their files."""
    return {
        table: f"results/tables/{study}_{table}.csv" for table in STUDIES[study].tables
    }
