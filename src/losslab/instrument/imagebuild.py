"""Build images, folders of Debian 13 and a list of packages, with mmdebstrap and without Docker.

root uses mmdebstrap's root mode. Other users use its unshare mode, which needs newuidmap and a
subuid range.
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

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument import debian, image, integrity, packed
from losslab.instrument.archive import Download, UnavailableError, digest
from losslab.instrument.cache import building, progress
from losslab.instrument.debian import ARCHITECTURE, Lock
from losslab.instrument.image import ENGINE, HOST, SUITE

BUILD_TAKES = "one minute of CPU time"
CONTAINERNET = "opt/containernet"  # in the engine image
SOURCE = "LOSSLAB_CONTAINERNET_SOURCE"
MOUNT_POINTS = ("mnt/losslab", "mnt/out")
INSTANT_FORMAT = "%Y%m%dT%H%M%SZ"  # of the snapshot archive
# Files that differ between two builds of one recipe: state of the installing tools, and the random
# key of ssl-cert with its certificate.
LEFTOVERS = (
    "var/cache/debconf/*-old",
    "var/cache/debconf/tmp.ci",
    "var/lib/apt/extended_states",
    "var/lib/dpkg/*-old",
    "etc/ssl/private/ssl-cert-snakeoil.key",
    "etc/ssl/certs/ssl-cert-snakeoil.pem",
)


def build(name: str = HOST, unpinned: bool = False) -> Path:
    """Build an image unless the cache has it; return its folder (root/, tree.tsv, packages.tsv).

    If the pinned packages are unavailable, `unpinned` uses the archive's newest; otherwise this
    raises UnavailableError. Raises LosslabError if a step fails or the tree is not the pinned one.
    """
    target = image.target(name)
    built = image.existing(name)
    if built is not None and (unpinned or built == target):
        return built
    if packed.install(packed.IMAGE, target):
        return target
    try:
        _build_from(name, target, image.lock(name), pinned=True)
    except UnavailableError as error:
        if not unpinned:
            raise
        print(f"losslab: note: building an unpinned {name} image: {error.message}", file=sys.stderr)
        target = image.target(name, pinned=False)
        _build_from(name, target, resolve(name), pinned=False)
    return target


def resolve(name: str = HOST) -> Lock:
    """Return the lock of the packages that Debian's archive has now."""
    archives = [uri for uri in debian.debian_archives() if "security" not in uri][:1]
    arguments = ["install", "?essential", "apt", *image.packages(name)]
    files = debian.apt_files(archives, [SUITE], arguments)
    return debian.make_lock(files, datetime.now(UTC).strftime(INSTANT_FORMAT))


def relock(*only: str) -> list[str]:
    """Pin the current packages of Debian's archive for some or all images; list the changes."""
    changes = []
    for name in only or image.names():
        path = image.recipe(name) / "packages.lock"
        now = resolve(name)
        before, after = image.lock(name).versions() if path.exists() else {}, now.versions()
        changed = [p for p in sorted({*before, *after}) if before.get(p) != after.get(p)]
        changes += [
            f"{name}: {package} {before.get(package, 'not there')} -> {after.get(package, 'gone')}"
            for package in changed
        ]
        # Keep the lock if only its time would change.
        if changed:
            path.write_text(now.text())
    return changes


def _build_from(name: str, target: Path, locked: Lock, *, pinned: bool) -> None:
    with progress(f"image {name}", BUILD_TAKES), building(target) as folder:
        if folder is not None:
            _build(name, folder, locked, debian.fetch(locked), pinned=pinned)


def _build(
    name: str, folder: Path, locked: Lock, files: Sequence[Download], *, pinned: bool
) -> None:
    log = folder / "build.log"
    log.touch()
    root = folder / "root"
    root.mkdir()
    # First, because this repository is unreachable most often.
    if name == ENGINE:
        install_containernet(root / CONTAINERNET, log)
    instant = datetime.strptime(locked.instant, INSTANT_FORMAT).replace(tzinfo=UTC)
    tar = folder / "root.tar"
    with tempfile.TemporaryDirectory(prefix="losslab-packages-") as archive:
        source = make_archive(files, Path(archive))
        _bootstrap(name, source, tar, int(instant.timestamp()), log)
    # Device nodes need root, and the guest mounts its own /dev.
    command: list[str | Path] = [
        "tar",
        "-xf",
        tar,
        "-C",
        root,
        "--exclude=./dev/*",
        "--no-same-owner",
    ]
    processes.run(command, log=log)
    tar.unlink()
    # mmdebstrap copies these files from the building machine. With its own names in /etc/hosts and
    # no name server, a guest's program sends no packet to look up its own name.
    for file, text in image.FIXED_FILES.items():
        (root / file).unlink(missing_ok=True)
        (root / file).write_text(text)
    for mount_point in MOUNT_POINTS:
        (root / mount_point).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(image.init(name), root / "init")
    (root / "init").chmod(0o755)
    for each in image.replacements(name):
        each.apply(root)
    # Make the image readable for all users, independent of the builder's umask.
    processes.run(["chmod", "-R", "u+rwX,go+rX,go-w,-s,-t", root], log=log)
    _tidy(root, int(instant.timestamp()))
    listing = processes.run(
        ["dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W", "-f", "${Package}\t${Version}\n"]
    )
    listing = "".join(sorted(listing.splitlines(keepends=True)))
    (folder / "packages.tsv").write_text(listing)
    versions = dict(line.split("\t") for line in listing.splitlines())
    check_installed(versions, locked.versions())
    facts = {
        "suite": SUITE,
        "hash": image.content_hash(name, locked),
        "pinned": pinned,
        "packages_sha256": hashlib.sha256(listing.encode()).hexdigest(),
        "packages": {package: versions[package] for package in image.packages(name)},
    }
    if name == ENGINE:
        facts["containernet"] = image.containernet()["commit"]
    (folder / "provenance.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")
    integrity.record_tree(folder, str(facts["hash"]) if pinned else "")


def make_archive(files: Sequence[Download], folder: Path) -> str:
    """Write an unsigned archive of packages into `folder`; return its line for sources.list."""
    pool = folder / "pool"
    index = folder / "dists" / SUITE / "main" / f"binary-{ARCHITECTURE}"
    pool.mkdir()
    index.mkdir(parents=True)
    paragraphs = []
    for found in files:
        package = pool / found.file.name
        try:
            os.link(found.path, package)
        except OSError:  # another file system
            package.write_bytes(found.path.read_bytes())
        control = processes.run(["dpkg-deb", "--field", package]).rstrip("\n")
        paragraphs.append(
            f"{control}\nFilename: pool/{package.name}\nSize: {found.file.size}\n"
            f"SHA256: {found.file.sha256}\n"
        )
    packages = index / "Packages"
    packages.write_text("\n".join(paragraphs))
    (folder / "dists" / SUITE / "Release").write_text(
        f"Origin: losslab\nSuite: {SUITE}\nCodename: {SUITE}\nComponents: main\n"
        f"Architectures: {ARCHITECTURE}\nSHA256:\n"
        f" {digest(packages)} {packages.stat().st_size} main/{index.name}/Packages\n"
    )
    # apt may run as another user, who must be able to read it.
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return f"deb [trusted=yes] copy:{folder} {SUITE} main"


def _bootstrap(name: str, source: str, tar: Path, epoch_s: int, log: Path) -> None:
    """Install an archive's packages into a new system; no file is newer than `epoch_s`."""
    # Byte code that Python does not compare with its source: no extra file access in a guest.
    compile_all = (
        'chroot "$1" sh -c "python3 -m compileall -q -f -j 0 '
        '--invalidation-mode unchecked-hash /usr/lib/python3*" || true'
    )
    command = [
        "env", f"SOURCE_DATE_EPOCH={epoch_s}",
        "mmdebstrap", "--mode", "root" if os.geteuid() == 0 else "unshare", "--variant", "apt",
        "--include", ",".join(image.packages(name)),
        "--aptopt", 'APT::Install-Recommends "false"',
        *(word for path in image.EXCLUDED for word in ("--dpkgopt", f"path-exclude={path}")),
        "--customize-hook", compile_all,
        SUITE, tar, source,
    ]  # fmt: skip
    processes.run(command, log=log)


def install_containernet(target_folder: Path, log: Path) -> None:
    """Install Containernet's module at its pinned commit, which is the hash of its content.

    LOSSLAB_CONTAINERNET_SOURCE names another copy of the repository, such as
    file:///home/me/containernet. Raises UnavailableError if the repository is unreachable or lacks
    the commit.
    """
    commit = image.containernet()["commit"]
    url = containernet_source()
    with tempfile.TemporaryDirectory(prefix="losslab-containernet-") as name:
        git = ["git", "-C", name]
        try:
            processes.run(["git", "clone", "--quiet", "--bare", url, name], log=log)
            processes.run([*git, "cat-file", "-e", f"{commit}^{{commit}}"], log=log)
        except LosslabError as error:
            raise UnavailableError(
                f"Containernet's commit {commit} must be in {url}, found: {error.message}",
                hint=f"check the network, or set {SOURCE}=file:///... to a copy that has it",
            ) from error
        tar = Path(name) / "containernet.tar"
        # Without two links that point outside the folder; losslab uses neither target.
        links = [":(exclude)mininet/examples", ":(exclude)mininet/__main__.py"]
        archive = [*git, "archive", f"--output={tar}", commit, "mininet", *links]
        processes.run(archive, log=log)
        target_folder.mkdir(parents=True)
        processes.run(["tar", "-xf", tar, "-C", target_folder, "--no-same-owner"], log=log)


def containernet_source() -> str:
    """Return the address of Containernet's repository."""
    return os.environ.get(SOURCE, image.containernet()["url"]).removeprefix("git+")


def _tidy(root: Path, epoch_s: int) -> None:
    """Remove files that differ between builds; date newer files back to `epoch_s`."""
    for pattern in LEFTOVERS:
        for left in root.glob(pattern):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    # The removed certificate still has a link, whose name depends on the building machine.
    for link in (root / "etc/ssl/certs").glob("*.0"):
        if not link.exists():
            link.unlink()
    for folder, _, files in os.walk(root):
        os.utime(folder, (epoch_s, epoch_s))
        for name in files:
            path = os.path.join(folder, name)
            if os.lstat(path).st_mtime > epoch_s:
                os.utime(path, (epoch_s, epoch_s), follow_symlinks=False)


def check_installed(installed: dict[str, str], locked: dict[str, str]) -> None:
    """Refuse an image whose packages are not exactly those of its lock."""
    differences = [
        f"{package} is {installed.get(package, 'not there')}, locked {locked.get(package, 'not')}"
        for package in sorted({*installed, *locked})
        if installed.get(package) != locked.get(package)
    ]
    if differences:
        raise LosslabError(
            f"an image must have the packages of its lock, found: {'; '.join(differences)}",
            hint="regenerate the lock with `make relock`",
        )
