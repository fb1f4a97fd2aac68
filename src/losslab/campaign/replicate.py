"""Run one replicate on a backend and leave a whole folder: manifest, tables and raw files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from losslab import __version__
from losslab.backends import containernet, onhost, virtual
from losslab.campaign import deciding, intact
from losslab.campaign.deciding import TRACES, VIRTUAL
from losslab.campaign.lock import own_folder
from losslab.emulation.link import traces
from losslab.errors import GuestLostError, HostError, LosslabError
from losslab.study.condition import DRAWN_TRACE, NO_TRACE, Condition

# A guest needs up to 5 s of wall time per second of a 1 Gbit/s flow on a slow, busy host; ten
# times that, and a minute to start, tell a hung guest from a slow one.
WATCHDOG_S_PER_VIRTUAL_S = 50.0
WATCHDOG_START_S = 60.0
# An engine and five containers start in 20 s; on a busy host that has taken a minute and a half.
WATCHDOG_CONTAINERS_S = 300.0
# A lost guest may be the host's doing, so it gets a second chance; a failed check would fail again,
# because the same seed gives the same bytes.
ATTEMPTS = 2
# Less than a replicate's raw files need.
ROOM_BYTES = 4 * 2**20

MANIFEST_FILE = "manifest.json"
# The one file of a replicate that differs between two runs with the same seed.
HOST_FILE = "host.json"
# Of folders that are not whole yet.
PARTIAL = ".losslab-"
KEPT = "free room there and start again; finished replicates are kept"


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
    """Give a temporary folder beside `out` that becomes `out` when the block ends well.

    Raises:
        HostError: it cannot be made or written to.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with own_folder(out.parent, PARTIAL) as partial:
            partial.chmod(0o755)
            yield partial
            if out.exists():
                shutil.rmtree(out)
            partial.rename(out)
    except OSError as error:
        raise HostError(
            f"{out.parent} must be a folder with room that can be written to, found: {error}",
            hint=KEPT,
        ) from error


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

    A failed check gives an invalid replicate with the reasons. So does a guest that is lost, after
    `attempts` tries, but it is marked `lost`: nothing is known of what it was to measure. What
    became of earlier tries stands in host.json.

    Returns:
        The manifest.

    Raises:
        HostError: the host or the instrument failed; `out` is as it was.
    """
    earlier_reasons: list[str] = []
    while True:
        last = len(earlier_reasons) + 1 >= attempts
        try:
            return _attempt(
                condition, seed, out, instrument, video, timeout_s, earlier_reasons, last
            )
        except GuestLostError as error:
            earlier_reasons.append(str(error))


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
    """Run the replicate's job and write its folder; only a last attempt may be lost."""
    started = datetime.now(UTC)
    trace = trace_text(condition)
    manifest = {
        "backend": instrument.backend,
        "cell": condition.to_json(),
        "seed": seed,
        "instrument": provenance(condition, instrument),
        "trace_sha256": digest(trace),
        "video_sha256": None if video is None else digest(video.read_bytes()),
        "summary": {},
    }
    wall_s = None
    with whole_folder(out) as folder, own_folder(out.parent, PARTIAL) as job_folder:
        try:
            outcome = _measure(condition, seed, job_folder, instrument, video, trace, timeout_s)
            reasons = outcome.result["reasons"] + virtual.console_reasons(outcome.console)
            manifest |= {
                key: outcome.result[key] for key in ("summary", "observed", "machine", "plan")
            }
            wall_s = outcome.wall_s
        except LosslabError as error:
            _refuse_host_failure(out.parent, instrument, error)
            lost = isinstance(error, GuestLostError)
            if isinstance(error, HostError) or (lost and not last):
                raise
            manifest |= {"lost": True} if lost else {}
            reasons = [str(error)]
        manifest |= {"valid": not reasons, "reasons": reasons}
        if (job_folder / "raw").is_dir():
            for file in sorted((job_folder / "raw").iterdir()):
                shutil.move(file, folder / file.name)
        if reasons and (job_folder / "console.log").exists():
            shutil.move(job_folder / "console.log", folder / "console.log")
        write_json(manifest, folder / MANIFEST_FILE)
        write_json(_host(started, wall_s, earlier_reasons), folder / HOST_FILE)
    return manifest


def provenance(condition: Condition, instrument: Instrument) -> dict[str, Any]:
    """Say what a cell is measured with: backend, kernel, images, and the code that it uses."""
    source = deciding.source_hash(condition, instrument.backend, instrument.where)
    return instrument.provenance | {"source": source}


def _measure(
    condition: Condition,
    seed: int,
    job_folder: Path,
    instrument: Instrument,
    video: Path | None,
    trace: str | None,
    timeout_s: float | None,
) -> virtual.Outcome:
    """Give a job what it needs, and run it."""
    image_roots = [instrument.image_root]
    image_roots += [instrument.engine_root] if instrument.engine_root else []
    of_machine = instrument.where == containernet.HOST
    intact.require(None if of_machine else instrument.kernel, image_roots)
    if video is not None:
        _link_or_copy(video, job_folder / "video.mp4")
    if trace is not None:
        (job_folder / "trace").write_text(trace)
    job = {
        "kind": "replicate",
        "condition": condition.to_json(),
        "seed": seed,
        "video": video is not None,
        "trace": trace is not None,
    }
    limit_s = timeout_s or default_timeout_s(condition, instrument.backend)
    return _launch(instrument, job, job_folder, seed, limit_s)


def _refuse_host_failure(folder: Path, instrument: Instrument, cause: LosslabError) -> None:
    """Turn a replicate's failure on a full disk or without an image into that error.

    Raises:
        HostError: the host or the instrument is why.
    """
    if shutil.disk_usage(folder).free < ROOM_BYTES:
        raise HostError(
            f"{folder} must have room for a replicate's files, found it full", hint=KEPT
        ) from cause
    intact.require_whole(instrument.image_root)
    if instrument.engine_root is not None:
        intact.require_whole(instrument.engine_root)


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


def trace_text(condition: Condition) -> str | None:
    """Return the trace that a replicate's link follows; None where none is a file.

    Raises:
        LosslabError: the file is not there, or is no trace.
    """
    if condition.trace in (NO_TRACE, DRAWN_TRACE):
        return None
    path = TRACES / condition.trace
    if not path.is_file():
        raise LosslabError(
            f"trace {condition.trace} must be a file in {TRACES}, found none",
            hint=f"put it there, or use `{DRAWN_TRACE}`, which is drawn for each replicate",
        )
    text = path.read_text()
    traces.parse(text, str(path))
    return text


def digest(content: str | bytes | None) -> str | None:
    """Return the SHA-256 of a text or of bytes in hexadecimal digits."""
    if content is None:
        return None
    octets = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(octets).hexdigest()


def _link_or_copy(source: Path, target: Path) -> None:
    """Hard-link, or copy across file systems."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _host(started: datetime, wall_s: float | None, earlier_reasons: list[str]) -> dict[str, Any]:
    """Describe what varies from run to run: host, clock, attempt, version and commit."""
    return {
        "started_utc": started.isoformat(timespec="seconds"),
        "wall_s": wall_s,
        "attempt": 1 + len(earlier_reasons),
        "earlier_reasons": earlier_reasons,
        "host_kernel": platform.release(),
        "host_cpu": _cpu_model(),
        "losslab": __version__,
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
