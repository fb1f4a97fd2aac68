"""Measurement of one replicate, which writes a folder with manifest, tables and raw files."""

from __future__ import annotations

import functools
import platform
import re
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from losslab import processes
from losslab.backends import kernelmessages, runner
from losslab.backends.base import CONSOLE_FILE, GUEST, Backend, Instrument, Job, Outcome
from losslab.backends.registry import BACKENDS
from losslab.backends.snapshot import Snapshots
from losslab.campaign import drawn, fingerprint, inputs, results
from losslab.campaign.bounds import above_links
from losslab.campaign.instrument import kernel_of, require_unchanged
from losslab.emulation import capture
from losslab.emulation.app import USER_FILES
from losslab.emulation.kernellog import BOOT_LOG
from losslab.errors import GuestLostError, HostError, LosslabError
from losslab.instrument import csource, kernelsource
from losslab.instrument.fetch import digest
from losslab.lock import own_folder
from losslab.repository import INSTALLED, ROOT
from losslab.study.condition import Condition
from losslab.study.metrics import declared, out_of_range, undeclared

# Timeout of a hung guest. A guest needs up to 5 s of wall time per second of a 1 Gbit/s flow on a
# slow, busy host; the limit is ten times as long.
WATCHDOG_S_PER_VIRTUAL_S = 50.0
# A lost guest is retried, because the host may be the cause. A violation is not retried, because
# the same seed gives the same bytes.
ATTEMPTS = 2
# Message of the guest's kernel during a run, such as by printk (`emulation.jobs.guest.replicate`).
MESSAGE = re.compile(r"^\[ *\d+\.\d{6}\] ", re.MULTILINE)


def run(
    condition: Condition,
    seed: int,
    out: Path,
    instrument: Instrument,
    video: Path | None = None,
    timeout_s: float | None = None,
    attempts: int = ATTEMPTS,
    snapshots: Snapshots | None = None,
    alone: bool = False,
    captures: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> dict[str, Any]:
    """Measure one replicate into folder `out`, which appears complete or not at all.

    A failed check makes the replicate invalid; the manifest, which is returned, lists the
    violations. A replicate whose guest is lost in all `attempts` is invalid, has no results, and is
    marked `lost`. host.json records earlier attempts. The limit of wall time is derived from
    condition and backend by default. A replicate forks from `snapshots`, or boots a guest `alone`.
    `captures` are those of `packets.links`; they change no byte of other files. host.json keeps
    `left_out`, what the source of the path has and the condition lacks. Raises HostError if
    the host or the instrument failed; `out` is unchanged.
    """
    declared()  # a user's app with a wrong declaration is refused before its run
    manifest = inputs_of(condition, seed, instrument, video, captures)
    backend = BACKENDS[instrument.backend, instrument.where]
    limit_s = timeout_s or limit_of(backend, condition)

    def measure(folder: Path) -> Outcome:
        require_unchanged(instrument)
        task = prepare(folder, condition, seed, video, captures, instrument.kernel)
        drawn.give(condition, seed, instrument.image_root, folder)
        job = Job(task, folder, seed, limit_s, alone=alone, snapshots=snapshots)
        outcome = runner.run(backend, instrument, job)
        drawn.keep(condition, seed, instrument.image_root, folder)
        return outcome

    earlier_violations: list[str] = []
    while True:
        last = len(earlier_violations) + 1 >= attempts
        try:
            return attempt(manifest, measure, out, instrument, earlier_violations, last, left_out)
        except GuestLostError as error:
            earlier_violations.append(str(error))


def limit_of(backend: Backend, condition: Condition) -> float:
    """Return the limit of wall time for a replicate, in s."""
    return backend.needs.start_s + WATCHDOG_S_PER_VIRTUAL_S * float(condition.duration_s)


def inputs_of(
    condition: Condition,
    seed: int,
    instrument: Instrument,
    video: Path | None,
    captures: Sequence[str],
) -> dict[str, Any]:
    """Return the entries of a manifest that do not depend on the results; arguments as of `run`."""
    entries = {
        "backend": instrument.backend,
        "cell": condition.to_json(),
        "seed": seed,
        "instrument": instrument.provenance,
        "fingerprint": fingerprint.of(condition, instrument.backend, instrument.where).to_json(),
        "trace_sha256": inputs.trace_digests(condition),
        "video_sha256": None if video is None else digest(video),
        "summary": {},
    }
    if digests := inputs.digests(condition):
        entries["brought_sha256"] = digests
    if captures:
        entries["captures"] = list(captures)
    return entries


def attempt(
    inputs_of_run: dict[str, Any],
    measure: Callable[[Path], Outcome],
    out: Path,
    instrument: Instrument,
    earlier_violations: list[str],
    last: bool,
    left_out: Sequence[str] = (),
) -> dict[str, Any]:
    """Run the replicate's job and write its folder; raise GuestLostError except in the last.

    `measure` runs the job in a folder. It may change `inputs_of_run` before it returns.
    """
    started, manifest, wall_s, cpu_s = datetime.now(UTC), dict[str, Any](), None, None
    warned: list[str] = []
    modules = _modules(Condition.from_json(inputs_of_run["cell"]), instrument.where)
    printed = functools.partial(csource.printed, modules=modules)
    with results.whole_folder(out) as folder, own_folder(out.parent, results.PARTIAL) as job_folder:
        try:
            outcome = measure(job_folder)
            summary = outcome.result["summary"]
            warned = kernelmessages.violations(
                outcome.result.get("messages"), _console(job_folder), printed
            )
            violations = [
                *outcome.result["reasons"],
                *undeclared(summary),
                *out_of_range(summary),
                *above_links(summary, Condition.from_json(inputs_of_run["cell"])),
                *warned,
            ]
            kept = ("plan", "summary", "observed", "machine")
            manifest |= {key: outcome.result[key] for key in kept}
            wall_s, cpu_s = outcome.wall_s, outcome.cpu_s
        except LosslabError as error:
            # A full disk or a damaged instrument is the host's failure.
            results.refuse_full(out.parent, error)
            require_unchanged(instrument, again=True)
            lost = isinstance(error, GuestLostError)
            if isinstance(error, HostError) or (lost and not last):
                raise
            manifest |= {"lost": True} if lost else {}
            violations = [str(error)]
        if (job_folder / "raw").is_dir():
            violations = [*violations, *_take_raw_files(job_folder / "raw", folder)]
        for name, text in inputs.kept_traces(inputs_of_run["cell"]).items():
            (folder / name).write_text(text)
        inputs.kept_files(inputs_of_run["cell"], folder)
        if sources := kept_algorithms(Condition.from_json(inputs_of_run["cell"]), instrument.where):
            results.write_json(sources, folder / results.ALGORITHMS_FILE)
        manifest = inputs_of_run | manifest | {"valid": not violations, "reasons": violations}
        # A warning may be of the boot, of which a console has what a module printed otherwise.
        console = _of_boot(job_folder, list if warned else printed) + _console(job_folder)
        if console and (violations or MESSAGE.search(console)):
            (folder / CONSOLE_FILE).write_text(console)
        of_host = host(started, wall_s, cpu_s, earlier_violations, instrument.kernel_sha256)
        if left_out:
            of_host[results.LEFT_OUT] = [*left_out]
        results.seal(folder, manifest, of_host)
    return manifest


def kept_algorithms(condition: Condition, where: str) -> dict[str, dict[str, str]]:
    """Return the files of the algorithms that are compiled into a condition's kernel, by name.

    They are kept with a run, so that it can be repeated elsewhere (`losslab new algorithm --from`).
    """
    return {
        path.parent.name: {
            str(file.relative_to(path.parent)): file.read_bytes().decode(errors="surrogateescape")
            for file in csource.files(path).values()
            if file != csource.COMPAT
        }
        for path in _modules(condition, where)
    }


def _modules(condition: Condition, where: str) -> tuple[Path, ...]:
    """Return the files of the algorithms that are compiled into a condition's kernel."""
    return kernel_of(condition).algorithms if where == GUEST else ()


def _console(job_folder: Path) -> str:
    """Return a job's console; empty if there is none."""
    path = job_folder / CONSOLE_FILE
    return path.read_text(errors="replace") if path.exists() else ""


def _of_boot(job_folder: Path, printed: Callable[[Sequence[str]], list[str]]) -> str:
    """Return what was printed before the run, such as by the user's modules when they began."""
    path = job_folder / BOOT_LOG
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return "".join(f"{line}\n" for line in printed(lines))


def _take_raw_files(raw: Path, folder: Path) -> list[str]:
    """Move a job's files to its replicate's folder; return the violations.

    Programs of a cell can create any kind of file, and a link could point to any file of the host.
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


def prepare(
    folder: Path,
    condition: Condition,
    seed: int,
    video: Path | None,
    captures: Sequence[str],
    kernel: Path,
) -> dict[str, Any]:
    """Write a job's input files to its folder; return the job's task."""
    if video is not None:
        # A copy: the guest may write to its job's folder.
        shutil.copyfile(video, folder / "video.mp4")
    for name, text in inputs.trace_texts(condition).items():
        (folder / name).write_text(text)
    inputs.give(condition, folder, USER_FILES)
    if capture.STATE in captures:
        (folder / capture.LAYOUTS).write_text(_layouts(condition, kernel))
    task = {
        "kind": "replicate",
        "condition": condition.to_json(),
        "seed": seed,
        "video": video is not None,
    }
    modules = [path.parent.name for path in kernel_of(condition).algorithms]
    task |= {"modules": modules} if modules else {}
    return task | ({"captures": list(captures)} if captures else {})


@functools.cache
def _layouts(condition: Condition, _kernel: Path) -> str:
    """Return the layouts of a kernel's algorithms; one with other sources is another file."""
    return csource.layouts_text(kernelsource.layouts(kernel_of(condition)))


def host(
    started: datetime,
    wall_s: float | None,
    cpu_s: float | None,
    earlier_violations: list[str],
    kernel_sha256: str | None,
) -> dict[str, Any]:
    """Return the properties that vary between runs: machine, time, attempts, kernel and commit."""
    rows = (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
    models = (text.strip() for name, _, text in rows if name.startswith("model name"))
    return {
        "started_utc": started.isoformat(timespec="seconds"),
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "attempt": 1 + len(earlier_violations),
        "earlier_reasons": earlier_violations,
        "host_kernel": platform.release(),
        "host_cpu": next(models, platform.machine()),
        # Not in the manifest: a different compiler gives a different binary with the same results.
        "kernel_sha256": kernel_sha256,
        **results.WRITTEN_BY,
        "git": git_state(ROOT) if not INSTALLED else {"commit": None, "dirty": None},
    }


@functools.cache
def git_state(folder: Path) -> dict[str, Any]:
    """Return the commit and whether tracked files differ from it; None outside a checkout.

    Recorded numbers do not count: they are written during a campaign, and measure nothing.
    The result is cached: a cell has many replicates, and a process does not reload its code.
    """

    def git(*arguments: str) -> str | None:
        done = processes.attempt(["git", "-C", folder, *arguments])
        return done.out.strip() if done.good else None

    status = git("status", "--porcelain", "--untracked-files=no", "--", ":(exclude,top)recorded")
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if status is None else bool(status)}
