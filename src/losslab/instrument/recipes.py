"""The commands that build the instrument, pin it anew, and say where its parts were found."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from losslab.errors import LosslabError
from losslab.instrument import archive, image, kernel, kernels, kernelsource, pins, records


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `kernel`, `image` and `pins`."""
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
    made.add_argument("--variant", choices=image.names(), default=image.HOST)
    _pin_options(made)
    _record_options(made)
    made.set_defaults(run=_build_image)

    looked = commands.add_parser("pins", help="say where every pinned thing was found")
    looked.add_argument("--check", action="store_true", help="ask the servers what they have now")
    looked.add_argument("--json", action="store_true", help="for a machine")
    looked.set_defaults(run=_pins)


def _pin_options(parser: argparse.ArgumentParser) -> None:
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--unpinned",
        action="store_true",
        help="what is pinned cannot be had: take what Debian has now; every manifest says so",
    )
    choice.add_argument(
        "--relock", action="store_true", help="pin what Debian has now, and build nothing"
    )


def _record_options(parser: argparse.ArgumentParser) -> None:
    """Add what the workflow says."""
    parser.add_argument("--record", type=Path, help="write what it is made of into this file")
    parser.add_argument("--number", type=int, default=1, help="the how-manieth time it is recorded")
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
        return _say(image.relock())
    return _build(records.IMAGE, options.variant, image.build, options)


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
