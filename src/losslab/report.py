"""Render the report to HTML and PDF with Quarto, or else with knitr, pandoc and typst.

Sources, figures and tables are copied to a staging folder first, because renderers write next to
their sources. Both renderers read the same files.
"""

from __future__ import annotations

import argparse
import base64
import datetime
import itertools
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from losslab import analysis, processes
from losslab.campaign.verdicts import FAMILIES, check, explained, read_recorded
from losslab.errors import LosslabError
from losslab.reading import parse_json, read_rows
from losslab.repository import ROOT, listed
from losslab.study import prose, studyfiles

RENDER = ROOT / "report" / "render"
# Files that both renderers use.
OF_BOTH = tuple(RENDER / name for name in ("marks.lua", "style.typ", "typst-show.typ"))
# Line after each chapter. R then moves its details to the appendix (analysis/R/document.R).
END = "\n<!-- end of chapter -->\n"
INCLUDE = re.compile(r"^\{\{< include (\S+) >\}\}$", re.MULTILINE)
# Label of a figure, table or section.
LABEL = re.compile(r"^#\| label: ((?:fig|tbl)-\S+)$|\{#((?:fig|tbl|sec)-[\w-]+)", re.MULTILINE)
# Figure that a chunk includes from a file, and figure in the text.
PICTURE = re.compile(r"""include_graphics\("([^"]+)"\)|^!\[[^\n]*\]\(([^)\s]+)\)""", re.MULTILINE)
# Figure of the rendered page, and its description (Quarto writes an aria-label).
IMAGE = re.compile(r'<img\b[^>]*\bsrc="data:image/svg\+xml;base64,([^"]+)"[^>]*>')
DESCRIPTION = re.compile(r'\b(?:alt|aria-label)="([^"]*)"')
# Beginning of an identifier in an SVG file, or of a reference to one.
IDENTIFIER = re.compile(r"""(\sid=["']|url\(#|href=["']#)""")
# Renderers' warnings that are errors here, by the error message.
WARNINGS = {
    "cross-references must have a target": r"Unable to resolve crossref (\S+)",
    "citations must be in the bibliography": r"citation (\S+) not found",
    "pictures must exist": r"Could not fetch resource (\S+?):?(?:\s|$)",
}


@dataclass(frozen=True)
class Parts:
    """Inputs of a report."""

    # Main file. It includes the chapters by `_chapters.md`.
    document: Path
    chapters: Sequence[Path] = ()  # chapters of the studies, in order
    extra_files: Sequence[Path] = ()  # files that the document and chapters read, by their names
    # Folder with figures, tables, summaries and claims, which they read by their paths in it.
    results: Path | None = None
    scripts: Sequence[Path] = ()  # scripts of the studies, to which the page links
    campaign: str = ""  # name of the campaign, if any
    command: str = ""  # command that measures it again
    recorded: bool = False  # the campaign's verdicts are recorded, so each sentence must hold
    # Values of each axis that the studies declare, measured or not: `grid.declared_values`.
    declared: Mapping[str, Sequence[str]] = field(default_factory=dict)


def render(parts: Parts, html: Path, pdf: Path) -> str:
    """Render a report to two files; return the renderer's name.

    `tables/` (LaTeX tables), `scripts/` and `report.json` are written next to the page. Raises
    LosslabError with a failed chunk, a typed number without a source, a missing cross-reference,
    citation, picture or included file, or a verdict that differs from the recorded one.
    """
    texts = (parts.document, *parts.chapters, *parts.extra_files)
    prose.check((file for file in texts if file.suffix == ".qmd"), ROOT)
    with tempfile.TemporaryDirectory(prefix="losslab-report-") as name:
        staging = Path(name)
        for file in (parts.document, *parts.extra_files, *OF_BOTH):
            shutil.copy(file, staging / file.name)
        if parts.results is not None:
            link_results(parts.results, [*map(studyfiles.study_of, parts.chapters)], staging)
        for chapter in parts.chapters:
            # R looks here for the line of a false sentence.
            study = studyfiles.study_of(chapter)
            target = staging / (f"studies/{study}/{chapter.name}" if study else chapter.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(chapter, target)
        if parts.recorded:
            check(staging / "claims.csv", parts.campaign)
        shown = [c.read_text() + END for c in parts.chapters if has_data(c, staging)]
        (staging / "_chapters.md").write_text("\n".join(shown))
        (staging / "latex").mkdir()
        program, document = analysis.quarto(), parts.document
        renderer = (
            f"Quarto {analysis.quarto_version(program)}" if program else "knitr, pandoc and typst"
        )
        (staging / "report.json").write_text(json.dumps(facts(parts, renderer), indent=1) + "\n")
        check_pictures(expand_includes((staging / document.name).read_text(), staging), staging)
        if program:
            for form in ("html", "typst"):
                _run([str(program), "render", document.name, "--to", form], staging)
        else:
            _render_fallback(staging, document.name)
        page = staging / f"{document.stem}.html"
        page.write_text(finish(page.read_text(), narrow_versions(staging)))
        for suffix, target in ((".html", html), (".pdf", pdf)):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(staging / (document.stem + suffix), target)
        shutil.copytree(staging / "latex", html.parent / "tables", dirs_exist_ok=True)
        copy_scripts(parts.scripts, html.parent / "scripts")
        shutil.copy(staging / "report.json", html.parent)
    return renderer


def facts(parts: Parts, renderer: str) -> dict[str, Any]:
    """Return what R must know of a report besides its tables (analysis/R/report.R reads it)."""
    first, second = map(read_recorded, FAMILIES)
    causes = explained()
    return {
        "campaign": parts.campaign,
        "command": parts.command,
        "renderer": renderer,
        "recorded": parts.recorded,
        # A reference to one of these that has no data is removed; any other is an error.
        "labels": labels_of([*listed("report/*.qmd"), *listed("studies/*/*.qmd"), *parts.chapters]),
        "declared": parts.declared,
        "families": [
            {"claim": "/".join(name), "first": first[name].verdict,
             "second": second[name].verdict, "explained": causes.get(name, "")}
            for name in first if name in second
        ],
    }  # fmt: skip


def labels_of(documents: Sequence[Path]) -> list[str]:
    """List the labels of figures, tables and sections that documents define."""
    found = [pair for path in documents for pair in LABEL.findall(path.read_text())]
    return sorted({chunk or inline for chunk, inline in found})


def link_results(results: Path, studies: Sequence[str], staging: Path) -> None:
    """Link the results of a campaign's studies, and those without a study, at the same paths.

    A folder may have results of other campaigns' studies, which the report must not show.
    """
    for kind in ("figures", "tables", "summary"):
        (staging / kind).mkdir()
        for path in (results / kind).iterdir():
            if path.is_file() or path.name in studies:
                (staging / kind / path.name).symlink_to(path.resolve())
    (staging / "claims.csv").symlink_to((results / "claims.csv").resolve())


def has_data(chapter: Path, staging: Path) -> bool:
    """Return whether a study's chapter has a cell with a valid run; other chapters have data."""
    cells = staging / "summary" / studyfiles.study_of(chapter) / "cells.csv"
    if not cells.is_file():
        return True
    return any(row["n_valid"] not in ("", "0") for row in read_rows(cells, columns=("n_valid",)))


def copy_scripts(scripts: Sequence[Path], folder: Path) -> None:
    """Copy scripts; those of a study go to a folder with its name."""
    folder.mkdir(parents=True, exist_ok=True)
    for script in scripts:
        # Paths below the last folder called studies or analysis.
        target = folder / re.split("/(?:studies|analysis)/", f"/{script}")[-1]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(script, target)


def measured_at(staging: Path) -> int:
    """Return the day of the last run in seconds since 1970, for the PDF's metadata.

    This makes reports of equal results equal. Without a record, the day is 2024-01-01.
    """
    origin = staging / "tables" / "origin.csv"
    rows = read_rows(origin, columns=("part", "what")) if origin.is_file() else []
    text = " ".join(row["what"] for row in rows if row["part"] == "measured on")
    day = max(re.findall(r"\d{4}-\d\d-\d\d", text), default="2024-01-01")
    return int(datetime.datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp())


def _run(command: Sequence[str], staging: Path) -> None:
    """Run a renderer's step; raise LosslabError on failure and on WARNINGS."""
    more = {"SOURCE_DATE_EPOCH": str(measured_at(staging))}
    done = processes.attempt(command, cwd=staging, limit_s=processes.WORK_LIMIT_S, more=more)
    output = done.out + done.err
    if not done.good:
        raise LosslabError(f"`{' '.join(command[:3])}` must succeed, found:\n{output}")
    for must, pattern in WARNINGS.items():
        if found := sorted(set(re.findall(pattern, output))):
            raise LosslabError(f"{must}, found {', '.join(found)}")


def check_pictures(text: str, folder: Path) -> None:
    """Raise LosslabError if a document's pictures are not in its folder."""
    names = {quoted or linked for quoted, linked in PICTURE.findall(text)}
    missing = sorted(name for name in names if not (folder / name).is_file())
    if missing:
        raise LosslabError(
            f"pictures must exist, found no {', '.join(missing)}",
            hint="a figure NAME of a study is drawn by its file figures/NAME.R",
        )


def expand_includes(text: str, folder: Path) -> str:
    """Replace include shortcodes with the files' texts, recursively."""

    def included(match: re.Match[str]) -> str:
        path = folder / match[1]
        if not path.is_file():
            raise LosslabError(f"{match[0]} must name a file in the document's folder, found none")
        return expand_includes(path.read_text(), folder)

    return INCLUDE.sub(included, text)


def finish(page: str, narrow: Mapping[bytes, bytes]) -> str:
    """Return the page with its script, and with figures as inline SVG, so that text is searchable.

    `narrow` has the version for a phone of each figure, by the content of its SVG file.
    """
    count = itertools.count(1)

    def drawn(match: re.Match[str]) -> str:
        words = DESCRIPTION.search(match[0])
        content = base64.b64decode(match[1])
        small = narrow.get(content)
        versions = {"plot wide": content, "plot narrow": small} if small else {"plot": content}
        label = f'role="img" aria-label="{words[1] if words else ""}"'
        figure = ""
        for kind, drawing in versions.items():
            # Identifiers must be unique on the page.
            svg = IDENTIFIER.sub(rf"\g<1>f{next(count)}-", drawing.decode()).partition("<svg")[2]
            figure += f'<span class="{kind}"><svg {label}{svg}</span>'
        return figure

    script = f"<script>{(RENDER / 'page.js').read_text()}</script>"
    return IMAGE.sub(drawn, page).replace("</body>", f"{script}</body>", 1)


def narrow_versions(folder: Path) -> dict[bytes, bytes]:
    """Return the version for a phone of each SVG file of a folder that has one."""
    return {
        path.with_suffix("").with_suffix(".svg").read_bytes(): path.read_bytes()
        for pattern in ("figures/*.narrow.svg", "figures/*/*.narrow.svg")
        for path in folder.glob(pattern)
    }


def _render_fallback(staging: Path, name: str) -> None:
    import pypandoc
    import typst

    stem = Path(name).stem
    expanded = expand_includes((staging / name).read_text(), staging)
    (staging / f"{stem}.Rmd").write_text(expanded)
    _run(["Rscript", "--vanilla", str(RENDER / "knit.R"), f"{stem}.Rmd", f"{stem}.md"], staging)
    common = [
        pypandoc.get_pandoc_path(), f"{stem}.md",
        "--from", "markdown", "--standalone", "--number-sections",
        # In tables with lines up to this length, columns are as wide as their contents.
        "--columns", "200",
        "--lua-filter", str(RENDER / "crossref.lua"), "--lua-filter", "marks.lua", "--citeproc",
    ]  # fmt: skip
    page = [
        *common, "--to", "html5", "--template", str(RENDER / "template.html"), "--mathml",
        "--toc", "--toc-depth", "2", "--embed-resources", "--css", "style.css",
        "--output", f"{stem}.html",
    ]  # fmt: skip
    print_out = [
        *common, "--to", "typst", "--template", str(RENDER / "template.typ"),
        "--include-before-body", "style.typ", "--output", f"{stem}.typ",
    ]  # fmt: skip
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(_run, page, staging)
        _run(print_out, staging)
        try:
            typst.compile(
                str(staging / f"{stem}.typ"),
                output=str(staging / f"{stem}.pdf"),
                timestamp=measured_at(staging),
            )
        except typst.TypstError as error:
            raise LosslabError(f"typst must make a PDF of the report, found: {error}") from error
        waiting.result()


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and render."""
    parser = argparse.ArgumentParser(prog="python -m losslab.report", description=__doc__)
    parser.add_argument("--document", type=Path, required=True)
    parser.add_argument("--chapters", type=Path, nargs="+", required=True)
    parser.add_argument("--extra-files", type=Path, nargs="*", default=[])
    parser.add_argument("--results", type=Path, help="results folder of the campaign")
    parser.add_argument("--scripts", type=Path, nargs="*", default=[])
    parser.add_argument("--html", type=Path, required=True)
    parser.add_argument("--pdf", type=Path, required=True)
    parser.add_argument("--campaign", default="", help="the campaign's name")
    parser.add_argument("--command", default="", help="command that measures it again")
    parser.add_argument(
        "--recorded", action="store_true", help="stop if a sentence does not hold in this campaign"
    )
    parser.add_argument(
        "--declared", type=partial(parse_json, where="--declared"), default={},
        help="values of each axis that the studies declare, as JSON",
    )  # fmt: skip
    options = vars(parser.parse_args(arguments))
    html, pdf = options.pop("html"), options.pop("pdf")
    try:
        print("rendered with", render(Parts(**options), html, pdf))
    except LosslabError as error:
        print(f"losslab: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
