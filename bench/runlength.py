"""Check that runs of the rule's length are long enough.

    python -m bench.runlength FOLDER                 30 drawn conditions, 5 runs of each
    python -m bench.runlength FOLDER --count 5       a part of them

Each condition is measured at the length that `losslab sweep` chooses and at eight times that
length. Where no warning about the length is printed, the means should agree in at least 90 % of the
conditions: the 95 % interval of their ratio contains 1, or both means are within 5 %, the rule's
tolerance. Runs that hardly vary have intervals far narrower than that. Both counts are
printed. Finished runs are kept. The seed is fixed.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
from collections import Counter
from pathlib import Path

from losslab import sweeps
from losslab.campaign import halves
from losslab.campaign.results import MeasuredCell, read_cell
from losslab.study import metrics, runlength
from losslab.study.condition import Condition
from losslab.study.intervals import MIN_RUNS, ratio_interval

SEED, COUNT, FACTOR = 20260, 30, 8
AGREEING = 0.9


def drawn(count: int) -> list[Condition]:
    """Draw conditions: a flow of some algorithm, in a third of them with a competitor."""
    draw = random.Random(SEED)
    conditions = []
    for _ in range(count):
        rate_mbit = float(f"{5 * 10 ** draw.random():.3g}")
        rtt_ms = float(f"{10 * 10 ** draw.random():.3g}")
        bdp_packets = rate_mbit * rtt_ms * 1e3 / 8 / 1514
        loss_percent = float(f"{0.01 * 100 ** draw.random():.2g}") if draw.random() < 0.67 else 0.0
        conditions.append(
            Condition(
                algorithm=draw.choice(["cubic", "reno", "bbr"]),
                competitor=draw.choice(["none", "none", "cubic"]),
                rate_mbit=rate_mbit, rtt_ms=rtt_ms, loss_percent=loss_percent,
                buffer_packets=max(10, round(bdp_packets * 4 ** draw.uniform(-1, 1))),
            )
        )  # fmt: skip
    return conditions


def measured(condition: Condition, out: Path, cores: int) -> MeasuredCell:
    """Measure a condition, and return its cell."""
    cell = sweeps.SweepCell(condition, out / "cells" / condition.full_name())
    sweeps.measure([cell], MIN_RUNS, cores)
    return read_cell(cell.file)


def outcome(condition: Condition, out: Path, cores: int) -> str:
    """Measure a condition at both lengths, print a line, and return what came out."""
    [short], _ = runlength.with_length([condition], duration_given=False, warmup_given=False)
    long = dataclasses.replace(
        short, duration_s=FACTOR * short.duration_s, warmup_s=FACTOR * short.warmup_s
    )
    cells = [measured(each, out, cores) for each in (short, long)]
    warned = [*halves.of_cells(cells[:1])]
    metric = metrics.primary(cells[0].summaries)
    values, longer = ([*cell.values(metric).values()] for cell in cells)
    if min(len(values), len(longer)) < MIN_RUNS:
        return "too few valid runs"
    ratio = ratio_interval(values, longer, paired=False)
    same = ratio.value is not None and abs(ratio.value - 1) <= runlength.TOLERANCE
    within = ratio.interval is not None and ratio.interval[0] <= 1 <= ratio.interval[1]
    verdict = "agree" if within else "within 5 %" if same else "differ"
    interval = " to ".join(f"{end:.3f}" for end in ratio.interval or ())
    print(
        f"{short.slug()}, {short.duration_s:g} s: {verdict}{', warned' if warned else ''}, ratio "
        f"{ratio.value:.3f} ({interval}), rule's bias "
        f"{runlength.bias(short, short.warmup_s, short.duration_s):.3f}",
        flush=True,
    )
    for line in warned:
        print(f"    {line}", flush=True)
    return f"{verdict}, warned" if warned else verdict


def main() -> int:
    """Measure the drawn conditions and print the counts; return 1 if too few agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=COUNT, help="conditions, the first ones")
    parser.add_argument("--cores", type=int, default=1)
    options = parser.parse_args()
    print(f"seed {SEED}, {options.count} of {COUNT} conditions", flush=True)
    conditions = drawn(COUNT)[: options.count]
    counts = Counter(outcome(each, options.folder, options.cores) for each in conditions)
    near = counts["agree"] + counts["within 5 %"]
    silent = near + counts["differ"]
    print(", ".join(f"{name}: {count}" for name, count in sorted(counts.items())))
    print(
        f"without a warning, {counts['agree']} of {silent} agree within their intervals, and "
        f"{near} if means within 5 % count, too; of these, at least 90 % must"
    )
    return int(near < AGREEING * silent)


if __name__ == "__main__":
    raise SystemExit(main())
