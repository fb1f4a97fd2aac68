"""`losslab score`: run a suite for algorithms of the kernel and for standard ones.

A score is a campaign of the study `score` in its own folder. The workflow measures missing cells
and judges the criteria; this module writes the scorecard, a JSON file, and its pages.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from losslab import __version__, cellspec, extensions, processes, report, sweeps
from losslab.campaign import cost, verdicts
from losslab.campaign.results import write_json
from losslab.errors import HostError, LosslabError
from losslab.instrument import analysis
from losslab.reading import UsageError, out_folder, read_json, read_yaml
from losslab.repository import FOR_CAMPAIGNS, ROOT, find
from losslab.study import design, parameters, studyfiles
from losslab.study.design import Cell
from losslab.study.names import load_algorithms
from losslab.study.schemas import SCHEMAS, check_schema

# The study with the cells of a score.
STUDY = "score"
FORMAT = 1
VERDICTS = ("meets", "misses", "inconclusive", "not measured")
MEETS = VERDICTS[0]
# Changes below this share of the recorded value are ignored. Otherwise any change of a value
# without variance, whose confidence interval has no width, would count.
MIN_CHANGE = 0.01

Card = dict[str, Any]
Row = Mapping[str, str]
CARD = "scorecard.json"
SCHEMA = "scorecard.schema.json"
CAMPAIGN = "campaign.yaml"
CRITERIA = Path("results", "tables", f"{STUDY}_criteria.csv")
CELLS = Path("results", "summary", f"{STUDY}_cells.csv")
PAGES = Path("report", "score")
COMPARISON = "comparison"
# A figure takes 0.5 s, a page 5 s; on a machine that measures, much longer.
DRAW_LIMIT_S = 1800.0


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `score`."""
    command = commands.add_parser("score")
    command.add_argument("names", nargs="+", metavar="NAME", help="name in config/algorithms.tsv")
    command.add_argument(
        "--quick",
        action="store_true",
        help="use fewer scenarios and shorter runs, about ten minutes",
    )
    command.add_argument(
        "--out", type=out_folder, required=True, help="folder; an existing one is continued"
    )
    cellspec.cores_option(command, "cells")
    command.add_argument(
        "--against", type=Path, metavar="FILE",
        help="recorded scorecard.json to compare with: exit with 1 if a criterion is worse by more "
        "than its confidence interval",
    )  # fmt: skip
    command.add_argument(
        "--estimate", action="store_true", help="print the estimated time, and measure nothing"
    )
    command.add_argument("--json", action="store_true", help="print the scorecard as JSON")
    command.set_defaults(run=_score, interrupted=sweeps.KEPT)


def _score(options: argparse.Namespace) -> int:
    names = list(dict.fromkeys(options.names))
    cellspec.require_algorithms(names)
    if not options.estimate:
        _require_programs()
    selected = studyfiles.load_suite(studyfiles.load_study(STUDY, ROOT)["suite"], ROOT)
    tested = with_parameters(names, selected["baselines"])
    form = studyfiles.QUICK if options.quick else studyfiles.FULL
    campaign = plan(selected, form, names)
    before = load(options.against) if options.against else None
    if before:
        require_comparable(before, selected["suite"], form)
    print(estimate(campaign, options.cores), file=sys.stderr, flush=True)
    if options.estimate:
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    measure(campaign, options.out, options.cores)
    card = scorecard(
        selected, form, tested,
        verdicts.read_table(options.out / CRITERIA), verdicts.read_table(options.out / CELLS),
    )  # fmt: skip
    write_json(card, options.out / CARD)
    write_json(read_yaml(SCHEMAS / "scorecard.schema.yaml"), options.out / SCHEMA)
    pages = write_pages(card, options.out)
    if options.json:
        print(json.dumps(card, indent=1))
    else:
        print(table(card))
        print("\n".join(f"  {path}" for path in (options.out / CARD, *pages)))
    if before:
        hint = "a criterion is worse if its confidence interval does not overlap the recorded one"
        verdicts.require_as_recorded(regressions(card, before), "criteria", options.against, hint)
    return 0


def with_parameters(names: Sequence[str], baselines: Sequence[str]) -> dict[str, str]:
    """Return the parameters of the tested algorithms, as text, by name.

    Raises UsageError if an algorithm would be tested or compared with itself.
    """
    found: dict[str, str] = {}
    for text in names:
        name, _, its = text.partition(",")
        if name in found or (its and name in baselines):
            raise UsageError(
                f"a scorecard must have each algorithm once, found {text} beside {name}",
                hint=parameters.WAY_OUT.format(name),
            )
        found[name] = its
    return found


def _require_programs() -> None:
    """Raise HostError if a program is missing that the workflow, the figures or the pages need."""
    use = "losslab score"
    if importlib.util.find_spec("snakemake") is None:
        raise HostError(f"{use} needs Snakemake, found none", hint=FOR_CAMPAIGNS)
    analysis.require_renderer(use)
    analysis.require_r(use)


def plan(selected: dict[str, Any], form: str, names: Sequence[str]) -> dict[str, Any]:
    """Return a campaign that runs a suite for algorithms and the suite's baselines."""
    return {
        "campaign": STUDY,
        "algorithms": list(dict.fromkeys([*names, *selected["baselines"]])),
        "studies": {STUDY: form},
    }


def estimate(campaign: dict[str, Any], cores: int) -> str:
    """Return a text with a campaign's estimated time without finished runs."""
    cells = design.load_cells(campaign, ROOT)
    runs = sum(cell.stopping.minimum for cell in cells)
    return (
        f"losslab: {len(cells)} cells, {runs} runs: about {minutes(cells, cores):.0f} min on "
        f"{cores} idle cores, without finished runs"
    )


def minutes(cells: Sequence[Cell], cores: int) -> float:
    """Return the estimated time of cells in min."""
    core_s = sum(
        cost.CELL_S[cell.backend]
        + cell.stopping.minimum * cost.replicate_s(cell.condition, cell.backend)
        for cell in cells
    )
    return core_s * (cost.SIDE_BY_SIDE if cores > 1 else 1.0) / cores / 60


def measure(campaign: dict[str, Any], out: Path, cores: int) -> None:
    """Measure and judge with the workflow in its own folder.

    Raises LosslabError if the workflow fails; its messages name the cause.
    """
    out = out.resolve()
    file = out / CAMPAIGN
    file.write_text(yaml.safe_dump(campaign, sort_keys=False))
    command: list[str | Path] = [
        sys.executable, "-m", "snakemake", "--cores", str(cores),
        "--snakefile", ROOT / "Snakefile", "--configfile", file, "--directory", out,
        "--", CRITERIA, CELLS,
    ]  # fmt: skip
    # The workflow runs in another folder, and still reads a campaign's folder.
    own = extensions.campaign()
    variables = os.environ | ({extensions.VARIABLE: str(own)} if own else {})
    process = processes.spawn(command, cwd=ROOT, variables=variables)
    try:
        status = process.wait()
    finally:
        processes.end_session(process, processes.PATIENCE_S)
    if status != 0:
        raise LosslabError(
            f"the workflow must measure the suite, found status {status}",
            hint=f"see the messages above and in {out}/.snakemake/log, then repeat the command",
        )


def write_pages(card: Card, out: Path) -> list[Path]:
    """Draw the figures; write a page per tested algorithm and one that compares all.

    Returns the pages. Raises LosslabError if R or the renderer fails.
    """
    algorithms = find("config/algorithms.tsv")
    labels = {row["name"]: row["label"] for row in load_algorithms(algorithms)}
    figures = out / "figures"
    figures.mkdir(exist_ok=True)
    code = ROOT / "analysis" / "scorecard.R"
    functions = studyfiles.functions(ROOT, [STUDY])
    processes.run(
        ["Rscript", "--vanilla", code, out / CRITERIA, algorithms, figures, str(len(functions)),
         *functions, *card["tested"]],
        limit_s=DRAW_LIMIT_S,
    )  # fmt: skip
    pages = []
    for name in [*card["tested"], COMPARISON]:
        its = card.get("parameters", {}).get(name, "").replace(",", ", ")
        label = labels.get(name, "") + (f" with {its}" if its else "")
        pages += _page(card, name, label, out, figures)
    return pages


def _page(card: Card, name: str, label: str, out: Path, figures: Path) -> list[Path]:
    kind = COMPARISON if name == COMPARISON else "algorithm"
    document = ROOT / PAGES / f"{kind}.qmd"
    with tempfile.TemporaryDirectory(prefix="losslab-score-") as folder:
        named = Path(folder, f"{name}.qmd")
        named.write_text(document.read_text().replace("ALGORITHM", label))
        subject = Path(folder, "subject.json")
        subject.write_text(json.dumps({"name": name, "folder": str(out)}))
        extra_files = [
            *studyfiles.functions(ROOT, [STUDY]), *sorted(figures.glob("*.svg")),
            ROOT / "report" / "style.css",
            find("config/algorithms.tsv"), studyfiles.suite_path(card["suite"], ROOT),
            out / CRITERIA, out / CELLS, out / CARD, subject,
        ]  # fmt: skip
        html, pdf = out / f"{name}.html", out / f"{name}.pdf"
        report.render(report.Parts(named, extra_files=extra_files), html, pdf)
    return [html, pdf]


def scorecard(
    suite: Mapping[str, Any],
    form: str,
    tested: Mapping[str, str],
    rows: Sequence[Row],
    cells: Sequence[Row],
) -> Card:
    """Build the scorecard of algorithms from the tables of criteria and of cells.

    `form` is that of the suite, and `tested` has the parameters by name. Raises LosslabError if the
    result violates the schema of scorecards.
    """
    counts = {row["cell"]: row for row in cells if row["cell"]}
    baselines = [name for name in suite["baselines"] if name not in tested]
    order = [*tested, *baselines]
    by_criterion = {(row["criterion"], row["algorithm"]): row for row in rows}
    entries = [
        _entry(by_criterion[criterion["id"], algorithm], by_criterion, suite["baselines"], counts)
        for algorithm in order
        for criterion in suite["criteria"]
        if (criterion["id"], algorithm) in by_criterion
    ]
    card = {
        "format": FORMAT,
        "suite": suite["suite"],
        "source": suite["source"],
        "form": form,
        "losslab": __version__,
        "tested": list(tested),
        **({"parameters": given} if (given := {k: v for k, v in tested.items() if v}) else {}),
        "baselines": baselines,
        "criteria": entries,
        "not_covered": suite["not_covered"],
    }
    check_schema(card, "scorecard", "the scorecard")
    return card


def _entry(
    row: Row,
    by_criterion: Mapping[tuple[str, str], Row],
    baselines: Sequence[str],
    counts: Mapping[str, Row],
) -> dict[str, Any]:
    """Return a criterion's result for one algorithm, with those of the baselines."""
    side = "at_most" if row["at_most"] else "at_least"
    baseline_rows = {
        name: by_criterion[row["criterion"], name]
        for name in baselines
        if name != row["algorithm"] and (row["criterion"], name) in by_criterion
    }
    copied = ("algorithm", "criterion", "section", "title", "metric", "unit", "verdict")
    return {
        **{key: row[key] for key in copied},
        **_numbers(row),
        "n": int(float(row["n"])),
        "limit": {side: float(row[side])},
        "limit_is": row["limit_is"],
        "limit_because": row["limit_because"],
        "reason": row["absent"],
        "baselines": {
            name: {**_numbers(one), "verdict": one["verdict"]}
            for name, one in baseline_rows.items()
        },
        "runs": [_runs(cell, counts[cell]) for cell in row["cells"].split()],
    }


def _numbers(row: Row) -> dict[str, float | None]:
    return {key: float(row[key]) if row[key] else None for key in ("value", "low", "high")}


def _runs(cell: str, row: Row) -> dict[str, Any]:
    folder = f"results/cells/{STUDY}/{cell}"
    return {
        "cell": cell,
        "folder": folder,
        "replicates": int(row["n_replicates"]),
        "valid": int(row["n_valid"]),
        "rerun": f"losslab rerun {folder}/0",
    }


def load(path: Path) -> Card:
    """Read a scorecard.

    Raises UsageError if the file does not exist or is not a scorecard of this format.
    """
    card: Card = read_json(path)
    hint = "`losslab score NAME --out DIR` writes DIR/scorecard.json"
    check_schema(card, "scorecard", str(path), hint)
    return card


def require_comparable(before: Card, suite: str, form: str) -> None:
    """Raise LosslabError for a scorecard of another suite or form, which is not comparable."""
    for key, value in (("suite", suite), ("form", form)):
        if before[key] != value:
            raise LosslabError(
                f"scorecards must have the same {key} to compare, found {value} now and "
                f"{before[key]} recorded",
                hint="use --quick if the recorded scorecard has the form quick, and only then",
            )


def regressions(now: Card, before: Card) -> list[str]:
    """List criteria that are worse than recorded, with confidence intervals that do not overlap.

    Raises LosslabError if the scorecards have different suites or forms, or no algorithm in common.
    """
    require_comparable(before, now["suite"], now["form"])
    entries = {(each["algorithm"], each["criterion"]): each for each in now["criteria"]}
    recorded = [each for each in before["criteria"] if each["algorithm"] in now["tested"]]
    if not recorded:
        raise LosslabError(
            f"the recorded scorecard must have {' or '.join(now['tested'])}, found "
            f"{', '.join(before['tested'])}"
        )
    return [
        f"{old['algorithm']}, {old['criterion']} ({old['section']}): {change}"
        for old in recorded
        for change in _regression(entries.get((old["algorithm"], old["criterion"])), old)
    ]


def _regression(new: dict[str, Any] | None, old: dict[str, Any]) -> Iterator[str]:
    """Yield how a criterion became worse; nothing if it did not."""
    if old["value"] is None:
        return
    if new is None or new["value"] is None:
        why = "no such criterion" if new is None else new["reason"]
        yield f"was {text(old)}, now has no result ({why})"
        return
    sign = 1 if "at_least" in old["limit"] else -1
    change = sign * (new["value"] - old["value"])
    if change >= -MIN_CHANGE * abs(old["value"]):
        return
    if None in (new["low"], new["high"], old["low"], old["high"]):
        # Without confidence intervals, compare the verdicts.
        is_worse = old["verdict"] == MEETS != new["verdict"]
    elif sign > 0:
        is_worse = new["high"] < old["low"]
    else:
        is_worse = new["low"] > old["high"]
    if is_worse:
        yield f"was {text(old)}, is {text(new)}"


def text(entry: Mapping[str, Any]) -> str:
    """Format a criterion's result with its confidence interval, such as 4.57 [4.1, 5.0] BDP."""
    if entry["value"] is None:
        return "no result"
    interval = ""
    if entry["low"] is not None and entry["low"] != entry["high"]:
        interval = f" [{entry['low']:.3g}, {entry['high']:.3g}]"
    unit = f" {entry['unit']}" if "unit" in entry else ""
    return f"{entry['value']:.3g}{interval}{unit}"


def table(card: Card) -> str:
    """Return a line for each criterion of the scored algorithms, and the counts of verdicts."""
    lines = []
    for algorithm in card["tested"]:
        entries = [each for each in card["criteria"] if each["algorithm"] == algorithm]
        lines.append(algorithm)
        for each in entries:
            side, limit = next(iter(each["limit"].items()))
            result = f"{text(each)}, {side.replace('_', ' ')} {limit:g}"
            lines.append(
                f"  {each['verdict']:13} {each['section']:6} {each['criterion']:18} {result}"
            )
        counts = Counter(each["verdict"] for each in entries)
        lines.append("  " + ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v]))
    return "\n".join(lines)
