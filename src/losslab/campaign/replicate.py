"""Run one replicate on a backend and leave a whole folder: manifest, tables and raw files."""

from __future__ import annotations

import functools
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from losslab import __version__, processes
from losslab.backends import runner
from losslab.backends.base import CONSOLE_FILE, Instrument, Job, Outcome
from losslab.backends.known import BACKENDS
from losslab.backends.template import Templates
from losslab.campaign import fingerprint, inputs, integrity
from losslab.campaign.folder import (
    FORMAT,
    HOST_FILE,
    MANIFEST_FILE,
    PARTIAL,
    refuse_full,
    whole_folder,
    write_json,
)
from losslab.emulation.apps.command import BROUGHT
from losslab.errors import GuestLostError, HostError, LosslabError
from losslab.instrument import integrity as instrument_integrity
from losslab.instrument.archive import digest
from losslab.lock import own_folder
from losslab.study.condition import Condition
from losslab.study.metrics import undeclared

# A guest needs up to 5 s of wall time per second of a 1 Gbit/s flow on a slow, busy host; ten
# times that tells a hung guest from a slow one.
WATCHDOG_S_PER_VIRTUAL_S = 50.0
# A lost guest may be the host's doing, so it gets a second chance; a failed check would fail again,
# because the same seed gives the same bytes.
ATTEMPTS = 2
# How often a cell's replicates look at an image's files: 8,000 of them take 15 to 30 ms.
CHECK_EVERY_S = 2.0


def run(
    condition: Condition,
    seed: int,
    out: Path,
    instrument: Instrument,
    video: Path | None = None,
    timeout_s: float | None = None,
    attempts: int = ATTEMPTS,
    templates: Templates | None = None,
    alone: bool = False,
    captures: Sequence[str] = (),
) -> dict[str, Any]:
    """Measure one replicate into folder `out`, which appears only when it is whole.

    A failed check gives an invalid replicate with the reasons. So does a guest that is lost, after
    `attempts` tries, but it is marked `lost`: nothing is known of what it was to measure. What
    became of earlier tries stands in host.json.

    `video`: the stream that the ffmpeg app sends; `timeout_s`: the limit of wall time, of this
    condition and backend by default; `templates`: where a guest waits for this cell's next
    replicate; `alone`: in a guest that is booted for it, as `base.Job`; `captures`: interfaces of
    which every packet goes into a file. The bytes are the same but for the captures. Returns the
    manifest. Raises HostError if the host or the instrument failed; `out` is as it was.
    """
    manifest = {
        "backend": instrument.backend,
        "cell": condition.to_json(),
        "seed": seed,
        "instrument": instrument.provenance,
        "fingerprint": fingerprint.of(condition, instrument.backend, instrument.where).to_json(),
        "trace_sha256": inputs.trace_digests(condition),
        "video_sha256": None if video is None else digest(video),
        "summary": {},
    }
    manifest |= {"brought_sha256": found} if (found := inputs.digests(condition)) else {}
    manifest |= {"captures": list(captures)} if captures else {}
    backend = BACKENDS[instrument.backend, instrument.where]
    limit_s = timeout_s or (backend.needs.start_s + WATCHDOG_S_PER_VIRTUAL_S * condition.duration_s)

    def measure(folder: Path) -> Outcome:
        _require_unchanged(instrument, CHECK_EVERY_S)
        what = _furnish(folder, condition, seed, video, captures)
        job = Job(what, folder, seed, limit_s, alone=alone, templates=templates)
        return runner.run(backend, instrument, job)

    earlier_reasons: list[str] = []
    while True:
        last = len(earlier_reasons) + 1 >= attempts
        try:
            return _attempt(manifest, measure, out, instrument, earlier_reasons, last)
        except GuestLostError as error:
            earlier_reasons.append(str(error))


def _attempt(
    about: Mapping[str, Any],
    measure: Callable[[Path], Outcome],
    out: Path,
    instrument: Instrument,
    earlier_reasons: list[str],
    last: bool,
) -> dict[str, Any]:
    """Run the replicate's job and write its folder; only a last attempt may be lost."""
    started, manifest, wall_s = datetime.now(UTC), dict(about), None
    with whole_folder(out) as folder, own_folder(out.parent, PARTIAL) as job_folder:
        try:
            outcome = measure(job_folder)
            reasons = [*outcome.result["reasons"], *undeclared(outcome.result["summary"])]
            kept = ("plan", "summary", "observed", "machine")
            manifest |= {key: outcome.result[key] for key in kept}
            wall_s = outcome.wall_s
        except LosslabError as error:
            # A full disk or a damaged instrument is the host's failure.
            refuse_full(out.parent, error)
            _require_unchanged(instrument)
            lost = isinstance(error, GuestLostError)
            if isinstance(error, HostError) or (lost and not last):
                raise
            manifest |= {"lost": True} if lost else {}
            reasons = [str(error)]
        if (job_folder / "raw").is_dir():
            reasons = [*reasons, *_take_raw_files(job_folder / "raw", folder)]
        manifest |= {"valid": not reasons, "reasons": reasons}
        if reasons and (job_folder / CONSOLE_FILE).exists():
            shutil.move(job_folder / CONSOLE_FILE, folder / CONSOLE_FILE)
        write_json(manifest | integrity.listed(folder), folder / MANIFEST_FILE)
        about_host = host(started, wall_s, earlier_reasons, instrument.kernel_sha256)
        write_json(integrity.sealed(about_host, folder), folder / HOST_FILE)
    return manifest


def _take_raw_files(raw: Path, folder: Path) -> list[str]:
    """Move a job's files into its replicate's folder; return what must not be there.

    Programs of a cell may leave anything; a link could name any file of the host.
    """
    for path in sorted(raw.rglob("*")):
        target = folder / path.relative_to(raw)
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            return [f"raw files must be regular files, found {path.relative_to(raw)}"]
        if path.is_dir():
            target.mkdir()
        else:
            shutil.move(path, target)
    return []


def _furnish(
    folder: Path, condition: Condition, seed: int, video: Path | None, captures: Sequence[str]
) -> dict[str, Any]:
    """Give a job's folder the files that it needs; return what the job is to do."""
    if video is not None:
        # A copy: the guest may write to its job's folder.
        shutil.copyfile(video, folder / "video.mp4")
    for name, text in inputs.trace_texts(condition).items():
        (folder / name).write_text(text)
    inputs.give(condition, folder, BROUGHT)
    what = {
        "kind": "replicate",
        "condition": condition.to_json(),
        "seed": seed,
        "video": video is not None,
    }
    return what | ({"captures": list(captures)} if captures else {})


def _require_unchanged(instrument: Instrument, recent_s: float = 0.0) -> None:
    """Refuse a kernel or an image that is not what was built, with the files that differ."""
    needs = BACKENDS[instrument.backend, instrument.where].needs
    linux = instrument.kernel if needs.kernel else None
    instrument_integrity.require(linux, instrument.image_roots, recent_s=recent_s)


def host(
    started: datetime,
    wall_s: float | None,
    earlier_reasons: list[str],
    kernel_sha256: str | None,
) -> dict[str, Any]:
    """Describe what varies from run to run: host, clock, attempt, kernel binary and commit."""
    return {
        "started_utc": started.isoformat(timespec="seconds"),
        "wall_s": wall_s,
        "attempt": 1 + len(earlier_reasons),
        "earlier_reasons": earlier_reasons,
        "host_kernel": platform.release(),
        "host_cpu": _cpu_model(),
        # Not in the manifest: another compiler gives another binary and the same results.
        "kernel_sha256": kernel_sha256,
        "losslab": __version__,
        "format": FORMAT,
        "git": git_state(Path(__file__).parent),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


@functools.cache
def git_state(folder: Path) -> dict[str, Any]:
    """Return the commit and whether tracked files differ from it; nulls outside a checkout.

    Asked once a process, whose code stays what it is: a cell has many replicates.
    """

    def git(*words: str) -> str | None:
        done = processes.attempt(["git", "-C", folder, *words])
        return done.out.strip() if done.good else None

    status = git("status", "--porcelain", "--untracked-files=no")
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if status is None else bool(status)}
