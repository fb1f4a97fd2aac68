"""`losslab conform`: run the cases of a suite, and judge an algorithm."""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import shutil
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from losslab import __version__, cellspec, commands, sweeps
from losslab.campaign import halves, limiters, verdicts
from losslab.campaign.criteria import FAIL, PASS
from losslab.campaign.instrument import at_first_use, instrument, kernel_of, require_built
from losslab.campaign.results import Replicate, write_json
from losslab.errors import LosslabError
from losslab.instrument import built, kernels, kernelsource
from losslab.reading import (
    UsageError,
    out_file,
    out_folder,
    read_json,
    read_text,
    whole_option,
    write_text,
)
from losslab.study import studyfiles
from losslab.study.condition import DEFAULT_KERNEL, Condition
from losslab.study.schemas import check_schema
from losslab.tools.conform import binding, page, suite
from losslab.tools.conform.judge import VERDICTS
from losslab.tools.conform.runs import QUIC, Attempt, Result, Runs, judged, loses_at_random
from losslab.tools.conform.spans import Spans, family_of
from losslab.tools.conform.suite import Case

FORMAT = 1
RECORD, SCHEMA = "conform.json", "conformed"
# Smaller changes of a number are ignored: without variance, its interval has no width.
MIN_CHANGE = 0.01
SHOWN = 200  # characters of the numbers of a case that passes
WIDTH = max(map(len, VERDICTS))


def add_commands(parsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `conform`."""
    command = parsers.add_parser("conform")
    command.add_argument("suite", help="suite of suites/")
    command.add_argument(
        "algorithm", nargs="?", help="algorithm to judge; without it, the cases are listed"
    )
    command.add_argument(
        "--case", action="append", default=[], metavar="N",
        help="run only this case; may be repeated",
    )  # fmt: skip
    command.add_argument(
        "--cell", default="", metavar="NAME",
        help="another of the suite's cells, for the cases that it has there",
    )  # fmt: skip
    command.add_argument(
        "--seeds", type=whole_option("seeds", 1), metavar="N",
        help="runs of each case, with the seeds 1 to N (default 1); the worst verdict counts. Of a "
        "case over scenarios: runs of each cell (default: the suite's)",
    )  # fmt: skip
    command.add_argument(
        "--seeds-of", default="", metavar="TEXT",
        help="draw the seeds of cases over scenarios from this text, such as a commit",
    )  # fmt: skip
    command.add_argument(
        "--text", type=Path, metavar="FILE",
        help="compare the draft's text (Markdown) with the one that the cases were written for, "
        "and list the cases to read again; measures nothing",
    )  # fmt: skip
    command.add_argument(
        "--full", action="store_true", help="use the scenarios' full form, more and longer runs"
    )
    command.add_argument("--kernel", default=DEFAULT_KERNEL, help="kernel of config/kernels.toml")
    command.add_argument(
        "--app", choices=[QUIC],
        help="judge the sender of this app by its qlog, instead of the kernel's TCP",
    )  # fmt: skip
    command.add_argument(
        "--change", action="append", default=[], metavar="FILE",
        help="changed file of the kernel (tcp_bbr.c, PATH=FILE), or a patch; may be repeated",
    )  # fmt: skip
    cellspec.cores_option(command, "runs")
    command.add_argument(
        "--out", type=out_folder, default=Path("results", "conform"),
        help="folder; finished runs are kept (default results/conform)",
    )  # fmt: skip
    command.add_argument(
        "--against", type=Path, metavar="FILE",
        help=f"recorded {RECORD}: exit with 1 only if a verdict is worse than recorded",
    )  # fmt: skip
    command.add_argument(
        "--record", type=out_file, metavar="FILE",
        help="write the JSON there, and end with 0 whatever the verdicts, as the workflow does",
    )  # fmt: skip
    command.add_argument(
        "--needs", type=Path, metavar="FILE",
        help="record of a smoke test; without its kernel, no case runs",
    )  # fmt: skip
    command.add_argument("--junit", type=out_file, metavar="FILE", help="write JUnit XML")
    command.add_argument(
        "--html", type=out_file, metavar="FILE", help="write a page with a strip for each case"
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument(
        "--estimate", action="store_true",
        help="print the estimated time of the cases over scenarios, and measure nothing",
    )  # fmt: skip
    command.set_defaults(run=_conform, interrupted=sweeps.KEPT)


def _conform(options: argparse.Namespace) -> int:
    selected = suite.load(options.suite)
    cases = suite.cases(selected, options.case, options.cell)
    if options.text:
        return _compare_text(selected, read_text(options.text))
    if options.algorithm is None:
        print(listing(selected, cases))
        return 0
    return _judge(options, selected, cases)


def _judge(options: argparse.Namespace, selected: dict[str, Any], cases: list[Case]) -> int:
    """Run and judge cases, write and print the results, and return the exit status."""
    cellspec.require_algorithms([options.algorithm])
    axes = {"algorithm": options.algorithm}
    axes |= {"kernel": options.kernel} if options.kernel != DEFAULT_KERNEL else {}
    axes |= {"app": options.app} if options.app else {}
    cases = [case for case in cases if not (options.app and case.spans)]
    if not cases:
        raise UsageError(f"--app {options.app} needs cases of single runs, found none of these")
    if options.app and options.change:
        raise UsageError(f"--change is of the kernel's TCP, found --app {options.app}, too")
    # The app may not have what some cases need.
    conditions = [case.condition(axes, case.known_s) for case in cases if not options.app]
    before = load(options.against, options.suite, options.cell) if options.against else None
    if options.needs and (missing := built.absent(options.needs)):
        write_json(record(selected, options, [], {}) | {"absent": missing}, options.record)
        return 0
    form = studyfiles.FULL if options.full else studyfiles.QUICK
    spanning = [case for case in cases if case.spans]
    of_scenarios = [name for name in ("full", "estimate", "seeds_of") if getattr(options, name)]
    if of_scenarios and not spanning:
        raise UsageError(
            f"--{of_scenarios[0].replace('_', '-')} needs cases over scenarios, found none "
            f"among those of {options.suite}",
            hint="`losslab conform rfc9743` lists such cases",
        )
    spans = Spans.of(selected, spanning, axes, form, options.seeds, family_of(options.seeds_of))
    if not options.change:  # a changed kernel is built below
        require_built([*conditions, *(each.condition for each in spans.cells.values())])
    if spanning:
        print(estimate(spans, options.cores), file=sys.stderr, flush=True)
    if options.estimate:
        return 0
    kernelsource.files_given(options.change)
    out: Path = options.out.resolve()
    cellspec.refuse_inside([Path(each.rpartition("=")[2]) for each in options.change], out)
    cellspec.refuse_not_own(out)
    cellspec.make_own(out, "losslab conform")
    with _changed(options.change, conditions, out) as files:
        seeds, runs = range(1, (options.seeds or 1) + 1), Runs(out, options.cores, files)
        of_runs, kept = [case for case in cases if not case.spans], kept_triggers(out, before)
        attempts = judged(of_runs, axes, seeds, runs, kept)
        results = spans.judged(runs)
    for attempt in attempts:
        row = {"seed": attempt.seed} | attempt.result | _cause(attempt, options.suite)
        results.setdefault(attempt.case.name, []).append(row)
    used = [Replicate(folder) for folder in runs.used]
    warnings = [
        *halves.of_runs(used, lambda its: its.full_name()),
        *limiters.of_runs(used, lambda its: its.full_name()),
    ]
    data = record(selected, options, cases, results) | ({"warnings": warnings} if warnings else {})
    write_json(data, out / RECORD)
    _write_pages(options, data, attempts)
    print(json.dumps(data, indent=1) if options.json else text(data))
    if options.record:
        write_json(data, options.record)
        return 0
    if before is None:
        return int(any(each["verdict"] == FAIL for each in data["cases"]))
    verdicts.require_as_recorded(
        worse(data, before), "cases", options.against, "see the numbers above, and record anew "
        f"with {out / RECORD} if the change is meant",
    )  # fmt: skip
    return 0


def _compare_text(selected: Mapping[str, Any], text: str) -> int:
    """Print which cases to read again, because their sections of the text have changed."""
    lines = binding.differences(selected, text)
    count = len(selected["text"]["sections"])
    print("\n".join(lines) or f"{count} sections are as the cases were written for")
    return int(bool(lines))


def _write_pages(
    options: argparse.Namespace, data: Mapping[str, Any], attempts: Sequence[Attempt]
) -> None:
    """Write the verdicts as JUnit XML and as a page, if the options name files for them."""
    if options.junit:
        write_text(options.junit, junit(data))
    if options.html:
        seeds = {row["case"]: deciding(row)["seed"] for row in data["cases"]}
        decisive = (each for each in attempts if seeds[each.case.name] == each.seed)
        lines = {each.case.name: each.line for each in decisive if each.line}
        write_text(options.html, page.page(data, lines))


@contextlib.contextmanager
def _changed(
    given: Sequence[str], conditions: Sequence[Condition], out: Path
) -> Iterator[Path | None]:
    """Use a changed kernel in the block; yield the folder of its replaced files."""
    if not given:
        yield None
        return
    files = out / "files"
    shutil.rmtree(files, ignore_errors=True)
    change = kernelsource.make_change(given, kernel_of(conditions[0]).base, files)
    with kernels.replacing(files):
        at_first_use(conditions[0])
        kernelsource.require_compiled(change, [instrument(condition=conditions[0]).kernel])
        yield files


def estimate(spans: Spans, cores: int) -> str:
    """Return a text with the estimated time of cases over scenarios, without finished runs."""
    runs = sum(len(spans.seeds_of(name)) for name in spans.cells)
    return (
        f"losslab: {len(spans.cells)} cells, {runs} runs: about {spans.minutes(cores):.0f} min on "
        f"{cores} idle cores, without finished runs"
    )


def record(
    selected: Mapping[str, Any],
    options: argparse.Namespace,
    cases: Sequence[Case],
    results: Mapping[str, list[Result]],
) -> dict[str, Any]:
    """Return the results as data."""
    rows = []
    for case in cases:
        case_results = results[case.name]
        worst = min((each["verdict"] for each in case_results), key=VERDICTS.index)
        row = {"case": case.name, "title": case.data["title"], "verdict": worst}
        row |= {key: case.data[key] for key in ("section", "note", "repairs") if key in case.data}
        rows.append(row | {"seeds": case_results})
    data = {
        "format": FORMAT,
        "suite": selected["suite"],
        "source": selected["source"],
        "algorithm": options.algorithm,
        "kernel": options.kernel,
        **({"cell": options.cell} if options.cell else {}),
        **({"seeds_of": options.seeds_of} if options.seeds_of else {}),
        "change": list(options.change),
        "losslab": __version__,
        "cases": rows,
    }
    check_schema(data, SCHEMA, "the record")
    return data


def _cause(attempt: Attempt, name: str) -> dict[str, str]:
    """Return the command that finds the packets that cause a failure, if it may depend on any."""
    lost = attempt.result["verdict"] == FAIL and loses_at_random(attempt.condition)
    if not lost or not commands.find("why"):
        return {}
    case = f"{name}/{attempt.case.name}"
    words = [attempt.result["folder"], "--case", case, "--out", f"why-{attempt.case.name}"]
    return {"cause": shlex.join(["losslab", "why", *words])}


def load(path: Path, name: str, cell: str) -> dict[str, Any]:
    """Read a record of a suite at one of its cells."""
    data: dict[str, Any] = read_json(path)
    check_schema(data, SCHEMA, str(path), f"`losslab conform` writes {RECORD}")
    for word, wanted, found in (
        ("suite", name, data["suite"]), ("cell", cell, data.get("cell", "")),
    ):  # fmt: skip
        if wanted != found:
            raise UsageError(
                f"a record must be of the {word} {wanted or 'default'}, found "
                f"{found or 'the default'} in {path}",
                hint="record it anew, with the same suite and --cell",
            )
    return data


def kept_triggers(out: Path, before: Mapping[str, Any] | None) -> dict[str, Result]:
    """Return results with a time T by its inputs: of the folder's last record, and of another."""
    found = [before] if before else []
    with contextlib.suppress(LosslabError):
        content = read_json(out / RECORD)
        check_schema(content, SCHEMA, RECORD)
        found.append(content)
    results = (its for data in found for row in data["cases"] for its in row["seeds"])
    return {its["trigger"]["inputs"]: its for its in results if "trigger" in its}


def worse(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """List cases whose verdict, or number by more than its interval, is worse than recorded."""
    known = {each["case"]: each for each in before["cases"]}
    worsened = []
    for case in now["cases"]:
        old, name = known.get(case["case"]), f"case {case['case']} ({case['title']})"
        was = old["verdict"] if old else "not recorded"
        if VERDICTS.index(case["verdict"]) < VERDICTS.index(old["verdict"] if old else PASS) and (
            old or case["verdict"] == FAIL
        ):
            worsened.append(f"{name}: was {was}, is {case['verdict']}")
        elif old:
            steps = (deciding(row)["steps"] for row in (old, case))
            worsened += [
                f"{name}: was {one['text']}; is {other['text']}"
                for one, other in zip(*steps, strict=False)
                if _number_is_worse(one.get("number", {}), other.get("number", {}))
            ]
    return worsened


def _number_is_worse(old: Mapping[str, float], new: Mapping[str, float]) -> bool:
    if not {"low", "high"} <= old.keys() & new.keys():
        return False
    sign = 1 if "at_least" in old else -1
    change = sign * (new["value"] - old["value"])
    apart = new["high"] < old["low"] if sign > 0 else new["low"] > old["high"]
    return apart and change < -MIN_CHANGE * abs(old["value"])


def deciding(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first result of a case with its verdict."""
    its: Mapping[str, Any] = next(e for e in row["seeds"] if e["verdict"] == row["verdict"])
    return its


def text(data: Mapping[str, Any]) -> str:
    """Return a line per case; a FAIL has the command that repeats its run."""
    cell = f", {data['cell']}" if "cell" in data else ""
    lines = [f"{data['suite']}{cell}: {data['source']}; {data['algorithm']}"]
    for row in data["cases"]:
        decisive = deciding(row)
        why = decisive["why"]
        if row["verdict"] == PASS and len(why) > SHOWN:
            why = f"{why[:SHOWN]} ..."
        count = sum(each["verdict"] == row["verdict"] for each in row["seeds"])
        total = len(row["seeds"])
        share = f" ({count} of {total} seeds)" if total > 1 else ""
        lines.append(f"{row['verdict']:{WIDTH}} {heading(row)}{share}: {why}")
        if row["verdict"] == FAIL:
            lines += [
                f"{'':{WIDTH}}     {decisive[k]}" for k in ("command", "cause") if decisive.get(k)
            ]
    counts = Counter(each["verdict"] for each in data["cases"])
    lines.append(", ".join(f"{counts[verdict]} {verdict}" for verdict in reversed(VERDICTS)
                           if counts[verdict]))  # fmt: skip
    lines += [f"warning: {line}" for line in data.get("warnings", ())]
    return "\n".join(lines)


def heading(row: Mapping[str, Any]) -> str:
    """Return the name, section and title of a case."""
    return " ".join(filter(None, [f"{row['case']:>3}", row.get("section"), row["title"]]))


def listing(selected: Mapping[str, Any], cases: Sequence[Case]) -> str:
    """Return the cases of a suite, a line each."""
    lines = [f"{selected['title']}: {selected['source']}"]
    for case in cases:
        more = f" (repairs {case.data['repairs']})" if "repairs" in case.data else ""
        lines.append(f" {heading({**case.data, 'case': case.name})}{more}")
    return "\n".join(lines)


def junit(data: Mapping[str, Any]) -> str:
    """Return JUnit XML: a FAIL is a failure; what is not decided is skipped."""
    rows = data["cases"]
    failures = sum(each["verdict"] == FAIL for each in rows)
    skipped = sum(each["verdict"] not in (FAIL, PASS) for each in rows)
    root = ET.Element(
        "testsuite", name=f"{data['suite']}.{data['algorithm']}", tests=str(len(rows)),
        failures=str(failures), skipped=str(skipped),
    )  # fmt: skip
    for row in rows:
        decisive = deciding(row)
        name = heading(row).strip()
        case = ET.SubElement(root, "testcase", classname=data["suite"], name=name)
        kind = {FAIL: "failure", PASS: "system-out"}.get(row["verdict"], "skipped")
        message = {} if row["verdict"] == PASS else {"message": decisive["why"]}
        ET.SubElement(case, kind, message).text = f"{decisive['why']}\n{decisive['command']}"
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
