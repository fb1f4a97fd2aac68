"""Cost of each of CUBIC's first losses, on the loss study's cell at 1 %.

    python -m bench.one_packet            measure, and print the page's sentences
    python -m bench.one_packet --write    also write docs/figures/one_packet.csv and .svg, and the
                                          page docs/explanation/one-packet.md

Each replicate has the condition and the seed of the study's quick campaign. It is cut at the start
of its traffic, and each of the first ten losses of a full packet is spared in a future of its own:
all later losses keep their packet numbers.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from bench.readme import replaced
from losslab.campaign.instrument import instrument
from losslab.campaign.replicate import run
from losslab.emulation.qdiscs import FRAME_BYTES
from losslab.study.condition import Condition
from losslab.study.intervals import difference_interval
from losslab.study.seeds import replicate_seed
from losslab.ui import plot
from losslab_timetravel import futures, symptoms
from losslab_timetravel.futures import Change, Future

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "figures" / "one_packet.csv"
PAGE = ROOT / "docs" / "explanation" / "one-packet.md"
MARK = "<!-- {}: written by `python -m bench.one_packet --write` -->\n"
# Block `main` of config/studies/loss.yaml, with the times of config/quick.yaml.
CELL = Condition(algorithm="cubic", loss_percent=1, duration_s=4, warmup_s=2)
REPLICATES, LOSSES = 16, 10
SOON_S = 0.1  # 240 RTTs
COSTS = {
    "soon_kb": f"{SOON_S:g} s after the loss",
    "end_kb": f"at the end, at {CELL.duration_s:g} s",
}


@dataclass(frozen=True)
class Row:
    """A loss of a replicate, and what the run delivers without it."""

    replicate: int
    loss: int  # from 1
    packet: int
    t_s: float
    run_mb: float  # delivered by the end
    drops: int  # random losses of the run
    # More delivered without this loss: `SOON_S` after it, and by the end.
    soon_kb: float
    end_kb: float


def measure(number: int, folder: Path) -> Iterator[Row]:
    """Yield the rows of a replicate, given an existing empty folder."""
    tools = instrument(condition=CELL)
    whole = run(CELL, replicate_seed(CELL, number), folder / "whole", tools)
    (folder / "past").mkdir()
    with futures.past(whole, (CELL, tools, None), 0.0, folder / "past") as past:
        untouched = past.run(futures.UNTOUCHED, folder / "untouched")
        drops = [drop for drop in untouched.drops if drop.size_bytes == FRAME_BYTES][:LOSSES]
        changes = [Change(f"spare {d.number}", spare={"data": (d.number,)}) for d in drops]
        found = past.run_all([(each, folder / each.label, None) for each in changes])
        for loss, (drop, future) in enumerate(zip(drops, found, strict=True), 1):
            gains = [
                round(_delivered_kb(future, t_s) - _delivered_kb(untouched, t_s), 3)
                for t_s in (drop.t_s + SOON_S, CELL.duration_s)
            ]
            run_mb = round(_delivered_kb(untouched, CELL.duration_s) / 1e3, 6)
            count = len(untouched.drops)
            yield Row(number, loss, drop.number, drop.t_s, run_mb, count, *gains)


def _delivered_kb(future: Future, t_s: float) -> float:
    """Return the data that a run delivers by a time; samples are 20 ms apart."""
    rows = symptoms.samples(future.folder)
    return max(int(row["delivered_bytes"]) for row in rows if float(row["t_s"]) <= t_s) / 1e3


def of_losses(rows: Sequence[Row], cost: str) -> dict[int, list[float]]:
    """Return the costs in kB by loss; `cost` is one of `COSTS`."""
    numbers = range(1, LOSSES + 1)
    return {loss: [getattr(r, cost) for r in rows if r.loss == loss] for loss in numbers}


def sentences(rows: Sequence[Row]) -> dict[str, str]:
    """Return the parts of the page as Markdown, by their mark."""
    runs = {row.replicate: row for row in rows}
    delivered = statistics.fmean(row.run_mb for row in runs.values())
    drops = statistics.fmean(row.drops for row in runs.values())
    largest = max(rows, key=lambda row: abs(row.end_kb))
    text = (
        f"In {len(runs)} replicates of {CELL.duration_s:g} s, CUBIC delivered "
        f"{delivered:.1f} MB on average, with {drops:.0f} losses. "
    )
    for cost, name in COSTS.items():
        first, *others = of_losses(rows, cost).values()
        rest = [statistics.fmean(costs) for costs in zip(*others, strict=True)]
        text += (
            f"{name[0].upper()}{name[1:]}, the first loss had cost {_with_interval(first)} kB, "
            f"which is {_sign(first)}. One of the next {LOSSES - 1} had cost "
            f"{_with_interval(rest)} kB, which is {_sign(rest)}. "
        )
    word = "more" if largest.end_kb > 0 else "less"
    text += (
        f"The largest difference is that of loss {largest.loss} of replicate {largest.replicate}. "
        f"Without it, the run delivers {abs(largest.end_kb) / 1e3:.1f} MB {word}, "
        f"{abs(largest.end_kb) / 10 / largest.run_mb:.1f} % of its data."
    )
    lines = [
        f"| loss | median time, ms | {' | '.join(f'cost {name}, kB' for name in COSTS.values())} |",
        "|---|---|---|---|",
    ]
    for loss in range(1, LOSSES + 1):
        time_ms = 1e3 * statistics.median(row.t_s for row in rows if row.loss == loss)
        cells = [_with_interval(of_losses(rows, cost)[loss]) for cost in COSTS]
        lines.append(f"| {loss} | {time_ms:.0f} | {' | '.join(cells)} |")
    return {"result": textwrap.fill(text, 119) + "\n", "table": "\n".join(lines) + "\n"}


def _sign(values: Sequence[float]) -> str:
    low, high = difference_interval(values) or (0.0, 0.0)
    return "more than nothing" if low > 0 else "less than nothing" if high < 0 else "inconclusive"


def _with_interval(values: Sequence[float]) -> str:
    ends = difference_interval(values)
    return (
        f"{statistics.fmean(values):.0f} ({'{:.0f} to {:.0f}'.format(*ends) if ends else 'none'})"
    )


def page(text: str, rows: Sequence[Row]) -> str:
    """Return the documentation page with the sentences of a measurement."""
    for part, its in sentences(rows).items():
        text = replaced(text, MARK.format(part), its)
    return text


def figure(rows: Sequence[Row], path: Path) -> None:
    """Plot the cost of each loss, with its confidence interval and all replicates."""
    drawn: list[dict[str, object]] = []
    for cost, name in COSTS.items():
        for loss, values in of_losses(rows, cost).items():
            low, high = difference_interval(values) or ("", "")
            mean = statistics.fmean(values)
            drawn += [
                {
                    "panel": name[0].upper() + name[1:], "loss": loss, "cost_kb": value,
                    "mean_kb": mean, "low_kb": low, "high_kb": high,
                }
                for value in values
            ]  # fmt: skip
    plot.draw("one_packet.R", [*drawn[0]], drawn, [path])


def write(rows: Sequence[Row], file: Path = FILE) -> None:
    """Record rows."""
    with file.open("w", newline="") as out:
        names = [field.name for field in fields(Row)]
        writer = csv.DictWriter(out, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, rows))


def read(file: Path = FILE) -> list[Row]:
    """Read recorded rows."""
    with file.open(newline="") as lines:
        return [
            Row(
                int(line["replicate"]), int(line["loss"]), int(line["packet"]),
                float(line["t_s"]), float(line["run_mb"]), int(line["drops"]),
                float(line["soon_kb"]), float(line["end_kb"]),
            )
            for line in csv.DictReader(lines)
        ]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the page's sentences, and write them if requested."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.one_packet", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--replicates", type=int, default=REPLICATES)
    parser.add_argument("--write", action="store_true", help="into the docs")
    parser.add_argument("--recorded", action="store_true", help="use the recorded numbers")
    options = parser.parse_args(arguments)
    rows = read() if options.recorded else list[Row]()
    for number in () if options.recorded else range(options.replicates):
        with tempfile.TemporaryDirectory(prefix="losslab-packet-") as name:
            rows += measure(number, Path(name))
        print(f"replicate {number}: {len(rows)} futures", file=sys.stderr, flush=True)
        if options.write:
            write(rows)
    if options.write:
        figure(rows, FILE.with_suffix(".svg"))
        PAGE.write_text(page(PAGE.read_text(), rows))
    print(*sentences(rows).values(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
