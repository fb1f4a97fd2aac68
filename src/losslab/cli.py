"""The `losslab` command.

Exit status: 0 done (for `measure`: valid), 1 failed or invalid with the reasons on stderr, 2 wrong
usage or bad input.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from losslab import __version__, collect, design
from losslab.condition import APPS, LOSS_DIRECTIONS, OFFLOADS, PATHS, Condition, replicate_seed
from losslab.errors import LosslabError
from losslab.replicate import Instrument, finished, remove_partial, run, write_json


class UsageError(LosslabError):
    """The command line or an input file is wrong; nothing ran."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = _parser().parse_args(arguments)
    # Unwind, so that guests end and partial folders go, when a workflow ends its jobs.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        status: int = options.run(options)
    except UsageError as error:
        print(f"losslab: error: {error}", file=sys.stderr)
        return 2
    except LosslabError as error:
        print(f"losslab: error: {error}", file=sys.stderr)
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="losslab", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    measure = commands.add_parser("measure", help="run one ad-hoc replicate")
    _condition_options(measure)
    measure.add_argument("--seed", type=int, default=1, help="decides every random draw")
    measure.add_argument("--out", type=Path, required=True, help="folder to make")
    measure.add_argument("--backend", choices=("virtual",), default="virtual")
    measure.add_argument("--timeout-s", type=float, help="wall-clock limit of the guest")
    measure.set_defaults(run=_measure)

    cell = commands.add_parser("cell", help="run a cell's replicates (used by the workflow)")
    cell.add_argument("--condition", required=True, help="the condition as JSON")
    cell.add_argument("--replicates", type=int, required=True)
    cell.add_argument("--study", required=True)
    cell.add_argument("--block", required=True)
    cell.add_argument("--out", type=Path, required=True, help="cell.json; replicates go beside it")
    cell.set_defaults(run=_cell)

    cells = commands.add_parser("cells", help="list the cells of a configuration")
    cells.add_argument("study", nargs="?")
    cells.add_argument("--config", type=Path, default=design.ROOT / "config" / "config.yaml")
    cells.set_defaults(run=_cells)

    collected = commands.add_parser("collect", help="gather a study's cells into tables")
    collected.add_argument("cells", nargs="+", type=Path, help="cell.json files")
    collected.add_argument("--replicates", type=Path, required=True)
    collected.add_argument("--intervals", type=Path, required=True)
    collected.add_argument("--cwnd", type=Path, required=True)
    collected.set_defaults(run=_collect)

    for name, text in (("kernel", "build the pinned kernel"), ("image", "build the host image")):
        build = commands.add_parser(name, help=f"{text} into the cache and print its folder")
        build.set_defaults(run=_build, what=name)
    return parser


def _condition_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--algorithm", required=True)
    parser.add_argument("--loss-percent", type=float, default=0.0)
    parser.add_argument("--loss-direction", choices=LOSS_DIRECTIONS, default="data")
    parser.add_argument("--path", choices=PATHS, default="symmetric")
    parser.add_argument("--app", choices=APPS, default="iperf3")
    parser.add_argument("--rtt-ms", type=float, default=0.44)
    parser.add_argument("--rate-mbit", type=float, default=1000.0)
    parser.add_argument("--buffer-packets", type=int, default=1000)
    parser.add_argument("--offloads", choices=OFFLOADS, default="off")
    parser.add_argument("--duration-s", type=float, default=10.0)
    parser.add_argument("--warmup-s", type=float, default=1.0)


def _measure(options: argparse.Namespace) -> int:
    condition = Condition(
        algorithm=options.algorithm,
        loss_percent=options.loss_percent,
        path=options.path,
        app=options.app,
        rtt_ms=options.rtt_ms,
        rate_mbit=options.rate_mbit,
        buffer_packets=options.buffer_packets,
        offloads=options.offloads,
        loss_direction=options.loss_direction,
        duration_s=options.duration_s,
        warmup_s=options.warmup_s,
    )
    _refuse_impossible(condition)
    if options.out.exists():
        raise UsageError(
            f"--out must name a folder that does not exist yet, found {options.out}",
            hint="remove it or choose another; nothing measured is overwritten",
        )
    tools = _instrument()
    manifest = run(
        condition,
        options.seed,
        options.out,
        tools,
        _video(condition, tools),
        timeout_s=options.timeout_s,
    )
    for reason in manifest["reasons"]:
        print(f"losslab: invalid: {reason}", file=sys.stderr)
    print(json.dumps(manifest["summary"], indent=1, sort_keys=True))
    return 0 if manifest["valid"] else 1


def _refuse_impossible(condition: Condition) -> None:
    problems = condition.problems()
    names = {
        row["name"] for row in design.load_algorithms(design.ROOT / "config" / "algorithms.tsv")
    }
    if condition.algorithm not in names:
        problems.append(
            f"algorithm must be one of config/algorithms.tsv ({', '.join(sorted(names))}), found "
            f"{condition.algorithm!r}"
        )
    if problems:
        raise UsageError("; ".join(problems))


def _instrument() -> Instrument:
    from losslab.instrument import instrument

    return instrument()


def _video(condition: Condition, tools: Instrument) -> Path | None:
    if condition.app != "ffmpeg":
        return None
    from losslab.instrument import video

    return video(condition.duration_s, tools)


def _cell(options: argparse.Namespace) -> int:
    condition = Condition.from_json(json.loads(options.condition))
    _refuse_impossible(condition)
    tools = _instrument()
    movie = _video(condition, tools)
    folder = options.out.parent
    remove_partial(folder)
    for replicate in range(options.replicates):
        out = folder / str(replicate)
        seed = replicate_seed(condition, replicate)
        if finished(out, condition, seed, tools):
            print(f"{out}: kept, measured before", flush=True)
            continue
        manifest = run(condition, seed, out, tools, movie)
        verdict = "valid" if manifest["valid"] else f"INVALID: {'; '.join(manifest['reasons'])}"
        print(f"{out}: {verdict}", flush=True)
    manifests = [
        json.loads((folder / str(r) / "manifest.json").read_text())
        for r in range(options.replicates)
    ]
    write_json(
        {
            "study": options.study,
            "block": options.block,
            "cell": folder.name,
            "condition": condition.to_json(),
            "replicates": [
                {key: m[key] for key in ("seed", "valid", "reasons", "summary", "instrument")}
                for m in manifests
            ],
        },
        options.out,
    )
    return 0


def _cells(options: argparse.Namespace) -> int:
    cells = design.load_cells(design.load_yaml(options.config), design.ROOT)
    for cell in cells:
        if options.study in (None, cell.study):
            print(cell.study, cell.name, cell.replicates, sep="\t")
    return 0


def _collect(options: argparse.Namespace) -> int:
    collect.write_tables(options.cells, options.replicates, options.intervals, options.cwnd)
    return 0


def _build(options: argparse.Namespace) -> int:
    from losslab.build import image, kernel

    print({"kernel": kernel, "image": image}[options.what].build())
    return 0


if __name__ == "__main__":
    sys.exit(main())
