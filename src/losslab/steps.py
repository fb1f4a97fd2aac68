"""Commands of the workflow's rules: smoke test, measurement of a cell, tables of a study."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from losslab import cellspec
from losslab.backends.registry import BACKENDS
from losslab.campaign import cellrun, inputs
from losslab.campaign.folder import replace_json, write_json
from losslab.campaign.instrument import instrument, require_first
from losslab.instrument import image, kernels, records
from losslab.reading import UsageError, number_option, parse_json, repeats, whole, whole_option
from losslab.study.seed_family import FIRST
from losslab.study.stopping import StoppingRule


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
    cell.add_argument("--condition", required=True, help="the condition as JSON")
    cell.add_argument(
        "--replicates",
        type=whole_option("replicates", 1),
        required=True,
        help="minimum number of runs",
    )
    cell.add_argument(
        "--max-replicates",
        type=whole_option("max-replicates", 1),
        help="maximum number of runs, for a wide confidence interval",
    )
    cell.add_argument(
        "--half-width-percent",
        type=number_option("half-width-percent", above=0),
        help="half-width of the mean's 95 %% CI that ends a cell, in %% of the mean",
    )
    cell.add_argument(
        "--seed-family",
        type=whole_option("seed-family", 1),
        default=FIRST,
        help="number of the family of seeds",
    )
    cell.add_argument("--study", required=True)
    cell.add_argument("--block", required=True)
    cell.add_argument("--smoke-test", type=Path, help="record of `losslab smoke-test`")
    cell.add_argument(
        "--out", type=Path, required=True, help="cell.json to write; replicates go to its folder"
    )
    cellspec.backend_options(cell)
    kept = "finished replicates are kept; repeat the same command to continue"
    cell.set_defaults(run=_cell, interrupted=kept)

    collected = commands.add_parser("collect")
    collected.add_argument("cells", nargs="+", type=Path, help="cell.json files")
    collected.add_argument("--recorded", type=Path, help="folder of recorded numbers")
    collected.add_argument(
        "--from-record", nargs="*", default=[], metavar="CELL",
        help="cells whose numbers come from that folder",
    )  # fmt: skip
    collected.add_argument("--overview", type=Path, required=True, help="table of cells to write")
    for table in ("--replicates", "--intervals", "--flows", "--queue"):
        collected.add_argument(table, type=Path, required=True)
    collected.add_argument(
        "--series", nargs="*", default=[], help="cells whose time series are collected"
    )
    collected.add_argument(
        "--left-out",
        nargs="*",
        default=[],
        metavar="BLOCK=N",
        help="numbers of cells that were not run",
    )
    collected.add_argument(
        "--rules", nargs="*", default=[], metavar="MIN-MAX",
        help="stopping rule of each cell, in their order; default: fixed numbers of replicates",
    )  # fmt: skip
    collected.set_defaults(run=_collect)


def _smoke_test(options: argparse.Namespace) -> int:
    """Measure a short cell with kernel and image; record an unavailable one instead."""
    missing = next(filter(None, map(records.absent, options.needs)), "")
    if missing:
        records.write({"absent": missing}, options.record)
        return 0
    # On the machine's own kernel, each cell checks what it needs.
    found = "not run: each cell refuses a machine that cannot measure it"
    if BACKENDS[options.backend, options.where].needs.guest:
        spec = kernels.of_key(options.kernel)
        hosts = cellrun.self_test_on(options.image)
        tools = instrument(options.backend, options.where, hosts, spec)
        require_first(tools, options.record.parent)
        found = cellrun.self_test(tools)
    print(found)
    records.write({"found": found}, options.record)
    return 0


def _cell(options: argparse.Namespace) -> int:
    data = parse_json(options.condition, "--condition")
    own = cellspec.on_own_kernel(options.backend, options.where)
    condition = cellspec.condition(data, own_kernel=own)
    inputs.require([condition])
    folder = options.out.parent
    missing = records.absent(options.smoke_test) if options.smoke_test else ""
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        # Retried at a later start, like a lost guest's cell, if the cache then has the part.
        when = datetime.now(UTC).isoformat(timespec="seconds")
        write_json({"absent": missing, "when_utc": when}, folder / cellrun.LOST_FILE)
        result = cellrun.cell_result(options.study, options.block, condition, folder, 0)
        replace_json(result | {"absent": missing}, options.out)
        return 0
    tools = cellspec.instrument(options, condition)
    if options.smoke_test:
        require_first(tools, options.smoke_test.parent)
    maximum = options.max_replicates or options.replicates
    rule = StoppingRule(options.replicates, maximum, options.half_width_percent)
    cellrun.measure_cell(
        options.study, options.block, condition, options.out, rule, tools, options.seed_family
    )
    return 0


def _collect(options: argparse.Namespace) -> int:
    from losslab.campaign import celldata, collect, recorded_numbers

    counts = (option.rpartition("=") for option in options.left_out)
    left_out = {block: whole(count, f"left-out {block}") for block, _, count in counts}
    rules = list(map(StoppingRule.parse, options.rules))
    if rules and len(rules) != len(options.cells):
        raise UsageError(
            f"--rules must have one rule for each of {len(options.cells)} cells, found {len(rules)}"
        )
    named, known = {path.parent.name: path for path in options.cells}, {}
    if repeated := repeats(path.parent.name for path in options.cells):
        raise UsageError(f"collect must have each cell once, found several named {repeated}")
    if options.recorded:
        study = options.cells[0].parent.parent.name
        known = recorded_numbers.read(options.recorded, study, options.from_record)
    cells = (
        known[name].data if name in known else celldata.read(path, name in options.series)
        for name, path in named.items()
    )
    tables = collect.gather(cells, left_out, rules, known)
    if len(studies := {str(row["study"]) for row in tables.cells}) > 1:
        raise UsageError(
            f"collect must have the cells of one study, found {', '.join(sorted(studies))}"
        )
    tables.write(
        options.overview, options.replicates, options.intervals, options.flows, options.queue
    )
    return 0
