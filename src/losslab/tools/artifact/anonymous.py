"""Anonymous archives: replace names, addresses of repositories and home folders in the sources.

The names are those that git and CITATION.cff know. Results are not edited, because their digests
are part of them: packing stops if a result has a name in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from losslab import processes
from losslab.errors import LosslabError
from losslab.reading import read_yaml
from losslab.tools.artifact.appendix import RESULTS, SUBSTITUTE
from losslab.tools.artifact.verify import contents

# Keys of CITATION.cff that say who somebody is.
KEYS = ("name", "alias", "email", "orcid", "website", "affiliation")
# owner/name at the end of a remote's address.
REMOTE = re.compile(r"([^/:]+/[^/:]+?)(?:\.git)?/?$")
# Home folders that name nobody.
COMMON_HOMES = {"/", "/root", "/nonexistent"}
# A single word such as `max` names nobody, and code may have it: only those with a capital, or so
# many letters, are replaced.
MIN_LENGTH, LONG = 3, 8


def names(repository: Path, home: Path | None = None) -> list[str]:
    """List what identifies the authors of a repository, the longest first."""
    git = ["git", "-C", str(repository)]
    known = processes.run([*git, "log", "--format=%an%n%ae%n%cn%n%ce"]).splitlines()
    known += [processes.attempt([*git, "config", f"user.{key}"]).out for key in ("name", "email")]
    for line in processes.run([*git, "remote", "-v"]).splitlines():
        address = line.split()[1]
        known += [address, address.removesuffix(".git")]
        known += REMOTE.findall(address)
    for author in read_yaml(repository / "CITATION.cff")["authors"]:
        known += _of_author(author)
    folder = str(home or Path.home())
    known += [] if folder in COMMON_HOMES else [folder]
    found = {each.strip() for each in known}
    return sorted(filter(_names_somebody, found), key=len, reverse=True)


def _names_somebody(text: str) -> bool:
    word = text.isalnum()
    return len(text) >= MIN_LENGTH and (not word or text != text.lower() or len(text) >= LONG)


def name_of(author: dict[str, Any]) -> str:
    """Return the name of an author of CITATION.cff, a person or an organisation."""
    person = f"{author.get('given-names', '')} {author.get('family-names', '')}"
    return str(author.get("name") or person.strip())


def _of_author(author: dict[str, Any]) -> Iterable[str]:
    yield from (str(author[key]) for key in KEYS if author.get(key))
    if "family-names" in author:
        given, family = author.get("given-names", ""), author["family-names"]
        yield from (f"{given} {family}", f"{family}, {given}", family)


def strip(root: Path, known: Iterable[str]) -> list[str]:
    """Replace the names in an archive's folder; list the files changed.

    Raises LosslabError with the files that have names and cannot be edited: results, files that are
    not text, and files with such a name. Names of several words may be in either case.
    """
    # JSON may have letters of other alphabets as escapes.
    spelt = dict.fromkeys(word for each in known for word in (each, json.dumps(each)[1:-1]))
    words = [
        (rb"%b" if each.isalnum() else rb"(?i:%b)") % re.escape(each.encode()) for each in spelt
    ]
    pattern = re.compile(rb"(?<!\w)(?:" + b"|".join(words) + rb")(?!\w)")
    changed, kept = [], []
    for name in contents(root):
        path = root / name
        data = path.read_bytes()
        named = pattern.search(name.encode())
        if not words or not (named or pattern.search(data)):
            continue
        if named or Path(name).is_relative_to(RESULTS) or b"\0" in data:
            kept.append(name)
            continue
        # A hard link may share the content with a file elsewhere.
        path.unlink()
        path.write_bytes(pattern.sub(SUBSTITUTE.encode(), data))
        changed.append(name)
    if kept:
        raise LosslabError(
            "an anonymous archive must have no name of its authors in results, binary files and "
            f"names of files, found {', '.join(kept[:5])}"
            + (f" and {len(kept) - 5} more" if kept[5:] else ""),
            hint="measure in a folder without your name, or pack without --anonymous",
        )
    return changed
