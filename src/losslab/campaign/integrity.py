"""SHA-256 digests that bind raw files to their manifest and a cell to its replicates.

A manifest lists its replicate's raw files, host.json lists the manifest and carries its own digest,
cell.json lists both. A file that is missing, damaged, edited or added is found by whoever reads.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from losslab.backends.base import CONSOLE_FILE
from losslab.campaign.folder import CELL_FILE, HOST_FILE, MANIFEST_FILE, digest_of, read_json
from losslab.errors import LosslabError
from losslab.instrument import tree
from losslab.instrument.archive import digest

# The fields that hold digests, by file below the folder, and of the record itself.
FILES, SELF = "files", "sha256"
# What a manifest does not list: itself and what differs between two runs of one seed.
UNLISTED = (MANIFEST_FILE, HOST_FILE, CONSOLE_FILE)
# The results' format that has no digests.
FIRST_FORMAT = "1.0"
# Of a replicate, what cell.json repeats of its manifest and of host.json.
KEPT = ("seed", "valid", "reasons", "summary", "instrument")
ABOUT = ("attempt", "earlier_reasons")
# What can be wrong with a file of a list, and how it is said of a replicate's.
MISSING, IRREGULAR, ADDED, CHANGED = "missing", "not a regular file", "not listed", "another file"
SAID = {
    MISSING: "no {}",
    IRREGULAR: "{}, which must be a regular file",
    ADDED: "{}, which is not listed",
    CHANGED: "another {} than was measured",
}
HINT = "the next `snakemake` or `make report` measures it again; `losslab verify` lists all damage"


class DamagedError(LosslabError):
    """A result that is not what was measured."""


def listed(folder: Path) -> dict[str, dict[str, str]]:
    """Return a manifest's list of digests: of the raw files, by their paths below the folder."""
    names = sorted(set(_files(folder)) - {*UNLISTED})
    return {FILES: {name: digest(folder / name) for name in names}}


def sealed(host: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Add to what host.json says the digests of the manifest, the console log and itself."""
    names = [name for name in (MANIFEST_FILE, CONSOLE_FILE) if (folder / name).is_file()]
    whole = dict(host) | {FILES: {name: digest(folder / name) for name in names}}
    return whole | {SELF: digest_of(whole)}


def read_replicate(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the manifest and host.json of a replicate of which every file is as it was measured.

    Raises DamagedError if one is not; with the first.
    """
    manifest, host, problems = _examine(folder)
    if problems:
        raise DamagedError(f"{folder} must hold what was measured, found {problems[0]}", hint=HINT)
    return manifest, host


def require(folder: Path) -> None:
    """Refuse a replicate of which a file is not as it was measured.

    Results of format 1.0 have no digests: they pass. Raises DamagedError with the first such file.
    """
    with contextlib.suppress(OSError, ValueError, LosslabError):
        if read_json(folder / HOST_FILE).get("format", FIRST_FORMAT) == FIRST_FORMAT:
            return
    read_replicate(folder)


def replicate_problems(folder: Path) -> list[str]:
    """Say what in a replicate's folder is not as it was measured; empty where everything is."""
    return _examine(folder)[2]


def _examine(folder: Path) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return a replicate's manifest, its host.json, and what is not as it was measured."""
    try:
        host, manifest = read_json(folder / HOST_FILE), read_json(folder / MANIFEST_FILE)
    except (OSError, ValueError, LosslabError) as error:
        return {}, {}, [f"an unreadable record: {error}"]
    for name, record, keys in ((HOST_FILE, host, ABOUT), (MANIFEST_FILE, manifest, KEPT)):
        if not isinstance(record.get(FILES), dict):
            return {}, {}, [f"{name} without digests, which results before format 1.1 lack"]
        if missing := [key for key in keys if key not in record]:
            return {}, {}, [f"{name} without {' and '.join(missing)}"]
    if MANIFEST_FILE not in host[FILES]:
        return {}, {}, [f"{HOST_FILE} without the digest of {MANIFEST_FILE}"]
    problems = []
    if host.get(SELF) != digest_of({key: host[key] for key in host if key != SELF}):
        problems.append(f"another {HOST_FILE} than was written")
    there = set(_files(folder))
    if not (folder / HOST_FILE).is_symlink():
        there.remove(HOST_FILE)  # no list has it: its digest is in it
    wrong = differences(folder, {**manifest[FILES], **host[FILES]}, there)
    problems += [SAID[what].format(name) for name, what in wrong.items()]
    return manifest, host, problems


def differences(root: Path, digests: Mapping[str, str], there: Collection[str]) -> dict[str, str]:
    """Say what is wrong with files, by their paths below `root`.

    `digests`: the SHA-256 that each must have; `there`: what was found below `root`.
    """
    found = {}
    for name in sorted({*there, *digests}):
        if name not in there:
            found[name] = MISSING
        elif not stat.S_ISREG(os.lstat(root / name).st_mode):
            found[name] = IRREGULAR
        elif name not in digests:
            found[name] = ADDED
        elif digest(root / name) != digests[name]:
            found[name] = CHANGED
    return found


def replicate_row(manifest: Mapping[str, Any], host: Mapping[str, Any]) -> dict[str, Any]:
    """Return what cell.json says of a replicate."""
    return (
        {key: manifest[key] for key in KEPT}
        | {"lost": manifest.get("lost", False)}
        | {key: host[key] for key in ABOUT}
        | {"manifest_sha256": host[FILES][MANIFEST_FILE]}
    )


def read_cell(path: Path) -> dict[str, Any]:
    """Return a cell.json that says what its replicates' manifests say, which are whole.

    Raises DamagedError if it is damaged, or a replicate is, which lies beside it by its number.
    """
    try:
        cell = read_json(path)
        problems = cell_problems(path.parent, cell)
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path} must be a cell's result, found: {error}", hint=HINT) from error
    if problems:
        raise DamagedError(
            f"{path.parent} must hold what was measured, found {problems[0]}", hint=HINT
        )
    return cell


def cell_problems(folder: Path, cell: Mapping[str, Any] | None = None) -> list[str]:
    """Say what in a cell's folder is not as it was measured; empty where everything is.

    `folder`: where cell.json is, and its replicates by number; `cell`: the content of cell.json,
    where it has been read.
    """
    if cell is None:
        try:
            cell = read_json(folder / CELL_FILE)
        except (OSError, ValueError, LosslabError) as error:
            return [f"an unreadable {CELL_FILE}: {error}"]
    rows = cell.get("replicates")
    if not isinstance(rows, list):
        return [f"a {CELL_FILE} without replicates"]
    problems = [] if cell.get("cell") == folder.name else [f"the {CELL_FILE} of another cell"]
    for number, row in enumerate(rows):
        manifest, host, found = _examine(folder / str(number))
        # As text: NaN does not equal itself.
        if not found and digest_of(row) != digest_of(replicate_row(manifest, host)):
            found = [f"other values than {CELL_FILE} has"]
        elif not found and manifest.get("cell") != cell.get("condition"):
            found = [f"another condition than {CELL_FILE} has"]
        problems += [f"in replicate {number} {problem}" for problem in found]
    return problems


def state_of(folder: Path) -> str:
    """Return a digest that changes when a file below a folder is written, added or removed."""
    paths = [os.path.join(place, n) for place, _, names in os.walk(folder) for n in (".", *names)]
    return tree.fingerprint(sorted(map(os.fsencode, paths)))


def _files(folder: Path) -> Iterator[str]:
    """List everything below a folder that is not a folder, by its path in it."""
    for place, _, names in os.walk(folder):
        yield from (os.path.relpath(os.path.join(place, name), folder) for name in names)
