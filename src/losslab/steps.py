"""The commands of the workflow's rules: try the instrument, measure a cell, collect a study."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from losslab import asked
from losslab.backends.known import BACKENDS
from losslab.campaign import cellrun
from losslab.campaign.folder import replace_json, write_json
from losslab.campaign.instrument import instrument, require_first
from losslab.instrument import image, kernels, records
from losslab.lock import held
from losslab.reading import number_option, parse_json, whole, whole_option
from losslab.study.stopping import StoppingRule

NAMES = ("try", "cell", "collect")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `try`, `cell` and `collect`."""
    tried = commands.add_parser("try", help="measure one short cell (used by the workflow)")
    asked.backend_options(tried)
    tried.add_argument("--kernel", default=kernels.DEFAULT, help="a name of config/kernels.toml")
    tried.add_argument("--image", default=image.HOST, help="what the hosts have")
    tried.add_argument("--needs", nargs="*", type=Path, default=[], help="records of its parts")
    tried.add_argument("--record", type=Path, required=True, help="file to write")
    tried.set_defaults(run=_try)

    cell = commands.add_parser("cell", help="run a cell's replicates (used by the workflow)")
    cell.add_argument("--condition", required=True, help="the condition as JSON")
    cell.add_argument(
        "--replicates", type=whole_option("replicates", 1), required=True, help="runs, at the least"
    )
    cell.add_argument(
        "--max-replicates",
        type=whole_option("max-replicates", 1),
        help="runs of a cell with a wide interval",
    )
    cell.add_argument(
        "--half-width-percent",
        type=number_option("half-width-percent", above=0),
        help="what is narrow: of the mean's 95 %%",
    )
    cell.add_argument("--study", required=True)
    cell.add_argument("--block", required=True)
    cell.add_argument("--tried", type=Path, help="the record of `losslab try`")
    cell.add_argument("--out", type=Path, required=True, help="cell.json; replicates go beside it")
    asked.backend_options(cell)
    kept = "finished replicates are kept, the one at work leaves nothing; the same command goes on "
    cell.set_defaults(run=_cell, interrupted=f"{kept}there")

    collected = commands.add_parser(
        "collect", help="gather a study's cells into tables (used by the workflow)"
    )
    collected.add_argument("cells", nargs="+", type=Path, help="cell.json files")
    collected.add_argument("--overview", type=Path, required=True, help="a row per cell")
    for table in ("--replicates", "--intervals", "--flows", "--queue"):
        collected.add_argument(table, type=Path, required=True)
    collected.add_argument("--series", nargs="*", default=[], help="cells sampled over time")
    collected.add_argument(
        "--left-out", nargs="*", default=[], metavar="BLOCK=N", help="cells not measured"
    )
    collected.set_defaults(run=_collect)


def _try(options: argparse.Namespace) -> int:
    """Measure a short cell with what was just built; without a part that cannot be had, say so."""
    missing = next(filter(None, map(records.absent, options.needs)), "")
    if missing:
        records.write({"absent": missing}, options.record)
        return 0
    # On a machine's own kernel, whether it can measure depends on the cell.
    words = "not tried: each cell refuses a machine that cannot measure it"
    if BACKENDS[options.backend, options.where].needs.kernel:
        which = kernels.of_key(options.kernel)
        hosts = cellrun.self_test_on(options.image)
        tools = instrument(options.backend, options.where, hosts, which)
        require_first(tools, options.record.parent)
        words = cellrun.self_test(tools)
    print(words)
    records.write({"found": words}, options.record)
    return 0


def _cell(options: argparse.Namespace) -> int:
    condition = asked.condition(parse_json(options.condition, "--condition"))
    folder = options.out.parent
    missing = records.absent(options.tried) if options.tried else ""
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        # Tried again, as a lost guest's cell, where the cache has by then what is missing here.
        when = datetime.now(UTC).isoformat(timespec="seconds")
        write_json({"absent": missing, "when_utc": when}, folder / cellrun.LOST_FILE)
        result = cellrun.cell_result(options.study, options.block, condition, folder, 0)
        replace_json(result | {"absent": missing}, options.out)
        return 0
    tools = asked.instrument(options, condition)
    if options.tried:
        require_first(tools, options.tried.parent)
    most = options.max_replicates or options.replicates
    rule = StoppingRule(options.replicates, most, options.half_width_percent)
    movie = asked.video(condition, tools)
    folder.mkdir(parents=True, exist_ok=True)
    # A job that outlived its workflow may still be at it.
    with held(folder):
        count = cellrun.run_cell(condition, folder, rule, tools, movie)
        result = cellrun.cell_result(options.study, options.block, condition, folder, count)
        replace_json(result, options.out)
    return 0


def _collect(options: argparse.Namespace) -> int:
    from losslab.campaign import collect

    counts = (told.rpartition("=") for told in options.left_out)
    left_out = {block: whole(count, f"left-out {block}") for block, _, count in counts}
    tables = collect.gather(options.cells, options.series, left_out)
    tables.write(
        options.overview, options.replicates, options.intervals, options.flows, options.queue
    )
    return 0
