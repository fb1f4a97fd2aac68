"""Run one replicate on a backend and leave a whole folder: manifest, tables and raw files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from losslab import __version__, traces
from losslab.backends import containernet, onhost, virtual
from losslab.condition import (
    DRAWN_TRACE,
    NO_TRACE,
    Condition,
    derived_seed,
    replicate_seed,
)
from losslab.errors import GuestLostError, LosslabError
from losslab.stopping import StoppingRule, primary_value

# A guest needs up to 5 s of wall time per second of a 1 Gbit/s flow on a slow, busy host; ten
# times that, and a minute to start, tell a hung guest from a slow one.
WATCHDOG_S_PER_VIRTUAL_S = 50.0
WATCHDOG_START_S = 60.0
# An engine and five containers start in 20 s; on a busy host that has taken a minute and a half.
WATCHDOG_CONTAINERS_S = 300.0
# A lost guest may be the host's doing, so it gets a second chance; a failed check would fail again,
# because the same seed gives the same bytes.
ATTEMPTS = 2

VIRTUAL, CONTAINERNET = "virtual", "containernet"
BACKENDS = (VIRTUAL, CONTAINERNET)

TRACES = Path(__file__).resolve().parents[2] / "config" / "traces"

# The one file of a replicate that differs between two runs with the same seed.
HOST_FILE = "host.json"


@dataclass(frozen=True)
class Instrument:
    """What a replicate is measured with: backend, kernel, images, and what they are."""

    kernel: Path
    image_root: Path
    provenance: dict[str, Any]
    backend: str = VIRTUAL
    # In a guest in virtual time, or on this machine's own kernel in real time.
    where: str = containernet.GUEST
    # Of the containernet backend.
    engine_root: Path | None = None


def default_timeout_s(condition: Condition, backend: str = VIRTUAL) -> float:
    """Return the wall-clock limit of a replicate."""
    start_s = WATCHDOG_START_S if backend == VIRTUAL else WATCHDOG_CONTAINERS_S
    return start_s + WATCHDOG_S_PER_VIRTUAL_S * condition.duration_s


@contextlib.contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Give a temporary folder beside `out` that becomes `out` when the block ends well."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{out.name}.partial-", dir=out.parent))
    except OSError as error:
        raise LosslabError(
            f"{out.parent} must be a folder with room that can be written to, found: {error}"
        ) from error
    try:
        partial.chmod(0o755)
        yield partial
        if out.exists():
            shutil.rmtree(out)
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def remove_partial(folder: Path) -> None:
    """Remove what a killed run left: only whole replicates count."""
    for leftover in (*folder.glob(".*.partial-*"), *folder.glob(".job-*")):
        shutil.rmtree(leftover, ignore_errors=True)


def run(
    condition: Condition,
    seed: int,
    out: Path,
    instrument: Instrument,
    video: Path | None = None,
    timeout_s: float | None = None,
    attempts: int = ATTEMPTS,
) -> dict[str, Any]:
    """Measure one replicate into folder `out`, which appears only when it is whole.

    A failed check gives an invalid replicate with the reasons. So does a guest that hangs or
    panics, after `attempts` tries; what became of the earlier ones stands in host.json.

    Returns:
        The manifest.

    Raises:
        LosslabError: the output could not be written.
    """
    earlier_reasons: list[str] = []
    for attempt in range(1, attempts + 1):
        try:
            return _attempt(
                condition, seed, out, instrument, video, timeout_s,
                earlier_reasons, last=attempt == attempts,
            )  # fmt: skip
        except GuestLostError as error:
            earlier_reasons.append(str(error))
    raise AssertionError("the last attempt leaves a manifest")


def _attempt(
    condition: Condition,
    seed: int,
    out: Path,
    instrument: Instrument,
    video: Path | None,
    timeout_s: float | None,
    earlier_reasons: list[str],
    last: bool,
) -> dict[str, Any]:
    """Boot a guest for the replicate and write its folder; only a last attempt may be lost."""
    started = datetime.now(UTC)
    trace = trace_text(condition, seed)
    with (
        whole_folder(out) as folder,
        tempfile.TemporaryDirectory(prefix=".job-", dir=out.parent) as job_name,
    ):
        job_folder = Path(job_name)
        manifest: dict[str, Any] = {
            "losslab": __version__,
            "backend": instrument.backend,
            "cell": condition.to_json(),
            "seed": seed,
            "instrument": instrument.provenance,
            "trace_sha256": digest(trace),
        }
        wall_s = None
        try:
            if video is not None:
                _link_or_copy(video, job_folder / "video.mp4")
            if trace is not None:
                (job_folder / "trace").write_text(trace)
            outcome = _launch(
                instrument,
                {
                    "kind": "replicate",
                    "condition": condition.to_json(),
                    "seed": seed,
                    "video": video is not None,
                    "trace": trace is not None,
                },
                job_folder,
                seed,
                timeout_s or default_timeout_s(condition, instrument.backend),
            )
            reasons = outcome.result["reasons"] + virtual.console_reasons(outcome.console)
            manifest |= {
                "summary": outcome.result["summary"],
                "observed": outcome.result["observed"],
                "machine": outcome.result["machine"],
            }
            wall_s = outcome.wall_s
        except LosslabError as error:
            _refuse_full_disk(out.parent, error)
            if isinstance(error, GuestLostError) and not last:
                raise
            reasons = [str(error)]
            manifest["summary"] = {}
        manifest |= {"valid": not reasons, "reasons": reasons}
        try:
            if (job_folder / "raw").is_dir():
                for file in sorted((job_folder / "raw").iterdir()):
                    shutil.move(file, folder / file.name)
            if reasons and (job_folder / "console.log").exists():
                shutil.move(job_folder / "console.log", folder / "console.log")
            write_json(manifest, folder / "manifest.json")
            write_json(_host(started, wall_s, earlier_reasons), folder / HOST_FILE)
        except OSError as error:
            raise LosslabError(
                f"the replicate's files must fit into {out.parent}, found: {error}",
                hint="free room there and start again; finished replicates are kept",
            ) from error
    return manifest


def _launch(
    instrument: Instrument, job: dict[str, Any], job_folder: Path, seed: int, timeout_s: float
) -> virtual.Outcome:
    """Run a job on the instrument's backend."""
    if instrument.backend == VIRTUAL:
        if instrument.where == containernet.HOST:
            return onhost.run(instrument.image_root, job, job_folder, timeout_s)
        return virtual.boot(
            instrument.kernel, instrument.image_root, job, job_folder, seed, timeout_s
        )
    assert instrument.engine_root is not None
    tag = instrument.provenance["image"]["hash"]
    images = containernet.Images(instrument.engine_root, instrument.image_root, tag)
    if instrument.where == containernet.HOST:
        return containernet.run_on_host(images, job, job_folder, timeout_s)
    return containernet.run_in_guest(instrument.kernel, images, job, job_folder, seed, timeout_s)


def trace_text(condition: Condition, seed: int) -> str | None:
    """Return the trace that a replicate's link follows; None where it has none.

    Raises:
        LosslabError: the file is not there, or is no trace.
    """
    if condition.trace == NO_TRACE:
        return None
    if condition.trace == DRAWN_TRACE:
        return traces.write(traces.generate(derived_seed(seed, "trace")))
    path = TRACES / condition.trace
    if not path.is_file():
        raise LosslabError(
            f"trace {condition.trace} must be a file in {TRACES}, found none",
            hint=f"put it there, or use `{DRAWN_TRACE}`, which is drawn for each replicate",
        )
    text = path.read_text()
    traces.parse(text, str(path))
    return text


def digest(text: str | None) -> str | None:
    """Return a text's SHA-256 in hexadecimal digits."""
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()


def _refuse_full_disk(folder: Path, cause: LosslabError) -> None:
    """Turn a guest's failure on a full disk into that error instead of a measured row."""
    # Less than a replicate's raw files need.
    if shutil.disk_usage(folder).free < 4 * 2**20:
        raise LosslabError(
            f"{folder} must have room for a replicate's files, found it full",
            hint="free room there and start again; finished replicates are kept",
        ) from cause


def _link_or_copy(source: Path, target: Path) -> None:
    """Hard-link, or copy across file systems."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _host(started: datetime, wall_s: float | None, earlier_reasons: list[str]) -> dict[str, Any]:
    """Describe what varies from run to run: host, clock, attempt, commit."""
    return {
        "started_utc": started.isoformat(timespec="seconds"),
        "wall_s": wall_s,
        "attempt": 1 + len(earlier_reasons),
        "earlier_reasons": earlier_reasons,
        "host_kernel": platform.release(),
        "host_cpu": _cpu_model(),
        "git": git_state(Path(__file__).parent),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def git_state(folder: Path) -> dict[str, Any]:
    """Return the commit and whether tracked files differ from it; nulls outside a checkout."""

    def git(*words: str) -> str | None:
        command = ["git", "-C", str(folder), *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    status = git("status", "--porcelain", "--untracked-files=no")
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if status is None else bool(status)}


def write_json(data: Any, path: Path) -> None:
    """Write JSON with sorted keys, so that equal data are equal bytes."""
    path.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")


def run_cell(
    condition: Condition,
    folder: Path,
    rule: StoppingRule,
    instrument: Instrument,
    video: Path | None = None,
) -> int:
    """Measure a cell's replicates into `folder`, by number; keep those that are there.

    Returns:
        How many there are now.
    """
    remove_partial(folder)
    values: list[float] = []
    count = 0
    while not rule.enough(count, values):
        out, seed = folder / str(count), replicate_seed(condition, count)
        manifest = finished(out, condition, seed, instrument)
        if manifest is not None:
            verdict = "kept, measured before"
        else:
            manifest = run(condition, seed, out, instrument, video)
            verdict = (
                "; ".join(["INVALID", *manifest["reasons"]]) if manifest["reasons"] else "valid"
            )
        print(f"{out}: {verdict}", flush=True)
        value = primary_value(manifest["summary"])
        if manifest["valid"] and value is not None:
            values.append(value)
        count += 1
    return count


def cell_result(
    study: str, block: str, condition: Condition, folder: Path, replicates: int
) -> dict[str, Any]:
    """Sum up a cell's replicates, which lie in `folder` by number, for cell.json."""
    rows = []
    for number in range(replicates):
        manifest = json.loads((folder / str(number) / "manifest.json").read_text())
        host = json.loads((folder / str(number) / HOST_FILE).read_text())
        kept = ("seed", "valid", "reasons", "summary", "instrument")
        rows.append(
            {key: manifest[key] for key in kept}
            | {key: host[key] for key in ("attempt", "earlier_reasons")}
        )
    return {
        "study": study,
        "block": block,
        "cell": folder.name,
        "condition": condition.to_json(),
        "replicates": rows,
    }


def finished(
    out: Path, condition: Condition, seed: int, instrument: Instrument
) -> dict[str, Any] | None:
    """Return the manifest if `out` already holds exactly this replicate, by this instrument."""
    try:
        manifest: dict[str, Any] = json.loads((out / "manifest.json").read_text())
    except (OSError, json.JSONDecodeError):
        return None
    same = (
        manifest["cell"] == condition.to_json()
        and manifest["backend"] == instrument.backend
        and manifest["seed"] == seed
        and manifest["instrument"] == instrument.provenance
        and manifest["losslab"] == __version__
        and manifest.get("trace_sha256") == digest(trace_text(condition, seed))
    )
    return manifest if same else None
