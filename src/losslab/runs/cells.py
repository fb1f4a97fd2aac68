"""List the cells of a configuration: `losslab cells`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from losslab.campaign import plan
from losslab.campaign.results import RESULTS
from losslab.errors import did_you_mean
from losslab.reading import UsageError, read_config
from losslab.repository import ROOT, find
from losslab.study import design


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `cells`."""
    cells = commands.add_parser("cells")
    cells.add_argument("study", nargs="?")
    cells.add_argument("--config", type=Path, default=find("config/config.yaml"))
    cells.add_argument("--json", action="store_true", help="print JSON, with the conditions")
    cells.add_argument("--why", action="store_true", help="list the cells to measure, and why")
    cells.add_argument("--results", type=Path, default=RESULTS, help="results folder for --why")
    cells.set_defaults(run=_cells)


def _cells(options: argparse.Namespace) -> int:
    studies = design.load_studies(plan.with_hosts(read_config(options.config)), ROOT)
    names = [study.name for study in studies]
    if options.study not in (None, *names):
        raise UsageError(
            f"the study must be one that {options.config} measures ({', '.join(names)}), found "
            f"{options.study}{did_you_mean(options.study, names)}",
            hint="name the file of another campaign with --config",
        )
    cells = [c for study in studies for c in study.cells if options.study in (None, c.study)]
    if options.json:
        rows = [
            {
                "study": cell.study,
                "cell": cell.name,
                "block": cell.block,
                "condition": cell.condition.to_json(),
                "replicates": cell.stopping.minimum,
                "max_replicates": cell.stopping.maximum,
            }
            for cell in cells
        ]
        print(json.dumps(rows, indent=1))
    elif options.why:
        todo = plan.to_measure(cells, options.results)
        print("\n".join([*todo, f"{len(todo)} of {len(cells)} cells will be measured"]))
    else:
        for cell in cells:
            print(cell.study, cell.name, cell.stopping, sep="\t")
    return 0
