"""Build the images without Docker: Debian 13 and a list of packages by mmdebstrap, as a folder.

The host image is what an emulated host has; the engine image adds what runs it as containers, every
other (`containers/NAME/packages.txt`) programs of some cells. All are made of exactly the packages
of their `packages.lock`, whatever Debian's archive has today. As root this uses mmdebstrap's root
mode, as an ordinary user its unshare mode (needs newuidmap and a subuid range).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument import engine, integrity, packed, replacing, repository
from losslab.instrument.apt import Apt
from losslab.instrument.archive import Found, UnavailableError, debian_archives, write_sources
from losslab.instrument.cache import ROOT, building, cache_folder, hash_files, run_logged
from losslab.instrument.packages import Lock, make_lock, read_lock
from losslab.instrument.tidying import tidy

RECIPES = ROOT / "containers"
HOST, ENGINE = "host", "engine"
CONTAINERNET = "opt/containernet"  # in the engine image
SUITE = "trixie"
REPLACED = "replace.toml"
EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
FIXED_FILES = {
    "etc/apt/sources.list": f"deb http://deb.debian.org/debian {SUITE} main\n",
    "etc/resolv.conf": "",
    "etc/hostname": "losslab\n",
    # Names for the addresses of emulation.topology, which a test compares.
    "etc/hosts": (RECIPES / HOST / "hosts").read_text(),
}
MOUNT_POINTS = ("mnt/losslab", "mnt/out")
# Part of the hash: change it when this module builds something else from the same list.
LAYOUT = f"3 {SUITE} {' '.join(EXCLUDED)}"
# After an image's hash.
UNPINNED = "-unpinned"
INSTANT_FORMAT = "%Y%m%dT%H%M%SZ"  # of the snapshot archive


def names() -> list[str]:
    """Name the images that there are recipes of, the host's first."""
    found = {path.parent.name for path in RECIPES.glob("*/packages.txt")}
    return [HOST, *sorted(found - {HOST})]


def of_hosts() -> list[str]:
    """Name the images that emulated hosts may have."""
    return [name for name in names() if name != ENGINE]


def packages(name: str = HOST) -> list[str]:
    """List an image's packages; all others have the host image's, too."""
    lines = (RECIPES / name / "packages.txt").read_text().splitlines()
    own = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return own if name == HOST else packages(HOST) + own


def lock(name: str = HOST) -> Lock:
    """Return the packages that an image is made of."""
    return read_lock(RECIPES / name / "packages.lock")


def recipe(name: str = HOST) -> list[Path]:
    """List the files that decide what is built."""
    own = [RECIPES / name / file for file in ("packages.txt", "packages.lock")]
    own += [_init(name), RECIPES / HOST / "hosts"]
    own += [RECIPES / name / "source.toml"] if name == ENGINE else []
    own += [path] if (path := RECIPES / name / REPLACED).is_file() else []
    return own if name == HOST else [*own, RECIPES / HOST / "packages.txt"]


def _init(name: str) -> Path:
    """Return the first program of an image's guest."""
    return RECIPES / (ENGINE if name == ENGINE else HOST) / "init"


def content_hash(name: str = HOST, locked: Lock | None = None) -> str:
    """Hash everything that decides what is built, from the image's own lock or another."""
    texts = [LAYOUT, repr(FIXED_FILES), *packages(name), *(locked or lock(name)).rows()]
    if name == ENGINE:
        texts += [engine.containernet()["commit"], repr(engine.ONE_PROCESSOR)]
    texts += [each.by.hex() for each in replacing.read(RECIPES / name / REPLACED)]
    return hash_files([_init(name)], *texts)


def target(name: str = HOST, pinned: bool = True) -> Path:
    """Return the folder of the image of this recipe, built or not."""
    return cache_folder() / "image" / (content_hash(name) + ("" if pinned else UNPINNED))


def existing(name: str = HOST) -> Path | None:
    """Return the built image's folder, or None; an unpinned one only where no other is."""
    pinned = target(name)
    folders = (pinned, pinned.with_name(f"{pinned.name}{UNPINNED}"))
    return next((folder for folder in folders if folder.is_dir()), None)


def provenance(folder: Path) -> dict[str, Any]:
    """Return what the image in `folder` was made of."""
    result: dict[str, Any] = json.loads((folder / "provenance.json").read_text())
    return result


def build(name: str = HOST, unpinned: bool = False) -> Path:
    """Build an image unless the cache has it; return its folder (root/, tree.tsv, packages.tsv).

    Args:
        name: One of `names`.
        unpinned: Where the pinned packages cannot be had, take those that the archive has now.

    Raises:
        UnavailableError: the pinned packages cannot be had, and nothing else is allowed.
        LosslabError: mmdebstrap is missing, a step failed, or the tree is not the pinned one.
    """
    built = existing(name)
    if built is not None and (unpinned or built != target(name, pinned=False)):
        return built
    if packed.install(packed.IMAGE, target(name)):
        return target(name)
    try:
        with building(target(name)) as folder:
            if folder is not None:
                locked = lock(name)
                _build(name, folder, locked, repository.fetch(locked), pinned=True)
        return target(name)
    except UnavailableError as error:
        if not unpinned:
            raise
        print(f"losslab: note: unpinned {name} image, because {error.message}", file=sys.stderr)
    with building(target(name, pinned=False)) as folder:
        if folder is not None:
            locked = resolve(name)
            _build(name, folder, locked, repository.fetch(locked), pinned=False)
    return target(name, pinned=False)


def resolve(name: str = HOST) -> Lock:
    """Return the lock of what Debian's archive has now."""
    archives = [uri for uri in debian_archives() if "security" not in uri][:1]
    with tempfile.TemporaryDirectory(prefix="losslab-apt-") as folder:
        apt = Apt(Path(folder) / "apt", archives, [SUITE], Path(folder) / "log")
        files = apt.closure(packages(name))
    return make_lock(files, datetime.now(UTC).strftime(INSTANT_FORMAT))


def relock(*only: str) -> list[str]:
    """Pin what Debian's archive has now, in every image's lock; return what changed.

    Args:
        only: The images that are meant; all where nothing is said.
    """
    changes = []
    for name in only or names():
        path = RECIPES / name / "packages.lock"
        now = resolve(name)
        before = lock(name).versions() if path.exists() else {}
        after = now.versions()
        changed = [
            package
            for package in sorted({*before, *after})
            if before.get(package) != after.get(package)
        ]
        changes += [
            f"{name}: {package} {before.get(package, 'not there')} -> {after.get(package, 'gone')}"
            for package in changed
        ]
        # An instant at which the same packages were there is as good as another.
        if changed:
            path.write_text(now.text())
    return changes


def _build(name: str, folder: Path, locked: Lock, files: Sequence[Found], *, pinned: bool) -> None:
    log = folder / "build.log"
    log.touch()
    root = folder / "root"
    root.mkdir()
    # First, because it is what is hardest to come by.
    if name == ENGINE:
        engine.install_containernet(root / CONTAINERNET, log)
    instant = datetime.strptime(locked.instant, INSTANT_FORMAT).replace(tzinfo=UTC)
    tar = folder / "root.tar"
    with tempfile.TemporaryDirectory(prefix="losslab-packages-") as archive:
        source = repository.make(files, SUITE, Path(archive))
        _bootstrap(name, source, tar, int(instant.timestamp()), log)
    # Device nodes need root and the guest mounts its own /dev.
    run_logged(["tar", "-xf", tar, "-C", root, "--exclude=./dev/*", "--no-same-owner"], log)
    tar.unlink()
    # mmdebstrap copies these from the machine that builds. With names for its own addresses and no
    # name server, a program that looks itself up sends no packet.
    for file, text in FIXED_FILES.items():
        (root / file).unlink(missing_ok=True)
        (root / file).write_text(text)
    for mount_point in MOUNT_POINTS:
        (root / mount_point).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_init(name), root / "init")
    (root / "init").chmod(0o755)
    if name == ENGINE:
        engine.give_one_processor(root)
    for each in replacing.read(RECIPES / name / REPLACED):
        replacing.replace(root, each)
    # Whoever runs the guest must be able to read all of it, whatever umask the builder has.
    run_logged(["chmod", "-R", "u+rwX,go+rX,go-w,-s,-t", root], log)
    tidy(root, int(instant.timestamp()))
    listing = processes.run(
        ["dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W", "-f", "${Package}\t${Version}\n"]
    )
    listing = "".join(sorted(listing.splitlines(keepends=True)))
    (folder / "packages.tsv").write_text(listing)
    versions = dict(line.split("\t") for line in listing.splitlines())
    check_installed(versions, locked.versions())
    write_sources(files, folder / "sources.tsv")
    facts = {
        "suite": SUITE,
        "hash": content_hash(name, locked),
        "pinned": pinned,
        "packages_sha256": hashlib.sha256(listing.encode()).hexdigest(),
        "packages": {package: versions[package] for package in packages(name)},
    }
    if name == ENGINE:
        facts["containernet"] = engine.containernet()["commit"]
    (folder / "provenance.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")
    integrity.record_tree(folder, str(facts["hash"]) if pinned else "")


def _bootstrap(name: str, source: str, tar: Path, epoch_s: int, log: Path) -> None:
    """Install the packages of an archive into a new system; no file is younger than `epoch_s`."""
    run_logged(
        [
            "env",
            f"SOURCE_DATE_EPOCH={epoch_s}",
            "mmdebstrap",
            "--mode",
            "root" if os.geteuid() == 0 else "unshare",
            "--variant",
            "apt",
            "--include",
            ",".join(packages(name)),
            "--aptopt",
            'APT::Install-Recommends "false"',
            *(word for path in EXCLUDED for word in ("--dpkgopt", f"path-exclude={path}")),
            # Byte code that never asks for its source: nothing ever needs to be read or written.
            "--customize-hook",
            'chroot "$1" sh -c "python3 -m compileall -q -f -j 0 '
            '--invalidation-mode unchecked-hash /usr/lib/python3*" || true',
            SUITE,
            str(tar),
            source,
        ],
        log,
    )


def check_installed(installed: dict[str, str], locked: dict[str, str]) -> None:
    """Refuse an image that does not have exactly the packages of its lock.

    Raises:
        LosslabError: naming what differs.
    """
    differences = [
        f"{package} is {installed.get(package, 'not there')}, locked {locked.get(package, 'not')}"
        for package in sorted({*installed, *locked})
        if installed.get(package) != locked.get(package)
    ]
    if differences:
        raise LosslabError(
            f"an image must have the packages of its lock, found otherwise: "
            f"{'; '.join(differences)}",
            hint="make the lock anew with `make relock`",
        )
