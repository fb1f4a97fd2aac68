"""Root file systems of container images, as users save them: one plain tar file of all layers.

Accepted are the archive of `docker save` or `podman save`, an OCI layout in a tar file, and the
plain tar file of a root folder that `docker export` writes. The layers are merged without unpacking
them, so that no member's name or link can reach a file of this machine; only a guest unpacks the
result.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from losslab.errors import LosslabError
from losslab.instrument.archive import ARCHITECTURE
from losslab.reading import UsageError

WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"  # image-spec, layer.md
ENTRYPOINT = "entrypoint"  # as of the app `command`
MAX_LINKS = 40  # as Linux's (MAXSYMLINKS)
MAX_JSON_BYTES = 2**22
# Variables without which a command of the image would not be found.
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ZSTD = b"\x28\xb5\x2f\xfd"
MANIFEST, INDEX = "manifest.json", "index.json"
SAVE = "save one image again: `docker save IMAGE -o FILE`, or `podman save`"


@dataclass(frozen=True)
class Config:
    """Program, variables and folder of an image's configuration."""

    variables: Sequence[str] = (PATH,)
    words: Sequence[str] = ()
    folder: str = "/"

    def shell(self) -> str:
        """Return lines for a shell: the variables, `$image_folder`, and the words as `$@`."""
        lines = [f"export {shlex.quote(each)}" for each in self.variables]
        lines.append(f"image_folder={shlex.quote(self.folder)}")
        return "\n".join([*lines, f"set -- {shlex.join(self.words)}"]) + "\n"


@dataclass(frozen=True)
class Entry:
    """A file, link or folder of the merged layers."""

    layer: int
    member: tarfile.TarInfo
    content: tarfile.TarInfo | None = None  # of a regular file; that of a hard link's target


@dataclass
class Tree:
    """The merged layers, by path without a leading slash."""

    entries: dict[str, Entry] = field(default_factory=dict)

    def resolved(self, name: str, follow: bool = False) -> str:
        """Return a member's path; links of its folders stay inside, as after chroot(2)."""
        parts, found = [*reversed(name.split("/"))], list[str]()
        links = 0
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            if part == "..":
                del found[-1:]
                continue
            found.append(part)
            entry = self.entries.get("/".join(found))
            if entry is None or not entry.member.issym() or not (parts or follow):
                continue
            links += 1
            if links > MAX_LINKS:
                raise UsageError(f"an image's links must end, found a loop at {name!r:.80}")
            target = entry.member.linkname
            found = [] if target.startswith("/") else found[:-1]
            parts += reversed(target.split("/"))
        return "/".join(found)

    def remove(self, path: str, children_only: bool = False) -> None:
        """Remove a path with all below it."""
        below = f"{path}/" if path else ""
        for name in [name for name in self.entries if name.startswith(below)]:
            del self.entries[name]
        if not children_only:
            self.entries.pop(path, None)

    def add(self, number: int, members: Sequence[tarfile.TarInfo]) -> None:
        """Add a layer: its whiteouts remove from the layers below, then its members follow."""
        for member in members:
            folder, name = posixpath.split(member.name)
            if name == OPAQUE:
                self.remove(self.resolved(folder, follow=True), children_only=True)
            elif name.startswith(WHITEOUT):
                self.remove(self.resolved(posixpath.join(folder, name.removeprefix(WHITEOUT))))
        for member in members:
            path = self.resolved(member.name)
            # Devices and pipes are not kept: a guest has its own /dev.
            kept = member.isdir() or member.issym() or member.isreg() or member.islnk()
            if not path or posixpath.basename(path).startswith(WHITEOUT) or not kept:
                continue
            entry = Entry(number, member, member if member.isreg() else None)
            if member.islnk():
                target = self.entries.get(self.resolved(member.linkname))
                if target is None or target.content is None:
                    raise UsageError(
                        f"a hard link of an image must be to one of its files, found "
                        f"{member.name!r:.80} to {member.linkname!r:.80}"
                    )
                entry = target
            before = self.entries.get(path)
            if not member.isdir() or (before is not None and not before.member.isdir()):
                self.remove(path)
            self.entries[path] = entry

    def executable(self, path: str) -> bool:
        """Return whether a path is an executable file, also over links."""
        entry = self.entries.get(self.resolved(path, follow=True))
        return entry is not None and entry.content is not None and bool(entry.member.mode & 0o111)


def merge(source: Path, target: Path) -> tuple[Config, Tree]:
    """Write the root file system of a saved image to `target`; return its configuration and files.

    Raises UsageError if the file is no such image, or one for other processors.
    """
    try:
        with tarfile.open(source) as outer:
            layers, config = _layers(outer)
            tree = Tree()
            for number, layer in enumerate(layers):
                tree.add(number, layer.getmembers())
            if not tree.entries:
                raise UsageError(f"{source} must have files, found none", hint=SAVE)
            with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as out:
                # In the order of the layers, which may be compressed.
                for name, entry in sorted(
                    tree.entries.items(), key=lambda item: (item[1].layer, item[1].member.offset)
                ):
                    out.addfile(*_written(name, entry, layers[entry.layer]))
    except (tarfile.TarError, EOFError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{source} must be a saved container image or a tar file of a root folder, found: "
            f"{error!r:.120}",
            hint=SAVE,
        ) from error
    return config, tree


def _written(
    name: str, entry: Entry, layer: tarfile.TarFile
) -> tuple[tarfile.TarInfo, IO[bytes] | None]:
    """Return header and content of a merged file, which root owns and everybody may read."""
    header = tarfile.TarInfo(name)
    header.mtime = 0
    header.mode = (entry.member.mode & 0o1777) | (0o755 if entry.member.isdir() else 0o644)
    if entry.content is not None:
        header.size = entry.content.size
        return header, layer.extractfile(entry.content)
    header.type, header.linkname = entry.member.type, entry.member.linkname
    return header, None


def _layers(archive: tarfile.TarFile) -> tuple[list[tarfile.TarFile], Config]:
    """Open an archive's layers, the lowest first, and read its image's configuration."""
    members = {each.name.removeprefix("./"): each for each in archive.getmembers()}

    def opened(name: str) -> IO[bytes]:
        """Open a file of the archive; compare the content of a blob with its digest."""
        links = 0
        while name in members and members[name].issym() and links < MAX_LINKS:  # older archives
            folder, links = posixpath.dirname(name), links + 1
            name = posixpath.normpath(posixpath.join(folder, members[name].linkname))
        content = archive.extractfile(members[name]) if name in members else None
        if content is None:
            raise UsageError(f"a saved image must be complete, found no {name!r:.120}", hint=SAVE)
        if name.startswith("blobs/sha256/"):
            found = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
            if not name.endswith(f"/{found}"):
                raise UsageError(f"{name} must have this digest, found {found}", hint=SAVE)
            content.seek(0)
        return content

    def read(name: str) -> Any:
        return json.loads(opened(name).read(MAX_JSON_BYTES))

    def layer(name: str) -> tarfile.TarFile:
        content = opened(name)
        if content.read(len(ZSTD)) == ZSTD:
            raise UsageError(f"layers must be plain or gzip, found zstd in {name:.80}", hint=SAVE)
        content.seek(0)
        return tarfile.TarFile.open(fileobj=content)

    if MANIFEST in members and members[MANIFEST].isreg():
        images = read(MANIFEST)
        if len(images) != 1:
            raise UsageError(f"a saved archive must have one image, found {len(images)}", hint=SAVE)
        config, layers = images[0]["Config"], images[0]["Layers"]
    elif INDEX in members and "oci-layout" in members:
        index = read(INDEX)
        while "manifests" in index:  # an index may list indexes
            index = read(_blob(_only(index["manifests"])))
        config, layers = _blob(index["config"]), [_blob(each) for each in index["layers"]]
    else:
        return [archive], Config()
    return [layer(name) for name in layers], _config(read(config))


def _only(manifests: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the only image of an OCI index, or of several the one for this architecture."""
    ours = {"architecture": ARCHITECTURE, "os": "linux"}
    if len(manifests) > 1:
        manifests = [each for each in manifests if ours.items() <= each.get("platform", {}).items()]
    if len(manifests) != 1:
        raise UsageError(
            f"an OCI layout must have one image for {ARCHITECTURE}, found {len(manifests)}",
            hint=SAVE,
        )
    return manifests[0]


def _blob(descriptor: Mapping[str, Any]) -> str:
    return "blobs/sha256/" + str(descriptor["digest"]).removeprefix("sha256:")


def _config(image: Mapping[str, Any]) -> Config:
    architecture = image.get("architecture", ARCHITECTURE)
    if architecture != ARCHITECTURE:
        raise UsageError(f"an image must be for {ARCHITECTURE}, found {architecture!r:.40}")
    its = image.get("config") or {}
    variables = [str(each) for each in its.get("Env") or ()]
    for each in variables:
        if not each.partition("=")[0].isidentifier() or "\0" in each:
            raise UsageError(f"an image's variables must be NAME=VALUE, found {each!r:.80}")
    words = [str(each) for each in (*(its.get("Entrypoint") or ()), *(its.get("Cmd") or ()))]
    has_path = any(each.startswith("PATH=") for each in variables)
    return Config([*variables] if has_path else [PATH, *variables], words,
                  str(its.get("WorkingDir") or "/"))  # fmt: skip


def write(source: Path, folder: Path) -> None:
    """Write root.tar, root.sh and root.json (what the image can run) of a saved image."""
    config, tree = merge(source, folder / "root.tar")
    (folder / "root.sh").write_text(config.shell())
    facts = {"shell": tree.executable("bin/sh"), "words": list(config.words)}
    (folder / "root.json").write_text(json.dumps(facts) + "\n")


def require_command(folder: Path, host: str, command: str) -> None:
    """Refuse a command that a merged image of the cache cannot run."""
    try:
        facts = json.loads((folder / "root.json").read_text())
    except (OSError, ValueError) as error:
        raise LosslabError(
            f"the cache must have the image of the {host}, found: {error}",
            hint=f"name its file again with --{host}-root",
        ) from error
    if command == ENTRYPOINT and not facts["words"]:
        raise UsageError(
            f"the image of the {host} must have an entry point, found none",
            hint=f"write a command in place of {ENTRYPOINT}",
        )
    if command != ENTRYPOINT and not facts["shell"]:
        raise UsageError(
            f"the image of the {host} must have /bin/sh to run a command, found none",
            hint=f"write {ENTRYPOINT} as its command to run the image's own program",
        )
