"""Update the README's figure, the sentence below it, and the scoreboard.

    python -m bench.readme [RESULTS]
    python -m bench.readme --tables      only the README's items, the tables of docs/reference, and
                                         the lists of axes and metrics for R and editors

The figure and the sentence's table are copied to docs/figures. `make figure` measures them first.
If RESULTS have a scoreboard, it is copied to docs/results, under the name of its campaign. The
README's scoreboard is that of the quick campaign, with its orders and signs in report/verdicts.tsv.
The sentences below it are about the full campaign, from the same files and docs/results/full.tsv.
The table of items has the figures of report/major-claims.yaml. Those of commands, axes and metrics
are in docs/reference for readers of the repository; the site shows each command's help instead.
The table of QUIC stacks in docs/how-to has the means of docs/results/stacks.tsv.
"""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from losslab import commands
from losslab.campaign import cost, plan, records
from losslab.campaign.verdicts import read_recorded
from losslab.instrument import kernels
from losslab.reading import read_json, read_rows, read_yaml
from losslab.study import design, dictionary, metrics
from losslab.study.axes import Axis
from losslab.study.condition import AXES
from losslab_artifact import major

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "figures"
FIGURE, TABLE = "loss_goodput.svg", "loss_decrease.csv"
MARK = "<!-- answer: written by `python -m bench.readme` -->\n"
SCOREBOARD_MARK = "<!-- scoreboard: written by `python -m bench.readme` -->\n"
FULL_MARK = "<!-- full: written by `python -m bench.readme` -->\n"
ITEMS_MARK = "<!-- items: written by `python -m bench.readme` -->\n"
CLAIMS = ROOT / "report" / "claims"
RECORDS = ROOT / "docs" / "results"
GRADES = ("within_5", "within_25", "within_2")


def answer(table: Path) -> str:
    """Return the sentence about the decrease of goodput on the symmetric path."""
    rows = {
        (row["algorithm"], int(row["loss_percent"])): row
        for row in read_rows(table)
        if row["path"] == "symmetric"
    }
    # The sentence says which goodput is lower; other numbers would need another sentence.
    for loss in (1, 10):
        if float(rows["cubic", loss]["high"]) >= float(rows["bbr", loss]["low"]):
            raise SystemExit(f"at {loss} % loss BBR must keep more: write another answer")
    counts = sorted({int(row["n"]) for row in rows.values()})
    n = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    ours = {key: _lost(row["measured"]) for key, row in rows.items()}
    theirs = {key: _lost(row["published"]) for key, row in rows.items()}
    path = yaml.safe_load((ROOT / "config/studies/loss.yaml").read_text())["defaults"]
    text = (
        f"On a {path['rate_mbit'] / 1000:g} Gbit/s path, **1 % packet loss costs CUBIC "
        f"{ours['cubic', 1]} % of its goodput and BBR {ours['bbr', 1]} %** (published: "
        f"{theirs['cubic', 1]} % and {theirs['bbr', 1]} %). 10 % loss costs CUBIC "
        f"{ours['cubic', 10]} % and BBR {ours['bbr', 10]} % (published: {theirs['cubic', 10]} % "
        f"and {theirs['bbr', 10]} %). Each number is the mean of {n} runs of the quick campaign; "
        f"the base RTT is {path['rtt_ms']:g} ms, the kernel Linux {kernels.default().series.name}."
    )
    return _wrapped(text)


def _wrapped(text: str) -> str:
    # A non-breaking space keeps a number with its unit.
    whole = re.sub(r"(\d) (%|m?s\b|Gbit)", "\\1\N{NO-BREAK SPACE}\\2", text)
    return textwrap.fill(whole, 108).replace("\N{NO-BREAK SPACE}", " ") + "\n"


def _lost(percent: str) -> str:
    lost = -float(percent)
    # Decimals matter between 99 and 100 %.
    return f"{lost:.1f}" if lost > 99 else f"{lost:.0f}"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]]) + "\n"


def replaced(readme: str, mark: str, text: str) -> str:
    """Replace the text between a mark and the next empty line."""
    pattern = re.escape(mark) + r"(?:[^\n]+\n)*"
    if not re.search(pattern, readme):
        raise SystemExit(f"the text must have the line {mark!r}")
    return re.sub(pattern, lambda _: mark + text, readme)


def scoreboard(campaign: str = "quick") -> str:
    """Return the scoreboard of a recorded campaign, by source, with the orders and signs."""
    head = [
        "source", "numbers", "within 5 %", "within 25 %", "within a factor of 2",
        "orders and signs right", "wrong",
    ]  # fmt: skip
    rows, orders = _numbers(campaign), _orders(campaign)

    def line(name: str, counted: int, grades: Iterable[str], found: Counter[str]) -> list[str]:
        right = f"{found['reproduced']} of {found.total()}"
        return [name, str(counted), *grades, right, str(found["not reproduced"])]

    lines = [
        line(f"`{study}`", row["counted"], (str(row[each]) for each in GRADES), orders[study])
        for study, row in rows.items()
    ]
    total = sum(rows.values(), Counter[str]())
    shares = (f"{_percent(total, each)} %" for each in GRADES)
    last = line("all", total["counted"], shares, sum(orders.values(), Counter[str]()))
    return markdown(head, [*lines, last])


def full(campaign: str = "full") -> str:
    """Return the sentences about the full campaign's scoreboard."""
    cells = read_rows(RECORDS / "full.tsv", "\t")
    runs = sum(int(row["replicates"]) for row in cells)
    total = sum(_numbers(campaign).values(), Counter[str]())
    orders = sum(_orders(campaign).values(), Counter[str]())
    quick, recorded = (read_recorded()[name] for name in ("quick", campaign))
    both = quick.keys() & recorded.keys()
    differ = sum(quick[name].verdict != recorded[name].verdict for name in both)
    return _wrapped(
        f"The full campaign has longer runs, and more of them: {len(cells):,} cells and "
        f"{runs:,} runs. There, {_percent(total, 'within_5')} % of {total['counted']} numbers are "
        f"within 5 %, {_percent(total, 'within_25')} % within 25 %, and "
        f"{_percent(total, 'within_2')} % within a factor of two; of {orders.total()} orders and "
        f"signs, {orders['reproduced']} are right and {orders['not reproduced']} wrong. Of the "
        f"{len(both)} verdicts on claims that both campaigns give, {differ} differ."
    )


def items() -> str:
    """Return the table of the major claims' figures: script, and CPU-minutes of the study."""
    lines = []
    minutes = [_minutes(ROOT / "config" / f"{name}.yaml") for name in ("quick", "config")]
    claims: dict[str, list[str]] = {}
    for each in major.read_major():
        claims.setdefault(each.item, []).append(f"`{each.study}/{each.claim}`")
    for item, of in claims.items():
        name = item.removeprefix("figure ")
        study, _, figure = name.partition("_")
        script = Path("analysis", "studies", study, "figures", f"{figure}.R")
        if not (ROOT / script).is_file():
            raise SystemExit(f"readme: error: an item must be a figure of the report, found {item}")
        times = [f"{each[study]:.0f} min" for each in minutes]
        lines.append([f"`{name}`", ", ".join(of), f"[{script.name}]({script})", *times])
    return markdown(["item of the report", "claims", "script", "quick", "full"], lines)


def commands_table() -> str:
    """Return losslab's commands, each with its first example."""
    lines = []
    for name, command in sorted(commands.installed().items()):
        example = next((f"`{each}`" for each in command.examples), "").replace("|", "\\|")
        lines.append([f"`{name}`", command.help, example])
    return markdown(["command", "does", "example"], lines)


def stacks_table() -> str:
    """Return the recorded goodput of each QUIC stack and algorithm, alone and beside CUBIC."""
    recorded = records.read_record(RECORDS / "stacks.tsv")
    found: dict[tuple[str, str], list[str]] = {}
    for cell in design.load_cells(read_yaml(ROOT / "config" / "stacks.yaml"), ROOT):
        if cell.block != "stacks":
            continue
        row, its = recorded[f"{cell.study}/{cell.name}"], cell.condition
        of = dict(word.split("=") for word in its.env.split()) if its.app == "command" else {}
        stack = of.get("STACK", {"iperf3": "kernel", "quic": "ngtcp2"}.get(its.app, ""))
        shown = f"{float(row.mean):.3g} ({float(row.low):.3g} to {float(row.high):.3g})"
        found.setdefault((stack, of.get("CC", its.algorithm)), []).append(shown)
    head = ["0 % loss", "0 %, beside CUBIC", "1 % loss", "1 %, beside CUBIC"]
    # The kernel first, and each stack's algorithms in one order.
    keys = sorted(found, key=lambda key: (key[0] != "kernel", key))
    return markdown(["stack", "algorithm", *head], ([*key, *found[key]] for key in keys))


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


def _minutes(config: Path) -> Counter[str]:
    """Return the estimated CPU-minutes of each study of a campaign, at most."""
    found: Counter[str] = Counter()
    for cell in design.load_cells(plan.with_hosts(read_yaml(config)), ROOT):
        one_s = cost.replicate_s(cell.condition, cell.backend)
        found[cell.study] += (cost.CELL_S[cell.backend] + cell.stopping.maximum * one_s) / 60
    return found


def _numbers(campaign: str) -> dict[str, Counter[str]]:
    """Return the recorded scoreboard of each study's own source."""
    rows = read_rows(RECORDS / f"{campaign}-scoreboard.csv")
    return {
        row["study"]: Counter({each: int(row[each]) for each in ("counted", *GRADES)})
        for row in sorted(rows, key=lambda row: row["study"])
        if row["source"] == row["study"]
    }


def _orders(campaign: str) -> dict[str, Counter[str]]:
    """Count the recorded verdicts on orders and signs of each study with published numbers."""
    recorded = read_recorded()[campaign]
    return {
        study: Counter(
            recorded[study, claim["id"]].verdict
            for claim in yaml.safe_load((CLAIMS / f"{study}.yaml").read_text())["claims"]
            if claim["evidence"] == "order"
            and (study, claim["id"]) in recorded
            and recorded[study, claim["id"]].verdict != "not measured"
        )
        for study in _numbers(campaign)
    }


def _percent(counts: Counter[str], grade: str) -> int:
    return round(100 * counts[grade] / counts["counted"])


WRITER = "Written by `python -m bench.readme --tables`."
LINE = 100  # length of a line of code


def r_columns() -> str:
    """Return the R file with the names of the axes' columns."""
    text_columns = [name for name, axis in AXES.items() if axis.kind == "str"]
    return f"""\
# The columns of a cell's axes, from their declarations in src/losslab/study/condition.py.
# {WRITER}

# Together with the block, these columns identify a cell.
condition_columns <- {_r_vector(AXES)}

# Text columns; the others are numeric.
condition_words <- {_r_vector(text_columns)}
"""


def r_metrics() -> str:
    """Return the R file with the metrics' units and titles."""
    declared = metrics.declared()
    return f"""\
# Units of metrics and their titles on a figure's axis, from config/metrics.tsv.
# {WRITER}

metric_units <- {_r_named({name: metric.unit for name, metric in declared.items()})}

metric_titles <- {_r_named({name: metric.title for name, metric in declared.items()})}
"""


def _r_vector(names: Iterable[str]) -> str:
    quoted = ", ".join(f'"{name}"' for name in names)
    lines = textwrap.fill(quoted, 98, initial_indent="  ", subsequent_indent="  ")
    return f"c(\n{lines}\n)"


def _r_named(values: Mapping[str, str]) -> str:
    lines = [f'  {name} = "{value}"' for name, value in values.items()]
    return "c(\n" + ",\n".join(lines) + "\n)"


def python_stub() -> str:
    """Return the stub with the types of the Python interface's axes."""

    def typed_dict(name: str, purpose: str, form: str) -> str:
        fields = (f"    {a.name}: {form.format(_python_type(a))}\n" for a in AXES.values())
        return f'class {name}(TypedDict, total=False):\n    """{purpose}"""\n\n' + "".join(fields)

    several = "A value, or the values, of each axis."
    return f"""\
# Axes of `losslab.measure` and `losslab.sweep`, for editors and type checkers.
# {WRITER}

from collections.abc import Iterable
from os import PathLike
from typing import Literal, TypeAlias, TypedDict

Number: TypeAlias = float | str  # text has a unit, such as "40ms"
Text: TypeAlias = str | PathLike[str]
{"".join(_choices())}
{typed_dict("Axes", "A value of each axis.", "{}")}
{typed_dict("AxisLists", several, "{0} | Iterable[{0}]")}"""


def _python_type(axis: Axis) -> str:
    if axis.kind != "str":
        return "Number"
    return f"{_alias(axis)} | Text" if axis.choices else "Text"


def _alias(axis: Axis) -> str:
    return axis.name.title().replace("_", "")


def _choices() -> Iterator[str]:
    """Yield the type of each axis with choices, as ruff formats it."""
    for axis in AXES.values():
        if axis.choices:
            head, values = f"{_alias(axis)}: TypeAlias = Literal[", [f'"{c}"' for c in axis.choices]
            line = f"{head}{', '.join(values)}]"
            lines = [head, *(f"    {value}," for value in values), "]"]
            yield "\n".join([line] if len(line) <= LINE else lines) + "\n"


# Lists of axes and metrics for R and for editors, each with what is in it.
LISTS = {
    Path("analysis", "R", "axes.R"): r_columns,
    Path("analysis", "R", "units.R"): r_metrics,
    Path("src", "losslab", "arguments.pyi"): python_stub,
}


def written(text: str, table: Path = FOLDER / TABLE) -> str:
    """Return the README with the sentence of a table and the recorded scoreboards."""
    for mark, words in (
        (MARK, answer(table)), (SCOREBOARD_MARK, scoreboard()), (FULL_MARK, full()),
        (ITEMS_MARK, items()),
    ):  # fmt: skip
        text = replaced(text, mark, words)
    return text


def main() -> None:
    """Copy the figure and its table, and write the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=ROOT / "results")
    parser.add_argument("--tables", action="store_true", help="write only what needs no results")
    options = parser.parse_args()
    for path, text in map(reference, TABLES):
        path.write_text(text)
    for path, made in LISTS.items():
        (ROOT / path).write_text(made())
    readme = ROOT / "README.md"
    if options.tables:
        readme.write_text(replaced(readme.read_text(), ITEMS_MARK, items()))
        return
    results = options.results
    wanted = (results / "figures" / FIGURE, results / "tables" / TABLE)
    for path in wanted:
        if not path.is_file():
            raise SystemExit(
                f"readme: error: a campaign's results must have {path}, found no such file\n"
                "  -> run `make figure`, which measures first"
            )
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in wanted:
        shutil.copyfile(path, FOLDER / path.name)
    board = results / "tables" / "scoreboard_sources.csv"
    if board.is_file():
        campaign = read_json(results / plan.FILE)["config"]["campaign"]
        shutil.copyfile(board, RECORDS / f"{campaign}-scoreboard.csv")
    readme.write_text(written(readme.read_text()))


if __name__ == "__main__":
    main()
