"""Pack a campaign: sources, locks, instrument, configuration, results and descriptions."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import yaml

from losslab import processes
from losslab.artifact import appendix, crate, datapackage, signing, wheels
from losslab.artifact.results import (
    CAMPAIGN,
    COMMIT,
    COMMIT_TEXT,
    DIGESTS,
    INSTRUMENT,
    INSTRUMENTS,
    RESULTS,
    Run,
    contents,
    is_raw,
    link,
    write_digests,
)
from losslab.campaign import audit, recorded
from losslab.campaign.cellrun import LOST_FILE
from losslab.campaign.folder import CELL_FILE, HOST_FILE, MANIFEST_FILE, read_json
from losslab.campaign.hosts import is_container
from losslab.campaign.recorded import CAMPAIGN_FILE, RecordedCampaign
from losslab.campaign.verification import advice, files, quoted, verify_results
from losslab.errors import LosslabError
from losslab.instrument import image, kernel, packed
from losslab.instrument.cache import cache_folder
from losslab.repository import ROOT

NAME = "losslab-artifact"
# With more raw data, an archive has only the digests of raw files: public repositories accept some
# gigabytes without a request.
RAW_LIMIT_MB = 4000.0


def pack(
    work: Path,
    name: Path,
    out: Path,
    limit_mb: float,
    instrument: bool,
    *,
    key: Path | None = None,
    with_wheels: bool = False,
    processors: int = 1,
    repository: Path = ROOT,
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """Write the archive and return its path.

    `work`: folder in which the campaign was measured; `name`: path of its configuration file in the
    repository; `instrument`: also pack the default kernel and image; `key`: SSH key that signs the
    list of digests, or None; `say`: called with lines on the progress. Raises LosslabError if the
    results are of another campaign or cannot be verified, or the repository has uncommitted
    changes.
    """
    before = os.times()
    campaign = _verified(work, name, repository, processors, say)
    spent_s = sum(os.times()[:4]) - sum(before[:4])
    runs = measured(work, campaign)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{NAME}-", dir=out.parent) as folder:
        root = Path(folder) / NAME
        _export_sources(root, repository)
        everything = result_files(work, campaign)
        raw = {path for path in everything if is_raw(path)}
        raw_bytes = sum((work / path).stat().st_size for path in raw)
        left_out = raw if raw_bytes > limit_mb * 1e6 else set()
        for path in everything:
            # Link all files first: the list also has the digests of raw files that are not packed.
            link(work / path, root / path)
        if instrument:
            say("packing kernel and image, unless the cache has them packed")
            containers = any(is_container(run.instrument) for run in runs)
            for archive in packed_instrument(containers):
                link(archive, root / INSTRUMENTS / archive.name)
        if with_wheels:
            say("fetching the Python packages")
            wheels.fetch(repository, root)
        (root / CAMPAIGN).write_text(f"{name}\n")
        day = datetime.now(UTC).strftime("%Y-%m-%d")
        size = sum((work / path).stat().st_size for path in everything)
        packing = appendix.Packing(
            str(name), day, size, raw_bytes, not left_out, instrument, spent_s
        )
        appendix.write(root, runs, campaign, packing)
        datapackage.describe(root, str(name), everything, day)
        crate.describe(root, str(name), runs, day)
        write_digests(root, map(Path, contents(root)), root / DIGESTS)
        for path in left_out:
            (root / path).unlink()
        if key is not None:
            signing.sign(root, key)
        say(f"writing {out}")
        # In a folder with an unpredictable name: other users may be able to write next to `out`.
        partial = Path(folder) / f"{NAME}.tar.gz"
        # Level 1 compresses SVG and CSV to a fifth; packed images are compressed already.
        with tarfile.open(partial, "w:gz", compresslevel=1) as tar:
            tar.add(root, NAME)
        partial.rename(out)
    return out


def _verified(
    work: Path, name: Path, repository: Path, processors: int, say: Callable[[str], None]
) -> RecordedCampaign:
    """Return the campaign of verified results.

    Raises LosslabError if the results are of another campaign or verification has findings.
    """
    record = recorded.read(work / RESULTS, repository)
    campaign = recorded.load(repository / name, repository, record.software)
    if record.config != campaign.config:
        raise LosslabError(
            f"{work / RESULTS} must have the campaign {name}, found {', '.join(record.names)}",
            hint=f"`make report CONFIG={name}`, or name the campaign that was measured",
        )
    # Before the verification, which takes minutes.
    require_committed(repository)
    found = verify_results(work / RESULTS, campaign, repository, processors, say)
    if found.findings:
        raise LosslabError(
            "results must be verified before they are packed, found:\n"
            + "\n".join(quoted(found.findings)),
            hint="\n     ".join(advice(found.findings)),
        )
    return campaign


def measured(work: Path, campaign: RecordedCampaign) -> list[Run]:
    """List the valid replicates of a campaign's cells."""
    found = []
    for cell in campaign.cells:
        place = audit.path_of(cell)
        rows = read_json(work / RESULTS / place / CELL_FILE)["replicates"]
        for number in (number for number, row in enumerate(rows) if row["valid"]):
            # Without a check of digests: the results are verified.
            folder = work / RESULTS / place / str(number)
            manifest, host = read_json(folder / MANIFEST_FILE), read_json(folder / HOST_FILE)
            path = str(RESULTS / place / str(number))
            found.append(
                Run(
                    path, str(cell.condition.algorithm), manifest["instrument"],
                    host["started_utc"], float(host["wall_s"] or 0.0), not cell.real_time,
                )
            )  # fmt: skip
    return found


def result_files(work: Path, campaign: RecordedCampaign) -> list[Path]:
    """List the files of a campaign's results, relative to the folder where it was measured.

    Files of other campaigns or of a killed workflow in the same folder are omitted.
    """
    results = work / RESULTS
    found = [results / CAMPAIGN_FILE, *(results / name for name in files(results))]
    found += (results / INSTRUMENT).glob("*.json")
    for place in map(audit.path_of, campaign.cells):
        count = len(read_json(results / place / CELL_FILE)["replicates"])
        found.append(results / place / CELL_FILE)
        lost = results / place / LOST_FILE
        found += [lost] if lost.is_file() else []
        for number in range(count):
            found += [p for p in (results / place / str(number)).rglob("*") if p.is_file()]
    return sorted(path.relative_to(work) for path in found)


def require_committed(repository: Path) -> None:
    """Raise LosslabError with all uncommitted files, or if there is no repository."""
    changes = processes.attempt(["git", "-C", repository, "status", "--porcelain"])
    if not changes.good:
        raise LosslabError(
            f"{repository} must be a git repository, found none",
            hint="clone losslab with git: an artifact names its commit",
        )
    lines = changes.out.splitlines()
    new = [line[3:] for line in lines if line.startswith("??")]
    changed = [line[3:] for line in lines if not line.startswith("??")]
    if not lines:
        return
    hints = [f"commit or undo the changes of {' '.join(changed)}"] if changed else []
    if new:
        hints.append(
            "move what does not belong to the repository to `runs/`, which git ignores, or commit "
            f"it: mkdir -p runs && mv {' '.join(new)} runs/"
        )
    raise LosslabError(
        f"{repository} must have no uncommitted files, because an artifact names its commit; "
        f"found {len(new)} new and {len(changed)} changed: {', '.join([*new, *changed])}",
        hint="; ".join(hints),
    )


def _export_sources(root: Path, repository: Path) -> None:
    """Copy the repository's commit."""
    git = ("git", "-C", repository)
    root.mkdir()
    with tempfile.TemporaryDirectory(prefix="losslab-sources-") as folder:
        tar = Path(folder) / "sources.tar"
        processes.run([*git, "archive", f"--output={tar}", "HEAD"])
        processes.run(["tar", "-xf", tar, "-C", root])
    (root / COMMIT).write_text(processes.run([*git, "rev-parse", "HEAD"]))
    (root / COMMIT_TEXT).write_text(processes.run([*git, "cat-file", "commit", "HEAD"]))


def packed_instrument(containers: bool = False) -> list[Path]:
    """Pack the default kernel and image, unless the cache has them packed; list the files.

    `containers`: also pack the image of Docker's engine.
    """
    out = cache_folder() / "packed"
    archives = []
    parts = [(packed.KERNEL, kernel.existing()), (packed.IMAGE, image.existing())]
    parts += [(packed.IMAGE, image.existing(image.ENGINE))] if containers else []
    for kind, folder in parts:
        if folder is None:
            raise LosslabError(
                f"the pinned {kind} must be built, found none", hint="run `make setup`"
            )
        archive = out / f"{kind}-{folder.name}.tar.zst"
        if not archive.is_file():
            packed.pack(folder, kind, out)
        archives += [archive, archive.with_name(f"{kind}-{folder.name}.json")]
    return archives


def campaign_file(path: Path, repository: Path = ROOT) -> Path:
    """Return a configuration file relative to the repository.

    Raises LosslabError if it is no configuration file or is outside the repository.
    """
    try:
        yaml.safe_load(path.read_text())["studies"]
        return path.resolve().relative_to(repository.resolve())
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise LosslabError(
            f"a campaign must be a configuration file of this repository, found {path}: {error}",
            hint="name one such as config/quick.yaml",
        ) from error
