"""The table of algorithms: a page and a row of Markdown, of records by `losslab conform rfc9743`.

Everything that the author of an algorithm writes is quoted: a name, a label and a source are text.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from losslab.campaign.criteria import FAIL, PASS
from losslab.reading import UsageError, out_file, read_json, read_toml, write_text
from losslab.repository import ROOT, find
from losslab.study.names import load_algorithms
from losslab.study.schemas import check_schema
from losslab.tools.conform import suite
from losslab.tools.conform.judge import VERDICTS
from losslab.ui import webpage

SUITE = "rfc9743"
# The cases whose numbers the table has, with what they say of an algorithm.
NUMBERS = {
    "wired": "alone, % of 50 Mbit/s",
    "random-loss": "at 1 % loss, times Reno's goodput",
    "harm-cubic": "CUBIC's goodput beside it, times that beside CUBIC",
    "standing-queue": "mean queue in a buffer of 8 BDP, BDP",
}
INTRODUCTION = (
    "Each algorithm is measured by <code>losslab conform rfc9743 NAME</code>, in the suite's quick "
    "form: {count} criteria with limits that are losslab's, because RFC 9743 has almost no "
    "numbers. A number is that of the worst cell, with its 95 % confidence interval. The rows have "
    "no order of merit, and losslab does not add criteria up. An algorithm that needs ECN, such as "
    "DCTCP, has no row: most criteria are of paths without it.",
    "The seeds are drawn from a commit that nobody knew before: that of the merge, for an "
    "algorithm that came by a pull request. A command repeats the first run of a criterion, and "
    "<code>losslab conform rfc9743 NAME --seeds-of COMMIT</code> repeats all numbers.",
)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `entries`."""
    command = commands.add_parser("entries")
    command.add_argument("recorded", type=Path, help="folder of records, NAME.json each")
    command.add_argument("--out", type=out_file, required=True, help="HTML file to write")
    command.set_defaults(run=_entries)


def _entries(options: argparse.Namespace) -> int:
    records = [read(file) for file in sorted(options.recorded.glob("*.json"))]
    if not records:
        raise UsageError(
            f"{options.recorded} must have records NAME.json, found none",
            hint="`losslab entry NAME --commit COMMIT --out FOLDER` writes one",
        )
    write_text(options.out, page(records))
    print(f"{options.out}: {len(records)} algorithms")
    return 0


def read(file: Path) -> dict[str, Any]:
    """Read the record of an algorithm, which has all cases of the suite.

    Raises UsageError for another suite, and for a record whose file has not the algorithm's name.
    """
    record: dict[str, Any] = read_json(file)
    check_schema(record, "conformed", str(file), "`losslab entry` writes it")
    if record["suite"] != SUITE or record["algorithm"] != file.stem:
        raise UsageError(
            f"{file} must be of {SUITE} and {file.stem}, found {record['suite']} and "
            f"{record['algorithm']}"
        )
    missing = suite.load(SUITE)["cases"].keys() - {row["case"] for row in record["cases"]}
    if missing:
        raise UsageError(f"{file} must have all cases of {SUITE}, found no {min(missing)}")
    return record


def page(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the page with all algorithms."""
    labels = {row["name"]: row["label"] for row in load_algorithms(find("config/algorithms.tsv"))}
    named = sorted(records, key=lambda record: _label(record, labels).lower())
    count = len(suite.load(SUITE)["cases"])
    parts = [f"<p>{text.format(count=count)}</p>" for text in INTRODUCTION]
    head = ("algorithm", "kernel", *NUMBERS.values(), "criteria", "fails")
    parts.append(webpage.table(head, (list(_row(record, labels)) for record in named)))
    parts += ("\n".join(_details(record, labels)) for record in named)
    return webpage.page("Algorithms by the criteria of RFC 9743", parts)


def markdown(record: Mapping[str, Any]) -> str:
    """Return the row of an algorithm with its numbers and criteria, for a comment."""
    cells = [_number(record, name) or "not measured" for name in NUMBERS]
    head = [text.replace("|", "\\|") for text in NUMBERS.values()]
    name, seeds_of = record["algorithm"], record["seeds_of"]
    lines = [
        f"**{quoted(name)}** by the criteria of RFC 9743:",
        "",
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        f"| {' | '.join(cells)} |",
        "",
        f"{len(record['cases'])} criteria: {_counts(record)}.",
        "",
    ]
    failed = [row for row in record["cases"] if row["verdict"] == FAIL]
    lines += [f"- {row['case']}: {quoted(row['seeds'][0]['why'])}" for row in failed]
    command = quoted(f"losslab conform {SUITE} {name} --seeds-of {seeds_of}")
    lines += ["", f"The seeds are drawn from {quoted(seeds_of)}: {command} repeats all numbers."]
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """Return a text of others as code in Markdown, which GitHub shows as it is."""
    line = re.sub(r"[\x00-\x1f\x7f]+", " ", text).replace("`", "'").replace("|", "\\|").strip()
    return f"`{line}`"


def _label(record: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    return labels.get(record["algorithm"], record["algorithm"])


def _row(record: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[str]:
    name = escape(record["algorithm"])
    yield f'<a href="#algorithm/{name}">{escape(_label(record, labels))}</a>'
    yield escape(record["kernel"])
    yield from (escape(_number(record, case)) for case in NUMBERS)
    yield escape(_counts(record))
    failed = [row["case"] for row in record["cases"] if row["verdict"] == FAIL]
    yield ", ".join(f'<a href="#case/{SUITE}/{case}/{name}">{case}</a>' for case in failed)


def _details(record: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[str]:
    """Yield the section of an algorithm: where it is from, and each criterion.

    A browser opens it when an address in it is followed.
    """
    name, label = escape(record["algorithm"]), escape(_label(record, labels))
    yield f'<details id="algorithm/{name}"><summary><b>{label}</b></summary>'
    file = find(f"algorithms/{record['algorithm']}/algorithm.toml", ROOT)
    declared = read_toml(file) if file.is_file() else {}
    about = [f"<code>{name}</code>, losslab {escape(record['losslab'])}"]
    about += [escape(f"{key}: {declared[key]}") for key in ("source", "licence") if key in declared]
    if "seeds_of" in record:
        about.append(f"seeds of <code>{escape(record['seeds_of'])}</code>")
    yield f"<p>{'; '.join(about)}</p>"
    yield webpage.table(
        ("criterion", "section", "title", "verdict", "decided by", "command"),
        (_criterion(row, name) for row in record["cases"]),
    )
    yield "</details>"


def _criterion(row: Mapping[str, Any], name: str) -> Sequence[str]:
    address = f"case/{SUITE}/{escape(row['case'])}/{name}"
    [result] = row["seeds"]
    return (
        f'<a id="{address}" href="#{address}">{escape(row["case"])}</a>',
        escape(row.get("section", "")), escape(row["title"]),
        f'<span class="{row["verdict"].split()[0]}">{escape(row["verdict"])}</span>',
        escape(result["why"]), f"<code>{escape(result['command'])}</code>",
    )  # fmt: skip


def _counts(record: Mapping[str, Any]) -> str:
    counts = Counter(row["verdict"] for row in record["cases"])
    words = {PASS: "pass", FAIL: "fail"}
    return ", ".join(
        f"{counts[verdict]} {words.get(verdict, verdict.lower())}"
        for verdict in reversed(VERDICTS)
        if counts[verdict]
    )


def _number(record: Mapping[str, Any], case: str) -> str:
    """Return the number that decides a case, with its interval; "" if nothing was measured."""
    [row] = (row for row in record["cases"] if row["case"] == case)
    number = row["seeds"][0]["steps"][0].get("number", {})
    if "value" not in number:
        return ""
    ends = [number.get(end) for end in ("low", "high")]
    within = "" if None in ends else f" ({ends[0]:.3g} to {ends[1]:.3g})"
    return f"{number['value']:.3g}{within}"
