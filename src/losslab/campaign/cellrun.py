"""Measurement of a cell: its replicates, its summary in cell.json, and the self-test."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from losslab.backends.base import Instrument
from losslab.backends.registry import BACKENDS
from losslab.backends.snapshot import Snapshots
from losslab.campaign import fingerprint, results
from losslab.campaign.instrument import video
from losslab.campaign.replicate import run
from losslab.errors import HostError
from losslab.instrument import kernels
from losslab.lock import locked, own_folder, sweep
from losslab.repository import SET_UP
from losslab.study.condition import FIRST_FAMILY, Condition, seed_of
from losslab.study.intervals import StoppingRule
from losslab.study.metrics import primary_value


def run_cell(
    condition: Condition,
    folder: Path,
    rule: StoppingRule,
    instrument: Instrument,
    video: Path | None = None,
    family: int = FIRST_FAMILY,
    say: Callable[[str], None] = print,
) -> int:
    """Measure a cell's replicates into `folder`; keep those that are finished; return their number.

    If a guest is lost although the instrument passes its self-test, the condition itself may be the
    cause. The cell then ends with this invalid replicate, so that other cells can continue, and the
    next start retries it.
    """
    sweep(folder, results.PARTIAL)
    values: list[float] = []
    count = 0
    with Snapshots() as snapshots:
        while not rule.enough(count, values):
            out, seed = folder / str(count), seed_of(condition, count, family)
            manifest = finished(out, condition, seed, instrument)
            state = "kept, measured before"
            if manifest is None:
                manifest = run(condition, seed, out, instrument, video, snapshots=snapshots)
                violations = manifest["reasons"]
                state = "; ".join(["INVALID", *violations]) if violations else "valid"
            say(f"{out}: {state}")
            value = primary_value(manifest["summary"])
            if manifest["valid"] and value is not None:
                values.append(value)
            count += 1
            if manifest.get("lost"):
                _judge_loss(folder, out, manifest, instrument)
                break
    return count


def measure_cell(
    study: str,
    block: str,
    condition: Condition,
    out: Path,
    rule: StoppingRule,
    instrument: Instrument,
    family: int = FIRST_FAMILY,
    say: Callable[[str], None] = print,
) -> None:
    """Measure a cell's replicates beside its cell.json `out`, which this writes."""
    movie, folder = video(condition, instrument), out.parent
    folder.mkdir(parents=True, exist_ok=True)
    # A job that outlived its workflow may still be measuring this cell.
    with locked(folder, f"{folder}: waiting for another process that measures here"):
        count = run_cell(condition, folder, rule, instrument, movie, family, say)
        results.replace_json(results.cell_content(study, block, condition, folder, count), out)


def _judge_loss(folder: Path, out: Path, manifest: dict[str, Any], instrument: Instrument) -> None:
    """Record a lost guest if the instrument passes its self-test.

    A machine's own kernel has no self-test, as its requirements depend on the cell. A kernel with
    replaced files has none, because these may be the cause.
    """
    try:
        needs = BACKENDS[instrument.backend, instrument.where].needs
        if needs.guest and not kernels.replaced_files():
            self_test(instrument)
    except HostError as error:
        shutil.rmtree(out)
        raise HostError(f"{manifest['reasons'][0]}\n{error.message}", hint=error.hint) from error
    when = datetime.now(UTC).isoformat(timespec="seconds")
    note = {"replicate": out.name, "reasons": manifest["reasons"], "when_utc": when}
    results.write_json(note, folder / results.LOST_FILE)
    print(
        f"losslab: note: the guest of {out} was lost, although the instrument passes its "
        "self-test. The cell ends with this invalid replicate; the next start retries it.",
        file=sys.stderr,
    )


def finished(
    out: Path, condition: Condition, seed: int, instrument: Instrument
) -> dict[str, Any] | None:
    """Return the manifest of a finished replicate with the same seed and fingerprint, or None.

    A replicate whose guest was lost, or that is damaged, is not finished.
    """
    replicate = results.Replicate(out)
    if replicate.problems():
        return None
    manifest = replicate.manifest
    now = fingerprint.of(condition, instrument.backend, instrument.where)
    same = manifest.get("fingerprint", {}).get("digest") == now.digest and manifest["seed"] == seed
    return manifest if same and not manifest.get("lost", False) else None


# A short run with all parts of a replicate: loss, a queue, a bulk flow, probes and checks.
SELF_TEST = Condition(
    algorithm="cubic", loss_percent=1, path="symmetric", app="iperf3", rtt_ms=10, rate_mbit=20,
    buffer_packets=50, duration_s=2, warmup_s=0.5,
)  # fmt: skip


def self_test(instrument: Instrument) -> str:
    """Measure a short cell; return a line with goodput and wall time; HostError if invalid."""
    begin = time.monotonic()
    with own_folder(Path(tempfile.gettempdir()), "losslab-selftest-") as folder:
        manifest = run(SELF_TEST, 1, folder / "out", instrument, attempts=1)
    if not manifest["valid"]:
        raise HostError(
            f"the self-test's cell must be valid, found: {'; '.join(manifest['reasons'])}",
            hint=f"run `{SET_UP}`; if the self-test still fails, results of this machine are not "
            "comparable",
        )
    wall_s = time.monotonic() - begin
    goodput_mbit = manifest["summary"]["goodput_mbit"]
    return (
        f"self-test: valid in {wall_s:.1f} s ({SELF_TEST.algorithm} at {SELF_TEST.rate_mbit:g} "
        f"Mbit/s with {SELF_TEST.loss_percent:g} % loss: {goodput_mbit:.2f} Mbit/s)"
    )
