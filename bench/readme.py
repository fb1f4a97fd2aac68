"""Update the README's figure, the sentence below it, and the scoreboard.

    python -m bench.readme [RESULTS]
    python -m bench.readme --tables      only the README's items, the tables of docs/reference, and
                                         the lists of axes and metrics for R and editors

The sentence, the scoreboard and the sentences below it are about the full campaign, from
recorded/full. If RESULTS are of the full campaign, their scoreboard is copied there, and the
README's figure to docs/figures.
The table of items has the figures of report/major-claims.yaml. Those of commands, axes and metrics
are in docs/reference for readers of the repository; the site shows each command's help instead.
The table of QUIC stacks in docs/how-to has the means of recorded/stacks/record.tsv.
"""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, median

from bench import _lists as lists
from losslab import commands
from losslab.backends import base
from losslab.campaign import cost, plan, records
from losslab.campaign.verdicts import read_recorded
from losslab.instrument import kernels
from losslab.reading import read_json, read_rows, read_yaml
from losslab.study import design, dictionary
from losslab.tools.artifact import major

ROOT = Path(__file__).resolve().parents[1]
FULL = "full"
# Files of the full campaign's results, and their copies.
COPIES = {
    "figures/loss/goodput.svg": "docs/figures/loss_goodput.svg",
    "tables/scoreboard_sources.csv": "recorded/full/scoreboard.csv",
}
MARK = "<!-- answer: written by `python -m bench.readme` -->\n"
SCOREBOARD_MARK = "<!-- scoreboard: written by `python -m bench.readme` -->\n"
FULL_MARK = "<!-- full: written by `python -m bench.readme` -->\n"
ITEMS_MARK = "<!-- items: written by `python -m bench.readme` -->\n"
RECORDS = ROOT / "recorded"
# Cell of the study `loss`, block `main`.
CELL = "{}_loss{}_symmetric_iperf3_rtt0.4_offloads-off"
GRADES = ("within_5", "within_25", "within_2")


def answer(campaign: str = "full") -> str:
    """Return the sentence about the decrease of goodput on the symmetric path."""
    keys = [(algorithm, loss) for algorithm in ("cubic", "bbr") for loss in (0, 1, 10)]
    names = {key: CELL.format(*key) for key in keys}
    recorded = records.read(RECORDS / campaign, "loss", names.values())
    path = recorded[names["cubic", 0]].content["condition"]
    goodputs = {
        key: [
            run["summary"]["goodput_mbit"]
            for run in recorded[name].content["replicates"]
            if run["valid"]
        ]
        for key, name in names.items()
    }
    published = {
        (row["algorithm"], float(row["loss_percent"])): float(row["mean"])
        for row in read_rows(ROOT / "studies/loss/published.csv")
        if row["path"] == "symmetric"
    }
    # The sentence says which goodput is lower; other numbers would need another sentence.
    for loss in (1, 10):
        if max(goodputs["cubic", loss]) >= min(goodputs["bbr", loss]):
            raise SystemExit(f"at {loss} % loss BBR must keep more: write another answer")
    means = {key: fmean(runs) for key, runs in goodputs.items()}
    ours = {key: _lost(means[key], means[key[0], 0]) for key in keys}
    theirs = {key: _lost(published[key], published[key[0], 0]) for key in keys}
    # Single runs of BBR at 10 % are much slower, so their mean describes none of them.
    unlossy, runs = means["bbr", 0], goodputs["bbr", 10]
    middle, least, most = (_lost(mbit, unlossy) for mbit in (median(runs), max(runs), min(runs)))
    counts = {len(runs) for runs in goodputs.values()}
    if len(counts) > 1:
        raise SystemExit(f"the cells must have equally many runs, found {sorted(counts)}")
    text = (
        f"On a {path['rate_mbit'] / 1000:g} Gbit/s path, **1 % packet loss costs CUBIC "
        f"{ours['cubic', 1]} % of its goodput and BBR {ours['bbr', 1]} %** (published: "
        f"{theirs['cubic', 1]} % and {theirs['bbr', 1]} %). 10 % loss costs CUBIC "
        f"{ours['cubic', 10]} % (published: {theirs['cubic', 10]} %). It costs BBR {middle} % in "
        f"the median run and from {least} to {most} % over the runs (published, a mean: "
        f"{theirs['bbr', 10]} %). Each number is of {counts.pop()} runs of "
        f"{path['duration_s']:g} s, without their first {path['warmup_s']:g} s, in the full "
        f"campaign; the base RTT is "
        f"{path['rtt_ms']:g} ms, the kernel Linux {kernels.default().series.name}."
    )
    return _wrapped(text)


def _wrapped(text: str) -> str:
    # A non-breaking space keeps a number with its unit.
    whole = re.sub(r"(\d) (%|m?s\b|Gbit)", "\\1\N{NO-BREAK SPACE}\\2", text)
    return textwrap.fill(whole, 108).replace("\N{NO-BREAK SPACE}", " ") + "\n"


def _lost(mbit: float, unlossy_mbit: float) -> str:
    lost = 100 * (1 - mbit / unlossy_mbit)
    # Decimals matter between 99 and 100 %.
    return f"{lost:.1f}" if lost > 99 else f"{lost:.0f}"


def replaced(readme: str, mark: str, text: str) -> str:
    """Replace the text between a mark and the next empty line."""
    pattern = re.escape(mark) + r"(?:[^\n]+\n)*"
    if not re.search(pattern, readme):
        raise SystemExit(f"the text must have the line {mark!r}")
    return re.sub(pattern, lambda _: mark + text, readme)


def scoreboard(campaign: str = "full") -> str:
    """Return the scoreboard of a recorded campaign, by source, with the orders and signs.

    It has no sum: one source has most of the numbers. A study's orders are in its first row.
    """
    lines = [
        "| source | numbers | within 5 % | within 25 % | within a factor of 2 "
        "| orders and signs right | wrong |",
        "|---|---|---|---|---|---|---|",
    ]
    orders = _orders(campaign)
    for row in read_rows(RECORDS / campaign / "scoreboard.csv"):
        if row["counted"] == "0":
            continue
        study, source = row["study"], row["source"].removeprefix(row["study"])
        name = f"`{study}`" + (f": {source.removeprefix(', ')}" if source else "")
        verdicts = orders.pop(study, Counter[str]())
        judged = verdicts.total() - verdicts["not measured"]
        right = f"{verdicts['reproduced']} of {judged}" if judged else ""
        wrong = str(verdicts["not reproduced"]) if judged else ""
        cells = [name, *(row[each] for each in ("counted", *GRADES)), right, wrong]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def full(campaign: str = "full") -> str:
    """Return the sentences about the full campaign's scoreboard, and the quick one's verdicts."""
    rows = read_rows(RECORDS / "full" / "record.tsv", "\t")
    runs = sum(int(row["replicates"]) for row in rows)
    config = read_yaml(ROOT / "config/config.yaml") | {"hosts": base.VIRTUAL}
    cells = len(design.load_cells(config, ROOT))
    orders = sum(_orders(campaign).values(), Counter[str]())
    quick, judged = (
        {name: claim.verdict for name, claim in read_recorded(each).items()
         if claim.verdict != "not measured"}
        for each in ("quick", campaign)
    )  # fmt: skip
    both = quick.keys() & judged.keys()
    differ = sum(quick[name] != judged[name] for name in both)
    decided = orders["reproduced"] + orders["not reproduced"] + orders["not measured"]
    unmeasured = f", and {orders['not measured']} not measured" * (orders["not measured"] > 0)
    return _wrapped(
        f"`recorded/full` has {len(rows):,} of the full campaign's {cells:,} cells, with {runs:,} "
        f"runs. Of {orders.total()} orders and signs, "
        f"{orders['reproduced']} are right, {orders['not reproduced']} wrong, and "
        f"{orders.total() - decided} inconclusive or not comparable{unmeasured}. The "
        f"quick campaign has fewer and shorter runs. Both campaigns judge {len(both)} claims; on "
        f"{differ} of them they disagree."
    )


def items() -> str:
    """Return the table of the major claims' figures: script, and CPU-minutes of the study."""
    lines = [
        "| item of the report | claims | script | quick | full |",
        "|---|---|---|---|---|",
    ]
    minutes = [_minutes(ROOT / "config" / f"{name}.yaml") for name in ("campaigns/quick", "config")]
    claims: dict[str, list[str]] = {}
    for each in major.read_major():
        claims.setdefault(each.item, []).append(f"`{each.study}/{each.claim}`")
    for item, of in claims.items():
        name = item.removeprefix("figure ")
        study, _, figure = name.partition("/")
        script = Path("studies", study, "figures", f"{figure}.R")
        if not (ROOT / script).is_file():
            raise SystemExit(f"readme: error: an item must be a figure of the report, found {item}")
        times = " | ".join(f"{each[study]:.0f} min" for each in minutes)
        lines.append(f"| `{name}` | {', '.join(of)} | [{script.name}]({script}) | {times} |")
    return "\n".join(lines) + "\n"


def commands_table() -> str:
    """Return losslab's commands, each with its first example."""
    lines = ["| command | does | example |", "|---|---|---|"]
    for name, command in sorted(commands.installed().items()):
        example = next((f"`{each}`" for each in command.examples), "").replace("|", "\\|")
        lines.append(f"| `{name}` | {command.help} | {example} |")
    return "\n".join(lines) + "\n"


def stacks_table() -> str:
    """Return the recorded goodput of each QUIC stack and algorithm, alone and beside CUBIC."""
    recorded = records.read_record(RECORDS / "stacks" / "record.tsv")
    found: dict[tuple[str, str], list[str]] = {}
    for cell in design.load_cells(read_yaml(ROOT / "config/campaigns/stacks.yaml"), ROOT):
        if cell.block != "stacks":
            continue
        row, its = recorded[f"{cell.study}/{cell.name}"], cell.condition
        of = dict(word.split("=") for word in its.env.split()) if its.app == "command" else {}
        stack = of.get("STACK", {"iperf3": "kernel", "quic": "ngtcp2"}.get(its.app, ""))
        shown = f"{float(row.mean):.3g} ({float(row.low):.3g} to {float(row.high):.3g})"
        found.setdefault((stack, of.get("CC", its.algorithm)), []).append(shown)
    lines = [
        "| stack | algorithm | 0 % loss | 0 %, beside CUBIC | 1 % loss | 1 %, beside CUBIC |",
        "|---|---|---|---|---|---|",
    ]
    # The kernel first, and each stack's algorithms in one order.
    for key in sorted(found, key=lambda key: (key[0] != "kernel", key)):
        lines.append(f"| {' | '.join([*key, *found[key]])} |")
    return "\n".join(lines) + "\n"


# Tables of docs, by the name of their mark.
TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "commands": ("reference/commands.md", commands_table),
    "axes": ("reference/axes.md", dictionary.axes_table),
    "metrics": ("reference/results.md", dictionary.metrics_table),
    "stacks": ("how-to/quic.md", stacks_table),
}


def reference(name: str) -> tuple[Path, str]:
    """Return a page of docs with its table."""
    file, table = TABLES[name]
    path = ROOT / "docs" / file
    mark = f"<!-- {name}: written by `python -m bench.readme --tables` -->\n"
    return path, replaced(path.read_text(), mark, table().rstrip("\n") + "\n")


def _minutes(config: Path) -> dict[str, float]:
    """Return the estimated CPU-minutes of each study of a campaign, at most."""
    found: dict[str, float] = defaultdict(float)
    # Not containers, even if this machine has their image: the README is the same everywhere.
    for cell in design.load_cells(read_yaml(config) | {"hosts": base.VIRTUAL}, ROOT):
        one_s = cost.replicate_s(cell.condition, cell.backend)
        found[cell.study] += (cost.CELL_S[cell.backend] + cell.stopping.maximum * one_s) / 60
    return found


def _orders(campaign: str) -> dict[str, Counter[str]]:
    """Count the recorded verdicts on published orders and signs, by study."""
    orders: dict[str, Counter[str]] = defaultdict(Counter)
    for row in read_rows(RECORDS / campaign / "claims.csv"):
        if row["evidence"] == "order":
            orders[row["study"]][row["verdict"]] += 1
    return orders


def written(text: str) -> str:
    """Return the README with its sentences and the scoreboard of the recorded full campaign."""
    for mark, words in (
        (MARK, answer()), (SCOREBOARD_MARK, scoreboard()), (FULL_MARK, full()),
        (ITEMS_MARK, items()),
    ):  # fmt: skip
        text = replaced(text, mark, words)
    return text


def main() -> None:
    """Copy the figure, and write the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=ROOT / "results")
    parser.add_argument("--tables", action="store_true", help="write only what needs no results")
    options = parser.parse_args()
    for path, text in map(reference, TABLES):
        path.write_text(text)
    for path, made in lists.FILES.items():
        (ROOT / path).write_text(made())
    readme = ROOT / "README.md"
    if options.tables:
        readme.write_text(replaced(readme.read_text(), ITEMS_MARK, items()))
        return
    results = options.results
    of_results = results / plan.FILE
    if of_results.is_file() and read_json(of_results)["config"]["campaign"] == FULL:
        for measured, copy in COPIES.items():
            if (results / measured).is_file():
                shutil.copyfile(results / measured, ROOT / copy)
    readme.write_text(written(readme.read_text()))


if __name__ == "__main__":
    main()
