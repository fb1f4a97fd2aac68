"""Pack a campaign: sources, locks, instrument, configuration, results and descriptions.

The description as an RO-Crate has the profile Workflow Run Crate: the measurement is an action with
agent, times, object (the campaign's configuration), instruments (workflow and kernels) and results.
"""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

from losslab import __version__, processes
from losslab.campaign import inputs, plan
from losslab.campaign.plan import RecordedCampaign
from losslab.errors import LosslabError
from losslab.instrument import image, kernel, packed
from losslab.instrument.cache import cache_folder
from losslab.reading import UsageError, read_config, read_yaml
from losslab.repository import ROOT, find
from losslab.study.axes import DRAWN_TRACE, NONE
from losslab.study.condition import Condition
from losslab.tools.artifact import appendix, major, verify
from losslab.tools.artifact.anonymous import name_of, names, strip
from losslab.tools.artifact.appendix import (
    COMMIT,
    INSTRUMENTS,
    RESULTS,
    SUBSTITUTE,
    TEMPLATES,
    Run,
    measured,
)
from losslab.tools.artifact.verify import contents, link, result_files

LICENSE = "https://spdx.org/licenses/MIT"
# Descriptions of files and folders for readers.
CONTENTS = TEMPLATES / "contents.yaml"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
NAME = "losslab-artifact"


def pack(
    work: Path,
    name: Path,
    out: Path,
    instrument: bool,
    *,
    venue: str = appendix.VENUES[0],
    claims: Path | None = None,
    anonymous: bool = False,
    processors: int = 1,
    repository: Path = ROOT,
    say: Callable[[str], None] = verify.say,
) -> Path:
    """Write the archive and return its path.

    `work`: folder in which the campaign was measured; `name`: path of its configuration file in the
    repository; `instrument`: also pack the default kernel and image; `venue`: whose template the
    appendix has; `claims`: list of the major claims, by default the repository's; `anonymous`:
    without names of authors; `say`: called with lines on the progress. Raises LosslabError if the
    results are of another campaign or not those that the workflow makes from the cells, or the
    repository has uncommitted changes.
    """
    majors = major.read_major(claims or repository / major.FILE, repository)
    before = os.times()
    campaign = _verified(work, name, repository, processors, majors)
    spent_s = sum(os.times()[:4]) - sum(before[:4])
    runs = measured(work, campaign)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{NAME}-", dir=out.parent) as folder:
        root = Path(folder) / NAME
        _export_sources(root, repository)
        everything = result_files(work, campaign)
        for path in everything:
            link(work / path, root / path)
        if instrument:
            say("packing kernel and image, unless the cache has them packed")
            containers = any("engine" in run.instrument for run in runs)
            for archive in packed_instrument(containers):
                link(archive, root / INSTRUMENTS / archive.name)
        day = datetime.now(UTC).strftime("%Y-%m-%d")
        size = sum((work / path).stat().st_size for path in everything)
        packing = appendix.Packing(str(name), day, size, instrument, spent_s, venue, anonymous)
        say(appendix.write(root, runs, campaign, majors, packing, repository))
        agent = processes.run(["git", "-C", repository, "log", "-1", "--format=%cn"]).strip()
        # Before the PDF, which cannot be searched for names, and the sizes in the description.
        known = names(repository) if anonymous else []
        changed = strip(root, known) if anonymous else []
        appendix.typeset(root)
        describe(root, str(name), runs, day, SUBSTITUTE if anonymous else agent)
        if anonymous:
            changed += strip(root, known)
            say(f"names replaced in {len(changed)} files: {', '.join(changed)}")
        verify.write_digests(root, contents(root))
        say(f"writing {out}")
        # In a folder with an unpredictable name: other users may be able to write next to `out`.
        partial = Path(folder) / f"{NAME}.tar.gz"
        # Level 1 compresses SVG and CSV to a fifth; packed images are compressed already.
        with tarfile.open(partial, "w:gz", compresslevel=1) as tar:
            tar.add(root, NAME, filter=_without_owner)
        partial.rename(out)
    return out


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _verified(
    work: Path, name: Path, repository: Path, processors: int, majors: Sequence[major.Major]
) -> RecordedCampaign:
    """Return the campaign of results whose tables and report follow from the cells.

    Raises LosslabError if the results are of another campaign, or verification has findings, or one
    of the major claims is not measured.
    """
    record = plan.read_campaign(work / RESULTS, repository)
    campaign = plan.load_campaign(repository / name, repository, record.software)
    if record.config != campaign.config:
        raise LosslabError(
            f"{work / RESULTS} must have the campaign {name}, found {', '.join(record.names)}",
            hint=f"`make report CONFIG={name}`, or name the campaign that was measured",
        )
    # Before the verification, which takes minutes.
    require_committed(
        repository, {path for cell in campaign.cells for path in _own_files(cell.condition)}
    )
    _crates()
    major.experiments(campaign.config, majors, repository)
    appendix.judged(work, majors)
    options = verify.Options(0, count=0, processors=processors, repository=repository)
    verification = verify.verify_results(work / RESULTS, campaign, options)
    if verification.findings:
        raise LosslabError(
            "results must be verified before they are packed, found:\n"
            + verify.statement(verification),
            hint="remove the files and folders listed here, and start the workflow, which makes "
            "only these again",
        )
    return campaign


def _own_files(condition: Condition) -> Iterator[Path]:
    """Yield a condition's traces and folders in the repository; replicates keep all others."""
    for axis in inputs.OF_FILES:
        name = str(getattr(condition, axis))
        if name not in (NONE, DRAWN_TRACE) and "@" not in name:
            yield find(f"config/traces/{name}" if axis in inputs.TRACES else name)


def require_committed(repository: Path, used: Iterable[Path] = ()) -> None:
    """Raise LosslabError with all uncommitted files, or if there is no repository.

    `used`: files and folders of the campaign's cells, which git must not ignore.
    """
    status = ("git", "-C", repository, "status", "--porcelain")
    changes = processes.attempt([*status])
    if not changes.good:
        raise LosslabError(
            f"{repository} must be a git repository, found none",
            hint="clone losslab with git: an artifact names its commit",
        )
    inside = [path for path in used if path.is_relative_to(repository)]
    seen = processes.run([*status, "--ignored", "--", *inside]).splitlines() if inside else []
    if ignored := [line[3:] for line in seen if line.startswith("!!")]:
        raise LosslabError(
            "an artifact must have the files that its cells use, found that git ignores "
            f"{', '.join(ignored)}",
            hint=f"commit them: git add --force {' '.join(ignored)}",
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
    git = ("git", "-C", repository)
    root.mkdir()
    with tempfile.TemporaryDirectory(prefix="losslab-sources-") as folder:
        tar = Path(folder) / "sources.tar"
        processes.run([*git, "archive", f"--output={tar}", "HEAD"])
        processes.run(["tar", "-xf", tar, "-C", root])
    (root / COMMIT).write_text(processes.run([*git, "rev-parse", "HEAD"]))


def packed_instrument(containers: bool = False) -> list[Path]:
    """Pack the default kernel and image, unless the cache has them packed; list the files.

    `containers`: also pack the image of Docker's engine.
    """
    out = cache_folder() / "archives"
    archives = []
    parts = [kernel.part(), image.part(), *([image.part(image.ENGINE)] if containers else [])]
    for part in parts:
        folder = part.existing()
        if folder is None:
            raise LosslabError(
                f"the pinned {part.kind} must be built, found none", hint="run `make setup`"
            )
        archive = out / f"{part.kind}-{folder.name}.tar.zst"
        if not archive.is_file():
            packed.pack(folder, part.kind, out)
        archives += sorted(out.glob(f"{archive.name}*"))
    return archives


def campaign_file(path: Path, repository: Path = ROOT) -> Path:
    """Return a configuration file relative to the repository.

    Raises UsageError if it is no configuration file or is outside the repository.
    """
    content, name = read_config(path), path.resolve()
    if not (isinstance(content, dict) and "studies" in content and name.is_relative_to(repository)):
        raise UsageError(
            f"a campaign must be a configuration file below {repository}, found {path}",
            hint="name one such as config/campaigns/quick.yaml; an artifact has the repository's "
            "files only",
        )
    return name.relative_to(repository)


def _crates() -> Any:
    """Return the class of RO-Crates; LosslabError without its package."""
    try:
        from rocrate.rocrate import ROCrate
    except ImportError as error:
        raise LosslabError(
            "the Python package rocrate must be installed to describe an artifact, found none",
            hint="install it: scripts/group.sh artifact",
        ) from error
    return ROCrate


def describe(folder: Path, campaign: str, runs: Sequence[Run], day: str, agent: str) -> None:
    """Write `ro-crate-metadata.json` to a folder; `agent`: name of the person who measured."""
    citation = read_yaml(ROOT / "CITATION.cff")
    # The profile's validator knows this version.
    crate = _crates()(version="1.1")
    crate.name = f"losslab {__version__}, campaign {campaign}"
    crate.description = " ".join(citation["abstract"].split())
    crate.datePublished = day
    crate.license = crate.add(_entity(crate, LICENSE, "CreativeWork", name="MIT License",
                                      description="The licence of code and results"))  # fmt: skip
    crate.creator = [
        crate.add(_entity(crate, f"#author-{number}", "Organization", name=name_of(author)))
        for number, author in enumerate(citation["authors"])
    ]
    crate.root_dataset["conformsTo"] = [
        crate.add(_entity(crate, address, "CreativeWork", name=name, version=version))
        for address, (name, version) in PROFILES.items()
    ]
    workflow = crate.add_workflow(folder / "Snakefile", "Snakefile", main=True, lang="snakemake")
    workflow["programmingLanguage"]["version"] = metadata.version("snakemake")
    workflow["name"] = "losslab"
    workflow["version"] = __version__
    contents = read_yaml(CONTENTS)
    contents["files"][campaign] = ["The campaign's configuration", "application/yaml"]
    for name, (title, kind) in contents["files"].items():
        if (folder / name).is_file():
            size = (folder / name).stat().st_size
            properties = {"name": title, "encodingFormat": kind, "contentSize": str(size)}
            crate.add_file(folder / name, name, properties=properties)
    for name, title in contents["folders"].items():
        if (folder / name).is_dir():
            crate.add_dataset(folder / name, f"{name}/", properties={"name": title})
    _add_measuring(crate, runs, campaign, agent)
    crate.metadata.write(folder)


def _add_measuring(crate: Any, runs: Sequence[Run], campaign: str, agent: str) -> None:
    """Add the measurement as an action; `agent`: name of the person."""
    ends = [datetime.fromisoformat(r.started_utc) + timedelta(seconds=r.wall_s) for r in runs]
    kernels = {json.dumps(run.instrument["kernel"], sort_keys=True) for run in runs}
    tools = []
    for linux_kernel in map(json.loads, sorted(kernels)):
        identifier = f"#kernel-{linux_kernel.get('hash', 'own')}".replace(" ", "-")
        linux = _entity(
            crate, identifier, "SoftwareApplication", name=f"Linux {linux_kernel['version']}",
            version=linux_kernel["version"], url="https://www.kernel.org",
        )  # fmt: skip
        tools.append(crate.add(linux))
    action = _entity(
        crate, "#measure", "CreateAction",
        name=f"Measured {len(runs)} replicates of the campaign {campaign}",
    )  # fmt: skip
    action["agent"] = crate.add(_entity(crate, "#agent", "Person", name=agent))
    action["startTime"] = min(run.started_utc for run in runs)
    action["endTime"] = max(ends).isoformat(timespec="seconds")
    action["actionStatus"] = "http://schema.org/CompletedActionStatus"
    inputs = (campaign, "studies/")
    action["object"] = [each for each in crate.data_entities if each.id in inputs]
    action["instrument"] = [crate.mainEntity, *tools]
    action["result"] = [each for each in crate.data_entities if each.id.startswith(str(RESULTS))]
    crate.add(action)
    crate.root_dataset["mentions"] = action


def _entity(crate: Any, identifier: str, kind: str, **properties: str) -> Any:
    from rocrate.model.contextentity import ContextEntity

    return ContextEntity(crate, identifier, properties={"@type": kind, **properties})
