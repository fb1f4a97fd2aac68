"""Axes, metrics and columns for people and for R: options, tables, and two R files.

After you change the declaration of an axis or metric, run `losslab axes --write` to update the R
files. The documentation's tables are made when the site is built (docs/hooks.py).
"""

from __future__ import annotations

import argparse
import functools
import json
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tabulate import tabulate

from losslab.emulation.schemes import SCHEMES
from losslab.reading import input_errors, number, read_text, whole
from losslab.repository import ROOT
from losslab.study import dictionary, features, metrics
from losslab.study.axes import Axis, short
from losslab.study.background import NO_FLOWS
from losslab.study.condition import AXES

R_COLUMNS = Path("analysis", "R", "axes.R")
R_METRICS = Path("analysis", "R", "units.R")
# Larger files are no table of losslab's.
MAX_TABLE_BYTES = 2**30
# Axes of the traffic that are of no app.
TRAFFIC = ("algorithm", "app", "competitor", "offloads", "receive_buffer", "sender_queue")
HEAD = "| axis | unit | values | default | meaning |\n|---|---|---|---|---|"
METRICS_HEAD = "| metric | unit | better | provided by | meaning |\n|---|---|---|---|---|"


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands `axes` and `metrics`."""

    def list_axes(options: argparse.Namespace) -> int:
        if options.json:
            print(json.dumps({name: axis.schema() for name, axis in AXES.items()}, indent=1))
        else:
            print("\n".join(write(ROOT) or ["nothing changed"]) if options.write else table())
        return 0

    def list_metrics(options: argparse.Namespace) -> int:
        rows = [asdict(metric) for metric in metrics.declared().values()]
        print(json.dumps(rows, indent=1) if options.json else metrics_table())
        return 0

    command = commands.add_parser("axes")
    command.add_argument(
        "--write", action="store_true", help="update R's lists of axes and metrics"
    )
    command.add_argument("--json", action="store_true", help="print JSON Schema")
    command.set_defaults(run=list_axes)
    listing = commands.add_parser("metrics")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.set_defaults(run=list_metrics)
    described = commands.add_parser("columns")
    described.add_argument(
        "file", type=Path, nargs="?",
        help="CSV file of a run, a sweep or a campaign; without it, all tables are listed",
    )  # fmt: skip
    described.add_argument("--json", action="store_true", help="print a Table Schema")
    described.set_defaults(run=_list_columns)


def _list_columns(options: argparse.Namespace) -> int:
    if options.file is None:
        print(json.dumps(dictionary.schemas(), indent=1) if options.json else dictionary.page())
        return 0
    path = str(options.file.resolve())
    with input_errors():
        names = read_text(options.file, MAX_TABLE_BYTES).partition("\n")[0].split(",")
        found = dictionary.schema(path, names)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        rows = [
            [f["name"], f["type"], f.get("unit", ""), f["description"]] for f in found["fields"]
        ]
        print(
            tabulate(rows, ["column", "type", "unit", "meaning"], maxcolwidths=[None, None, 14, 70])
        )
    return 0


def add_options(
    parser: argparse.ArgumentParser, algorithm: str | None = None
) -> dict[str, argparse._ArgumentGroup]:
    """Add an option for each axis, and return the groups of the help: path, traffic, ...

    `algorithm` is the default of the axis without one.
    """
    readers: dict[str, Any] = {"int": whole, "float": number}
    groups = {
        title: parser.add_argument_group(title)
        for title in ("path", "traffic", "run", "instrument")
    }
    for name, axis in AXES.items():
        default = algorithm if name == "algorithm" else axis.default
        read = str if axis.kind == "str" else functools.partial(readers[axis.kind], name=name)
        groups[_group(name)].add_argument(
            f"--{name.replace('_', '-')}",
            type=read,
            choices=list(axis.choices) or None,
            default=default,
            required=default is None,
            help=_option_help(axis),
        )
    groups["traffic"].add_argument(
        "--flow",
        dest="flows",
        action=_AddFlow,
        default=argparse.SUPPRESS,
        metavar="ALGORITHM[,KEY=VALUE...]",
        help="add a flow to --flows, such as algorithm=cubic,start_s=2,rtt_ms=40 (repeatable)",
    )
    return groups


def _group(name: str) -> str:
    """Return the group of an axis's option in the help."""
    if name in ("kernel", "image"):
        return "instrument"
    if AXES[name].of_campaign:
        return "run"
    sending = (features.background(), *features.apps().values())
    of_traffic = name in TRAFFIC or any(name in each.axes for each in sending)
    return "traffic" if of_traffic else "path"


class _AddFlow(argparse.Action):
    """Append a flow to the value of `--flows`; its `algorithm=` may be anywhere in the option."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        pairs = sorted(values.split(","), key=lambda pair: not pair.startswith("algorithm="))
        flow = ",".join(pairs).removeprefix("algorithm=")
        before = [namespace.flows] if namespace.flows != NO_FLOWS else []
        namespace.flows = "+".join([*before, flow])


def _option_help(axis: Axis) -> str:
    """Return the help of an axis's option, without its choices: argparse lists them."""
    parts = [axis.help.replace("`", ""), *([f"in {axis.unit}"] if axis.unit else [])]
    parts += [axis.range] if axis.span else []
    default = "" if axis.default is None else f" (default {short(axis.default)})"
    return (", ".join(parts) + default).replace("%", "%%")


def table() -> str:
    """Return the axes of studies as a Markdown table."""
    return "\n".join([HEAD, *(_row(axis) for axis in AXES.values() if not axis.of_campaign)])


def _row(axis: Axis) -> str:
    choices = [
        f"`{value}`" + (f" ({text})" if text else "") for value, text in axis.choices.items()
    ]
    if axis.name == "scheme":
        choices = [f"`{name}`" for name in SCHEMES]
    values = axis.range if axis.span else ", ".join(choices)
    default = "" if axis.default is None else f"`{short(axis.default)}`"
    cells = (f"`{axis.name}`", axis.unit, values, default, axis.help)
    return f"| {' | '.join(cells)} |".replace("  ", " ")


def metrics_table() -> str:
    """Return the metrics as a Markdown table."""
    rows = [
        f"| `{metric.name}` | {metric.unit} | {metric.better} | {', '.join(metric.of)} "
        f"| {metric.description} |"
        for metric in metrics.declared().values()
    ]
    return "\n".join([METRICS_HEAD, *rows]).replace("  ", " ")


def r_columns() -> str:
    """Return the R file with the names of the axes' columns."""
    text_columns = [name for name, axis in AXES.items() if axis.kind == "str"]

    return f"""\
# The columns of a cell's axes, from their declarations in src/losslab/study/condition.py. Written
# by `losslab axes --write`.

# Together with the block, these columns identify a cell.
condition_columns <- {_r_vector(AXES)}

# Text columns; the others are numeric.
condition_words <- {_r_vector(text_columns)}
"""


def r_metrics() -> str:
    """Return the R file with the metrics' units and titles."""
    declared = metrics.declared()
    return f"""\
# Units of metrics and their titles on a figure's axis, from config/metrics.tsv. Written by
# `losslab axes --write`.

metric_units <- {_r_named({name: metric.unit for name, metric in declared.items()})}

metric_titles <- {_r_named({name: metric.title for name, metric in declared.items()})}
"""


def _r_vector(names: Iterable[str]) -> str:
    quoted = ", ".join(f'"{name}"' for name in names)
    lines = textwrap.fill(quoted, 98, initial_indent="  ", subsequent_indent="  ")
    return f"c(\n{lines}\n)"


def _r_named(values: Mapping[str, str]) -> str:
    lines = [f'  {name} = "{value}"' for name, value in values.items()]
    return "c(\n" + ",\n".join(lines) + "\n)"


def write(root: Path) -> list[str]:
    """Update the R files with axes and metrics; return those that changed."""
    changed = []
    for path, text in {R_COLUMNS: r_columns(), R_METRICS: r_metrics()}.items():
        if not (root / path).exists() or (root / path).read_text() != text:
            (root / path).write_text(text)
            changed.append(str(path))
    return changed
