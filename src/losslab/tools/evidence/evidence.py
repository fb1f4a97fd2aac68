"""A page with a stable address for each claim, test case of a draft, and cell, to be cited.

An address follows from names only: `#claim/STUDY/CLAIM`, `#case/SUITE/CASE/ALGORITHM` and
`#cell/STUDY/CELL`. A cell's name follows from its block and condition.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from losslab import cellspec
from losslab.backends.base import GUEST
from losslab.campaign import records
from losslab.campaign.records import RECORD, RecordRow
from losslab.campaign.results import Row
from losslab.reading import out_file, read_rows, read_yaml, write_text
from losslab.repository import ROOT, __version__
from losslab.study import studyfiles
from losslab.study.condition import Condition
from losslab.study.metrics import declared
from losslab.ui import webpage

# Cells that a claim links to; the others are counted.
LINKED_MAX = 8
CASE_COLUMNS = (
    "suite", "algorithm", "kernel", "change", "cell", "case", "title", "verdict", "agreeing", "n",
    "why", "command",
)  # fmt: skip
INTRODUCTION = (
    "Each row has an address that stays the same in later versions: its first field is a link to "
    "itself. Cite it with the version, because a later version may measure other numbers: "
    "losslab {version}.",
    "A command repeats a cell's first run. A digest is of all raw files of all runs of a cell: "
    "<code>losslab record results record.tsv</code> writes it. Equal digests mean equal bytes.",
)


class Evidence(NamedTuple):
    """A recorded cell, with its row of the record."""

    content: Row
    record: RecordRow

    @property
    def address(self) -> str:
        """Name of the cell's place on the page."""
        return f"cell/{self.record.name}"

    @property
    def command(self) -> str:
        """Command that measures the cell's first run; empty if it was measured in real time."""
        first = self.content["replicates"][0]
        if first["instrument"].get("where", GUEST) != GUEST:
            return ""
        condition = Condition.from_json(self.content["condition"])
        return cellspec.measure_command(condition, first["seed"], "my-run")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `evidence`."""
    command = commands.add_parser("evidence")
    command.add_argument("recorded", nargs="+", type=Path, help="folders of recorded numbers")
    command.add_argument("--claims", type=Path, help="table of judged claims, results/claims.csv")
    command.add_argument("--cases", type=Path, help="verdicts on cases, recorded/conform.tsv")
    command.add_argument("--out", type=out_file, required=True, help="HTML file to write")
    command.set_defaults(run=_evidence)


def _evidence(options: argparse.Namespace) -> int:
    cells = [each for folder in options.recorded for each in read(folder)]
    claims = read_rows(options.claims) if options.claims else []
    cases = read_rows(options.cases, "\t", CASE_COLUMNS) if options.cases else []
    write_text(options.out, page(claims, cases, cells))
    print(f"{options.out}: {len(claims)} claims, {len(cases)} cases, {len(cells)} cells")
    return 0


def read(folder: Path) -> list[Evidence]:
    """Return the cells of a folder of recorded numbers that its record has, too."""
    rows = records.read_record(folder / RECORD)
    contents = (numbers.content for numbers in records.read_all(folder))
    named = ((f"{content['study']}/{content['cell']}", content) for content in contents)
    return [Evidence(content, rows[name]) for name, content in named if name in rows]


def page(
    claims: Sequence[Mapping[str, str]],
    cases: Sequence[Mapping[str, str]],
    cells: Sequence[Evidence],
) -> str:
    """Return the page with all claims, cases and cells."""
    parts = [f"<p>{text.format(version=escape(__version__))}</p>" for text in INTRODUCTION]
    sections = (
        ("Claims", ("claim", "sentence", "value", "95 % interval", "limit", "verdict", "cells"),
         _claims(claims, cells)),
        ("Test cases of drafts", ("case", "title", "verdict", "runs", "found", "command"),
         map(_case, cases)),
        ("Cells", ("cell", "value", "95 % interval", "runs", "digest", "command"),
         map(_cell, cells)),
    )  # fmt: skip
    for title, head, rows in sections:
        parts += [f"<h2>{title}</h2>", webpage.table(head, rows)]
    return webpage.page("Evidence: claims, cases and cells", parts)


def case_address(row: Mapping[str, str]) -> str:
    """Return the name of a case's place: what is not the default follows the algorithm."""
    more = [f"{name}={row[name]}" for name in ("kernel", "cell", "change") if row[name]]
    kept = [each for each in more if each != "kernel=default"]
    return "/".join(["case", row["suite"], row["case"], row["algorithm"], *kept])


def _claims(
    claims: Sequence[Mapping[str, str]], cells: Sequence[Evidence]
) -> Iterator[Sequence[str]]:
    """Yield the rows of claims, each with links to the cells that it is about."""
    of_study: dict[str, list[Evidence]] = {}
    for cell in cells:
        of_study.setdefault(cell.record.study, []).append(cell)
    where = {
        (study, claim["id"]): claim.get("where", {})
        for study in dict.fromkeys(row["study"] for row in claims)
        for claim in read_yaml(studyfiles.file(ROOT, study, studyfiles.CLAIMS))["claims"]
    }
    for row in claims:
        selector = where.get((row["study"], row["claim"]), {})
        about = [
            each
            for each in of_study.get(row["study"], ())
            if studyfiles.matches(
                {"block": each.content["block"], **each.content["condition"]}, selector
            )
        ]
        links = [_link(each.address, each.record.cell) for each in about[:LINKED_MAX]]
        if len(about) > LINKED_MAX:
            links.append(f"and {len(about) - LINKED_MAX} more")
        yield (
            _anchor(f"claim/{row['study']}/{row['claim']}"), escape(row["sentence"]),
            _number(row["measured"], row["unit"]), _interval(row["low"], row["high"]),
            escape(row["tolerance"]), escape(row["verdict"]), "<br>".join(links),
        )  # fmt: skip


def _case(row: Mapping[str, str]) -> Sequence[str]:
    return (
        _anchor(case_address(row)), escape(row["title"]), escape(row["verdict"]),
        escape(f"{row['agreeing']} of {row['n']}"), escape(row["why"]), _code(row["command"]),
    )  # fmt: skip


def _cell(cell: Evidence) -> Sequence[str]:
    row = cell.record
    metric: Any = declared().get(row.metric)
    value = f"{metric.label} {_number(row.mean, metric.unit)}" if metric and row.mean else ""
    return (
        _anchor(cell.address), value, _interval(row.low, row.high),
        f"{row.valid} of {row.replicates}", _code(row.sha256), _code(cell.command),
    )  # fmt: skip


def _number(value: str, unit: str) -> str:
    return escape(f"{float(value):.6g} {unit}".rstrip()) if value not in ("", "NA") else ""


def _interval(low: str, high: str) -> str:
    return f"{_number(low, '')} to {_number(high, '')}" if _number(low, "") else ""


def _anchor(address: str) -> str:
    name = escape(address)
    return f'<a id="{name}" href="#{name}">{escape(address.partition("/")[2])}</a>'


def _link(address: str, text: str) -> str:
    return f'<a href="#{escape(address)}">{escape(text)}</a>'


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>" if text else ""
