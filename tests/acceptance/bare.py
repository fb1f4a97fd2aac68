"""The README's commands on a fresh Debian with only git, make and python3.

Needs root and mmdebstrap. Each case makes a root folder, clones this repository's commit into it,
and runs the page's commands there, with `make report` on a campaign of four cells. It leaves only
what `--out` names.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from bench.speed.__main__ import machine
from losslab import processes
from losslab.errors import LosslabError
from tests.acceptance import container, outcome, steps
from tests.acceptance.folder import ORDINARY_USER, ROOT_USER, Bare, Ran, bare
from tests.acceptance.options import Options

ROOT = Path(__file__).resolve().parents[2]
LOSSLAB = [sys.executable, "-m", "losslab.cli"]
PAGE, HOW_TO = "README.md", "docs/how-to/artifact.md"
# Packages of the commands, and further ones to build a missing kernel and image.
MOST_HINTS = 2
ARTIFACT = "losslab-artifact.tar.gz"


def missing(_: Options) -> str:
    """Return why this machine can make no root folder; empty if it can."""
    if os.geteuid() != 0:
        return "needs root"
    return "" if shutil.which("mmdebstrap") else "needs mmdebstrap: scripts/packages.sh machine"


def readme(suite: str, user: str, options: Options) -> None:
    """Run the README's commands in a release, as root or as an ordinary user.

    Raises:
        LosslabError: A command failed.
    """
    case = outcome.Case(suite, user, "fetched" if options.instruments else "built")
    here = machine()
    with _made(suite, user, options) as (made, variables):
        rows = follow(made, variables, options.full, options.keep_artifact)
    _print(rows)
    if options.write:
        outcome.write(case, here, rows)


def verify_artifact(options: Options) -> None:
    """Verify an artifact on a fresh Debian 13, with the commands of its page.

    Raises:
        LosslabError: A command failed.
    """
    assert options.artifact is not None
    with _made("trixie", "user", options) as (made, _):
        rows = verify(made, options.artifact)
    _print(rows)


def confined(options: Options) -> None:
    """Test Docker's default confinement on a fresh Debian 12.

    Raises:
        LosslabError: A trial had an unexpected outcome.
    """
    with _made("bookworm", "root", options) as (made, variables):
        wrong = container.tried(made, _clone(made), variables)
    if wrong:
        raise LosslabError(f"every trial must end as expected, found {wrong} that did not")


@contextlib.contextmanager
def _made(suite: str, user: str, options: Options) -> Iterator[tuple[Bare, dict[str, str]]]:
    """Make a root folder, and serve packed instruments to it, if there are any."""
    with contextlib.ExitStack() as stack:
        variables = {}
        if options.instruments:
            port = stack.enter_context(_served(_packed(options.instruments)))
            variables["LOSSLAB_INSTRUMENTS"] = f"http://127.0.0.1:{port}"
        name = ORDINARY_USER if user == "user" else ROOT_USER
        made = stack.enter_context(bare(suite, name, options.out))
        say(f"a root folder of {made.taken_bytes(Path('/')) / 1e6:.0f} MB")
        yield made, variables


def _print(rows: list[outcome.Row]) -> None:
    print(outcome.table(rows))
    if failed := [row.what for row in rows if row.failed]:
        raise LosslabError(f"every command must succeed, found failed: {', '.join(failed)}")


def say(words: str) -> None:
    """Report progress to the user."""
    print(f"acceptance: {words}", file=sys.stderr, flush=True)


def _packed(folder: Path) -> Path:
    """Pack this machine's kernel and image, unless the folder has them."""
    wanted = processes.run([*LOSSLAB, "instrument", "fetch"]).splitlines()
    names = [f"{Path(path).parent.name}-{Path(path).name}.tar.zst" for path in wanted]
    if not all((folder / name).is_file() for name in names):
        say("packing the instrument, some minutes")
        processes.run([*LOSSLAB, "instrument", "pack", "--out", folder])
    return folder


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[int]:
    """Serve a folder's files on the loopback interface; yield the port."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Report nothing."""

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def _clone(made: Bare) -> Path:
    """Clone this commit into the user's home; return its path inside the root folder."""
    clone = made.home / "losslab"
    processes.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, made.outside(clone)])
    made.needed(f"chown -R {made.user}: {clone}", user=ROOT_USER)
    return clone


def follow(
    made: Bare, variables: dict[str, str], full: bool, keep: Path | None
) -> list[outcome.Row]:
    """Run the README's commands in order, and pack the results."""
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
            break  # the other commands need it
    return rows


def _campaign(full: bool) -> str:
    return "config/quick.yaml" if full else steps.CAMPAIGN


def _as_said(
    made: Bare, command: str, cwd: Path, variables: dict[str, str]
) -> tuple[Ran, list[outcome.Row]]:
    """Run a command; if it asks root to run another first, do so and run it again."""
    say(command)
    ran = made.run(command, cwd=cwd, variables=variables)
    rows: list[outcome.Row] = []
    while not ran.good and (install := steps.for_root(ran)) and len(rows) < MOST_HINTS:
        say(f"as root: {install}")
        root = made.run(install, user=ROOT_USER, cwd=Path("/"))
        what = "as root: the packages that it names"
        rows.append(outcome.Row(what, root.wall_s, root.core_s, failed=not root.good))
        ran = made.run(command, cwd=cwd, variables=variables)
    return ran, rows


def _row(step: steps.Step, ran: Ran) -> outcome.Row:
    note = f"run as `{step.run}`: {step.why}" if step.run != step.shown else ""
    if not ran.good:
        last = (ran.text.splitlines() or ["nothing"])[-1]
        note = f"status {ran.status}: {last}"
        say(f"{step.run}: {note}")
    return outcome.Row(step.shown, ran.wall_s, ran.core_s, note=note, failed=not ran.good)


def sizes(made: Bare, clone: Path) -> list[outcome.Row]:
    """Return the disk space that the first report uses."""
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
    """Unpack an artifact in the user's home and verify it with the commands of its page."""
    shutil.copyfile(archive, made.outside(made.home / ARTIFACT))
    made.needed(f"chown {made.user}: {made.home / ARTIFACT}", user=ROOT_USER)
    command = steps.verifying(steps.page(ROOT, HOW_TO))
    ran, rows = _as_said(made, command, made.home, {})
    print("\n".join(ran.text.splitlines()[-12:]))
    step = steps.Step("make verify-artifact", "make verify-artifact")
    unpacked = made.taken_bytes(made.home / ARTIFACT.removesuffix(".tar.gz"))
    return [*rows, _row(step, ran), outcome.Row("– unpacked", size_mb=outcome.mb(unpacked))]
