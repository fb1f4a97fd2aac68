"""Axes and metrics as others list them: the command line, documentation and R.

`losslab axes --write` brings the files up to date after a change of a declaration.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from losslab.emulation.schemes import SCHEMES
from losslab.errors import LosslabError
from losslab.reading import number, read_text, whole
from losslab.study import metrics
from losslab.study.axes import Axis, short
from losslab.study.condition import AXES
from losslab.study.crowd import NO_FLOWS

README = Path("config", "README.md")
R_COLUMNS = Path("analysis", "R", "axes.R")
R_METRICS = Path("analysis", "R", "units.R")
RESULTS = Path("docs", "reference", "results.md")
HEAD = "| axis | unit | values | default | meaning |\n|---|---|---|---|---|"
METRICS_HEAD = "| metric | unit | better | provided by | meaning |\n|---|---|---|---|---|"


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser], root: Path) -> None:
    """Add `axes` and `metrics`, which list what is declared; `axes` brings files up to date."""

    def list_axes(options: argparse.Namespace) -> int:
        if options.json:
            print(json.dumps({name: its.schema() for name, its in AXES.items()}, indent=1))
        else:
            print("\n".join(write(root) or ["nothing changed"]) if options.write else table())
        return 0

    def list_metrics(options: argparse.Namespace) -> int:
        rows = [asdict(its) for its in metrics.declared().values()]
        print(json.dumps(rows, indent=1) if options.json else metrics_table())
        return 0

    command = commands.add_parser("axes", help="list the axes of a study's design")
    command.add_argument("--write", action="store_true", help="bring the files that list them up")
    command.add_argument("--json", action="store_true", help="for a machine, as JSON Schema")
    command.set_defaults(run=list_axes)
    listing = commands.add_parser("metrics", help="list the metrics of results")
    listing.add_argument("--json", action="store_true", help="for a machine")
    listing.set_defaults(run=list_metrics)


def add_options(parser: argparse.ArgumentParser, algorithm: str | None = None) -> None:
    """Add an option for each axis.

    The `algorithm` is the default of the axis that has none.
    """
    readers: dict[str, Any] = {"int": whole, "float": number}
    for name, its in AXES.items():
        default = algorithm if name == "algorithm" else its.default
        read = str if its.kind == "str" else functools.partial(readers[its.kind], name=name)
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=read,
            choices=list(its.choices) or None,
            default=default,
            required=default is None,
            help=_option_help(its),
        )
    parser.add_argument(
        "--flow",
        dest="flows",
        action=_AddFlow,
        default=argparse.SUPPRESS,
        metavar="ALGORITHM[,KEY=VALUE...]",
        help="a flow of --flows; as often as wanted (algorithm=cubic,start_s=2,rtt_ms=40)",
    )


class _AddFlow(argparse.Action):
    """Add a flow to what `--flows` says; its algorithm may stand anywhere in it."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        words = sorted(values.split(","), key=lambda word: not word.startswith("algorithm="))
        flow = ",".join(words).removeprefix("algorithm=")
        before = [namespace.flows] if namespace.flows != NO_FLOWS else []
        namespace.flows = "+".join([*before, flow])


def _option_help(its: Axis) -> str:
    """Say of an axis what the command line says; it lists words by itself."""
    parts = [its.help.replace("`", ""), *([f"in {its.unit}"] if its.unit else [])]
    parts += [its.span.text] if its.span else []
    default = "" if its.default is None else f" (default {short(its.default)})"
    return (", ".join(parts) + default).replace("%", "%%")


def table() -> str:
    """Write the axes of studies as a table in Markdown."""
    return "\n".join([HEAD, *(_row(its) for its in AXES.values() if not its.of_campaign)])


def _row(its: Axis) -> str:
    glossed = [f"`{word}`" + (f" ({what})" if what else "") for word, what in its.choices.items()]
    if its.name == "scheme":
        glossed = [f"`{word}`" for word in SCHEMES]
    values = its.span.text if its.span else ", ".join(glossed)
    default = "" if its.default is None else f"`{short(its.default)}`"
    return f"| `{its.name}` | {its.unit} | {values} | {default} | {its.help} |".replace("  ", " ")


def metrics_table() -> str:
    """Write the metrics as a table in Markdown."""
    rows = [
        f"| `{its.name}` | {its.unit} | {its.better} | {', '.join(its.of)} | {its.description} |"
        for its in metrics.declared().values()
    ]
    return "\n".join([METRICS_HEAD, *rows]).replace("  ", " ")


def readme(text: str) -> str:
    """Bring the tables of config/README.md up to date."""
    text = _with_table(README, text, HEAD, table())
    for its in AXES.values():
        if its.of_campaign:
            row = f"| `{its.name}` | {its.unit} | {its.help} |\n"
            text = _put(rf"\| `{its.name}` \|.*\n", row, text, README)
    return text


def _with_table(file: Path, text: str, head: str, table: str) -> str:
    return _put(re.escape(head) + r"\n(\|.*\n)*", table + "\n", text, file)


def _put(pattern: str, replacement: str, text: str, file: Path) -> str:
    text, count = re.subn(pattern, lambda match: replacement, text)
    if count != 1:
        raise LosslabError(
            f"{file} must have one place for what matches {pattern!r}, found {count}"
        )
    return text


def r_columns() -> str:
    """Write the names of the axes' columns, and which have words, in R."""
    words = [name for name, its in AXES.items() if its.kind == "str"]
    return f"""\
# The columns of a cell's axes, from their declarations in src/losslab/study/condition.py. Written
# by `losslab axes --write`.

# They tell a cell from others, together with its block.
condition_columns <- {_r_vector(AXES)}

# Those of words; the others are numbers.
condition_words <- {_r_vector(words)}
"""


def r_metrics() -> str:
    """Write what R needs of the metrics' declarations."""
    found = metrics.declared()
    return f"""\
# Units of metrics, and titles as an axis of a figure has them, from config/metrics.tsv. Written by
# `losslab axes --write`.

metric_units <- {_r_named({name: its.unit for name, its in found.items()})}

metric_titles <- {_r_named({name: its.title for name, its in found.items()})}
"""


def _r_vector(names: Iterable[str]) -> str:
    quoted = ", ".join(f'"{name}"' for name in names)
    lines = textwrap.fill(quoted, 98, initial_indent="  ", subsequent_indent="  ")
    return f"c(\n{lines}\n)"


def _r_named(values: Mapping[str, str]) -> str:
    lines = [f'  {name} = "{value}"' for name, value in values.items()]
    return "c(\n" + ",\n".join(lines) + "\n)"


def write(root: Path) -> list[str]:
    """Bring the files that list axes and metrics up to date; return those that changed."""
    results = read_text(root / RESULTS)
    files = {
        README: readme(read_text(root / README)),
        R_COLUMNS: r_columns(),
        R_METRICS: r_metrics(),
        RESULTS: _with_table(RESULTS, results, METRICS_HEAD, metrics_table()),
    }
    changed = []
    for path, text in files.items():
        if not (root / path).exists() or (root / path).read_text() != text:
            (root / path).write_text(text)
            changed.append(str(path))
    return changed
