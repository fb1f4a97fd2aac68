"""`losslab conform`: run the test cases of a draft, and judge an algorithm by its state."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import shlex
import shutil
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab import __version__, cellspec, sweeps
from losslab.backends.base import GUEST, VIRTUAL
from losslab.campaign import fingerprint, state, verdicts
from losslab.campaign.cellrun import finished
from losslab.campaign.instrument import at_first_use, instrument, kernel_of
from losslab.campaign.replicate import run
from losslab.campaign.results import Replicate, write_json
from losslab.emulation import capture
from losslab.instrument import changes, kernels
from losslab.reading import out_file, out_folder, read_json, whole_option
from losslab.study.condition import DEFAULT_KERNEL, Condition
from losslab.study.schemas import check_schema
from losslab_conform import judge, suite
from losslab_conform.judge import (
    FAIL,
    INCONCLUSIVE,
    NOT_OBSERVABLE,
    PASS,
    VERDICTS,
    Outcome,
)
from losslab_conform.suite import Case
from losslab_conform.timeline import NotObservableError, NotReachedError, Timeline, rows_of

FORMAT = 1
RECORD = "conform.json"
SHOWN = 200  # characters of the numbers of a case that passes
DIGITS = 12  # of the fingerprint in a run's folder
WIDTH = max(map(len, VERDICTS))
Result = dict[str, Any]
Key = tuple[Condition, int]


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `conform`."""
    command = commands.add_parser("conform")
    command.add_argument("suite", help="suite of config/conformance")
    command.add_argument(
        "algorithm", nargs="?", help="algorithm to judge; without it, the cases are listed"
    )
    command.add_argument(
        "--case", action="append", default=[], metavar="N",
        help="run only this case; may be repeated",
    )  # fmt: skip
    command.add_argument(
        "--seeds", type=whole_option("seeds", 1), default=1, metavar="N",
        help="runs of each case, with the seeds 1 to N (default 1); the worst verdict counts",
    )  # fmt: skip
    command.add_argument("--kernel", default=DEFAULT_KERNEL, help="kernel of config/kernels.toml")
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
    command.add_argument("--junit", type=out_file, metavar="FILE", help="write JUnit XML")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_conform, interrupted=sweeps.KEPT)


def _conform(options: argparse.Namespace) -> int:
    selected = suite.load(options.suite)
    cases = suite.cases(selected, options.case)
    if options.algorithm is None:
        print(listing(selected, cases))
        return 0
    cellspec.require_algorithms([options.algorithm])
    axes = {"algorithm": options.algorithm}
    axes |= {"kernel": options.kernel} if options.kernel != DEFAULT_KERNEL else {}
    for case in cases:
        case.condition(axes, case.known_s)
    before = load(options.against) if options.against else None
    changes.files_given(options.change)
    out: Path = options.out.resolve()
    cellspec.refuse_inside([Path(each.rpartition("=")[2]) for each in options.change], out)
    cellspec.refuse_not_own(out)
    cellspec.make_own(out, "losslab conform")
    with _changed(options.change, cases[0].condition(axes, cases[0].known_s), out) as files:
        runs = Runs(out, options.cores, files)
        seeds = range(1, options.seeds + 1)
        found = judged(cases, axes, seeds, runs)
    data = record(selected, options, cases, found)
    write_json(data, out / RECORD)
    if options.junit:
        options.junit.write_text(junit(data))
    print(json.dumps(data, indent=1) if options.json else text(data))
    if before is None:
        return int(any(each["verdict"] == FAIL for each in data["cases"]))
    verdicts.require_as_recorded(
        worse(data, before), "cases", options.against, "see the numbers above, and record anew "
        f"with {out / RECORD} if the change is meant",
    )  # fmt: skip
    return 0


@contextlib.contextmanager
def _changed(given: Sequence[str], condition: Condition, out: Path) -> Iterator[Path | None]:
    """Use a changed kernel in the block; yield the folder of its replaced files."""
    if not given:
        yield None
        return
    files = out / "files"
    shutil.rmtree(files, ignore_errors=True)
    changes.of_files(given, kernel_of(condition).base, files)
    with kernels.replacing(files):
        yield files


@dataclass
class Runs:
    """Runs with their state in a folder; finished ones are kept."""

    out: Path
    cores: int
    files: Path | None  # replaced files of the kernel

    def folder(self, condition: Condition, seed: int) -> Path:
        """Return the folder of a run."""
        digest = fingerprint.of(condition, VIRTUAL, GUEST).digest[:DIGITS]
        return self.out / "runs" / f"{condition.algorithm}-{digest}-{seed}"

    def measure(self, wanted: Iterable[Key], title: str) -> None:
        """Measure runs that are not finished."""
        distinct = list(dict.fromkeys(wanted))
        for condition in dict.fromkeys(each for each, _ in distinct):
            at_first_use(condition)

        def one(condition: Condition, seed: int) -> None:
            folder, tools = self.folder(condition, seed), instrument(condition=condition)
            if finished(folder, condition, seed, tools) is None:
                shutil.rmtree(folder, ignore_errors=True)
                folder.parent.mkdir(parents=True, exist_ok=True)
                run(condition, seed, folder, tools, captures=[capture.STATE])

        if distinct:
            jobs = [functools.partial(one, *each) for each in distinct]
            sweeps.measure_all(jobs, self.cores, title)

    def captured(self, condition: Condition, seed: int) -> state.Capture:
        """Read the state of a run."""
        return state.read(self.folder(condition, seed) / capture.name(capture.STATE))

    def line(self, case: Case, condition: Condition, seed: int, begin_s: float) -> Timeline:
        """Return the time line of a run for a case."""
        rows = self._rows(condition, seed)
        known = suite.phases(condition.algorithm)
        return Timeline(rows, condition, known, case.groups, begin_s)

    def _rows(self, condition: Condition, seed: int) -> Any:
        if (condition, seed) not in self._read:
            self._read[condition, seed] = rows_of(self.captured(condition, seed))
        return self._read[condition, seed]

    @functools.cached_property
    def _read(self) -> dict[Key, Any]:
        return {}

    def command(self, condition: Condition, seed: int, name: str) -> str:
        """Return the command that repeats a run."""
        made = cellspec.measure_command(condition, seed, f"case-{name}")
        prefix = f"{kernels.REPLACED_FILES}={shlex.quote(str(self.files))} " if self.files else ""
        return f"{prefix}{made} --capture {capture.STATE}"


def judged(
    cases: Sequence[Case], axes: Mapping[str, Any], seeds: Iterable[int], runs: Runs
) -> dict[tuple[str, int], Result]:
    """Run and judge cases with some seeds; return the results by case and seed.

    A case whose stimulus needs a phase that the algorithm does not have is not run.
    """
    found: dict[tuple[str, int], Result] = {}
    todo: list[tuple[Case, int]] = []
    for case in cases:
        algorithm = case.condition(axes, case.known_s).algorithm
        missing = case.missing_phases(algorithm)
        for seed in seeds:
            if missing:
                why = f"{algorithm} has no phase {missing[0]}"
                found[case.name, seed] = _result(NOT_OBSERVABLE, why)
            else:
                todo.append((case, seed))
    conditions = {
        (case.name, seed): case.condition(axes, case.known_s) for case, seed in todo
    }
    runs.measure(((conditions[case.name, seed], seed) for case, seed in todo), "first runs")
    times = {(case.name, seed): case.known_s for case, seed in todo}
    second: list[tuple[Case, int]] = []
    for case, seed in todo:
        key = case.name, seed
        first = conditions[key]
        if not case.phase or not _valid(runs, first, seed):
            continue
        try:
            begin_s = runs.line(case, first, seed, 0.0).span(case.phase).begin_s
        except (NotReachedError, NotObservableError) as error:
            found[key] = _result(INCONCLUSIVE, str(error), runs.command(first, seed, case.name))
            continue
        if begin_s >= case.late_s:
            why = f"{case.phase} was reached at {begin_s:.6g} s, too late in the run"
            found[key] = _result(INCONCLUSIVE, why, runs.command(first, seed, case.name))
            continue
        times[key] = begin_s
        conditions[key] = case.condition(axes, begin_s + suite.LATER_S)
        second.append((case, seed))
    runs.measure(((conditions[case.name, seed], seed) for case, seed in second), "second runs")
    for case, seed in todo:
        key = case.name, seed
        if key in found:
            continue
        condition, begin_s = conditions[key], times[key] or 0.0
        command = runs.command(condition, seed, case.name)
        folder = str(runs.folder(condition, seed))
        if invalid := _violations(runs, condition, seed):
            found[key] = _result(INCONCLUSIVE, f"the run is invalid: {invalid}", command)
        elif (case, seed) in second and (
            other := _parted(runs, case.condition(axes, None), condition, seed, begin_s)
        ):
            found[key] = _result(INCONCLUSIVE, other, command)
        else:
            found[key] = _of_case(case, runs.line(case, condition, seed, begin_s), command)
            found[key] |= {"at_s": begin_s} if case.data.get("trigger") else {}
        found[key]["folder"] = folder
    return found


def _violations(runs: Runs, condition: Condition, seed: int) -> str:
    manifest = Replicate(runs.folder(condition, seed)).manifest
    return "" if manifest["valid"] else "; ".join(manifest["reasons"])


def _valid(runs: Runs, condition: Condition, seed: int) -> bool:
    return not _violations(runs, condition, seed)


def _parted(
    runs: Runs, first: Condition, second: Condition, seed: int, begin_s: float
) -> str:
    """Return where two runs differ before the stimulus begins; "" if they do not."""
    one, other = (runs.captured(each, seed) for each in (first, second))
    until = (one.origin_ns + round(begin_s * 1e9)) // 1000
    count = int((one.events["us"] <= until).sum())
    if one.events[:count].tobytes() == other.events[:count].tobytes():
        return ""
    same = (one.events[:count] == other.events[:count]) if len(other.events) >= count else []
    at = int((~same).argmax()) if len(same) else len(other.events)
    return f"the second run differs from the first at event {at + 1}, before {begin_s:.6f} s"


def _result(verdict: str, why: str, command: str = "") -> Result:
    return {"verdict": verdict, "why": why, "holds": [], "steps": [], "command": command}


def _of_case(case: Case, line: Timeline, command: str) -> Result:
    """Judge a run by a case."""

    def outcomes(checks: Iterable[Mapping[str, Any]]) -> list[Result]:
        found = []
        for check in checks:
            its: Outcome = judge.judge(check, line, case.interrupts)
            notes = {key: check[key] for key in ("step", "ours") if key in check}
            found.append(notes | its._asdict())
        return found

    held = outcomes(case.data.get("holds", ()))
    steps = outcomes(case.data["expect"])
    verdict, why = verdict_of(held, steps)
    made = _result(verdict, why, command)
    return made | {"holds": held, "steps": steps}


def verdict_of(held: Sequence[Result], steps: Sequence[Result]) -> tuple[str, str]:
    """Return the verdict of a case and its reason, from those of its checks."""
    for wanted in (NOT_OBSERVABLE, INCONCLUSIVE, FAIL):
        for each in held:
            if each["verdict"] == wanted:
                verdict = NOT_OBSERVABLE if wanted == NOT_OBSERVABLE else INCONCLUSIVE
                return verdict, f"stimulus: {each['text']}"
    verdict = min((each["verdict"] for each in steps), key=VERDICTS.index)
    own = [each for each in steps if each["verdict"] == verdict]
    return verdict, "; ".join(f"step {each['step']}: {each['text']}" for each in own)


def record(
    selected: Mapping[str, Any],
    options: argparse.Namespace,
    cases: Sequence[Case],
    found: Mapping[tuple[str, int], Result],
) -> dict[str, Any]:
    """Return the results as data."""
    rows = []
    for case in cases:
        own = {seed: its for (name, seed), its in found.items() if name == case.name}
        worst = min(own, key=lambda seed: VERDICTS.index(own[seed]["verdict"]))
        row = {"case": case.name, "title": case.data["title"], "verdict": own[worst]["verdict"]}
        row |= {key: case.data[key] for key in ("note", "repairs") if key in case.data}
        rows.append(row | {"seeds": [{"seed": seed} | own[seed] for seed in sorted(own)]})
    data = {
        "format": FORMAT,
        "suite": selected["suite"],
        "source": selected["source"],
        "algorithm": options.algorithm,
        "kernel": options.kernel,
        "change": list(options.change),
        "losslab": __version__,
        "cases": rows,
    }
    check_schema(data, "conformed", "the record")
    return data


def load(path: Path) -> dict[str, Any]:
    """Read a record."""
    data: dict[str, Any] = read_json(path)
    check_schema(data, "conformed", str(path), f"`losslab conform` writes {RECORD}")
    return data


def worse(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """List cases with a worse verdict than recorded."""
    known = {each["case"]: each["verdict"] for each in before["cases"]}
    return [
        f"case {each['case']} ({each['title']}): was {known.get(each['case'], 'not recorded')}, "
        f"is {each['verdict']}"
        for each in now["cases"]
        if VERDICTS.index(each["verdict"]) < VERDICTS.index(known.get(each["case"], PASS))
        and (each["case"] in known or each["verdict"] == FAIL)
    ]


def deciding(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first result of a case with its verdict."""
    its: Mapping[str, Any] = next(e for e in row["seeds"] if e["verdict"] == row["verdict"])
    return its


def text(data: Mapping[str, Any]) -> str:
    """Return a line per case; a FAIL has the command that repeats its run."""
    lines = [f"{data['suite']}: {data['source']}; {data['algorithm']}"]
    for row in data["cases"]:
        its = deciding(row)
        why = its["why"]
        if row["verdict"] == PASS and len(why) > SHOWN:
            why = f"{why[:SHOWN]} ..."
        count = sum(each["verdict"] == row["verdict"] for each in row["seeds"])
        total = len(row["seeds"])
        share = f" ({count} of {total} seeds)" if total > 1 else ""
        lines.append(f"{row['verdict']:{WIDTH}} {row['case']:>3} {row['title']}{share}: {why}")
        if row["verdict"] == FAIL:
            lines.append(f"{'':{WIDTH}}     {its['command']}")
    counts = Counter(each["verdict"] for each in data["cases"])
    lines.append(", ".join(f"{counts[verdict]} {verdict}" for verdict in reversed(VERDICTS)
                           if counts[verdict]))  # fmt: skip
    return "\n".join(lines)


def listing(selected: Mapping[str, Any], cases: Sequence[Case]) -> str:
    """Return the cases of a suite, a line each."""
    lines = [f"{selected['title']}: {selected['source']}"]
    for case in cases:
        more = f" (repairs {case.data['repairs']})" if "repairs" in case.data else ""
        lines.append(f"{case.name:>4} {case.data['title']}{more}")
    return "\n".join(lines)


def junit(data: Mapping[str, Any]) -> str:
    """Return JUnit XML: a FAIL is a failure; what is not decided is skipped."""
    rows = data["cases"]
    failures = sum(each["verdict"] == FAIL for each in rows)
    skipped = sum(each["verdict"] in (INCONCLUSIVE, NOT_OBSERVABLE) for each in rows)
    root = ET.Element(
        "testsuite", name=f"{data['suite']}.{data['algorithm']}", tests=str(len(rows)),
        failures=str(failures), skipped=str(skipped),
    )  # fmt: skip
    for row in rows:
        its = deciding(row)
        name = f"{row['case']} {row['title']}"
        case = ET.SubElement(root, "testcase", classname=data["suite"], name=name)
        kind = {FAIL: "failure", PASS: "system-out"}.get(row["verdict"], "skipped")
        its_text = f"{its['why']}\n{its['command']}"
        if kind == "system-out":
            ET.SubElement(case, kind).text = its_text
        else:
            ET.SubElement(case, kind, message=its["why"]).text = its_text
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
