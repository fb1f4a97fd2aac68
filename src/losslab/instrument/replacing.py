"""Replace bytes of an image's files by as many others, each found exactly once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.errors import LosslabError
from losslab.reading import UsageError, read_toml


@dataclass(frozen=True)
class Replacement:
    """Bytes of a file, and what is put in their place."""

    file: str
    found: bytes
    by: bytes
    where: str  # says so, for somebody whose image has another version of the file


def read(recipe: Path) -> list[Replacement]:
    """Read the replacements of a recipe; none where there is no such file.

    Raises:
        UsageError: it is not as it should be.
    """
    if not recipe.is_file():
        return []
    where = "/".join(recipe.parts[-3:])
    try:
        rows: list[dict[str, Any]] = read_toml(recipe)["replace"]
        found = [
            Replacement(
                str(row["file"]), bytes.fromhex(row["found"]), bytes.fromhex(row["by"]), where
            )
            for row in rows
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{where} must have [[replace]] with file, found and by, in hexadecimal digits, found "
            f"{error}"
        ) from error
    if any(len(each.found) != len(each.by) for each in found):
        raise UsageError(f"{where} must replace bytes by as many others, found more or fewer")
    return found


def replace(root: Path, each: Replacement) -> None:
    """Replace them in an image.

    Raises:
        LosslabError: they are not there exactly once.
    """
    path = root / each.file
    content = path.read_bytes()
    count = content.count(each.found)
    if count != 1:
        words = each.found.decode() if each.found.isascii() else each.found.hex()
        raise LosslabError(
            f"{path} must contain {words} once, found it {count} times",
            hint=f"another version of the package: see {each.where}",
        )
    path.write_bytes(content.replace(each.found, each.by))
