"""The commands `kernel`, which builds one, and `source`, which prints a file of one.

With an added algorithm, `kernel` also boots it once.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from losslab.backends import runner, virtual
from losslab.backends.base import Job
from losslab.campaign.instrument import instrument
from losslab.errors import LosslabError
from losslab.instrument import changes, image, kernel, kernels, layouts, packed, records
from losslab.instrument.algorithms import explained
from losslab.instrument.archive import unpinned_allowed
from losslab.instrument.kernels import Kernel
from losslab.reading import UsageError
from losslab.repository import ROOT
from losslab.study import design

# What a kernel has registered, and the time to boot one and read it.
AVAILABLE, BOOT_TIMEOUT_S = "/proc/sys/net/ipv4/tcp_available_congestion_control", 60.0


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `kernel` and `source`."""
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
    records.build_options(made)
    made.set_defaults(run=_build_kernel)
    printed = commands.add_parser("source")
    printed.add_argument("file", metavar="FILE", help="name or path, such as tcp_cubic.c")
    printed.add_argument(
        "--kernel", default=kernels.DEFAULT, metavar="NAME", help="kernel of config/kernels.toml"
    )
    printed.set_defaults(run=_print_source)


def _print_source(options: argparse.Namespace) -> int:
    path, content = changes.original(options.file, kernels.get(options.kernel))
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
    build = partial(kernel.build, unpinned_allowed(options.unpinned), spec, layouts.require_room)
    records.make(packed.KERNEL, spec.key, build, options.record, options.optional)
    if spec.algorithms and image.existing():
        records.show(registration(spec))
    return 0


def registration(spec: Kernel) -> list[str]:
    """Boot a kernel once; return a line on each added algorithm, which it must register."""
    tools = instrument(spec=spec)
    read = f"cat {AVAILABLE} >available; dmesg | grep losslab: >log; "
    read += "grep -s . /sys/module/*/parameters/* >values"
    with tempfile.TemporaryDirectory(prefix="losslab-boot-") as name:
        task = {"kind": "command", "command": ["sh", "-c", f"{read} || true"]}
        runner.run(virtual.Guest(), tools, Job(task, Path(name), 1, BOOT_TIMEOUT_S, alone=True))
        available = (Path(name) / "available").read_text().split()
        log = (Path(name) / "log").read_text(errors="replace").splitlines()
        values = (Path(name) / "values").read_text(errors="replace").splitlines()
    said, found = [line.partition("losslab: ")[2] for line in log], []
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
    return found


def _try_all(algorithms: Sequence[str]) -> int:
    """Build algorithms on every kernel with object files; print a line each."""
    if not algorithms:
        raise UsageError("--try-all must have an --algorithm, found none")
    works = False
    for name in kernels.declared():
        spec = kernels.get(name, algorithms)
        if kernel.existing_objects(spec.base) is None:
            print(f"{name}: not compiled on this machine: `losslab kernel --name {name}`")
            continue
        try:
            kernel.build(True, spec, layouts.require_room)
            said = "; ".join(registration(spec))
            works = True
        except LosslabError as error:
            # The explanation of a build's error, or else its first error of the compiler.
            lines = error.message.splitlines()
            errors = [each for each in lines if "error: " in each or "multiple definition" in each]
            said = (explained(error.message) or errors or lines)[0]
        print(f"{name}: {said}", flush=True)
    return 0 if works else 1
