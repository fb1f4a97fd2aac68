"""Commands of the workflow's rules: smoke test, measurement of a cell, tables of a study."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from losslab import cellspec
from losslab.backends import virtual
from losslab.backends.registry import BACKENDS
from losslab.campaign import cellrun, fingerprint, inputs, replicate
from losslab.campaign.instrument import (
    image_of,
    instrument,
    kernel_of,
    require_first,
    smoke_test_record,
)
from losslab.campaign.plan import CampaignPlan
from losslab.campaign.results import LOST_FILE, RESULTS, cell_content, replace_json, write_json
from losslab.errors import did_you_mean
from losslab.instrument import built, image, integrity, kernel, kernels
from losslab.instrument.fetch import UnavailableError
from losslab.reading import UsageError
from losslab.repository import ROOT
from losslab.study import metrics
from losslab.study.design import Cell


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `smoke-test`, `cell` and `collect`."""
    smoke = commands.add_parser("smoke-test")
    cellspec.backend_options(smoke)
    smoke.add_argument("--kernel", default=kernels.DEFAULT, help="kernel of config/kernels.toml")
    smoke.add_argument("--image", default=image.HOST, help="image of the hosts")
    smoke.add_argument(
        "--needs", nargs="*", type=Path, default=[], help="records of kernel and images"
    )
    smoke.add_argument("--record", type=Path, required=True, help="file to write")
    smoke.set_defaults(run=_smoke_test)

    cell = commands.add_parser("cell")
    cell.add_argument("name", metavar="STUDY/CELL", help="a cell of results/plan.json")
    kept = "finished replicates are kept; repeat the same command to continue"
    cell.set_defaults(run=_cell, interrupted=kept)

    collected = commands.add_parser("collect")
    collected.add_argument("study", help="a study of results/plan.json")
    collected.set_defaults(run=_collect)
    for subparser in (cell, collected):
        subparser.add_argument(
            "--results", type=Path, default=RESULTS, help="folder with plan.json"
        )


def _smoke_test(options: argparse.Namespace) -> int:
    """Measure a short cell with kernel and image; record an unavailable one instead."""
    missing = next(filter(None, map(built.absent, options.needs)), "")
    if missing:
        built.write({"absent": missing}, options.record)
        return 0
    # On the machine's own kernel, each cell checks what it needs.
    result = "not run: each cell refuses a machine that cannot measure it"
    if BACKENDS[options.backend, options.where].needs.guest:
        spec = kernels.of_key(options.kernel)
        hosts = replace(cellrun.SELF_TEST, image=options.image)
        tools = instrument(options.backend, options.where, hosts, spec)
        require_first(tools, options.record.parent)
        result = cellrun.self_test(tools)
    print(result)
    built.write({"found": result}, options.record)
    return 0


def _cell(options: argparse.Namespace) -> int:
    study, _, name = options.name.partition("/")
    plan = CampaignPlan.read(options.results)
    if (study, name) not in plan.cells:
        raise UsageError(
            f"the cell must be one of results/plan.json, found {options.name}"
            + did_you_mean(options.name, map("/".join, plan.cells)),
            hint="`losslab cells` lists the cells of a configuration",
        )
    planned = plan.cells[study, name]
    cell, out = planned.cell, planned.file(options.results)
    record = options.results / "instrument" / Path(smoke_test_record(cell)).name
    if missing := _absent_trace(cell) or built.absent(record):
        # Retried at a later start, like a lost guest's cell, if the cache then has the part.
        when = datetime.now(UTC).isoformat(timespec="seconds")
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json({"absent": missing, "when_utc": when}, out.parent / LOST_FILE)
        content = cell_content(study, cell.block, cell.condition, out.parent, 0)
        replace_json(content | {"absent": missing}, out)
        return 0
    tools = instrument(cell.backend, cell.where, cell.condition)
    if record.exists():
        require_first(tools, record.parent)
    rule, family = cell.stopping, cell.seed_family
    cellrun.measure_cell(study, cell.block, cell.condition, out, rule, tools, family)
    return 0


def _absent_trace(cell: Cell) -> str:
    """Check a cell's input files; return why an optional cell's trace is not there, or ""."""
    try:
        inputs.trace_texts(cell.condition)
    except UnavailableError as error:
        if not cell.optional:
            raise
        print(f"losslab: note: {error}", file=sys.stderr)
        return "its trace is not there: no place of config/traces.toml has it"
    inputs.require([cell.condition])
    return ""


def read_ahead() -> None:
    """Read and check what cells of results/plan.json have in common; this process's forks have it.

    A kernel or image that is not built yet is left to the cells.
    """
    replicate.git_state(ROOT)
    metrics.declared()
    virtual.payload_digest()
    plan = CampaignPlan.read(RESULTS)
    for cell in {smoke_test_record(each.cell): each.cell for each in plan.cells.values()}.values():
        fingerprint.of(cell.condition, cell.backend, cell.where)
        of = BACKENDS[cell.backend, cell.where].needs
        linux = kernel.part(kernel_of(cell.condition)).existing() if of.guest else None
        names = (image_of(cell.condition), *of.images[1:])
        images = (image.part(name).existing() for name in names)
        integrity.require(
            linux and linux / "linux", [each / integrity.TREE_ROOT for each in images if each]
        )


def _collect(options: argparse.Namespace) -> int:
    from losslab.campaign import criteria, tables
    from losslab.campaign.records import of_plan

    plan, study = CampaignPlan.read(options.results), options.study
    if study not in plan.series:
        raise UsageError(
            f"the study must be one of results/plan.json ({', '.join(plan.series)}), found {study}"
        )
    cells, recorded = of_plan(plan, study, options.results)
    rules = [each.cell.stopping for each in plan.of_study(study)]
    left_out = {(study, block): count for block, count in plan.left_out[study].items()}
    study_tables = tables.gather(cells, left_out, rules, recorded)
    study_tables.criteria = criteria.of_study(study, study_tables)
    study_tables.write(options.results / "summary", study)
    return 0
