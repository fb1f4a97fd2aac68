"""The commands that build the instrument, pin it anew, and say where its parts were found."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from losslab.errors import LosslabError
from losslab.instrument import (
    archive,
    image,
    integrity,
    kernel,
    kernels,
    kernelsource,
    packed,
    pins,
    records,
)
from losslab.instrument.cache import ROOT
from losslab.reading import whole_option

DEFAULT_PARTS = (f"{records.KERNEL}-{kernel.PLAIN}", f"{records.IMAGE}-{image.HOST}")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `kernel`, `image`, `instrument` and `pins`."""
    made = commands.add_parser("kernel", help="build the pinned kernel and print its folder")
    made.add_argument("--variant", choices=kernel.VARIANTS, default=kernel.VARIANTS[0])
    made.add_argument(
        "--name", default=kernels.DEFAULT, help="one of config/kernels.toml (default: its default)"
    )
    made.add_argument(
        "--algorithm", action="append", default=[], metavar="NAME",
        help="add algorithms/NAME/tcp_NAME.c; repeat for more",
    )  # fmt: skip
    _pin_options(made)
    _record_options(made)
    made.set_defaults(run=_build_kernel)
    made = commands.add_parser("image", help="build an image and print its folder")
    made.add_argument("--variant", choices=image.names(), help="default: host")
    choice = _pin_options(made)
    choice.add_argument(
        "--pin-tree", action="store_true",
        help="build it from its lock, and pin the digest of its files in "
        f"{integrity.PINS.relative_to(ROOT)}: an image with others is refused",
    )  # fmt: skip
    _record_options(made)
    made.set_defaults(run=_build_image)

    _packed_commands(commands)
    looked = commands.add_parser("pins", help="say where every pinned thing was found")
    looked.add_argument("--check", action="store_true", help="ask the servers what they have now")
    looked.add_argument("--json", action="store_true", help="for a machine")
    looked.set_defaults(run=_pins)


def _packed_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `instrument pack` and `instrument fetch`."""
    group = commands.add_parser("instrument", help="kernels and images as archives")
    kinds = group.add_subparsers(required=True, metavar="WHAT")
    made = kinds.add_parser("pack", help="write an archive of each kernel and image")
    taken = kinds.add_parser(
        "fetch", help=f"take kernels and images from where {packed.PLACE} names"
    )
    for command in (made, taken):
        command.add_argument(
            "parts", nargs="*", metavar="PART", default=DEFAULT_PARTS,
            help="kernel-plain, kernel-containers, kernel-plain+6.1, image-host, image-engine ... "
            f"(default: {' '.join(DEFAULT_PARTS)})",
        )  # fmt: skip
    made.add_argument("--out", type=Path, default=Path("instruments"), help="folder to write to")
    made.add_argument(
        "--record", action="store_true",
        help=f"vouch for the archives in {packed.PINS.relative_to(ROOT)}: no others are taken",
    )  # fmt: skip
    made.set_defaults(run=_pack)
    taken.set_defaults(run=_fetch)


def _folder(part: str) -> tuple[str, Path, Path | None]:
    """Say of a part of what kind it is, where it belongs in the cache, and where it is there."""
    kind, _, name = part.partition("-")
    if kind == records.KERNEL:
        variant, which = kernel.parsed(name)
        if variant in kernel.VARIANTS:
            return kind, kernel.target(variant, which), kernel.existing(variant, which)
    elif kind == records.IMAGE and name in image.names():
        return kind, image.target(name), image.existing(name)
    raise LosslabError(
        f"a part must be a kernel ({', '.join(kernel.VARIANTS)}, with +NAME of "
        f"config/kernels.toml) or an image ({', '.join(image.names())}), found {part}",
        hint=f"such as {' '.join(DEFAULT_PARTS)}",
    )


def _pack(options: argparse.Namespace) -> int:
    archives = []
    for part in options.parts:
        kind, _, folder = _folder(part)
        if folder is None:
            raise LosslabError(
                f"{part} must be built before it is packed, found none",
                hint="`make setup` builds the default ones, `losslab kernel` and `losslab image` "
                "the others",
            )
        archives.append(packed.pack(folder, kind, options.out))
        print(archives[-1], flush=True)
    if options.record:
        packed.write_pins(archives)
    return 0


def _fetch(options: argparse.Namespace) -> int:
    missing = []
    for part in options.parts:
        kind, wanted, folder = _folder(part)
        if folder is None and not packed.install(kind, wanted):
            missing.append(part)
        else:
            print(folder or wanted, flush=True)
    if missing and not os.environ.get(packed.PLACE):
        print(
            f"losslab: note: {packed.PLACE} names no place to take {' '.join(missing)} from",
            file=sys.stderr,
        )
    return 1 if missing else 0


def _pin_options(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--unpinned",
        action="store_true",
        help="what is pinned cannot be had: take what Debian has now; every manifest says so",
    )
    choice.add_argument(
        "--relock", action="store_true", help="pin what Debian has now, and build nothing"
    )
    return choice


def _record_options(parser: argparse.ArgumentParser) -> None:
    """Add what the workflow says."""
    parser.add_argument("--record", type=Path, help="write what it is made of into this file")
    parser.add_argument(
        "--number", type=whole_option("number", 0), default=1,
        help="build counter; increment it to force a rebuild",
    )  # fmt: skip
    parser.add_argument(
        "--only-with", type=Path, nargs="*", default=[], help="not if one records an absent part"
    )
    parser.add_argument(
        "--optional", action="store_true", help="record it if the sources cannot be had"
    )


def _build_kernel(options: argparse.Namespace) -> int:
    which = kernels.get(options.name, options.algorithm)
    if options.relock:
        return _say(kernelsource.relock(which.series))
    for name in options.algorithm:
        if kernels.source_of(name) not in which.algorithms:
            raise LosslabError(
                f"an algorithm to add must be {kernels.source_of(name)}, found no such file",
                hint=f"`losslab new algorithm {name}` makes its skeleton",
            )

    def build(variant: str, unpinned: bool) -> Path:
        return kernel.build(variant, unpinned, which)

    return _build(records.KERNEL, kernel.named(options.variant, which), build, options)


def _build_image(options: argparse.Namespace) -> int:
    if options.relock:
        return _say(image.relock(*([options.variant] if options.variant else [])))
    options.variant = options.variant or image.HOST
    if options.pin_tree:
        return _say([_pin_tree(options.variant)])
    return _build(records.IMAGE, options.variant, image.build, options)


def _pin_tree(name: str) -> str:
    """Pin the files of the image that today's recipe builds; return what was pinned."""
    recipe, before = image.content_hash(name), integrity.pins()
    # The pins of older recipes are of no use any more.
    recipes = {image.content_hash(each) for each in image.names()} - {recipe}
    kept = {each: row for each, row in before.items() if each in recipes}
    integrity.write_pins(kept)
    try:
        root = image.build(name) / integrity.TREE_ROOT
        sha256 = integrity.require(None, [root], whole=True)[root]
        kept[recipe] = (name, sha256)
    finally:
        integrity.write_pins(kept if recipe in kept else before)
    return f"{name}: tree {sha256}"


def _build(
    kind: str, name: str, build: Callable[[str, bool], Path], options: argparse.Namespace
) -> int:
    """Build and print the folder, or record it for the workflow."""
    unpinned = archive.unpinned_allowed(options.unpinned)
    if options.record is None:
        print(build(options.variant, unpinned))
    else:
        records.make(
            kind, name, lambda: build(options.variant, unpinned), options.record,
            options.number, options.only_with, options.optional,
        )  # fmt: skip
    return 0


def _say(changes: Sequence[str]) -> int:
    """Print what was pinned anew."""
    print("\n".join(changes or ["nothing changed"]))
    return 0


def _pins(options: argparse.Namespace) -> int:
    found = pins.examine(options.check)
    if options.json:
        print(json.dumps([asdict(pin) for pin in found], indent=1))
    else:
        print("\n".join(pin.line() for pin in found))
    return 1 if any(pin.lost for pin in found) else 0
