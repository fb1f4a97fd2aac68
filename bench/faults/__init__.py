"""Inject faults, and report the error that the user sees and the results that are lost.

`python -m bench.faults` runs the whole list and prints a line per fault. It exits with 1 if a
fault lost a result or had no explanation. Faults that this machine cannot inject are skipped with
the reason. `python -m bench.faults --kills 100` kills 100 processes each of guests, workflows and
commands at random times.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.faults import chapters, damage, guests, host, inputs, killed, misuse, random_kills
from bench.faults.kit import Outcome, SkippedError

__all__ = ["FAULTS", "Outcome", "SkippedError", "main"]

FAULTS: dict[str, Callable[[Path], Outcome]] = {
    f.__name__: f
    for f in (
        killed.killed_snakemake,
        killed.killed_cell,
        killed.killed_measure,
        killed.terminated_cell,
        killed.interrupted_cell,
        killed.interrupted_campaign,
        killed.damaged_manifest,
        random_kills.randomly_killed_processes,
        guests.hanging_guest,
        guests.panicking_guest,
        guests.crashing_guest,
        guests.panicking_kernel,
        guests.forbidden_ptrace,
        host.small_shm,
        host.noexec_shm,
        host.no_scratch,
        host.full_scratch,
        host.odd_scratch,
        host.low_limits,
        host.full_disk,
        host.full_results,
        host.read_only_image,
        host.missing_kernel,
        host.deleted_image,
        host.replaced_kernel,
        misuse.two_workflows,
        misuse.two_jobs,
        misuse.unknown_kernel_option,
        misuse.bad_configuration,
        misuse.unknown_study,
        misuse.no_number,
        chapters.broken_claim,
        chapters.missing_cells,
    )
} | {**damage.FAULTS, **inputs.FAULTS}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named faults, or all, or random kills; print a line for each."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.faults", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "faults", nargs="*", metavar="FAULT",
        help=f"one of {', '.join(FAULTS)} (default: all)",
    )  # fmt: skip
    parser.add_argument("--kills", type=int, metavar="N", help="kill N processes instead")
    parser.add_argument("--seed", type=int, default=1, help="of kinds, signals and instants")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.faults) - set(FAULTS))
    if unknown:
        parser.error(f"a fault must be one of {', '.join(FAULTS)}, found {', '.join(unknown)}")
    if options.kills:
        with tempfile.TemporaryDirectory(prefix="losslab-kills-") as folder:
            return random_kills.table(Path(folder), options.kills, options.seed)
    bad = 0
    for name in options.faults or FAULTS:
        with tempfile.TemporaryDirectory(prefix="losslab-fault-") as folder:
            try:
                outcome = FAULTS[name](Path(folder))
            except SkippedError as reason:
                print(f"skipped  {name}: {reason}", flush=True)
                continue
        bad += not outcome.good
        mark = "ok      " if outcome.good else "FAILED  "
        print(f"{mark} {outcome.done} | user saw: {outcome.saw} | lost: {outcome.lost}", flush=True)
    return 1 if bad else 0
