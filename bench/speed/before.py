"""Effect of a change on the speed: two checkouts are measured in turn on one machine.

    python -m bench.speed.before ../before               compare this checkout with that one
    python -m bench.speed.before ../before --runs 9

Both need `make setup`. Each round measures a replicate's fixed cost and the cost per second of
some flows in both, like `python -m bench.speed`. The table has medians over the rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bench.speed import parts
from bench.speed.__main__ import machine
from losslab.backends.snapshot import Snapshots
from losslab.campaign.instrument import instrument
from losslab.errors import LosslabError
from losslab.study.axes import DRAWN_TRACE
from losslab.study.condition import Condition

ROOT = Path(__file__).resolve().parents[2]
RUNS = 5
# Parts of bench.speed: the main costs of a campaign, and the goal of 3 s per core-second.
FLOWS = (
    ("cubic", 10, 0),
    ("cubic", 100, 0),
    ("bbr", 100, 1),
    ("cubic", 1000, 0),
    ("bbr", 1000, 0),
    ("bbr", 1000, 1),
)
# A condition of the cellular study: losslab's programs on five hosts, and two trace-driven links.
CELLULAR = Condition(
    algorithm="cubic", app="datagram", scheme="bbr,tuned=0", trace=DRAWN_TRACE,
    trace_back=DRAWN_TRACE, rtt_ms=40, rate_mbit=1000, buffer_packets=1_000_000,
    receive_buffer="large", duration_s=10, warmup_s=0,
)  # fmt: skip
# Number of replicates for the median of a round's fixed cost.
REPLICATES = 3


def one_round() -> dict[str, float]:
    """Measure this checkout once; return core-seconds by part."""
    tools = instrument()
    fixed = parts.fixed(tools, REPLICATES)
    found = {
        "a guest's boot, by the clock": float(fixed["boot_s"]),
        "fixed cost of a replicate": float(fixed["replicate_core_s"]),
    }
    with Snapshots() as snapshots:
        cpu_s = [parts.measure(tools, CELLULAR, 1 + n, snapshots).cpu_s for n in range(REPLICATES)]
    found["10 s of the cellular study"] = statistics.median(cpu_s)
    for algorithm, rate_mbit, loss_percent in FLOWS:
        condition = replace(
            parts.BASE, algorithm=algorithm, rate_mbit=rate_mbit, loss_percent=loss_percent,
            buffer_packets=parts.bandwidth_delay_packets(rate_mbit),
        )  # fmt: skip
        per_core_s = parts.cost(tools, condition, 1)["emulated_s_per_core_s"]
        if per_core_s:
            name = f"a second of {algorithm}, {rate_mbit} Mbit/s, {loss_percent} % loss"
            found[name] = 1 / per_core_s
    return found


def table(rounds: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Return the medians of `before` and `after`, and their ratio, as a Markdown table.

    Args:
        rounds: Results of `one_round` of each checkout.
    """
    lines = ["| core-seconds of | before | after | after / before |", "| --- | --- | --- | --- |"]
    for name in rounds["after"][0]:
        if not all(name in found for side in rounds.values() for found in side):
            continue
        before, after = (
            statistics.median(found[name] for found in rounds[side]) for side in ("before", "after")
        )
        lines.append(f"| {name} | {before:.3f} | {after:.3f} | {after / before:.2f} |")
    return "\n".join(lines)


def round_in(checkout: Path) -> dict[str, float]:
    """Measure a round with another checkout's code, kernel and image.

    Raises:
        LosslabError: The checkout has no .venv, or the round failed.
    """
    python = checkout / ".venv" / "bin" / "python"
    if not python.exists():
        raise LosslabError(
            f"{checkout} must be a checkout that is set up, found no .venv",
            hint=f"make -C {checkout} setup",
        )
    # Uses this folder's bench, which an older checkout may lack, with the checkout's own losslab.
    words = [str(python), "-m", "bench.speed.before", "--round"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LosslabError(f"{checkout} must measure a round, found: {done.stderr.strip()[-500:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure both checkouts in turn, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.speed.before", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("before", type=Path, nargs="?", help="the other checkout")
    parser.add_argument("--runs", type=int, default=RUNS, help="rounds")
    parser.add_argument("--round", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        if options.round:
            print(json.dumps(one_round()))
            return 0
        if options.before is None:
            parser.error("which checkout was before?")
        sides = {"before": options.before.resolve(), "after": ROOT}
        rounds: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
        print(json.dumps(machine()), file=sys.stderr)
        for number in range(options.runs):
            print(f"before: round {number + 1} of {options.runs}", file=sys.stderr, flush=True)
            for side, checkout in sides.items():
                rounds[side].append(round_in(checkout))
    except LosslabError as error:
        print(f"before: error: {error}", file=sys.stderr)
        return 1
    print(table(rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
