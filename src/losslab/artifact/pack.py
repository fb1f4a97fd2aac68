"""Pack a campaign: sources, locks, instrument, configuration, results, and what describes them."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import yaml

from losslab import processes
from losslab.artifact import appendix, crate
from losslab.artifact.results import DIGESTS, RESULTS, Replicate, files, replicates, write_digests
from losslab.campaign import rerun
from losslab.campaign.deciding import source_hash
from losslab.campaign.folder import HOST_FILE, MANIFEST_FILE
from losslab.errors import LosslabError
from losslab.instrument import image, kernel, packed
from losslab.instrument.cache import ROOT, cache_folder
from losslab.study.condition import Condition

NAME = "losslab-artifact"
# Above this, raw files stay at home and only their digests go along: some gigabytes are what public
# repositories take without asking.
RAW_LIMIT_MB = 4000.0
# Of a replicate's folder, what is no raw file.
NOT_RAW = (MANIFEST_FILE, HOST_FILE)


def pack(work: Path, campaign: Path, out: Path, limit_mb: float, instrument: bool) -> Path:
    """Write the archive.

    Args:
        work: The folder in which the campaign was measured.
        campaign: Its configuration file, in the repository.
        out: The archive.
        limit_mb: The most raw data that go along.
        instrument: Also pack the default kernel and image.

    Raises:
        LosslabError: there is nothing to pack, the sources are not those that measured, or the
            repository has changes that no commit has.
    """
    runs = list(replicates(work))
    if not runs:
        raise LosslabError(
            f"{work / RESULTS} must hold a campaign, found no valid replicate",
            hint="`make report` measures one",
        )
    _refuse_other_sources(work, runs)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{NAME}-", dir=out.parent) as folder:
        root = Path(folder) / NAME
        _export_sources(root)
        everything = files(work)
        write_digests(work, everything, root / DIGESTS)
        raw = [path for path in everything if _is_raw(path)]
        raw_bytes = sum((work / path).stat().st_size for path in raw)
        left_out = set(raw) if raw_bytes > limit_mb * 1e6 else set()
        note = f"{raw_bytes / 1e6:.0f} MB, " + ("digests only" if left_out else "in the archive")
        for path in everything:
            if path not in left_out:
                _link(work / path, root / path)
        if instrument:
            for archive in packed_instrument():
                _link(archive, root / "instruments" / archive.name)
        name = str(campaign)
        (root / "APPENDIX.md").write_text(appendix.text(work, runs, name, note))
        (root / "campaign").write_text(name + "\n")
        today = datetime.now(UTC).strftime("%Y-%m-%d")
        crate.describe(root, name, runs, today)
        # In a folder whose name nobody can predict: another user may be able to write beside `out`.
        partial = Path(folder) / f"{NAME}.tar.gz"
        # Most of it is packed already, or SVG and CSV, which the least effort makes a fifth.
        with tarfile.open(partial, "w:gz", compresslevel=1) as tar:
            tar.add(root, NAME)
        partial.rename(out)
    return out


def _is_raw(path: Path) -> bool:
    """Tell whether it is a file of a replicate that its manifest does not replace."""
    in_replicate = path.parts[1] == "cells" and len(path.parts) == 6
    return in_replicate and path.name not in NOT_RAW


def _refuse_other_sources(work: Path, runs: Sequence[Replicate]) -> None:
    """Refuse results that these sources would not make again.

    Raises:
        LosslabError: naming the first.
    """
    for one in runs:
        manifest = rerun.load_manifest(work / one.path)
        condition = Condition.from_json(manifest["cell"])
        where = one.instrument.get("where", "guest")
        now = source_hash(condition, one.backend, where)
        if one.instrument["source"] != now:
            raise LosslabError(
                f"{one.path} must have been measured by the sources that are packed, found that "
                "they changed since",
                hint="run the campaign again: what changed is measured anew, and only that",
            )


def _export_sources(root: Path) -> None:
    """Copy the repository's commit.

    Raises:
        LosslabError: it is none, or has changes that are not committed.
    """
    changes = processes.attempt(["git", "-C", ROOT, "status", "--porcelain"])
    if not changes.good or changes.out.strip():
        raise LosslabError(
            f"{ROOT} must be a commit without changes, found "
            f"{changes.out.strip().splitlines()[0] if changes.good else 'no repository'}",
            hint="commit them: an artifact names its commit",
        )
    root.mkdir()
    with tempfile.TemporaryDirectory(prefix="losslab-sources-") as folder:
        tar = Path(folder) / "sources.tar"
        processes.run(["git", "-C", ROOT, "archive", f"--output={tar}", "HEAD"])
        processes.run(["tar", "-xf", tar, "-C", root])
    commit = processes.run(["git", "-C", ROOT, "rev-parse", "HEAD"])
    (root / "COMMIT").write_text(commit)


def packed_instrument() -> list[Path]:
    """Pack the default kernel and image, unless the cache has them packed; list the files."""
    out = cache_folder() / "packed"
    archives = []
    for kind, folder in ((packed.KERNEL, kernel.existing()), (packed.IMAGE, image.existing())):
        if folder is None:
            raise LosslabError(f"the pinned {kind} must be built, found none", hint="make setup")
        archive = out / f"{kind}-{folder.name}.tar.xz"
        if not archive.is_file():
            packed.pack(folder, kind, out)
        archives += [archive, archive.with_name(f"{kind}-{folder.name}.json")]
    return archives


def _link(source: Path, target: Path) -> None:
    """Hard-link, or copy across file systems."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def campaign_file(path: Path) -> Path:
    """Return a configuration file relative to the repository.

    Raises:
        LosslabError: it is none, or lies elsewhere.
    """
    try:
        yaml.safe_load(path.read_text())["studies"]
        return path.resolve().relative_to(ROOT)
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise LosslabError(
            f"a campaign must be a configuration file of this repository, found {path}: {error}",
            hint="such as config/quick.yaml",
        ) from error
