"""Verdicts on a campaign's claims: printing, checks, and records.

`losslab claims --record CAMPAIGN` keeps a campaign's table of claims as
`recorded/CAMPAIGN/claims.csv`. The report then fails if a verdict changes, or the kind of cause
that runs show, or if a claim differs and has no supported reason.
"""

from __future__ import annotations

import argparse
import json
import shutil
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from losslab import extensions
from losslab.errors import LosslabError, did_you_mean
from losslab.reading import UsageError, number, read_rows, shown
from losslab.repository import REPORT, ROOT, find

CLAIMS = Path("results", "claims.csv")
# The columns of judged claims that this module reads (analysis/R/claims.R writes them).
NUMBERS = ("measured", "low", "high")
COLUMNS = (
    "study", "claim", "verdict", "sentence", "evidence", "tolerance", "limit_is", "limit_because",
    "published", "reason", "unsupported", "cause", "absent", "unit", "n", *NUMBERS,
)  # fmt: skip
# What a verdict says about the source (workflow/schemas/claims.schema.yaml). Only the first two
# count as evidence of reproduction.
EVIDENCE = ("not fitted", "order", "fitted", "configured", "own")
# Folder of the recorded campaigns.
RECORDED = Path("recorded")
# Begin of the column `absent` of claims whose cells were skipped (analysis/R/claims.R).
SKIPPED = "skipped: "
KEYS = ("study", "claim", "verdict", "cause")
# Kinds of causes that runs show (analysis/R/reasons.R).
CAUSES = ("none", "difference", "scatter")
# Campaigns that differ only in their family of seeds. The limits were chosen on the first.
FAMILIES = ("quick", "quick-fresh")
# The order in tables: verdicts that need attention come first. The glossary defines them.
AGREEING = ("reproduced", "inside", "near")
ORDER = ("not reproduced", "outside", "inconclusive", "undecidable", "not comparable",
         "not measured", *AGREEING)  # fmt: skip

INDENT = " " * 16

Name = tuple[str, str]
Row = dict[str, str]


class Judged(NamedTuple):
    """A claim's verdict, and the kind of its cause."""

    verdict: str
    cause: str = "none"

    def __str__(self) -> str:
        return self.verdict if self.cause == "none" else f"{self.verdict} ({self.cause})"


def record_of(campaign: str) -> Path:
    """Return the recorded claims of a campaign; the file need not exist."""
    if Path(campaign).name != campaign:
        raise UsageError(f"a recorded campaign's name must be that of a folder, found {campaign!r}")
    return find(RECORDED / campaign / CLAIMS.name)


def read_recorded(campaign: str) -> dict[Name, Judged]:
    """Read the recorded verdicts of a campaign, none if it has no record."""
    path = record_of(campaign) if campaign else None
    return read_verdicts(path) if path and path.is_file() else {}


def read_verdicts(path: Path) -> dict[Name, Judged]:
    """Read the verdicts of a table of claims."""
    verdicts: dict[Name, Judged] = {}
    for line, row in enumerate(read_table(path, KEYS), start=2):
        judged = Judged(row["verdict"], row["cause"] or "none")
        known = judged.verdict in ORDER and judged.cause in CAUSES
        if _name(row) in verdicts or not all(_name(row)) or not known:
            raise UsageError(
                f"{path}, line {line} must have a verdict ({', '.join(ORDER)}) and a cause "
                f"({', '.join(CAUSES)}) of a claim without another line, found {shown(row)}"
            )
        verdicts[_name(row)] = judged
    return verdicts


def explained() -> dict[Name, str]:
    """Return what explains each claim's recorded verdict with both families of seeds.

    Chance shows causes, too, so a cause counts only if it holds with both. A claim that agrees with
    one of them needs no cause there. The value is "agrees" if the claim does with both, or else the
    kind of the cause. Other claims are absent.
    """
    first, second = map(read_recorded, FAMILIES)
    kinds = {}
    for name in first.keys() & second.keys():
        both = (first[name], second[name])
        causes = {judged.cause for judged in both if judged.verdict not in AGREEING}
        if "none" not in causes:
            kinds[name] = max(causes, default="agrees")
    return kinds


def read_table(path: Path, columns: Sequence[str] = ()) -> list[Row]:
    """Read a table of the workflow; NA becomes an empty field."""
    return [
        {key: "" if value == "NA" else value for key, value in row.items()}
        for row in read_rows(path, columns=columns)
    ]


def read_claims(path: Path) -> list[Row]:
    """Read a campaign's judged claims."""
    if not path.exists():
        raise LosslabError(f"{path} does not exist", hint=f"measure a campaign first: `{REPORT}`")
    rows = read_table(path, COLUMNS)
    for line, row in enumerate(rows, start=2):
        row["cause"] = row["cause"] or "none"
        if row["verdict"] not in ORDER:
            raise UsageError(
                f"verdict must be one of {', '.join(ORDER)}, found {shown(row['verdict'])} in "
                f"{path}, line {line}"
            )
        for name in NUMBERS:
            # R writes a ratio to 0 as Inf.
            if row[name] not in ("", "Inf", "-Inf"):
                number(row[name], f"{name} of {path}, line {line},")
    return rows


def problems(claims: Sequence[Row], recorded: Mapping[Name, Judged]) -> list[str]:
    """List claims that differ without a supported reason, and changed verdicts."""
    problems = []
    for row in claims:
        name, before = f"{row['study']}, {row['claim']}", recorded.get(_name(row))
        number = f"{_number(row)}, {row['tolerance']}"
        if row["unsupported"]:
            problems.append(f"{name} is {row['verdict']} ({number}): {row['unsupported']}")
        if before is None:
            problems.append(f"{name} is {row['verdict']} ({number}), but has no recorded verdict")
        elif row["absent"].startswith(SKIPPED):
            continue  # as in a campaign without network, which lacks the public traces
        elif before.verdict != row["verdict"]:
            problems.append(f"{name} was {before.verdict} and is {row['verdict']} ({number})")
        elif before.cause != row["cause"]:
            problems.append(f"the cause of {name} was {before.cause} and is {row['cause']}")
    names, studies = {*map(_name, claims)}, {row["study"] for row in claims}
    problems += [
        f"{study}, {claim} has a recorded verdict, but does not exist"
        for study, claim in recorded
        if study in studies and (study, claim) not in names
    ]
    return problems


def _name(row: Row) -> Name:
    return row["study"], row["claim"]


def require_as_recorded(
    problems: Sequence[str], kind: str, recorded: Path | str, hint: str
) -> None:
    """Raise LosslabError with all problems of claims or criteria compared with a record."""
    if problems:
        raise LosslabError(
            f"{kind} must agree with {recorded}, found {len(problems)} that do not:\n"
            + "\n".join(f"- {problem}" for problem in problems),
            hint=hint,
        )


def check(claims: Path, campaign: str) -> None:
    """Check claims against the recorded verdicts of a campaign."""
    path = record_of(campaign)
    command = f"`losslab claims --record {campaign}`"
    if not path.is_file():
        raise UsageError(f"{path} must have the verdicts of {campaign}, found no such file",
                         hint=f"record them with {command}")  # fmt: skip
    changes = problems(read_claims(claims), read_verdicts(path))
    hint = f"give reasons in studies/STUDY/claims.yaml; then {command}"
    require_as_recorded(changes, "claims", path, hint)


def record(claims: Path, campaign: str) -> list[str]:
    """Record the current claims of a campaign; return the changed verdicts."""
    rows = read_claims(claims)
    if unsupported := [row for row in rows if row["unsupported"]]:
        raise LosslabError(
            "a claim that differs must have a reason, found\n"
            + "\n".join(f"- {', '.join(_name(row))}: {row['unsupported']}" for row in unsupported)
        )
    before, now = read_recorded(campaign), read_verdicts(claims)
    path = (extensions.campaign() or ROOT) / RECORDED / campaign / CLAIMS.name
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(claims, path)
    return [
        f"{', '.join(name)}: {before.get(name, 'none')} -> {now.get(name, 'none')}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]


def table(claims: Sequence[Row]) -> str:
    """Return the claims by verdict: result, confidence interval, n, limit, sentence and reason."""
    lines = []
    for row in sorted(claims, key=lambda row: ORDER.index(row["verdict"])):
        limit = f" ({row['limit_is']}: {row['limit_because']})" if row["limit_is"] else ""
        published = f"; published {row['published']}" if row["published"] else ""
        lines.append(
            f"{row['verdict'].upper():14}  {'/'.join(_name(row))} ({row['evidence']}): "
            f"{_number(row)}; {row['tolerance']}{limit}{published}"
        )
        texts = [row["sentence"]] + [
            row[column] and f"{column}: {row[column]}"
            for column in ("reason", "unsupported", "cause", "absent")
        ]
        for text in filter(None, texts):
            lines += textwrap.wrap(text, 100, initial_indent=INDENT, subsequent_indent=INDENT)
    lasting = explained()
    for evidence in EVIDENCE:
        rows = [row for row in claims if row["evidence"] == evidence]
        if rows:
            counts = Counter(row["verdict"] for row in rows)
            summary = ", ".join(f"{counts[v]} {v}" for v in ORDER[::-1] if counts[v])
            caused = [_name(row) in lasting for row in rows if row["cause"] != "none"]
            if caused:
                summary += (
                    f"; runs show the cause of {caused.count(True)} with both recorded families of "
                    "seeds"
                )
            if chance := caused.count(False):
                summary += f" ({chance} more with these seeds only)"
            lines.append(f"{evidence:14}  {summary}")
    return "\n".join(lines)


def _number(row: Row) -> str:
    """Format a claim's result: 4.57 [4.1, 5.0] times, n = 10 (confidence, 95 %)."""
    if not row["measured"]:
        return "no result"
    value, *ends = (f"{float(row[name]):.4g}" if row[name] else "" for name in NUMBERS)
    interval = f" [{', '.join(ends)}]" if ends[0] else ""
    unit = f" {row['unit']}" if row["unit"] else ""
    # Tables of earlier versions do not say what their intervals are.
    kind = f" ({row['interval']})" if row.get("interval") else ""
    return f"{value}{interval}{unit}, n = {row['n']}{kind}"


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `claims`, which prints, checks or records verdicts."""

    def run(options: argparse.Namespace) -> int:
        if options.check is not None:
            check(options.claims, options.check)
        elif options.record is not None:
            print("\n".join(record(options.claims, options.record) or ["no verdict changed"]))
        else:
            rows, names = read_claims(options.claims), {*options.names}
            if names:
                known = {name for row in rows for name in (row["study"], "/".join(_name(row)))}
                if unknown := sorted(names - known):
                    raise UsageError(
                        f"{options.claims} must have each study or claim, found no {unknown[0]}"
                        + did_you_mean(unknown[0], known)
                    )
                rows = [row for row in rows if {row["study"], "/".join(_name(row))} & names]
            print(json.dumps(rows, indent=1) if options.json else table(rows))
        return 0

    command = commands.add_parser("claims")
    names = "print only these: STUDY or STUDY/CLAIM"
    command.add_argument("names", nargs="*", metavar="NAME", help=names)
    command.add_argument("--claims", type=Path, default=CLAIMS, help="table of judged claims")
    compared = "compare with the campaign's recorded verdicts"
    command.add_argument("--check", metavar="CAMPAIGN", help=compared)
    recorded = "record the table of claims as recorded/CAMPAIGN/claims.csv"
    command.add_argument("--record", metavar="CAMPAIGN", help=recorded)
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)
