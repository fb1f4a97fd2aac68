"""Archives of kernels, their object files, and images, unpacked instead of built.

An archive `KIND-HASH.tar.zst` has the hash of its recipe in its name, and that of object files also
the hash of their compiler. `KIND-HASH.tar.zst.sha256` next to it has its SHA-256 as sha256sum(1)
writes it. LOSSLAB_INSTRUMENTS is the folder or the http(s) address of these files. Without it, they
come from the release that `containers/release.toml` names, which also pins their SHA-256.

An archive has only files and folders. The symbolic links of an image are in its list of files,
`tree.tsv`. They are made after all files, and only if the repository pins that list.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from losslab.errors import LosslabError
from losslab.instrument import integrity
from losslab.instrument.archive import Fetcher, digest
from losslab.instrument.cache import building
from losslab.reading import read_json, read_toml
from losslab.repository import ROOT

PLACE = "LOSSLAB_INSTRUMENTS"
# Value of LOSSLAB_INSTRUMENTS with which everything is built from source.
BUILD = "build"
RELEASE = ROOT / "containers" / "release.toml"
KERNEL, OBJECTS, IMAGE = "kernel", "objects", "image"
PATCH = "patch"  # public patch of a kernel, named after its SHA-256
# File in an unpacked folder: the archive's place and SHA-256.
ORIGIN = "fetched.json"

# Largest size of an archive, packed and unpacked, and its largest number of members: several times
# those of kernels (3 MB, 9 unpacked), their object files (30 MB, 260 unpacked, 20,000 files) and
# images (200 MB, 600 unpacked, 9,000 files).
PACKED_BYTES, UNPACKED_BYTES, MEMBERS = 2**30, 4 * 2**30, 200_000
# Level 9 needs 4 MiB.
WINDOW_BYTES = 128 * 2**20
# Permissions of unpacked files: only the owner may write.
ALLOWED_BITS = 0o755
SUFFIX = ".sha256"
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
    _sum_of(archive).write_text(f"{digest(archive)}  {archive.name}\n")
    return archive


def is_there(folder: Path, kind: str, name: str) -> bool:
    """Return whether a folder has an archive and its SHA-256."""
    archive = folder / f"{kind}-{name}.tar.zst"
    return archive.is_file() and _sum_of(archive).is_file()


def _sum_of(archive: Path) -> Path:
    return archive.with_name(archive.name + SUFFIX)


def _packed(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return a member without its owner; None for a link, or if it is not packed."""
    _, _, name = member.name.partition("/")
    if member.issym() or any(fnmatch(name, pattern) for pattern in NOT_PACKED):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def install(kind: str, target: Path) -> bool:
    """Unpack an archive from its `origin`; return whether `target` exists now.

    On a problem, print a note to stderr; the caller builds it. `target` is the folder in the cache,
    named after the hash of the recipe.
    """
    found = origin()
    # A recipe that changed since the release.
    unknown = found.pinned is not None and archive_name(kind, target.name) not in found.pinned
    if not found.place or unknown:
        return False
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
        return False
    return True


def archive_name(kind: str, name: str) -> str:
    """Return the name of an archive of the recipe `name`."""
    return f"{kind}-{name}.tar.zst"


def _take(source: Origin, kind: str, name: str, target: Path) -> None:
    fetcher, place = Fetcher(), source.place
    # In the cache, which has space, in a folder that the next build removes.
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
        folder = Path(temporary)
        archive = folder / archive_name(kind, name)
        if source.pinned is None:
            text = _get(fetcher, place, _sum_of(archive), SUM_BYTES).read_text(errors="replace")
        else:
            text = f"{source.pinned[archive.name]} {archive.name}"
        print(f"losslab: {kind} {name}: fetching from {place}", file=sys.stderr)
        found = digest(_get(fetcher, place, archive, PACKED_BYTES))
        if text.split() != [found, archive.name]:
            says = RELEASE.name if source.pinned else f"its {SUFFIX}"
            raise LosslabError(
                f"the archive has the sha256 {found[:12]}..., {says} says {text[:80]!a}"
            )
        _unpack(archive, target, name)
    provenance = read_json(target / "provenance.json", PROVENANCE_BYTES)
    if not isinstance(provenance, dict) or (
        (provenance.get("hash"), provenance.get("pinned")) != (name, True)
    ):
        raise LosslabError("its content must be built from the pinned sources of its recipe")
    if kind == IMAGE:
        _link(target, name)
        integrity.record_tree(target, name)
    elif kind == KERNEL:
        integrity.require(target / "linux", [])
    facts = {"from": place, "sha256": found}
    (target / ORIGIN).write_text(json.dumps(facts, indent=1) + "\n")


def _unpack(archive: Path, target: Path, top: str) -> None:
    """Unpack an untrusted archive into an empty folder, without its first folder, `top`."""
    # Imported here: every cell imports this module, and few pack or unpack.
    import zstandard

    try:
        with (
            archive.open("rb") as packed,
            zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES).stream_reader(packed) as file,
            tarfile.open(fileobj=file, mode="r|") as tar,
        ):
            # `_checked` is stricter than tarfile's filter "data", which Debian 12 does not have.
            tar.extraction_filter = lambda member, path: member
            tar.extractall(target, _checked(tar, top))
    except (tarfile.TarError, zstandard.ZstdError, EOFError, OSError, OverflowError, ValueError,
            RecursionError) as error:  # fmt: skip
        raise LosslabError(f"the archive must be a .tar.zst of files, found: {error}") from error


def _checked(members: tarfile.TarFile, top: str) -> Iterator[tarfile.TarInfo]:
    """Yield the members below the folder `top`; refuse any but files, folders and hard links."""

    def inside(name: str) -> str:
        parts = PurePosixPath(name).parts
        if parts[:1] != (top,) or ".." in parts:
            raise LosslabError(f"every member must be in the folder {top}, found {name!a}")
        return str(PurePosixPath(*parts[1:]))

    left = UNPACKED_BYTES
    for count, member in enumerate(members, 1):
        left -= member.size
        if count > MEMBERS or left < 0:
            raise LosslabError(
                f"the archive must have {MEMBERS} members and {UNPACKED_BYTES} bytes "
                "at most, found more"
            )
        member.name = inside(member.name)
        if member.islnk():
            member.linkname = inside(member.linkname)
        elif not (member.isreg() or member.isdir()):
            raise LosslabError(f"a member must be a file or a folder, found {member.name!a}")
        member.mode &= ALLOWED_BITS
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        yield member


def _link(folder: Path, recipe: str) -> None:
    """Make the symbolic links of an unpacked image; refuse those of a list that is not pinned."""
    path = folder / integrity.LIST
    text = path.read_text() if path.stat().st_size <= integrity.LIST_BYTES else ""
    found = integrity.list_digest(text)
    _, pinned = integrity.pins().get(recipe, ("", "none"))
    if found != pinned:
        raise LosslabError(
            f"the list of files of image {recipe} must have the SHA-256 that {integrity.PINS.name} "
            f"pins, {pinned[:12]}, found {found[:12]}"
        )
    for name, to in integrity.links(text):
        os.symlink(to, os.path.join(os.fsencode(folder / integrity.TREE_ROOT), name))


def _get(fetcher: Fetcher, place: str, target: Path, max_bytes: int) -> Path:
    """Download the file named like `target`, or link to it in a folder; return `target`."""
    if place.startswith(("http://", "https://")):
        problem = fetcher.download(f"{place.rstrip('/')}/{target.name}", target, max_bytes)
    else:
        source, problem = Path(place).expanduser() / target.name, ""
        if not source.is_file():
            problem = "not there"
        elif source.stat().st_size > max_bytes:
            problem = f"more than {max_bytes} bytes"
        else:
            target.symlink_to(source.resolve())
    if problem:
        raise LosslabError(f"{target.name}: {problem}")
    return target
