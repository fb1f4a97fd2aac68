"""Compare two sets of results: `losslab diff`."""

from __future__ import annotations

import argparse
from pathlib import Path

from losslab.campaign import compare, records
from losslab.reading import UsageError, input_errors
from losslab.ui import printed


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `diff`."""
    compared = commands.add_parser("diff")
    compared.add_argument("first", type=Path, help="results folder")
    compared.add_argument("second", type=Path, help="results folder or record to compare with")
    compared.add_argument("--metric", help="metric to compare; default: the app's main metric")
    common = "compare only cells and files that both have"
    compared.add_argument("--common", action="store_true", help=common)
    compared.add_argument("--json", action="store_true", help="print JSON")
    compared.set_defaults(run=_diff)


def _diff(options: argparse.Namespace) -> int:
    if options.first.resolve() == options.second.resolve():
        raise UsageError(
            f"diff must compare two folders, found {options.first} twice",
            hint="every folder agrees with itself",
        )
    with_record = options.second.suffix == records.RECORD_SUFFIX
    if with_record and options.metric:
        raise UsageError("--metric must compare two folders, found a record of the main metric")
    sides = options.first, options.second
    with input_errors():  # nothing was compared
        if with_record:
            comparison = records.compare(*sides, options.common)
        else:
            comparison = compare.compare_sets(*sides, options.metric, options.common)
    print(compare.as_json(comparison) if options.json else printed.diff_text(comparison))
    return 0 if comparison.agree else 1
