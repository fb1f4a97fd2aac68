"""Places of files in earlier versions, and where losslab looks for them now."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from losslab.errors import LosslabError

# Files of a campaign's folder: a regular expression, and the new place.
OF_FOLDERS = (
    (r"config/studies/(\w+)\.yaml", r"studies/\1/study.yaml"),
    (r"config/published/([a-z0-9]+)\.csv", r"studies/\1/published.csv"),
    (r"config/published/([a-z0-9]+)_curves\.csv", r"studies/\1/curves.csv"),
    (r"report/claims/(\w+)\.yaml", r"studies/\1/claims.yaml"),
    (r"report/_([a-z0-9]+)\.qmd", r"studies/\1/chapter.qmd"),
    (r"analysis/studies/(\w+)/(.+\.R)", r"studies/\1/\2"),
    (r"config/suites/([a-z0-9-]+)\.yaml", r"suites/\1/suite.yaml"),
)
# Recorded verdicts, which are now a table of claims per campaign.
VERDICTS = "report/verdicts.tsv"
# Files of losslab.
OF_LOSSLAB = (
    (r"config/suites/bbr3-repaired\.patch", "suites/bbr-draft/bbr3-repaired.patch"),
    (
        "config/(backends|claims|contest|kernels|map|quic|quick|realtime|realtime-netem|score|"
        r"stacks)\.yaml",
        r"config/campaigns/\1.yaml",
    ),
    (r"docs/results/conform\.tsv", "recorded/conform.tsv"),
    (r"docs/results/(\w+)\.tsv", r"recorded/\1/record.tsv"),
    (r"docs/results/(\w+)/?", r"recorded/\1"),
)


def new_place(path: Path) -> str:
    """Return where a missing file or folder of an earlier version is now, or ""."""
    for old, new in (*OF_FOLDERS, *OF_LOSSLAB):
        if match := re.search(rf"(?:^|/){old}$", path.as_posix()):
            return match.expand(new)
    return ""


def now_at(path: Path) -> str:
    """Return "; it is now X" for a missing file that an earlier version had, or ""."""
    place = new_place(path)
    return f"; it is now {place}" if place else ""


def files(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield a campaign's files in places of earlier versions, and their new places."""
    if (folder / VERDICTS).is_file():
        yield VERDICTS, "remove it; `losslab claims --record CAMPAIGN` makes its new form"
    for top in ("analysis", "config", "report"):
        for path in sorted((folder / top).rglob("*.*")):
            name = path.relative_to(folder).as_posix()
            for old, new in OF_FOLDERS:
                if match := re.fullmatch(old, name):
                    yield name, match.expand(new)


def require_new_places(folder: Path | None) -> None:
    """Raise LosslabError with every file of a campaign's folder that has to move, if any."""
    moves = [*files(folder)] if folder else []
    if moves:
        raise LosslabError(
            f"files of {folder} must be in this version's places, found {len(moves)} in those of "
            "an earlier one:\n" + "\n".join(f"    {old} -> {new}" for old, new in moves),
            hint="move them, with `mkdir -p` for a new folder; losslab reads no old place",
        )
