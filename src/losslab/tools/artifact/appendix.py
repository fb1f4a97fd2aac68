"""Artifact appendix for review committees, in LaTeX, made from a campaign's results.

The text is Markdown (templates/appendix.md). Pandoc fills it with the campaign's facts and places
it under the headings of the venue's own template (templates/acm.tex, ...). The appendix has two
pages at most. Claims are numbered C1, C2, ... and experiments E1, E2, ...; C1 is that the bytes are
the same, and E1 verifies the archive. Each other experiment measures the cells of one study's major
claims again.
"""

from __future__ import annotations

import json
import re
import shutil
import string
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml

from losslab import __version__, processes
from losslab.campaign.plan import RecordedCampaign
from losslab.campaign.results import CELL_FILE, read_cell
from losslab.campaign.verdicts import read_claims
from losslab.errors import LosslabError
from losslab.reading import read_json, read_rows, read_yaml
from losslab.repository import ROOT, debian_packages
from losslab.tools.artifact import remake
from losslab.tools.artifact.major import OTHER_CLAIMS, Experiment, Major, experiments, read_major
from losslab.tools.artifact.remake import Finding, path_of

RESULTS = Path(remake.RESULTS)
# File with the name of the sources' commit.
COMMIT = Path("COMMIT")
INSTRUMENTS = Path("instruments")
# Folder of the configuration files of single studies, and of what the appendix is made from.
EXPERIMENTS = Path("experiments")
PACKING, MAJOR = EXPERIMENTS / "packing.json", EXPERIMENTS / "major-claims.yaml"
# If 5 of 100 replicates are wrong, a sample of 20 has one with probability 68 %; 60 with 99 %.
SAMPLE = 20
SUBSTITUTE = "Anonymous"  # for names in an anonymous archive
STAGE = "appendix"
TEMPLATES = Path(__file__).parent / "templates"
SCRIPT = TEMPLATES / "experiment.sh"
VENUES = ("acm", "eurosys", "ndss", "usenix")
TEX, PDF = "APPENDIX.tex", "APPENDIX.pdf"
MAX_PAGES, MAX_HOURS = 2, 5
SHOWN = 60  # characters around a difference
# Disk space of kernel, image and .venv besides the results, in GB.
TOOLS_GB = 1.5
# Parts of scripts/packages.txt that `make verify-artifact` installs.
PARTS = ("python", "analysis", "tests")


class Script(string.Template):
    """Script with facts: @{name}."""

    delimiter = "@"


@dataclass(frozen=True)
class Run:
    """Valid replicate of a campaign."""

    path: str  # its folder, from the root
    algorithm: str
    instrument: dict[str, Any]
    started_utc: str  # as 2026-01-31T12:00:00+00:00
    wall_s: float
    virtual: bool = True  # in virtual time: the same seed gives the same bytes


@dataclass(frozen=True)
class Packing:
    """Facts about an archive that only packing knows."""

    campaign: str  # path of the configuration file in the repository
    day: str  # as 2026-01-31
    result_bytes: int
    with_instrument: bool
    verification_s: float  # CPU time of the verification, while packing
    venue: str = "acm"
    anonymous: bool = False


def write(
    root: Path,
    runs: Sequence[Run],
    campaign: RecordedCampaign,
    majors: Sequence[Major],
    packing: Packing,
    repository: Path = ROOT,
    out: Path | None = None,
) -> str:
    """Write an archive's appendix and experiments; return a line with their compute-hours.

    `root`: the archive's folder; `out`: where to write, by default there; `typeset` makes the PDF.
    Raises LosslabError if the experiments take too long for an evaluator, or a major claim has no
    number.
    """
    made = out or root
    folder = made / EXPERIMENTS
    folder.mkdir()
    (made / PACKING).write_text(json.dumps(asdict(packing), indent=1) + "\n")
    entries = [{"claim": f"{each.study}/{each.claim}", "item": each.item} for each in majors]
    (made / MAJOR).write_text(yaml.safe_dump({"claims": entries}, sort_keys=False))
    experiment_list = experiments(campaign.config, majors, repository)
    claims = judged(root, majors)
    wall_s = {
        each.label: sum(run.wall_s for run in _runs_of(runs, each)) for each in experiment_list
    }
    sample = min(SAMPLE, len(runs))
    wall_s["E1"] = packing.verification_s + sample * sum(r.wall_s for r in runs) / max(len(runs), 1)
    total = sum(wall_s.values()) / 3600
    if total > MAX_HOURS:
        times = ", ".join(f"{label} {s / 3600:.1f}" for label, s in sorted(wall_s.items()))
        raise LosslabError(
            f"the experiments must take {MAX_HOURS} compute-hours at most, found {total:.1f}: "
            f"{times}",
            hint="choose claims with fewer or shorter runs in report/major-claims.yaml, or in a "
            "list of your own: --claims FILE",
        )
    script = Script(SCRIPT.read_text())
    for experiment in experiment_list:
        # Sorted, as the campaign's record is from which `verify` makes this file again.
        (folder / f"{experiment.label}.yaml").write_text(
            yaml.safe_dump(dict(experiment.config), sort_keys=True)
        )
        text = script.substitute(
            label=experiment.label, study=experiment.study,
            config=f"{EXPERIMENTS}/{experiment.label}.yaml",
            facts=f"{_cells(len(experiment.cells))}, {wall_s[experiment.label] / 60:.1f} "
            "compute-minutes",
            claims=" ".join(f"{experiment.study}/{major.claim}" for major in experiment.claims),
        )  # fmt: skip
        (folder / f"{experiment.label}.sh").write_text(text)
    (folder / "E1.sh").write_text(
        "#!/bin/sh\n# E1: verify the archive, C1.\n"
        'cd "$(dirname "$0")/.." && make verify-artifact\n'
    )
    text = script.substitute(
        label="all", study="", config=packing.campaign, claims="",
        facts=f"the whole campaign, {sum(r.wall_s for r in runs) / 3600:.1f} compute-hours",
    )  # fmt: skip
    (folder / "all.sh").write_text(text)
    (made / TEX).write_text(_text(root, runs, experiment_list, claims, wall_s, packing))
    return (
        f"{len(experiment_list) + 1} experiments, {total:.2f} compute-hours (at most {MAX_HOURS})"
    )


def judged(root: Path, majors: Sequence[Major]) -> dict[tuple[str, str], dict[str, str]]:
    """Return the results' claims by study and name; LosslabError if a major one has no number."""
    claims = {
        (row["study"], row["claim"]): row for row in read_claims(root / RESULTS / "claims.csv")
    }
    for major in majors:
        if claims.get((major.study, major.claim), {}).get("measured", "") == "":
            raise LosslabError(
                "a major claim must have a number in the packed campaign, found none for "
                f"{major.study}/{major.claim}",
                hint=OTHER_CLAIMS,
            )
    return claims


def differences(
    root: Path,
    campaign: RecordedCampaign,
    result_bytes: int,
    repository: Path = ROOT,
) -> list[Finding]:
    """Make an unpacked archive's appendix and experiments again; return how the files differ.

    Only the day, the venue and the verification's CPU time are taken from the archive. In an
    anonymous one, the substitute stands for any name.
    """
    try:
        packed = Packing(**read_json(root / PACKING))
        packing = replace(
            packed, campaign=campaign.names[0], result_bytes=result_bytes,
            with_instrument=(root / INSTRUMENTS).is_dir(),
        )  # fmt: skip
        majors = read_major(root / MAJOR, repository)
        with tempfile.TemporaryDirectory(prefix="losslab-appendix-") as folder:
            out = Path(folder)
            write(root, measured(root, campaign), campaign, majors, packing, repository, out)
            names = [path.relative_to(out) for path in sorted(out.rglob("*")) if path.is_file()]
            return [
                Finding(STAGE, str(name), difference)
                for name in names
                if (difference := _difference(root / name, out / name, packing.anonymous))
            ]
    except (LosslabError, TypeError) as error:
        return [Finding(STAGE, str(PACKING), f"the appendix cannot be made again: {error}")]


def _difference(path: Path, again: Path, anonymous: bool) -> str:
    """Return the first line of a file that differs from one made again; "" if there is none."""
    if not path.is_file():
        return "missing"
    lines = path.read_text(errors="replace").splitlines(), again.read_text().splitlines()
    for number, (found, made) in enumerate(zip_longest(*lines, fillvalue=""), 1):
        pattern = re.escape(found)
        if anonymous:
            pattern = pattern.replace(SUBSTITUTE, ".+")
        if not re.fullmatch(pattern, made):
            at = next((n for n, (a, b) in enumerate(zip(found, made, strict=False)) if a != b), 0)
            start = max(0, at - SHOWN // 2)
            return f"line {number}: {found[start:][:SHOWN]!r}, made again {made[start:][:SHOWN]!r}"
    return ""


def measured(work: Path, campaign: RecordedCampaign) -> list[Run]:
    """List the valid replicates of a campaign's cells."""
    runs = []
    for cell in campaign.cells:
        place = path_of(cell)
        measured_cell = read_cell(work / RESULTS / place / CELL_FILE)
        for row, replicate in zip(measured_cell.rows, measured_cell.replicates, strict=True):
            if row["valid"]:
                # Without a check of digests: the results are verified.
                path, host = str(replicate.folder.relative_to(work)), replicate.host
                runs.append(
                    Run(
                        path, str(cell.condition.algorithm), row["instrument"],
                        host["started_utc"], float(host["wall_s"] or 0.0), not cell.real_time,
                    )
                )  # fmt: skip
    return runs


def _runs_of(runs: Sequence[Run], experiment: Experiment) -> list[Run]:
    """Return the recorded runs of an experiment's cells."""
    places = {str(RESULTS / path_of(cell)) for cell in experiment.cells}
    return [run for run in runs if str(Path(run.path).parent) in places]


def _text(
    root: Path,
    runs: Sequence[Run],
    experiment_list: Sequence[Experiment],
    claims: Mapping[tuple[str, str], dict[str, str]],
    wall_s: Mapping[str, float],
    packing: Packing,
) -> str:
    """Return the appendix in LaTeX."""
    facts = {
        "about": escaped(" ".join(read_yaml(ROOT / "CITATION.cff")["abstract"].split())),
        "campaign": f"`{packing.campaign}`",
        "runs": f"{len(runs):,}",
        "cells": len({Path(run.path).parent for run in runs}),
        "claim_count": len(claims),
        "commit": (root / COMMIT).read_text().strip()[:12],
        "anonymous": packing.anonymous,
        "instrument": packing.with_instrument,
        "disk_gb": f"{packing.result_bytes / 1e9 + TOOLS_GB:.1f}",
        "machine": escaped(_origin(root, "machine")),
        "kernel": escaped(_origin(root, "kernel")),
        "packages": sum(len(debian_packages(part)) for part in PARTS),
        "human": len(wall_s),
        "hours": f"{sum(wall_s.values()) / 3600:.2f}",
        "all_hours": f"{sum(run.wall_s for run in runs) / 3600:.2f}",
        "reduced_cells": sum(len(experiment.cells) for experiment in experiment_list),
        "version": __version__,
        "snakemake": metadata.version("snakemake"),
        "day": packing.day,
        "algorithms": escaped(", ".join(sorted({run.algorithm for run in runs} - {""}))),
        "sample": min(SAMPLE, len(runs)),
        "e1_minutes": f"{wall_s['E1'] / 60:.1f}",
        "claims": [
            {
                "label": major.label,
                "sentence": escaped(claims[major.study, major.claim]["sentence"]),
                "numbers": _measured(claims[major.study, major.claim]),
                "experiment": experiment.label,
                "item": escaped(major.item),
            }
            for experiment in experiment_list
            for major in experiment.claims
        ],
        "experiments": [
            {
                "label": experiment.label,
                "study": escaped(experiment.study),
                "claims": ", ".join(major.label for major in experiment.claims),
                "minutes": f"{wall_s[experiment.label] / 60:.1f}",
                "cells": _cells(len(experiment.cells)),
                "runs": len(_runs_of(runs, experiment)),
                "virtual": all(run.virtual for run in _runs_of(runs, experiment)),
            }
            for experiment in experiment_list
        ],
    }
    # The first pass fills the text with the facts (JSON is YAML), the second places it.
    document = f"---\n{json.dumps(facts)}\n---\n"
    for writer, template in ("markdown", "appendix.md"), ("latex", f"{packing.venue}.tex"):
        options = "--wrap=none", "--template", TEMPLATES / template
        document = convert(document, "markdown", writer, *options)
    return document


def _measured(row: Mapping[str, str]) -> str:
    """Return a claim's number with its interval, the published number, the ratio and verdict."""
    unit = f" {row['unit']}" if row["unit"] else ""
    interval = f" [{float(row['low']):.3g}, {float(row['high']):.3g}]" if row["low"] else ""
    words = f"Ours: {float(row['measured']):.3g}{interval}{unit}, n={row['n']}"
    if row["published"]:
        words += f"; source: {float(row['published']):.3g}{unit}"
        if float(row["published"]) * float(row["measured"]) > 0:
            ratio = float(row["measured"]) / float(row["published"])
            words += f"; ratio {ratio:.2f}"
    words += f"; limit: {row['tolerance']}; {row['verdict']}."
    # Negative numbers are mathematics, so that no sign breaks from its number.
    parts = re.split(r"(?<!\w)(-\d+(?:\.\d+)?)", words)
    return "".join(f"${p}$" if number % 2 else escaped(p) for number, p in enumerate(parts))


def _cells(number: int) -> str:
    return f"{number} cell" if number == 1 else f"{number} cells"


def escaped(plain: str) -> str:
    """Return plain text as Markdown."""
    return re.sub(f"([{re.escape(string.punctuation)}])", r"\\\1", plain)


def convert(document: str, reader: str, writer: str, *options: str | Path) -> str:
    """Convert a document with pandoc and return it; `reader` and `writer`: its names of formats."""
    import pypandoc

    command = [pypandoc.get_pandoc_path(), "--from", reader, "--to", writer, *options]
    return processes.run(command, text=document)


def typeset(root: Path) -> None:
    """Make the appendix's PDF with LaTeX, or with Typst if there is none.

    Raises LosslabError if that fails or the pages are too many.
    """
    pages = (_latex if shutil.which("pdflatex") else _typst)(root)
    if pages > MAX_PAGES:
        raise LosslabError(
            f"the appendix must have {MAX_PAGES} pages at most, found {pages}",
            hint="choose fewer claims, or shorter texts of `item`, in report/major-claims.yaml",
        )


def _latex(root: Path) -> int:
    """Make the PDF with LaTeX; return its number of pages."""
    with tempfile.TemporaryDirectory(prefix="losslab-tex-") as folder:
        shutil.copy(root / TEX, folder)
        options = "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error"
        done = processes.attempt(["pdflatex", *options, TEX], cwd=Path(folder))
        pages = re.search(r"Output written on .*\((\d+) pages?", done.out.replace("\n", ""))
        if not done.good or pages is None:
            wrong = [line for line in done.out.splitlines() if line.startswith("!")]
            raise LosslabError(f"LaTeX must typeset {TEX}, found: {' '.join(wrong) or done.out}")
        shutil.copy(Path(folder) / PDF, root / PDF)
    return int(pages[1])


def _typst(root: Path) -> int:
    """Make the PDF with Typst, in a layout like that of LaTeX; return its number of pages."""
    import typst

    template = TEMPLATES / "appendix.typ"
    text = convert((root / TEX).read_text(), "latex", "typst", "--template", template)
    source = text.encode()
    try:
        (root / PDF).write_bytes(typst.compile(source))
        return int(typst.query(source, "<pages>", field="value", one=True))
    except typst.TypstError as error:
        raise LosslabError(f"Typst must typeset {TEX}, found: {error}") from error


def _origin(root: Path, part: str) -> str:
    """Return a part of the campaign's provenance from its table."""
    path = root / RESULTS / "tables" / "origin.csv"
    if not path.is_file():
        return "not recorded"
    return "; ".join(row["what"] for row in read_rows(path) if row["part"] == part)
