"""List pinned sources, the places that have them, and their fallbacks."""

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
from losslab.instrument import image, imagebuild, kernel, kernels, kernelsource, quarto
from losslab.instrument.archive import (
    ARCHIVE_PLACE,
    CHECK_TIMEOUT_S,
    SNAPSHOT_PLACE,
    SOURCES,
    Fetcher,
    Place,
    UnavailableError,
)
from losslab.instrument.debian import AT_ONCE, debian_archives, debian_places
from losslab.repository import ROOT

PYTHON_LOCKS = (ROOT / "requirements-build.lock", ROOT / "requirements.lock")
GIT_TIMEOUT_S = 20.0  # for 5 MB
PIP_TIMEOUT_S = 60.0
NOT_BUILT = "not built here"
SHOWN = 3


@dataclass(frozen=True)
class Pin:
    """Pinned source, one line of the list."""

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
    """List the pins and where their files came from; with `check`, query the servers instead."""
    fetcher = Fetcher(CHECK_TIMEOUT_S) if check else None
    declared = kernels.declared().values()
    series = {kernel.series.name: kernel for kernel in reversed(declared) if not kernel.fetched}
    return [
        *(_kernel(series[name], fetcher) for name in reversed(series)),
        *(_patch(spec, patch, check) for spec in declared for patch in spec.fetched),
        *(_image(name, fetcher) for name in image.names()),
        _containernet(check),
        _quarto(fetcher),
        _python(check),
    ]


def _kernel(spec: kernels.Kernel, fetcher: Fetcher | None) -> Pin:
    pins = kernelsource.pins(spec.series)
    otherwise = "snapshot.debian.org by sha1, " + (
        f"then kernel.org's tarball {Path(pins.kernel_org_path).name} by sha256"
        if pins.kernel_org_sha256
        else "then refused: no hash of kernel.org's tarball is pinned"
    )
    name = "kernel source"
    if spec != kernels.default():
        name += f" {spec.name}"
    pinned = f"Linux {pins.version}, Debian's"
    if fetcher is None:
        return Pin(name, pinned, _built(kernel.existing(spec), kernel.provenance), otherwise)
    places = [place for _, place in kernelsource.candidates(pins, debian_archives())]
    if not pins.kernel_org_sha256:
        places.append(kernelsource.kernel_org_place(pins.kernel_org_path))
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


def _patch(spec: kernels.Kernel, patch: kernels.PublicPatch, check: bool) -> Pin:
    otherwise = f"any copy of it that {patch.variable} names, by the same sha256"
    built = kernel.existing(spec) is not None
    found, lost = f"in the kernel {spec.name}" if built else NOT_BUILT, False
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
    missing = _not_at(fetcher, places, ARCHIVE_PLACE)
    found = f"archive has {len(places) - len(missing)} of {len(places)}"
    # If nothing is missing, check only one file to see whether the snapshot archive answers.
    _, problem = fetcher.has([p for p in places[0] if p.name == SNAPSHOT_PLACE])
    if not missing:
        return Pin(f"{name} image", pinned, f"{found}, snapshot {problem or 'answers'}", otherwise)
    lost = _not_at(fetcher, missing, SNAPSHOT_PLACE)
    found += f", snapshot {len(missing) - len(lost)} of the other {len(missing)}"
    if lost:
        found += f", nowhere: {_first([Path(those[0].url).name for those in lost])} ({problem})"
    return Pin(f"{name} image", pinned, found, otherwise, lost=bool(lost))


def _not_at(fetcher: Fetcher, files: Sequence[Sequence[Place]], kind: str) -> list[Sequence[Place]]:
    """List the files, each given by its places, that no place of a kind has."""

    def has(places: Sequence[Place]) -> bool:
        return fetcher.has([place for place in places if place.name == kind])[0] is not None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [
            places for places, here in zip(files, pool.map(has, files), strict=True) if not here
        ]


def _first(names: Sequence[str]) -> str:
    return ", ".join([*names[:SHOWN], *(["..."] if len(names) > SHOWN else [])])


def _built(folder: Path | None, provenance: Callable[[Path], dict[str, object]]) -> str:
    """Describe the origin of a build's files, from `archive.write_sources`."""
    if folder is None:
        return NOT_BUILT
    sources = folder / SOURCES
    rows = sources.read_text().splitlines() if sources.exists() else []
    places = Counter(row.split("\t")[1] for row in rows)
    found = ", ".join(f"{count} from the {place}" for place, count in sorted(places.items()))
    unpinned = "" if provenance(folder)["pinned"] else "UNPINNED: "
    return f"{unpinned}found {found}"


def _containernet(check: bool) -> Pin:
    commit, url = image.containernet()["commit"], imagebuild.containernet_source()
    otherwise = f"any copy of the repository that {imagebuild.SOURCE} names, by the same commit"
    problem, found = "", "in the engine image" if image.existing(image.ENGINE) else NOT_BUILT
    if check:
        problem = _fetch_commit(url, commit)
        found = f"{url}: {problem or 'has it'}"
    return Pin("Containernet", f"commit {commit[:12]}", found, otherwise, bool(problem))


def _fetch_commit(url: str, commit: str) -> str:
    """Fetch only a commit from a repository; return the problem, or an empty string."""
    with tempfile.TemporaryDirectory(prefix="losslab-commit-") as name:
        fetch = ["fetch", "--quiet", "--depth", "1", "--filter", "tree:0", url, commit]
        done = processes.attempt(["git", "init", "--quiet", name])
        if done.good:
            more = {"GIT_TERMINAL_PROMPT": "0"}
            done = processes.attempt(["git", "-C", name, *fetch], limit_s=GIT_TIMEOUT_S, more=more)
    return "" if done.good else done.last_line.removeprefix("fatal: ")


def _quarto(fetcher: Fetcher | None) -> Pin:
    release = quarto.pinned()
    otherwise = "a Quarto on PATH, or knitr, pandoc and typst"
    if release is None:
        return Pin("Quarto", "no release for this machine", NOT_BUILT, otherwise)
    found = "installed" if release.program.is_file() else NOT_BUILT
    if fetcher:
        place, problem = fetcher.has([release.place])
        found = f"{release.place.name} {'has it' if place else problem}"
    return Pin("Quarto", release.version, found, otherwise)


def locked_requirements(path: Path) -> list[Requirement]:
    """List a Python lock's packages; refuse one without an exact version or a hash."""
    text = path.read_text().replace("\\\n", " ")
    found = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        pin, *hashes = line.split(" --hash=")
        exact = re.match(r"[A-Za-z0-9._-]+==[^\s;*]+\s*(;|$)", pin)
        if not exact or not hashes or not all(h.startswith("sha256:") for h in hashes):
            raise LosslabError(
                f"{path.name} must pin each package to a version with sha256 hashes, found {pin}",
                hint="regenerate it with `make relock`",
            )
        found.append(Requirement(pin.strip()))
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
        found += f", other versions: {_first(other)}"
    problem = ""
    if check:
        problem = _pip_problem()
        found += f", pip {problem or 'can install the rest' if missing or other else 'needs none'}"
    otherwise = "any index or folder that pip uses (PIP_INDEX_URL, PIP_FIND_LINKS), by sha256"
    return Pin("Python", f"{len(here)} packages", found, otherwise, bool(problem))


def _pip_problem() -> str:
    """Dry-run pip for missing packages of the locks; return the problem, or an empty string."""
    command = [
        sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--no-deps",
        "--disable-pip-version-check", "--retries", "0", "--timeout", str(CHECK_TIMEOUT_S),
        "--require-hashes", *(f"--requirement={path}" for path in PYTHON_LOCKS),
    ]  # fmt: skip
    done = processes.attempt(command, limit_s=PIP_TIMEOUT_S)
    return "" if done.good else done.last_line
