"""List every pin: where it was found, and what would be used if that place no longer had it."""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument import engine, image, kernel, kernels, kernelsource
from losslab.instrument.archive import (
    ARCHIVE_PLACE,
    CHECK_TIMEOUT_S,
    SNAPSHOT_PLACE,
    Fetcher,
    Place,
    UnavailableError,
    debian_archives,
    debian_places,
    kernel_org_place,
    read_sources,
)
from losslab.instrument.cache import ROOT
from losslab.instrument.repository import AT_ONCE

PYTHON_LOCKS = (ROOT / "requirements-build.lock", ROOT / "requirements.lock")
GIT_TIMEOUT_S = 20.0  # five megabytes
PIP_TIMEOUT_S = 60.0
NOT_BUILT = "not built"


@dataclass(frozen=True)
class Pin:
    """One line: a pinned thing."""

    name: str
    pinned: str
    found: str
    otherwise: str
    lost: bool = False

    def line(self) -> str:
        """Format for a terminal."""
        verdict = "LOST  " if self.lost else ""
        return f"{verdict}{self.name}: {self.pinned}; {self.found}; else {self.otherwise}"


def examine(check: bool = False) -> list[Pin]:
    """List the pins.

    Args:
        check: Ask the servers what they have now, instead of saying where the files were found when
            kernel and images were built.
    """
    fetcher = Fetcher(CHECK_TIMEOUT_S)
    known = kernels.known().values()
    series = {kernel.series.name: kernel for kernel in reversed(known) if not kernel.fetched}
    return [
        *(_kernel(series[name], fetcher if check else None) for name in reversed(series)),
        *(_patch(which, patch, check) for which in known for patch in which.fetched),
        *(_image(name, fetcher if check else None) for name in image.names()),
        _containernet(check),
        _python(check),
    ]


def _kernel(which: kernels.Kernel, fetcher: Fetcher | None) -> Pin:
    pins = kernelsource.pins(which.series)
    otherwise = "snapshot.debian.org by sha1, " + (
        f"then kernel.org's tarball {Path(pins.kernel_org_path).name} by sha256"
        if pins.kernel_org_sha256
        else "then refused: no hash of kernel.org's tarball is pinned"
    )
    name = "kernel source"
    if which != kernels.default():
        name += f" {which.name}"
    pinned = f"Linux {pins.version}, Debian's"
    if fetcher is None:
        return Pin(name, pinned, _built(kernel.existing(which=which), kernel.provenance), otherwise)
    places = [place for _, place in kernelsource.candidates(pins, debian_archives())]
    if not pins.kernel_org_sha256:
        places.append(kernel_org_place(pins.kernel_org_path))
    answers = {
        kind: fetcher.has([place for place in places if place.name == kind])
        for kind in dict.fromkeys(place.name for place in places)
    }
    usable = [
        place
        for place, _ in answers.values()
        if place and (pins.kernel_org_sha256 or place.name in (ARCHIVE_PLACE, SNAPSHOT_PLACE))
    ]
    found = ", ".join(
        f"{kind} {'has it' if place else problem}" for kind, (place, problem) in answers.items()
    )
    return Pin(name, pinned, found, otherwise, lost=not usable)


def _patch(which: kernels.Kernel, patch: kernels.Fetched, check: bool) -> Pin:
    """Say of a public patch whether it is here."""
    otherwise = f"any copy of it that {patch.variable} names, by the same sha256"
    built = kernel.existing(which=which) is not None
    found, lost = f"in the kernel {which.name}" if built else f"{NOT_BUILT} here", False
    if check:
        try:
            found = f"found {patch.get()}"
        except UnavailableError as error:
            found, lost = error.message.splitlines()[-1].strip(), not built
    return Pin(f"patch {patch.name}", f"sha256 {patch.sha256[:12]}", found, otherwise, lost)


def _image(name: str, fetcher: Fetcher | None) -> Pin:
    lock = image.lock(name)
    pinned = f"{len(lock.packages)} packages"
    otherwise = f"snapshot.debian.org as of {lock.instant}, then refused"
    if fetcher is None:
        found = _built(image.existing(name), image.provenance)
        return Pin(f"{name} image", pinned, found, otherwise)
    archives = debian_archives()
    places = [debian_places(p.path, archives, lock.instant) for p in lock.packages]
    here = _ask(fetcher, places, ARCHIVE_PLACE)
    missing = [those for those, has in zip(places, here, strict=True) if not has]
    found = f"archive has {len(places) - len(missing)} of {len(places)}"
    # Where nothing is missing one file tells whether the snapshot archive answers.
    _, problem = fetcher.has([p for p in places[0] if p.name == SNAPSHOT_PLACE])
    lost = 0
    if missing:
        there = _ask(fetcher, missing, SNAPSHOT_PLACE)
        lost = there.count(False)
        found += f", snapshot {there.count(True)} of the other {len(missing)}"
        if lost:
            names = [
                Path(those[0].url).name
                for those, has in zip(missing, there, strict=True)
                if not has
            ]
            found += f", nowhere: {', '.join(names[:3])}{', ...' if lost > 3 else ''} ({problem})"
    else:
        found += f", snapshot {problem or 'answers'}"
    return Pin(f"{name} image", pinned, found, otherwise, lost=lost > 0)


def _ask(fetcher: Fetcher, files: Sequence[Sequence[Place]], kind: str) -> list[bool]:
    def has(places: Sequence[Place]) -> bool:
        return fetcher.has([place for place in places if place.name == kind])[0] is not None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(has, files))


def _built(folder: Path | None, provenance: Callable[[Path], dict[str, object]]) -> str:
    """Say where the files of what is built were found."""
    if folder is None:
        return f"{NOT_BUILT} here"
    places = Counter(source["place"] for source in read_sources(folder / "sources.tsv"))
    found = ", ".join(f"{count} from the {place}" for place, count in sorted(places.items()))
    unpinned = "" if provenance(folder)["pinned"] else "UNPINNED: "
    return f"{unpinned}found {found}"


def _containernet(check: bool) -> Pin:
    commit, url = engine.containernet()["commit"], engine.containernet_source()
    otherwise = f"any copy of the repository that {engine.SOURCE} names, by the same commit"
    built = image.existing(image.ENGINE)
    found, lost = ("in the engine image" if built else f"{NOT_BUILT} here"), False
    if check:
        problem = _fetch_commit(url, commit)
        found = f"{url}: {problem or 'has it'}"
        lost = bool(problem)
    return Pin("Containernet", f"commit {commit[:12]}", found, otherwise, lost)


def _fetch_commit(url: str, commit: str) -> str:
    """Ask a repository for a commit alone; return what went wrong, or nothing."""
    with tempfile.TemporaryDirectory(prefix="losslab-commit-") as name:
        fetch = ["fetch", "--quiet", "--depth", "1", "--filter", "tree:0", url, commit]
        done = processes.attempt(["git", "init", "--quiet", name])
        if done.good:
            more = {"GIT_TERMINAL_PROMPT": "0"}
            done = processes.attempt(["git", "-C", name, *fetch], limit_s=GIT_TIMEOUT_S, more=more)
    return "" if done.good else done.last_line.removeprefix("fatal: ")


def locked_requirements(path: Path) -> list[Requirement]:
    """List the packages of a Python lock, each with its one version and its marker.

    Raises:
        LosslabError: a package has no exact version, or no hash.
    """
    text = path.read_text().replace("\\\n", " ")
    found = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        words, *hashes = line.split(" --hash=")
        exact = re.match(r"[A-Za-z0-9._-]+==[^\s;*]+\s*(;|$)", words)
        if not exact or not hashes or not all(h.startswith("sha256:") for h in hashes):
            raise LosslabError(
                f"{path.name} must pin each package to a version with sha256 hashes, found {words}",
                hint="make it anew with `make relock`",
            )
        found.append(Requirement(words.strip()))
    return found


def _python(check: bool) -> Pin:
    locked = [requirement for path in PYTHON_LOCKS for requirement in locked_requirements(path)]
    here = [r for r in locked if r.marker is None or r.marker.evaluate()]
    other = []
    missing = 0
    for requirement in here:
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            missing += 1
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            other.append(f"{requirement.name} {version}")
    found = f"{len(here) - len(other) - missing} of {len(here)} installed as locked"
    if other:
        found += f", other versions: {', '.join(other[:3])}{', ...' if len(other) > 3 else ''}"
    lost = False
    if check:
        problem = _pip_problem()
        found += f", pip {problem or 'can have the rest' if missing or other else 'needs none'}"
        lost = bool(problem)
    otherwise = "any index or folder that pip is told of (PIP_INDEX_URL, PIP_FIND_LINKS), by sha256"
    return Pin("Python", f"{len(here)} packages", found, otherwise, lost)


def _pip_problem() -> str:
    """Ask pip whether it can have what of the lock is not installed; return why it cannot."""
    command = [
        sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--no-deps",
        "--disable-pip-version-check", "--retries", "0", "--timeout", str(CHECK_TIMEOUT_S),
        "--require-hashes", *(f"--requirement={path}" for path in PYTHON_LOCKS),
    ]  # fmt: skip
    done = processes.attempt(command, limit_s=PIP_TIMEOUT_S)
    return "" if done.good else done.last_line
