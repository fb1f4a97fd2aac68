"""Run a cell's replicates, keep those that are finished, and sum them up."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from losslab.backends.base import Instrument
from losslab.backends.known import BACKENDS
from losslab.backends.template import Templates
from losslab.campaign import fingerprint, integrity
from losslab.campaign.folder import FORMAT, PARTIAL, write_json
from losslab.campaign.replicate import run
from losslab.errors import HostError
from losslab.lock import own_folder, sweep
from losslab.study.condition import Condition
from losslab.study.metrics import primary_value
from losslab.study.seeds import replicate_seed
from losslab.study.stopping import StoppingRule

# Beside a cell's replicates: the last guest that was lost. The workflow tries such a cell again.
LOST_FILE = "lost.json"


def run_cell(
    condition: Condition,
    folder: Path,
    rule: StoppingRule,
    instrument: Instrument,
    video: Path | None = None,
) -> int:
    """Measure a cell's replicates into `folder`, by number; keep those that are there.

    Where a guest is lost though the instrument passes its self-test, the cell ends with that
    replicate, an invalid row that is not kept: the cell may be what loses it, so that other cells
    go on, and the next start tries it again. Returns how many there are now. Raises HostError if
    the host or the instrument failed; finished replicates stay.
    """
    sweep(folder, PARTIAL)
    values: list[float] = []
    count = 0
    with Templates() as templates:
        while not rule.enough(count, values):
            out, seed = folder / str(count), replicate_seed(condition, count)
            manifest = finished(out, condition, seed, instrument)
            verdict = "kept, measured before"
            if manifest is None:
                manifest = run(condition, seed, out, instrument, video, templates=templates)
                reasons = manifest["reasons"]
                verdict = "; ".join(["INVALID", *reasons]) if reasons else "valid"
            print(f"{out}: {verdict}", flush=True)
            value = primary_value(manifest["summary"])
            if manifest["valid"] and value is not None:
                values.append(value)
            count += 1
            if manifest.get("lost"):
                _judge_loss(folder, out, manifest, instrument)
                break
    return count


def _judge_loss(folder: Path, out: Path, manifest: dict[str, Any], instrument: Instrument) -> None:
    """Note that a guest was lost, unless the instrument loses others too.

    A machine's own kernel has no self-test: whether it can measure depends on the cell. Raises
    HostError if it does.
    """
    try:
        if BACKENDS[instrument.backend, instrument.where].needs.kernel:
            self_test(instrument)
    except HostError as error:
        shutil.rmtree(out)
        raise HostError(f"{manifest['reasons'][0]}\n{error.message}", hint=error.hint) from error
    when = datetime.now(UTC).isoformat(timespec="seconds")
    note = {"replicate": out.name, "reasons": manifest["reasons"], "when_utc": when}
    write_json(note, folder / LOST_FILE)
    print(
        f"losslab: note: {out} was lost, and not by the instrument: the cell ends here with an "
        "invalid row; the next start tries it again",
        file=sys.stderr,
    )


def cell_result(
    study: str, block: str, condition: Condition, folder: Path, replicates: int
) -> dict[str, Any]:
    """Sum up a cell's replicates, which lie in `folder` by number, for cell.json.

    Raises DamagedError if a file of one is not as it was measured.
    """
    return {
        "format": FORMAT,
        "study": study,
        "block": block,
        "cell": folder.name,
        "condition": condition.to_json(),
        "replicates": [
            integrity.replicate_row(*integrity.read_replicate(folder / str(number)))
            for number in range(replicates)
        ],
    }


def finished(
    out: Path, condition: Condition, seed: int, instrument: Instrument
) -> dict[str, Any] | None:
    """Return the manifest if `out` already holds exactly this replicate, by this instrument.

    One whose guest was lost, or of which a file is not as it was measured, is not finished.
    """
    try:
        manifest, _ = integrity.read_replicate(out)
    except integrity.DamagedError:
        return None
    its = fingerprint.of(condition, instrument.backend, instrument.where)
    same = manifest.get("fingerprint", {}).get("digest") == its.digest and manifest["seed"] == seed
    return manifest if same and not manifest.get("lost", False) else None


# Everything that a replicate does, in a second: loss, a queue, a bulk flow, probes and checks.
SELF_TEST = Condition(
    algorithm="cubic",
    loss_percent=1,
    path="symmetric",
    app="iperf3",
    rtt_ms=10,
    rate_mbit=20,
    buffer_packets=50,
    duration_s=2,
    warmup_s=0.5,
)


def self_test_on(hosts: str) -> Condition:
    """Return the short cell's condition with an image for its hosts."""
    return replace(SELF_TEST, image=hosts)


def self_test(instrument: Instrument) -> str:
    """Measure a short cell.

    Returns a line that says what was found and how long it took. Raises HostError if it is not
    valid; with what must hold, what was found, and the remedy.
    """
    begin = time.monotonic()
    with own_folder(Path(tempfile.gettempdir()), "losslab-selftest-") as folder:
        manifest = run(SELF_TEST, 1, folder / "out", instrument, attempts=1)
    if not manifest["valid"]:
        raise HostError(
            f"the self-test's cell must be valid, found: {'; '.join(manifest['reasons'])}",
            hint="run `make setup`; if it stays so, this machine measures something else",
        )
    wall_s = time.monotonic() - begin
    goodput_mbit = manifest["summary"]["goodput_mbit"]
    return (
        f"self-test: valid in {wall_s:.1f} s ({SELF_TEST.algorithm} at {SELF_TEST.rate_mbit:g} "
        f"Mbit/s with {SELF_TEST.loss_percent:g} % loss: {goodput_mbit:.2f} Mbit/s)"
    )
