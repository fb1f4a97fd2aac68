"""Commands of a page as the acceptance suite runs them, and the phases of a set-up."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests import pages
from tests.acceptance.folder import Ran

CAMPAIGN = "tests/acceptance/campaign.yaml"
REPORT = "make report"
# Whole campaigns and long tests run in a smaller form or not at all. With --full, all but those
# that take days run unchanged. Each entry has the command, its substitute, and the reason.
SMALLER = {
    REPORT: (f"make report CONFIG={CAMPAIGN}", "four cells instead of the quick campaign"),
    "make test": ("", "takes an hour; `--full` runs it"),
    ".venv/bin/losslab score bbr --quick --out card": (
        ".venv/bin/losslab score bbr --quick --estimate --out card", "prints only the estimate",
    ),
}  # fmt: skip
ALWAYS = {
    ".venv/bin/snakemake --cores 8": (
        ".venv/bin/snakemake --cores 8 --dry-run --quiet all", "lists its jobs, which take hours",
    ),
    ".venv/bin/losslab shell --rtt-ms 20": (
        "echo 'sender ping -c 1 10.0.3.2' | .venv/bin/losslab shell --rtt-ms 20",
        "with a command on standard input",
    ),
}  # fmt: skip
# Output of set-up and workflow at the beginning of each phase.
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
    """A command of a page, and its substitute; empty if it is not run."""

    shown: str
    run: str
    why: str = ""


def steps(text: str, full: bool) -> list[Step]:
    """Return the commands of a page's text."""
    found = []
    for line in pages.lines(text):
        words = [shlex.join([*c.variables, *c.words]) for c in pages.commands(line)]
        shown = " | ".join(words)
        instead, why = (ALWAYS if full else ALWAYS | SMALLER).get(shown, (shown, ""))
        found.append(Step(shown, instead, why))
    return found


def verifying(text: str) -> str:
    """Return the commands that verify an artifact, from its how-to, as a line of shell."""
    section = next(part for part in SECTION.split(text) if part.startswith("Verify\n"))
    shown = pages.lines(section)
    last = next(i for i, line in enumerate(shown) if line.startswith("make "))
    return " && ".join(shown[: last + 1])


def parts(ran: Ran) -> dict[str, float]:
    """Split the duration of a set-up into phases by its output; the first includes the start."""
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
    """Return the command for root that a failed command prints; empty if it prints none."""
    found = HINT.search(ran.text)
    return found[1] if found else ""


def page(root: Path, name: str) -> str:
    """Read a page of the clone."""
    return (root / name).read_text()
