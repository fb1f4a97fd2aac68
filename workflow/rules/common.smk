"""The cells of the configuration; every rule looks its numbers up here."""

import json
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from losslab import design
from losslab.errors import LosslabError

try:
    CELLS = {
        (cell.study, cell.name): cell for cell in design.load_cells(config, design.ROOT)
    }
except LosslabError as error:
    raise WorkflowError(str(error)) from None


# `losslab` and `python` of the environment that runs Snakemake, also when it is not activated.
shell.prefix(f"PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")


wildcard_constraints:
    study="[a-z0-9-]+",
    cell="[a-z0-9._-]+",


def cell_files(wildcards):
    """List the results of a study's cells."""
    return [
        f"results/cells/{study}/{cell}/cell.json"
        for study, cell in CELLS
        if study == wildcards.study
    ]


def cell_condition(wildcards):
    """Give a cell's condition as JSON."""
    cell = CELLS[wildcards.study, wildcards.cell]
    return json.dumps(cell.condition.to_json(), sort_keys=True)


def cell_replicates(wildcards):
    """Give how often a cell is measured."""
    return CELLS[wildcards.study, wildcards.cell].replicates


def cell_block(wildcards):
    """Give the block that a cell belongs to."""
    return CELLS[wildcards.study, wildcards.cell].block
