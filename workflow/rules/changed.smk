"""Results that somebody changed since the workflow wrote them."""

import atexit

from losslab.campaign.ledger import Ledger

# Outputs as the last start left them.
LEDGER = Ledger(Path(".snakemake", "losslab-ledger.json"))
# Also of a start that has nothing to do, so that the next one reads no cell again.
atexit.register(LEDGER.write)


def note_changed_results():
    """Say which results are made again because somebody changed them."""
    for name, problem in LEDGER.found.items():
        print(f"losslab: note: {name} is made again: {problem}", file=sys.stderr)
    LEDGER.write()


def record_results():
    """Note the campaign, the tables of all studies and the claims as this start leaves them."""
    recorded.record(Path("results"), workflow.configfiles, config)
    tables = [path for study in STUDIES for path in study_tables(study).values()]
    LEDGER.record([*tables, "results/claims.csv"])


def study_tables(study):
    """Name the tables of numbers of a study."""
    tables = ("cells", "replicates", "intervals", "flows", "queue", "ratios")
    named = {table: f"results/summary/{study}_{table}.csv" for table in tables}
    return named | {"summary": f"results/summary/{study}.csv"}


def changed_tables(*names):
    """Give the parameter that says when one of these tables of a study was last found changed."""
    return lambda wildcards: LEDGER.files(
        study_tables(wildcards.study)[name] for name in names
    )


def cell_damaged(wildcards):
    """Say when files of a cell were last found damaged; then it is measured again."""
    return LEDGER.cell(Path("results", "cells", wildcards.study, wildcards.cell))
