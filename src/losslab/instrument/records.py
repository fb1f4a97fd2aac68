"""Commands that build, pin, pack and fetch kernels and images, and the workflow's records of them.

A record has the provenance of the kernel or image in the cache. If the cache has changed since, the
record is outdated: the workflow removes it at its next start, and builds again.
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import json
import shutil
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from losslab.errors import HostError, LosslabError
from losslab.instrument import archive, cache, image, integrity, kernel, kernels, packed
from losslab.instrument.archive import UnavailableError
from losslab.instrument.packed import IMAGE, KERNEL, OBJECTS
from losslab.reading import UsageError, read_json, whole_option
from losslab.repository import ROOT, SET_UP

FOLDER = Path("results", "instrument")


def path(kind: str, name: str) -> Path:
    """Return the path of the record of a kernel (by its key) or an image."""
    return FOLDER / f"{kind}-{name}.json"


def read(record: Path) -> dict[str, Any]:
    """Read a record; return an empty one if it is missing or malformed."""
    try:
        content = read_json(record)
    except UsageError:
        return {}
    return content if isinstance(content, dict) else {}


def in_cache(kind: str, name: str) -> dict[str, Any] | None:
    """Return the provenance of the current recipe's kernel or image in the cache, or None."""
    folder = kernel.existing(kernels.of_key(name)) if kind == KERNEL else image.existing(name)
    return None if folder is None else cache.provenance(folder)


def installed() -> list[str]:
    """Describe the default backend's kernel and image, one line each with the hash."""
    lines = []
    for part, folder, target in (
        ("kernel", kernel.existing(), kernel.target()),
        ("image", image.existing(), image.target()),
    ):
        if folder is None:
            lines.append(f"{part} {target.name}, not built")
            continue
        origin = cache.provenance(folder)
        version = f"Linux {origin['version']}" if part == "kernel" else f"Debian {origin['suite']}"
        pinned = "" if origin["pinned"] else ", UNPINNED"
        lines.append(f"{part} {folder.name}, {version}{pinned}")
    return lines


def remove_outdated() -> None:
    """Remove the records of kernels and images that the cache has changed since."""
    for record in [*FOLDER.glob(f"{KERNEL}-*.json"), *FOLDER.glob(f"{IMAGE}-*.json")]:
        kind, _, name = record.stem.partition("-")
        content = read(record)
        complete = "absent" in content or "made_of" in content
        with contextlib.suppress(LosslabError, OSError):  # its recipe was removed
            if not complete or content.get("made_of") != in_cache(kind, name):
                record.unlink()


def absent(record: Path) -> str:
    """Return why a kernel or image is unavailable, or an empty string."""
    return str(read(record).get("absent", ""))


def make(
    kind: str, name: str, build: Callable[[], Path], record: Path | None, optional: bool = False
) -> None:
    """Build a kernel (by its key) or image unless the cache has it.

    Write the record; without `record`, print the folder. If it is `optional` and its sources are
    unavailable, record that instead of failing.
    """
    content: dict[str, Any] = {}
    try:
        folder = build()
        content["made_of"] = in_cache(kind, name)
        if record is None:
            print(folder)
    except UnavailableError as error:
        if not optional:
            raise
        content["absent"] = f"{kind} {name} is not there: its sources are unavailable"
        print(f"losslab: note: no {name} {kind}: {error}", file=sys.stderr)
    if record is not None:
        write(content, record)


def write(content: dict[str, Any], record: Path) -> None:
    """Write a record; LosslabError if it is not writable."""
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        raise LosslabError(f"{record} must be writable, found: {error}") from error


DEFAULT_PARTS = (f"{KERNEL}-{kernels.default().key}", f"{IMAGE}-{image.HOST}")
WITH_OBJECTS = (*DEFAULT_PARTS, f"{OBJECTS}-{kernels.default().key}")
OTHERS = [f"{IMAGE}-{image.ENGINE}", f"{IMAGE}-ffmpeg", f"{KERNEL}-6.12-bbr3"]


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `image` and `instrument`."""
    made = commands.add_parser("image")
    made.add_argument("--variant", metavar="NAME", help="default: host")
    choice = build_options(made)
    choice.add_argument(
        "--relock", action="store_true", help="pin Debian's newest packages, and build nothing"
    )
    choice.add_argument(
        "--pin-tree", action="store_true",
        help="build it from its lock, and pin the digest of its files in "
        f"{integrity.PINS.relative_to(ROOT)}; losslab refuses an image with other files",
    )  # fmt: skip
    made.set_defaults(run=_build_image)

    group = commands.add_parser("instrument")
    kinds = group.add_subparsers(required=True, metavar="WHAT")
    made = kinds.add_parser("pack", help="write an archive of each kernel and image")
    taken = kinds.add_parser(
        "fetch", help=f"fetch kernels and images from the place in {packed.PLACE}"
    )
    served = kinds.add_parser("serve", help="pack kernels and images, and serve them over HTTP")
    default = f"{' '.join(WITH_OBJECTS)}, and {' and '.join(OTHERS)} if they are built"
    few = " ".join(DEFAULT_PARTS)
    for command, parts in ((made, default), (taken, few), (served, few)):
        command.add_argument(
            "parts", nargs="*", metavar="PART",
            help="kernel-6.12, kernel-7.2, objects-6.12, image-host, image-engine ... "
            f"(default: {parts})",
        )  # fmt: skip
    for command in (made, served):
        command.add_argument(
            "--out", type=Path, default=Path("instruments"), help="folder of the archives"
        )
    served.add_argument("--address", default="", help="address to listen on (default: all)")
    served.add_argument(
        "--port", type=whole_option("port", 0, 65535), default=8000,
        help="port to listen on (default 8000; 0: any free one)",
    )  # fmt: skip
    made.add_argument(
        "--release", metavar="ADDRESS",
        help=f"pin the archives in {packed.RELEASE.relative_to(ROOT)}, as files of this address",
    )  # fmt: skip
    made.set_defaults(run=_pack)
    taken.set_defaults(run=_fetch)
    served.set_defaults(run=_serve, interrupted="the archives are kept")


def build_options(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    """Add options for users and for the workflow; return the group of the former."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--unpinned", action="store_true",
        help="if pinned sources are unavailable, use Debian's newest; every manifest records it",
    )  # fmt: skip
    parser.add_argument("--record", type=Path, help="write the provenance to this file")
    parser.add_argument(
        "--optional", action="store_true", help="succeed if its sources are unavailable"
    )
    return choice


def _part(name: str) -> tuple[str, Path, Path | None]:
    """Return a part's kind, its folder in the cache, and the existing folder, if any."""
    kind, _, rest = name.partition("-")
    if kind in (KERNEL, OBJECTS):
        spec = kernels.of_key(rest)
        if kind == OBJECTS:
            return kind, kernel.objects(spec), kernel.existing_objects(spec)
        return kind, kernel.target(spec), kernel.existing(spec)
    if kind == IMAGE and rest in image.names():
        return kind, image.target(rest), image.existing(rest)
    raise LosslabError(
        f"a part must be a kernel or its objects ({', '.join(kernels.declared())}) "
        f"or an image ({', '.join(image.names())}), found {name}",
        hint=f"such as {' '.join(DEFAULT_PARTS)}",
    )


def _pack(options: argparse.Namespace) -> int:
    built = [part for part in OTHERS if _part(part)[2]]
    archives: list[Path] = []
    for part in options.parts or [*WITH_OBJECTS, *built]:
        archives.append(_packed(part, options.out))
        print(archives[-1], flush=True)
        kind, _, key = part.partition("-")
        for patch in kernels.of_key(key).fetched if kind == KERNEL else ():
            print(shutil.copy(patch.get(), options.out / patch.archived), flush=True)
    if options.release:
        packed.write_release(options.release, archives)
    return 0


def _packed(part: str, out: Path) -> Path:
    kind, _, folder = _part(part)
    if folder is None:
        raise LosslabError(
            f"{part} must be built before it is packed, found no folder",
            hint=f"`{SET_UP}` builds the default ones, `losslab kernel` and `losslab image` "
            "the others",
        )
    return packed.pack(folder, kind, out)


def server(folder: Path, address: str, port: int) -> http.server.ThreadingHTTPServer:
    """Return a server of a folder's files; HostError if it cannot listen."""
    try:
        handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
        return http.server.ThreadingHTTPServer((address, port), handler)
    except OSError as error:
        raise HostError(
            f"the address {address or 'of all interfaces'} must have the free port {port}, found: "
            f"{error}",
            hint="choose another one with --address or --port",
        ) from error


def _serve(options: argparse.Namespace) -> int:
    with server(options.out, options.address, options.port) as serving:
        for part in options.parts or DEFAULT_PARTS:
            kind, target, _ = _part(part)
            if not (options.out / packed.archive_name(kind, target.name)).is_file():
                _packed(part, options.out)
        host = options.address or _own_address()
        place = f"http://{host}:{serving.server_port}"
        wheels = sorted(each.name.partition("-")[0] for each in options.out.glob("losslab*.whl"))
        program = "~/losslab/bin/losslab" if wheels else "losslab"
        print("Paste this on each machine, until Ctrl-C ends this server:")
        if wheels:
            pip = f"pip install --no-index --find-links {place} --trusted-host {host}"
            names = " ".join(wheels).replace("_", "-")
            print(f"  python3 -m venv ~/losslab\n  ~/losslab/bin/{pip} {names}")
        print(f"  {packed.PLACE}={place} {program} setup", flush=True)
        serving.serve_forever()
    return 0


def _own_address() -> str:
    """Return this machine's address in its network; its name if it has no route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # selects a route; nothing is sent
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


def _fetch(options: argparse.Namespace) -> int:
    missing = []
    for part in options.parts or DEFAULT_PARTS:
        kind, target, folder = _part(part)
        if there := folder or packed.install(kind, target):
            print(there, flush=True)
        else:
            missing.append(part)
    if missing and not packed.origin().place:
        print(
            f"losslab: note: set {packed.PLACE} to the place of {' '.join(missing)}",
            file=sys.stderr,
        )
    return 1 if missing else 0


def _build_image(options: argparse.Namespace) -> int:
    if options.relock:
        return show(image.relock(*([options.variant] if options.variant else [])))
    name = options.variant or image.HOST
    if options.pin_tree:
        return show([_pin_tree(name)])
    build = partial(image.build, name, archive.unpinned_allowed(options.unpinned))
    make(IMAGE, name, build, options.record, options.optional)
    return 0


def _pin_tree(name: str) -> str:
    """Pin the tree of the image that the current recipe builds; describe the pin."""
    names = [each for each in image.names() if image.recipe(each).parent == image.RECIPES]
    if name not in names:
        raise UsageError(f"--pin-tree must name an image of containers/, found {name}")
    recipe, before = image.content_hash(name), integrity.pins()
    # Drop the pins of older recipes.
    recipes = {image.content_hash(each) for each in names} - {recipe}
    kept = {each: row for each, row in before.items() if each in recipes}
    integrity.write_pins(kept)
    try:
        root = image.build(name) / integrity.TREE_ROOT
        sha256 = integrity.require(None, [root], whole=True)[root]
        kept[recipe] = (name, sha256)
    finally:
        integrity.write_pins(kept if recipe in kept else before)
    return f"{name}: tree {sha256}"


def show(changes: Sequence[str]) -> int:
    """Print changes, a line each."""
    print("\n".join(changes or ["nothing changed"]))
    return 0
