"""Root images: their recipes in `containers/`, how they are built, and their folders in the cache.

The host image is the root file system of an emulated host. The engine image adds the software that
runs hosts as containers. Every other image (`containers/NAME/packages.txt`, or a user's own,
`images/NAME/packages.txt`) adds programs of some cells. Each image has exactly the packages of its
`packages.lock`. mmdebstrap builds it from them without Docker: as root in its root mode, else in
its unshare mode, which needs newuidmap and a subuid range.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from losslab import processes
from losslab.errors import LosslabError, did_you_mean
from losslab.instrument import cache, integrity, packed
from losslab.instrument.cache import building, hash_files, progress
from losslab.instrument.debian import (
    ARCHITECTURE,
    Lock,
    apt_files,
    debian_archives,
    fetch_packages,
    make_lock,
    read_lock,
)
from losslab.instrument.fetch import UnavailableError, digest
from losslab.instrument.part import Part, pinned_or_newest
from losslab.reading import UsageError, read_toml, shown
from losslab.repository import ROOT, images

RECIPES = ROOT / "containers"
HOST, ENGINE = "host", "engine"
SUITE = "trixie"
EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
FIXED_FILES = {
    "etc/apt/sources.list": f"deb http://deb.debian.org/debian {SUITE} main\n",
    "etc/resolv.conf": "",
    "etc/hostname": "losslab\n",
    # Names of the addresses in emulation.topology; a test compares both.
    "etc/hosts": (RECIPES / HOST / "hosts").read_text(),
}
# Part of the hash: change it when `build` makes a different image from the same recipe.
LAYOUT = f"4 {SUITE} {' '.join(EXCLUDED)}"
provenance = cache.provenance


@dataclass(frozen=True)
class Replacement:
    """Bytes that occur once in a file of an image, and as many bytes that replace them."""

    file: str
    found: bytes
    by: bytes

    def apply(self, root: Path) -> None:
        """Replace the bytes in an image."""
        path = root / self.file
        content = path.read_bytes()
        if (count := content.count(self.found)) != 1:
            text = self.found.decode() if self.found.isascii() else self.found.hex()
            raise LosslabError(
                f"{path} must contain {text} once, found it {count} times",
                hint="the package has another version: adapt the recipe's replace.toml",
            )
        path.write_bytes(content.replace(self.found, self.by))


def names() -> list[str]:
    """List the images that have recipes, the host image first."""
    return [HOST, *sorted(images().keys() - {HOST})]


def recipe(name: str) -> Path:
    """Return the folder of an image's recipe; UsageError if there is none."""
    if name not in (found := images()):
        raise UsageError(
            f"an image must be one of containers/ or images/ ({', '.join(names())}), found "
            f"{shown(name)}{did_you_mean(name, found)}"
        )
    return found[name]


def packages(name: str = HOST) -> list[str]:
    """List an image's packages; every image includes those of the host image."""
    own = _lines(recipe(name) / "packages.txt")
    return own if name == HOST else packages(HOST) + own


def excluded(name: str = HOST) -> list[str]:
    """List the patterns of dpkg's path-exclude: files of packages that an image does not have."""
    path = recipe(name) / "exclude.txt"
    return [*EXCLUDED, *(_lines(path) if path.exists() else ())]


def _lines(path: Path) -> list[str]:
    """Return the lines of a file without comments and empty lines."""
    lines = path.read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def lock(name: str = HOST) -> Lock:
    """Return the pinned packages of an image."""
    path = recipe(name) / "packages.lock"
    if not path.is_file():
        raise LosslabError(
            f"{path} must pin the packages of the image {name}, found no such file",
            hint=f"write it with `losslab image --variant {name} --relock`",
        )
    return read_lock(path)


def init(name: str) -> Path:
    """Return the init program of guests of an image."""
    return RECIPES / (ENGINE if name == ENGINE else HOST) / "init"


def containernet() -> dict[str, str]:
    """Return the pins (`url`, `commit`) of Containernet, which the engine image contains."""
    pins: dict[str, str] = read_toml(RECIPES / ENGINE / "source.toml")["containernet"]
    return pins


def replacements(path: Path) -> list[Replacement]:
    """Read a recipe's replace.toml, which is optional. Raises UsageError if it is malformed."""
    if not path.is_file():
        return []
    try:
        found = [
            Replacement(row["file"], bytes.fromhex(row["found"]), bytes.fromhex(row["by"]))
            for row in read_toml(path)["replace"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{path} must have [[replace]] with file, and found and by in hexadecimal digits, "
            f"found {error}"
        ) from error
    if any(len(each.found) != len(each.by) for each in found):
        raise UsageError(f"{path} must replace bytes by as many others, found different lengths")
    return found


def content_hash(name: str = HOST, locked: Lock | None = None) -> str:
    """Hash all inputs of an image's build, with the image's own lock or another."""
    texts = [LAYOUT, repr(FIXED_FILES), *packages(name), *(locked or lock(name)).rows()]
    texts += excluded(name)[len(EXCLUDED) :]
    replaced = replacements(recipe(name) / "replace.toml")
    if name == ENGINE:
        pairs = {each.file: (each.found, each.by) for each in replaced}
        texts += [containernet()["commit"], repr(pairs)]
    else:
        texts += [each.by.hex() for each in replaced]
    return hash_files([init(name)], *texts)


def part(name: str = HOST) -> Part:
    """Return an image as a part, whose folder has root/, tree.tsv and packages.tsv.

    Making it raises LosslabError if a step fails or the tree is not the pinned one.
    """
    return Part(packed.IMAGE, content_hash(name), functools.partial(_make, name))


def _make(name: str, unpinned: bool) -> Path:
    return pinned_or_newest(functools.partial(_build_from, name), unpinned, f"{name} image")


BUILD_TAKES = "one minute of CPU time"
CONTAINERNET = "opt/containernet"  # in the engine image
SOURCE = "LOSSLAB_CONTAINERNET_SOURCE"
MOUNT_POINTS = ("mnt/losslab", "mnt/out")
INSTANT_FORMAT = "%Y%m%dT%H%M%SZ"  # of the snapshot archive
# Files that differ between two builds of one recipe: state of the installing tools, the random key
# of ssl-cert with its certificate, and byte code of Debian's own scripts, which they write while
# one process imports and another compiles.
LEFTOVERS = (
    "usr/share/python3/**/__pycache__",
    "var/cache/debconf/*-old",
    "var/cache/debconf/tmp.ci",
    "var/lib/apt/extended_states",
    "var/lib/dpkg/*-old",
    "etc/ssl/private/ssl-cert-snakeoil.key",
    "etc/ssl/certs/ssl-cert-snakeoil.pem",
)


def resolve(name: str = HOST) -> Lock:
    """Return the lock of the packages that Debian's archive has now."""
    archives = [uri for uri in debian_archives() if "security" not in uri][:1]
    arguments = ["install", "?essential", "apt", *packages(name)]
    files = apt_files(archives, [SUITE], arguments)
    return make_lock(files, datetime.now(UTC).strftime(INSTANT_FORMAT))


def relock(*only: str) -> list[str]:
    """Pin the current packages of Debian's archive for some or all images; list the changes."""
    changes = []
    for name in only or names():
        path = recipe(name) / "packages.lock"
        now = resolve(name)
        changed = differences(lock(name).versions() if path.exists() else {}, now.versions())
        changes += [f"{name}: {change}" for change in changed]
        # Keep the lock if only its time would change.
        if changed:
            path.write_text(now.text())
    return changes


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Describe the packages whose versions differ."""
    return [
        f"{package} {before.get(package, 'not there')} -> {after.get(package, 'not there')}"
        for package in sorted({*before, *after})
        if before.get(package) != after.get(package)
    ]


def _build_from(name: str, pinned: bool) -> Path:
    """Build an image from pinned packages, or Debian's newest; return its folder."""
    target, locked = part(name).target(pinned), lock(name) if pinned else resolve(name)
    with progress(f"image {name}", BUILD_TAKES), building(target) as folder:
        if folder is not None:
            _build(name, folder, locked, fetch_packages(locked), pinned=pinned)
    return target


def _build(name: str, folder: Path, locked: Lock, files: Sequence[Path], *, pinned: bool) -> None:
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
        source = make_archive(locked, files, Path(archive))
        _bootstrap(name, source, tar, int(instant.timestamp()), log)
    # Device nodes need root, and the guest mounts its own /dev.
    processes.run(["tar", "-xf", tar, "-C", root, "--exclude=./dev/*", "--no-same-owner"], log=log)
    tar.unlink()
    # mmdebstrap copies these files from the building machine. With its own names in /etc/hosts and
    # no name server, a guest's program sends no packet to look up its own name.
    for file, text in FIXED_FILES.items():
        (root / file).unlink(missing_ok=True)
        (root / file).write_text(text)
    for mount_point in MOUNT_POINTS:
        (root / mount_point).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(init(name), root / "init")
    (root / "init").chmod(0o755)
    for each in replacements(recipe(name) / "replace.toml"):
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
    if changed := differences(locked.versions(), versions):
        raise LosslabError(
            f"an image must have the packages of its lock, found: {'; '.join(changed)}",
            hint="regenerate the lock with `make relock`",
        )
    facts = {
        "suite": SUITE,
        "hash": content_hash(name, locked),
        "pinned": pinned,
        "packages_sha256": hashlib.sha256(listing.encode()).hexdigest(),
        "packages": {package: versions[package] for package in packages(name)},
    }
    if name == ENGINE:
        facts["containernet"] = containernet()["commit"]
    cache.write_provenance(folder, facts)
    integrity.record_tree(folder, str(facts["hash"]) if pinned else "")


def make_archive(locked: Lock, files: Sequence[Path], folder: Path) -> str:
    """Write an unsigned archive of packages into `folder`; return its line for sources.list."""
    pool = folder / "pool"
    index = folder / "dists" / SUITE / "main" / f"binary-{ARCHITECTURE}"
    pool.mkdir()
    index.mkdir(parents=True)
    paragraphs = []
    for each, path in zip(locked.packages, files, strict=True):
        package = pool / each.file.name
        shutil.copyfile(path, package)
        control = processes.run(["dpkg-deb", "--field", package]).rstrip("\n")
        paragraphs.append(
            f"{control}\nFilename: pool/{package.name}\nSize: {each.size_bytes}\n"
            f"SHA256: {each.sha256}\n"
        )
    packages = index / "Packages"
    packages.write_text("\n".join(paragraphs))
    (folder / "dists" / SUITE / "Release").write_text(
        f"Origin: losslab\nSuite: {SUITE}\nCodename: {SUITE}\nComponents: main\n"
        f"Architectures: {ARCHITECTURE}\nSHA256:\n"
        f" {digest(packages)} {packages.stat().st_size} main/{index.name}/Packages\n"
    )
    # apt may run as another user, who must be able to read it.
    processes.run(["chmod", "-R", "a+rX", folder])
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
        "--include", ",".join(packages(name)),
        "--aptopt", 'APT::Install-Recommends "false"',
        *(word for path in excluded(name) for word in ("--dpkgopt", f"path-exclude={path}")),
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
    commit = containernet()["commit"]
    url = os.environ.get(SOURCE, containernet()["url"]).removeprefix("git+")
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


def _tidy(root: Path, epoch_s: int) -> None:
    """Remove files that differ between builds; date newer files back to `epoch_s`."""
    for pattern in LEFTOVERS:
        for left in root.glob(pattern):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    # The removed certificate still has a link, whose name depends on the building machine.
    for link in (root / "etc/ssl/certs").glob("*.0"):
        if not link.exists():
            link.unlink()
    newer = ["(", "-type", "d", "-o", "-newermt", f"@{epoch_s}", ")"]
    touch = ["touch", "--no-dereference", f"--date=@{epoch_s}", "{}", "+"]
    processes.run(["find", root, *newer, "-exec", *touch])
