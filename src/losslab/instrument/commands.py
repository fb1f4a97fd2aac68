"""The commands `image`, `instrument`, `kernel` and `source`: build, pin, pack and fetch parts.

With an added algorithm, `kernel` also boots the kernel once.
"""

from __future__ import annotations

import argparse
import http.server
import shutil
import socket
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from losslab.backends import runner, virtual
from losslab.backends.base import Job
from losslab.campaign.instrument import instrument
from losslab.errors import HostError, LosslabError
from losslab.instrument import (
    built,
    csource,
    fetch,
    image,
    integrity,
    kernel,
    kernels,
    kernelsource,
    packed,
)
from losslab.instrument.csource import explained
from losslab.instrument.kernels import Kernel
from losslab.instrument.packed import IMAGE, KERNEL, OBJECTS
from losslab.instrument.part import Part
from losslab.reading import UsageError, whole_option
from losslab.repository import ROOT, SET_UP
from losslab.study import design

DEFAULT_PARTS = (f"{KERNEL}-{kernels.default().key}", f"{IMAGE}-{image.HOST}")
WITH_OBJECTS = (*DEFAULT_PARTS, f"{OBJECTS}-{kernels.default().key}")
OTHERS = [f"{IMAGE}-{image.ENGINE}", f"{IMAGE}-ffmpeg", f"{KERNEL}-6.12-bbr3"]
INIT_LINES = 20  # of a module, that are printed
# What a kernel has registered, and the time to boot one and read it.
AVAILABLE, BOOT_TIMEOUT_S = "/proc/sys/net/ipv4/tcp_available_congestion_control", 60.0


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `image`, `instrument`, `kernel` and `source`."""
    made = commands.add_parser("image")
    made.add_argument("--variant", metavar="NAME", help="default: host")
    choice = _build_options(made)
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

    made = commands.add_parser("kernel")
    made.add_argument(
        "--name",
        help="kernel of config/kernels.toml or kernels/ (default: the algorithm's, or else 6.12)",
    )
    made.add_argument(
        "--algorithm", action="append", default=[], metavar="NAME",
        help="add the congestion control of algorithms/NAME, and boot once; may be repeated",
    )  # fmt: skip
    made.add_argument(
        "--try-all", action="store_true",
        help="build the algorithm on every kernel that this machine has compiled, and say where "
        "it works",
    )  # fmt: skip
    _build_options(made)
    made.set_defaults(run=_build_kernel)
    printed = commands.add_parser("source")
    printed.add_argument("file", metavar="FILE", help="name or path, such as tcp_cubic.c")
    printed.add_argument(
        "--kernel", default=kernels.DEFAULT, metavar="NAME", help="kernel of config/kernels.toml"
    )
    printed.set_defaults(run=_print_source)


def _build_options(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
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


def _part(name: str) -> Part:
    """Return the part with a name such as kernel-6.12, objects-6.12 or image-host."""
    kind, _, rest = name.partition("-")
    if kind in (KERNEL, OBJECTS) or (kind == IMAGE and rest in image.names()):
        return built.part(kind, rest)
    raise LosslabError(
        f"a part must be a kernel or its objects ({', '.join(kernels.declared())}) "
        f"or an image ({', '.join(image.names())}), found {name}",
        hint=f"such as {' '.join(DEFAULT_PARTS)}",
    )


def _pack(options: argparse.Namespace) -> int:
    others = [part for part in OTHERS if _part(part).existing()]
    archives: list[Path] = []
    for part in options.parts or [*WITH_OBJECTS, *others]:
        archives.append(_packed(part, options.out))
        print(archives[-1], flush=True)
        kind, _, key = part.partition("-")
        for patch in kernels.of_key(key).fetched if kind == KERNEL else ():
            print(shutil.copy(patch.get(), options.out / patch.archived), flush=True)
    if options.release:
        packed.write_release(options.release, archives)
    return 0


def _packed(part: str, out: Path) -> Path:
    its = _part(part)
    folder = its.existing()
    if folder is None:
        raise LosslabError(
            f"{part} must be built before it is packed, found no folder",
            hint=f"`{SET_UP}` builds the default ones, `losslab kernel` and `losslab image` "
            "the others",
        )
    return packed.pack(folder, its.kind, out)


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
            its = _part(part)
            if not (options.out / packed.archive_name(its.kind, its.target().name)).is_file():
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
        if folder := _part(part).fetch():
            print(folder, flush=True)
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
        return _show(image.relock(*([options.variant] if options.variant else [])))
    name = options.variant or image.HOST
    if options.pin_tree:
        return _show([_pin_tree(name)])
    build = partial(image.part(name).build, fetch.unpinned_allowed(options.unpinned))
    built.make(IMAGE, name, build, options.record, options.optional)
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
        root = image.part(name).build() / integrity.TREE_ROOT
        sha256 = integrity.require(None, [root], whole=True)[root]
        kept[recipe] = (name, sha256)
    finally:
        integrity.write_pins(kept if recipe in kept else before)
    return f"{name}: tree {sha256}"


def _show(changes: Sequence[str]) -> int:
    """Print changes, a line each."""
    print("\n".join(changes or ["nothing changed"]))
    return 0


def _print_source(options: argparse.Namespace) -> int:
    path, content = kernelsource.original(options.file, kernels.get(options.kernel))
    print(f"losslab: {path}", file=sys.stderr)
    sys.stdout.write(content.decode())
    return 0


def _build_kernel(options: argparse.Namespace) -> int:
    if options.try_all:
        return _try_all(options.algorithm)
    table = design.load_names(ROOT).algorithms if options.algorithm else {}
    needed = {table.get(name, kernels.DEFAULT) for name in options.algorithm} - {kernels.DEFAULT}
    spec = kernels.get(options.name or min(needed, default=kernels.DEFAULT), options.algorithm)
    for name in options.algorithm:
        if kernels.source_of(name) not in spec.algorithms:
            raise LosslabError(
                f"an added algorithm must be in {kernels.source_of(name)}, found no such file",
                hint=f"`losslab new algorithm {name}` makes its skeleton",
            )
    part = kernel.part(spec, kernelsource.require_room)
    build = partial(part.build, fetch.unpinned_allowed(options.unpinned))
    built.make(KERNEL, spec.key, build, options.record, options.optional)
    if spec.algorithms and image.part().existing():
        _show(registration(spec))
    return 0


def registration(spec: Kernel) -> list[str]:
    """Boot a kernel once; return a line on each added algorithm, which it must register."""
    tools = instrument(spec=spec)
    read = f"cat {AVAILABLE} >available; dmesg >log; "
    read += "grep -s . /sys/module/*/parameters/* >values"
    with tempfile.TemporaryDirectory(prefix="losslab-boot-") as name:
        task = {"kind": "command", "command": ["sh", "-c", f"{read} || true"]}
        runner.run(virtual.Guest(), tools, Job(task, Path(name), 1, BOOT_TIMEOUT_S, alone=True))
        available = (Path(name) / "available").read_text().split()
        log = (Path(name) / "log").read_text(errors="replace").splitlines()
        values = (Path(name) / "values").read_text(errors="replace").splitlines()
    said, found = [line.partition("losslab: ")[2] for line in log if "losslab: " in line], []
    for algorithm in (path.parent.name for path in spec.algorithms):
        if algorithm not in available:
            raise LosslabError(
                f"{algorithm} must register when {spec.title} boots, found that it does not: "
                f"{'; '.join(said) or 'its init function did not return'}",
                hint="its init function must return tcp_register_congestion_control(&...); a "
                "negative number is an error: -22 a missing function, -17 a name that is taken",
            )
        place = f"/sys/module/tcp_{algorithm.replace('-', '_')}/parameters/"
        its = [v.removeprefix(place).replace(":", "=", 1) for v in values if v.startswith(place)]
        its = [f"its parameters are {', '.join(its)}"] * bool(its)
        found.append("; ".join([f"{algorithm} registers on {spec.name}", *its]))
        modules = [path for path in spec.algorithms if path.parent.name == algorithm]
        lines = csource.printed(log, modules)
        found += [
            f"its init function prints: {csource.untimed(line)}" for line in lines[:INIT_LINES]
        ]
    return found


def _try_all(algorithms: Sequence[str]) -> int:
    """Build algorithms on every kernel with object files; print a line each."""
    if not algorithms:
        raise UsageError("--try-all must have an --algorithm, found none")
    works = False
    for name in kernels.declared():
        spec = kernels.get(name, algorithms)
        if kernel.objects(spec.base).existing() is None:
            print(f"{name}: not compiled on this machine: `losslab kernel --name {name}`")
            continue
        try:
            kernel.part(spec, kernelsource.require_room).build(unpinned=True)
            said = "; ".join(registration(spec))
            works = True
        except LosslabError as error:
            # The explanation of a build's error, or else its first error of the compiler.
            lines = error.message.splitlines()
            errors = [each for each in lines if "error: " in each or "multiple definition" in each]
            said = (explained(error.message) or errors or lines)[0]
        print(f"{name}: {said}", flush=True)
    return 0 if works else 1
