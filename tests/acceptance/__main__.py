"""Acceptance tests on other machines: `python -m tests.acceptance NAME...`.

    python -m tests.acceptance --list                  list cases, what they do and need
    python -m tests.acceptance slurm netem             run these; `all` runs all that can run here
    ... --instruments DIR                              fetch kernel and image over HTTP from DIR,
                                                       which gets them if it lacks them
    ... --full                                         run the README's commands unchanged (hours)
    ... --write                                        write docs/reference/acceptance.md

A case that this machine cannot run is skipped with the reason. Exit status 1: a case failed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from losslab import interrupts
from losslab.errors import LosslabError
from tests.acceptance import bare, netem, outcome, processors, slurm
from tests.acceptance.options import Options


@dataclass(frozen=True)
class Case:
    """A case of the acceptance suite, and the reason why it cannot run here."""

    does: str
    needs: str
    missing: Callable[[Options], str]
    run: Callable[[Options], None]
    option: str = ""  # a required option


ROOT_FOLDER = "root, mmdebstrap, the network"
CASES = {
    **{
        f"debian-{number}{'-user' if user == 'user' else ''}": Case(
            f"the README's commands in a new Debian {number}, as "
            + ("an ordinary user" if user == "user" else "root"),
            ROOT_FOLDER, bare.missing, partial(bare.readme, suite, user),
        )
        for number, suite in (("12", "bookworm"), ("13", "trixie"))
        for user in ("root", "user")
    },
    "artifact": Case(
        "verify an artifact in a new Debian 13", f"{ROOT_FOLDER}, --artifact FILE",
        bare.missing, bare.verify_artifact, "artifact",
    ),
    "container": Case(
        "what a Docker container without privileges refuses a guest",
        f"{ROOT_FOLDER}, --instruments DIR", bare.missing, bare.confined, "instruments",
    ),
    "slurm": Case(
        "a campaign through Slurm as an ordinary user has a local run's bytes",
        "root, slurm-wlm, munge", slurm.missing, slurm.compare_with_local,
    ),
    "slurm-kill": Case(
        "the same; the node is killed in the middle, and comes back",
        "root, slurm-wlm, munge", slurm.missing, partial(slurm.compare_with_local, kill=True),
    ),
    "netem": Case(
        "a cell in real time on Debian's own kernel, emulated: netem's delay and loss",
        "root, QEMU", netem.missing, netem.one_cell,
    ),
    "netem-campaign": Case(
        "a campaign's cells in real time there; the workflow goes on from them in --out",
        "root, QEMU, --campaign FILE", netem.missing, netem.campaign, "campaign",
    ),
    "processors": Case(
        f"golden conditions on {', '.join(processors.MODELS)}, emulated, have the recorded bytes",
        "QEMU", processors.missing, processors.compare,
    ),
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cases one after the other; return 1 if one failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.acceptance", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases, or all")
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--instruments", type=Path, help="a folder of packed kernels and images")
    parser.add_argument("--artifact", type=Path, help="an archive to verify")
    parser.add_argument("--keep-artifact", type=Path, help="where `make artifact` is to be kept")
    parser.add_argument("--campaign", type=Path, help="a configuration")
    parser.add_argument("--full", action="store_true", help="the README's commands as they stand")
    parser.add_argument("--out", type=Path, help="folder for what was said and measured")
    parser.add_argument("--write", action="store_true", help="record the runs in the documentation")
    given = vars(parser.parse_args(arguments))
    names, listing = given.pop("names"), given.pop("list")
    names = [*CASES] if names == ["all"] else names
    if listing or not names:
        for name, case in CASES.items():
            print(f"{name:16} {case.does}\n{'':16} needs {case.needs}")
        return 0
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"a case must be one of {', '.join(CASES)}, found {', '.join(unknown)}")
    interrupts.unwind_on_signals()
    with tempfile.TemporaryDirectory(prefix="losslab-acceptance-") as folder:
        options = Options(**given | {"out": given["out"] or Path(folder)})
        ended = [_ended(name, options) for name in names]
    print("\n".join(f"{name}: {how}" for name, how in zip(names, ended, strict=True)))
    return 1 if any(how.startswith("failed") for how in ended) else 0


def _ended(name: str, options: Options) -> str:
    """Run a case; return its outcome."""
    case = CASES[name]
    absent = case.option and getattr(options, case.option) is None
    if reason := f"needs --{case.option}" if absent else case.missing(options):
        return f"skipped: {reason}"
    folder = options.out / name
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    try:
        case.run(replace(options, out=folder))
    except LosslabError as error:
        return f"failed: {error}"
    seconds = time.monotonic() - begin
    if options.write:
        outcome.record(name, f"as expected, in {seconds:.0f} s")
    return f"as expected, in {seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
