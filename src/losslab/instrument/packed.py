"""Archives of kernels, their object files, and images, unpacked instead of built.

An archive `KIND-HASH.tar.zst` has the hash of its recipe in its name, and that of object files also
the hash of their compiler. `KIND-HASH.tar.zst.sha256` next to it has its SHA-256 as sha256sum(1)
writes it. LOSSLAB_INSTRUMENTS is the folder or the http(s) address of these files. Without it, they
come from the release that `containers/release.toml` names, which also pins their SHA-256.

losslab runs the kernel of an archive, and compiles its object files, so it is as trusted as its
place. The repository pins the files of every image.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument import integrity
from losslab.instrument.cache import building
from losslab.instrument.fetch import MAX_BYTES, Fetcher, digest, save
from losslab.reading import read_bytes, read_json, read_toml
from losslab.repository import ROOT

PLACE = "LOSSLAB_INSTRUMENTS"
# Value of LOSSLAB_INSTRUMENTS with which everything is built from source.
BUILD = "build"
RELEASE = ROOT / "containers" / "release.toml"
KERNEL, OBJECTS, IMAGE = "kernel", "objects", "image"
PATCH = "patch"  # public patch of a kernel, named after its SHA-256
# File in an unpacked folder: the archive's place and SHA-256.
ORIGIN = "fetched.json"
SUFFIX = ".sha256"
# Of an archive without compression; the largest, the engine's image, has 836 MB.
UNPACKED_BYTES = 4 * 2**30
SETUID_OR_SETGID = stat.S_ISUID | stat.S_ISGID
# Size limits of small files that others wrote.
SUM_BYTES, PROVENANCE_BYTES = 1000, 2**18
# Compresses the engine's image from 836 MB to 285 MB in 5 s of CPU time; level 9 takes 22 s for
# 260 MB.
LEVEL = 3
# Files of a build's folder that are not packed; make links a tree's binaries again.
NOT_PACKED = ("build.log", ORIGIN, "lock", "linux/linux", "linux/vmlinux*")


@dataclass(frozen=True)
class Origin:
    """Folder or address that has archives; those of a release have pinned SHA-256."""

    place: str  # empty: nothing is fetched
    pinned: Mapping[str, str] | None = None  # SHA-256 by name of an archive


def origin() -> Origin:
    """Return the place of LOSSLAB_INSTRUMENTS, or else the release's."""
    given = os.environ.get(PLACE, "")
    if given:
        return Origin("" if given == BUILD else given)
    release = read_toml(RELEASE)
    return Origin(release["address"], release["sha256"])


def write_release(address: str, archives: Iterable[Path]) -> None:
    """Pin the archives of a release, and its address, in `containers/release.toml`."""
    head = [line for line in RELEASE.read_text().splitlines() if line.startswith("#")]
    pins = [f"{json.dumps(path.name)} = {json.dumps(digest(path))}" for path in sorted(archives)]
    lines = [*head, f"address = {json.dumps(address.rstrip('/'))}", "", "[sha256]", *pins, ""]
    RELEASE.write_text("\n".join(lines))


def pack(folder: Path, kind: str, out: Path) -> Path:
    """Write an archive of a folder in the cache, and its SHA-256; return its path.

    Raises LosslabError if the folder is unpinned, was changed since its build, or cannot be packed.
    """
    provenance = read_json(folder / "provenance.json", PROVENANCE_BYTES)
    if not provenance.get("pinned", False) or provenance.get("hash") != folder.name:
        raise LosslabError(
            f"{folder} must be pinned and built from the current recipe, found recipe "
            f"{provenance.get('hash')}",
            hint="build it from Debian's source without LOSSLAB_UNPINNED",
        )
    if kind == KERNEL:
        integrity.require(folder / "linux", [])
    elif kind == IMAGE:
        if folder.name not in integrity.pins():
            raise LosslabError(
                f"{folder} must be listed in {integrity.PINS.name} to be packed, found no such row",
                hint="pin its files with `losslab image --pin-tree`",
            )
        integrity.require(None, [folder / integrity.TREE_ROOT], whole=True)
    out.mkdir(parents=True, exist_ok=True)
    archive = out / archive_name(kind, folder.name)
    # Imported here: every cell imports this module, and few pack or unpack.
    import zstandard

    with tempfile.TemporaryDirectory(prefix=".losslab-", dir=out) as name:
        partial = Path(name) / archive.name
        compressor = zstandard.ZstdCompressor(level=LEVEL, threads=-1)
        with (
            partial.open("wb") as file,
            compressor.stream_writer(file) as stream,
            # Times in ns (pax), and members sorted by name.
            tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
        ):
            tar.add(folder, folder.name, filter=_packed)
        partial.rename(archive)
    archive.with_name(archive.name + SUFFIX).write_text(f"{digest(archive)}  {archive.name}\n")
    return archive


def _packed(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return a member without its owner; None if it is not packed."""
    _, _, name = member.name.partition("/")
    if any(fnmatch(name, pattern) for pattern in NOT_PACKED):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def install(kind: str, target: Path) -> Path | None:
    """Unpack an archive from its `origin`; return `target`, or None if it does not exist then.

    On a problem, print a note to stderr; the caller builds it. `target` is the folder in the cache,
    named after the hash of the recipe.
    """
    found = origin()
    # A recipe that changed since the release.
    unknown = found.pinned is not None and archive_name(kind, target.name) not in found.pinned
    if not found.place or unknown:
        return None
    try:
        with building(target) as partial:
            if partial is not None:
                _take(found, kind, target.name, partial)
    except (OSError, LosslabError) as error:
        problem = getattr(error, "message", str(error))
        print(
            f"losslab: note: {kind} {target.name} was not fetched from {found.place}: {problem}",
            file=sys.stderr,
        )
        return None
    return target


def archive_name(kind: str, name: str) -> str:
    """Return the name of an archive of the recipe `name`."""
    return f"{kind}-{name}.tar.zst"


def _take(source: Origin, kind: str, name: str, target: Path) -> None:
    """Fetch, check and unpack an archive into the empty folder `target`."""
    # Imported here: every cell imports this module, and few pack or unpack.
    import zstandard

    place = source.place
    print(f"losslab: {kind} {name}: fetching from {place}", file=sys.stderr)
    # In the cache, which has space, in a folder that the next build removes.
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
        archive, plain = Path(temporary) / archive_name(kind, name), Path(temporary) / "plain.tar"
        if source.pinned is None:
            expected = _get(place, archive.with_name(archive.name + SUFFIX), SUM_BYTES)
            text = read_bytes(expected, SUM_BYTES).decode(errors="replace")
        else:
            text = f"{source.pinned[archive.name]} {archive.name}"
        found = digest(_get(place, archive, MAX_BYTES))
        if text.split() != [found, archive.name]:
            says = RELEASE.name if source.pinned else f"its {SUFFIX}"
            raise LosslabError(
                f"the archive has the sha256 {found[:12]}..., {says} says {text[:80]!a}"
            )
        try:
            with archive.open("rb") as packed:
                blocks = zstandard.ZstdDecompressor().read_to_iter(packed)
                if not save(blocks, plain, UNPACKED_BYTES):
                    most = f"at most {UNPACKED_BYTES} bytes"
                    raise LosslabError(f"the archive must have {most}, found more")
            _refuse_members(plain)
        except (zstandard.ZstdError, tarfile.TarError) as error:
            raise LosslabError(f"the archive must be a .tar.zst, found: {error}") from error
        unpack = ["tar", "--extract", "--preserve-permissions", "--no-same-owner"]
        processes.run([*unpack, "--strip-components=1", "-C", target, "-f", plain])
    provenance = read_json(target / "provenance.json", PROVENANCE_BYTES)
    if not isinstance(provenance, dict) or (
        (provenance.get("hash"), provenance.get("pinned")) != (name, True)
    ):
        raise LosslabError("its content must be built from the pinned sources of its recipe")
    if kind == IMAGE:
        if name not in integrity.pins():
            raise LosslabError(f"its files must be pinned in {integrity.PINS.name}")
        integrity.record_tree(target, name)
    elif kind == KERNEL:
        integrity.require(target / "linux", [])
    facts = {"from": place, "sha256": found}
    (target / ORIGIN).write_text(json.dumps(facts, indent=1) + "\n")


def _refuse_members(plain: Path) -> None:
    """Refuse devices and pipes, and programs that run as their owner: root may unpack them."""
    with tarfile.open(plain) as tar:
        for member in tar:
            kept = member.isreg() or member.isdir() or member.issym() or member.islnk()
            if not kept or member.mode & SETUID_OR_SETGID:
                raise LosslabError(
                    "the archive must have only files, folders and links, without setuid bits, "
                    f"found {member.name!a}"
                )


def _get(place: str, target: Path, max_bytes: int) -> Path:
    """Download the file named like `target` from an address or a folder; return `target`."""
    if problem := Fetcher().download(url(place, target.name), target, max_bytes):
        raise LosslabError(f"{target.name}: {problem}")
    return target


def url(place: str, name: str) -> str:
    """Return the address of a file in a folder or below an address."""
    folder = place if "://" in place else Path(place).expanduser().resolve().as_uri()
    return f"{folder.rstrip('/')}/{name}"
