"""Do what the pages say in a Debian that has nothing yet; say what time and room it takes.

    python -m tests.bare --suite bookworm              the README's commands, as root
    python -m tests.bare --suite trixie --user         as an ordinary user
    ... --instruments DIR                              with kernel and image fetched over HTTP; DIR
                                                       gets them if it does not have them
    ... --artifact FILE                                unpack an artifact, and verify it
    ... --instruments DIR --container                  what a container without privileges refuses

As root, with mmdebstrap (`scripts/packages.sh machine`). It makes a root folder with git, make and
python3 in it, clones this repository's commit into it, and runs there what stands on the page, with
`make report` on a campaign of four cells; --full runs it as it stands, and every test. It leaves
nothing but what --out names. With --write the times become rows of tests/bare/measured.tsv and
docs/reference/setup.md.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.speed.__main__ import machine
from losslab import interrupts, processes
from losslab.errors import LosslabError
from tests.bare import container, outcome, steps
from tests.bare.folder import ORDINARY_USER, ROOT_USER, Bare, Ran, bare

ROOT = Path(__file__).resolve().parents[2]
LOSSLAB = [sys.executable, "-m", "losslab.cli"]
SUITES = ("bookworm", "trixie", "noble")
# An archive of Ubuntu would have to be among those that apt knows; those of Debian do not have it.
SKIPPED = {"noble": "Ubuntu 24.04 needs an archive of Ubuntu, and apt here knows those of Debian"}
PAGE, HOW_TO = "README.md", "docs/how-to/artifact.md"
# Packages, and those that it takes to build what could not be fetched.
MOST_HINTS = 2
ARTIFACT = "losslab-artifact.tar.gz"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked for; say whether all of it went well."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bare", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "--suite", choices=SUITES, required=True, help="Debian 12, 13; Ubuntu 24.04"
    )
    parser.add_argument("--user", action="store_true", help="as an ordinary user")
    parser.add_argument("--instruments", type=Path, help="a folder of packed kernels and images")
    parser.add_argument("--full", action="store_true", help="the README's commands as they stand")
    parser.add_argument("--artifact", type=Path, help="verify this archive instead")
    parser.add_argument("--keep-artifact", type=Path, help="where `make artifact` is to be kept")
    parser.add_argument("--container", action="store_true", help="confine a guest instead")
    parser.add_argument("--out", type=Path, help="a new folder for what was said")
    parser.add_argument("--write", action="store_true", help="the times into the documentation")
    options = parser.parse_args(arguments)
    if options.suite in SKIPPED:
        print(f"bare: skipped: {SKIPPED[options.suite]}")
        return 0
    interrupts.unwind_on_signals()
    try:
        with contextlib.ExitStack() as stack:
            logs = options.out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            logs.mkdir(parents=True, exist_ok=True)
            return _run(options, logs, stack)
    except LosslabError as error:
        print(f"bare: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bare: interrupted: nothing is left", file=sys.stderr)
        return 130


def _run(options: argparse.Namespace, logs: Path, stack: contextlib.ExitStack) -> int:
    variables = {}
    if options.instruments:
        port = stack.enter_context(_served(_packed(options.instruments)))
        variables["LOSSLAB_INSTRUMENTS"] = f"http://127.0.0.1:{port}"
    case = outcome.Case(
        options.suite, "user" if options.user else "root",
        "fetched" if options.instruments else "built",
    )  # fmt: skip
    here = machine()
    print(f"bare: {case}; {100 * here['busy_with_others']:.0f} % of the machine is used by others")
    user = ORDINARY_USER if options.user else ROOT_USER
    with bare(options.suite, user, logs) as made:
        say(f"a root folder of {made.taken_bytes(Path('/')) / 1e6:.0f} MB")
        if options.artifact:
            rows = verify(made, options.artifact)
        elif options.container:
            return container.tried(made, _clone(made), variables)
        else:
            rows = follow(made, variables, options.full, options.keep_artifact)
    print(outcome.table(rows))
    if any(row.failed for row in rows):
        return 1
    if options.write:
        outcome.write(case, here, rows)
    return 0


def say(words: str) -> None:
    """Tell who waits."""
    print(f"bare: {words}", file=sys.stderr, flush=True)


def _packed(folder: Path) -> Path:
    """Pack this machine's kernel and image, unless the folder has them."""
    wanted = processes.run([*LOSSLAB, "instrument", "fetch"]).splitlines()
    names = [f"{Path(path).parent.name}-{Path(path).name}.tar.xz" for path in wanted]
    if not all((folder / name).is_file() for name in names):
        say("packing the instrument, some minutes")
        processes.run([*LOSSLAB, "instrument", "pack", "--out", folder])
    return folder


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[int]:
    """Serve a folder's files on loopback; give the port."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def _clone(made: Bare) -> Path:
    """Clone this commit into a user's home; return the path in there."""
    clone = made.home / "losslab"
    processes.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, made.outside(clone)])
    made.needed(f"chown -R {made.user}: {clone}", user=ROOT_USER)
    return clone


def follow(
    made: Bare, variables: dict[str, str], full: bool, keep: Path | None
) -> list[outcome.Row]:
    """Run the README's commands one after the other, and pack what was measured."""
    clone = _clone(made)
    rows = [outcome.Row("git clone", size_mb=outcome.mb(made.taken_bytes(clone)))]
    for step in steps.steps(steps.page(ROOT, PAGE), full):
        if not step.run:
            rows.append(outcome.Row(step.shown, note=f"not run: {step.why}"))
            continue
        first = step.shown == steps.REPORT
        ran, packages = _as_said(made, step.run, clone, variables)
        rows += packages
        rows.append(_row(step, ran))
        if first and ran.good:
            rows += [
                outcome.Row(f"– {name}", seconds) for name, seconds in steps.parts(ran).items()
            ]
            rows += sizes(made, clone)
            pack = f"make artifact CONFIG={_campaign(full)}"
            packed = made.run(pack, cwd=clone, variables=variables)
            rows.append(_row(steps.Step(pack, pack), packed))
            if keep and packed.good:
                shutil.copyfile(made.outside(clone / ARTIFACT), keep)
        elif first:
            break  # nothing else can work
    return rows


def _campaign(full: bool) -> str:
    return "config/quick.yaml" if full else steps.CAMPAIGN


def _as_said(
    made: Bare, command: str, cwd: Path, variables: dict[str, str]
) -> tuple[Ran, list[outcome.Row]]:
    """Run a command; where it says what root must do first, let root do it and run it again."""
    say(command)
    ran = made.run(command, cwd=cwd, variables=variables)
    rows: list[outcome.Row] = []
    while not ran.good and (install := steps.for_root(ran)) and len(rows) < MOST_HINTS:
        say(f"as root: {install}")
        root = made.run(install, user=ROOT_USER, cwd=Path("/"))
        what = "as root: what it says is to be installed"
        rows.append(outcome.Row(what, root.wall_s, root.core_s, failed=not root.good))
        ran = made.run(command, cwd=cwd, variables=variables)
    return ran, rows


def _row(step: steps.Step, ran: Ran) -> outcome.Row:
    note = f"as `{step.run}`: {step.why}" if step.run != step.shown else ""
    if not ran.good:
        last = (ran.text.splitlines() or ["nothing"])[-1]
        note = f"status {ran.status}: {last}"
        say(f"{step.run}: {note}")
    return outcome.Row(step.shown, ran.wall_s, ran.core_s, note=note, failed=not ran.good)


def sizes(made: Bare, clone: Path) -> list[outcome.Row]:
    """Say what is taken by what a first report leaves."""
    cache = made.home / ".cache"
    what = {
        "Debian, with its packages": [Path("/usr"), Path("/var"), Path("/etc")],
        "`.venv`": [clone / ".venv"],
        "`~/.cache`: kernel, image, downloads": [cache],
        "`results`": [clone / "results"],
    }
    return [
        outcome.Row(f"– {name}", size_mb=outcome.mb(made.taken_bytes(*paths)))
        for name, paths in what.items()
    ]


def verify(made: Bare, archive: Path) -> list[outcome.Row]:
    """Unpack an artifact at home and verify it as its page says."""
    shutil.copyfile(archive, made.outside(made.home / ARTIFACT))
    made.needed(f"chown {made.user}: {made.home / ARTIFACT}", user=ROOT_USER)
    command = steps.verifying(steps.page(ROOT, HOW_TO))
    ran, rows = _as_said(made, command, made.home, {})
    print("\n".join(ran.text.splitlines()[-12:]))
    step = steps.Step("make verify-artifact", "make verify-artifact")
    unpacked = made.taken_bytes(made.home / ARTIFACT.removesuffix(".tar.gz"))
    return [*rows, _row(step, ran), outcome.Row("– unpacked", size_mb=outcome.mb(unpacked))]


if __name__ == "__main__":
    sys.exit(main())
