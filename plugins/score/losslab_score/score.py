"""`losslab score`: run a suite for algorithms of the kernel and for standard ones.

A score is a campaign of the study `score` in its own folder. The workflow measures missing cells
and judges the criteria; this module writes the scorecard, a JSON file, and its pages.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from losslab import cellspec, processes, report, sweeps
from losslab.campaign import cost, verdicts
from losslab.campaign.results import write_json
from losslab.errors import HostError, LosslabError
from losslab.instrument import analysis
from losslab.reading import out_folder, read_yaml
from losslab.repository import FOR_CAMPAIGNS, ROOT
from losslab.study import design, files, suite
from losslab.study.design import Cell
from losslab.study.names import load_algorithms
from losslab.study.schemas import SCHEMAS
from losslab_score import scorecard
from losslab_score.scorecard import STUDY, Card

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
    command.set_defaults(run=_score, interrupted=sweeps.KEPT)


def _score(options: argparse.Namespace) -> int:
    root = ROOT
    names = list(dict.fromkeys(options.names))
    cellspec.require_algorithms(names)
    if not options.estimate:
        _require_programs()
    selected = suite.load_suite(suite.load_study(STUDY, root)["suite"], root)
    form = suite.QUICK if options.quick else suite.FULL
    campaign = plan(selected, form, names)
    before = scorecard.load(options.against) if options.against else None
    if before:
        scorecard.require_comparable(before, selected["suite"], form)
    print(estimate(campaign, options.cores), file=sys.stderr, flush=True)
    if options.estimate:
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    measure(campaign, options.out, options.cores)
    card = scorecard.scorecard(
        selected, form, names,
        verdicts.read_table(options.out / CRITERIA), verdicts.read_table(options.out / CELLS),
    )  # fmt: skip
    write_json(card, options.out / CARD)
    write_json(read_yaml(SCHEMAS / "scorecard.schema.yaml"), options.out / SCHEMA)
    pages = write_pages(card, options.out)
    print(scorecard.table(card))
    print("\n".join(f"  {path}" for path in (options.out / CARD, *pages)))
    if before:
        hint = "a criterion is worse if its confidence interval does not overlap the recorded one"
        verdicts.require_as_recorded(
            scorecard.regressions(card, before), "criteria", options.against, hint
        )
    return 0


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
    process = processes.spawn(command, cwd=ROOT)
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
    root = ROOT
    algorithms = root / "config" / "algorithms.tsv"
    labels = {row["name"]: row["label"] for row in load_algorithms(algorithms)}
    figures = out / "figures"
    figures.mkdir(exist_ok=True)
    code = root / "analysis" / "scorecard.R"
    functions = files.functions(root, [STUDY])
    processes.run(
        ["Rscript", "--vanilla", code, out / CRITERIA, algorithms, figures, str(len(functions)),
         *functions, *card["tested"]],
        limit_s=DRAW_LIMIT_S,
    )  # fmt: skip
    pages = []
    for name in [*card["tested"], COMPARISON]:
        pages += _page(card, name, labels.get(name, ""), out, figures)
    return pages


def _page(card: Card, name: str, label: str, out: Path, figures: Path) -> list[Path]:
    root = ROOT
    kind = COMPARISON if name == COMPARISON else "algorithm"
    document = root / PAGES / f"{kind}.qmd"
    with tempfile.TemporaryDirectory(prefix="losslab-score-") as folder:
        named = Path(folder, f"{name}.qmd")
        named.write_text(document.read_text().replace("ALGORITHM", label))
        subject = Path(folder, "subject.json")
        subject.write_text(json.dumps({"name": name, "folder": str(out)}))
        extra_files = [
            *files.functions(root, [STUDY]), *sorted(figures.glob("*.svg")),
            root / "report" / "style.css",
            root / "config" / "algorithms.tsv", suite.suite_path(card["suite"], root),
            out / CRITERIA, out / CELLS, out / CARD, subject,
        ]  # fmt: skip
        html, pdf = out / f"{name}.html", out / f"{name}.pdf"
        report.render(report.Parts(named, extra_files=extra_files), html, pdf)
    return [html, pdf]
