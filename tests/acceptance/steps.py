"""The commands of a page, as they are run in a root folder, and the parts of the first."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests import pages
from tests.acceptance.folder import Ran

CAMPAIGN = "tests/acceptance/campaign.yaml"
REPORT = "make report"
# What a whole campaign or an hour of tests would be is run in a smaller form, or not at all; with
# --full as it stands, but for what takes days. The command, what is run in its place, and why.
SMALLER = {
    REPORT: (f"make report CONFIG={CAMPAIGN}", "four cells in place of the quick campaign"),
    "make test": ("", "an hour; with --full"),
    ".venv/bin/losslab score bbr --quick --out card": (
        ".venv/bin/losslab score bbr --quick --estimate --out card", "says what it would take",
    ),
}  # fmt: skip
ALWAYS = {
    ".venv/bin/snakemake --cores 8": (
        ".venv/bin/snakemake --cores 8 --dry-run --quiet all", "lists its jobs: hours",
    ),
    ".venv/bin/losslab shell --rtt-ms 20": (
        "echo 'sender ping -c 1 10.0.3.2' | .venv/bin/losslab shell --rtt-ms 20",
        "with words to read",
    ),
}  # fmt: skip
# What set-up and the workflow say when a part of their work begins.
BEGINS = {
    "losslab: installing ": "Debian packages",
    "losslab: making .venv": "Python packages",
    "losslab: fetching ": "kernel and image, fetched",
    ".venv/bin/snakemake": "kernel, image, measuring, report",
}
HINT = re.compile(r"-> run as root:  (.*)$", re.MULTILINE)
SECTION = re.compile(r"^## ", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """A command of a page, and what is run for it; nothing where it is left out."""

    shown: str
    run: str
    why: str = ""


def steps(text: str, full: bool) -> list[Step]:
    """List the commands of a page's text."""
    found = []
    for line in pages.lines(text):
        words = [shlex.join([*c.variables, *c.words]) for c in pages.commands(line)]
        shown = " | ".join(words)
        instead, why = (ALWAYS if full else ALWAYS | SMALLER).get(shown, (shown, ""))
        found.append(Step(shown, instead, why))
    return found


def verifying(text: str) -> str:
    """Give what the how-to on artifacts says of verifying one, as a line of shell."""
    section = next(part for part in SECTION.split(text) if part.startswith("Verify\n"))
    shown = pages.lines(section)
    last = next(i for i, line in enumerate(shown) if line.startswith("make "))
    return " && ".join(shown[: last + 1])


def parts(ran: Ran) -> dict[str, float]:
    """Split the seconds of a set-up by what it says; what it does before is of its first part."""
    begins = [(0.0, "")]
    for at, line in ran.lines:
        name = next((name for words, name in BEGINS.items() if line.startswith(words)), None)
        if name:
            begins.append((at, name))
    ends = [at for at, _ in begins[1:]] + [ran.wall_s]
    found: dict[str, float] = {}
    first = begins[1][1] if len(begins) > 1 else "all"
    for (begin, name), end in zip(begins, ends, strict=True):
        found[name or first] = round(found.get(name or first, 0.0) + end - begin, 1)
    return found


def for_root(ran: Ran) -> str:
    """Return what a command that failed says is to be run as root; nothing where it does not."""
    found = HINT.search(ran.text)
    return found[1] if found else ""


def page(root: Path, name: str) -> str:
    """Read a page of the clone."""
    return (root / name).read_text()
