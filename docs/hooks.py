"""MkDocs hooks: navigation, notebooks, tables generated from the code, and pages with results."""

import logging
import os
import re
import shutil
from pathlib import Path
from typing import Any

import jupytext
from mkdocs.structure.files import File

from losslab import cli, commands
from losslab.study import dictionary

ROOT = Path(__file__).resolve().parents[1]
# Guides by what people do; others are in the last section.
GUIDES = {
    "Start": ("install", "python", "teach", "assistants"),
    "Measure": ("sweep", "decide", "campaign", "flows", "paths", "programs", "quic", "containers",
                "real-time", "cluster", "module"),
    "Understand a run": ("compare", "whatif", "export", "report"),
    "Your algorithm": ("algorithm", "scheme", "score", "conform", "table", "modules"),
    "Your pull request": ("check",),
    "Reproduce and publish": ("explain", "artifact", "site", "instrument", "try-losslab"),
}  # fmt: skip
MORE = "More guides"
# Sections after the guides; their pages are sorted by file name.
PARTS = {"Reference": "reference", "Explanation": "explanation"}
# Folder of results whose report, figures and tables `make site` adds to the documentation. The
# report links to files beside it and to figures and tables, so the site has the same folders.
RESULTS = os.environ.get("LOSSLAB_SITE_RESULTS", "")
SHOWN = ("report", "figures", "tables")
PAGES = {
    "Lab: choose a path": "lab.html", "Report": "results/report/report.html",
    "Report (PDF)": "results/report/report.pdf",
    "Run explorer": "results/report/explorer.html", "Evidence": "evidence.html",
    "Algorithms": "algorithms.html",
}  # fmt: skip
# Larger files are left out, so that the site stays small. The report has their figures.
LARGEST_BYTES = 100_000
FILE_LINK = re.compile(r'<a href="(\.\./(?:figures|tables)/[^"#]+)"[^>]*>([^<]*)</a>')
BODY = re.compile(r"<body[^>]*>")
# The theme's dialog for the search has no name that a screen reader can say.
SEARCH, NAMED = 'data-md-component="search" role="dialog"', ' aria-label="Search"'
BAR = '<nav aria-label="Site" style="font: 14px/1.6 sans-serif; padding: 0.2rem 0">{}</nav>'
# Pages whose code is also a notebook, and the heading at which the notebook ends.
NOTEBOOKS = {"how-to/python.md": "\n## Polars\n", "how-to/teach.md": "\n## Exercises\n"}
LINK_TO_NOTEBOOK = "[Download this page's code as a notebook]({}.ipynb), without outputs."
# Solutions of a lesson, which its notebook leaves to the student.
SOLUTION = re.compile(r"^(\*\*Explain\.\*\*).*?(?=^## |\Z)", re.M | re.S)
OUTPUT, LINK = re.compile(r"^```text\n.*?^```\n", re.M | re.S), re.compile(r"\[([^]]+)\]\([^)]*\)")
# Text that the repository's page has in place of an included file or of the help of all commands.
INCLUDE = re.compile(r"<!-- include (\S+) -->.*?<!-- end -->", re.S)
COMMANDS = re.compile(r"<!-- commands: .*", re.S)
COLUMNS = re.compile(r"The files `config/columns.*?<!-- columns -->", re.S)


def on_config(config: Any) -> Any:
    """Set the navigation to all pages in the folder."""
    docs = Path(config["docs_dir"])
    nav: list[dict[str, Any]] = [{"losslab": "index.md"}, {"Tutorial": "tutorial.md"}]
    listed = {name for names in GUIDES.values() for name in names}
    others = sorted({page.stem for page in docs.glob("how-to/*.md")} - listed)
    for title, names in (GUIDES | ({MORE: tuple(others)} if others else {})).items():
        nav.append({title: [f"how-to/{name}.md" for name in names]})
    for title, folder in PARTS.items():
        pages = sorted(docs.joinpath(folder).glob("*.md"))
        nav.append({title: [str(page.relative_to(docs)) for page in pages]})
    if RESULTS:
        nav.insert(1, {"Results": [{title: path} for title, path in PAGES.items()]})
        # They are not pages of the documentation.
        config["validation"]["nav"]["not_found"] = logging.INFO
    config["nav"] = nav
    return config


def on_post_page(output: str, **_: Any) -> str:
    """Name the dialog for the search."""
    return output.replace(SEARCH, SEARCH + NAMED)


def on_post_build(config: Any) -> None:
    """Add the pages with results, and links from each of them to all others."""
    if not RESULTS:
        return
    results, site = Path(RESULTS), Path(config["site_dir"])
    for name in SHOWN:
        shutil.copytree(results / name, site / "results" / name, ignore=_left_out)
    for name in ("lab.html", "evidence.html", "algorithms.html"):
        shutil.move(site / "results/report" / name, site / name)
    report = site / PAGES["Report"]
    report.write_text(FILE_LINK.sub(lambda link: _kept(report, link), report.read_text()))
    for path in PAGES.values():
        if path.endswith(".html"):
            page = site / path
            bar = _bar("../" * path.count("/"), path)
            page.write_text(
                BODY.sub(lambda body, bar=bar: body[0] + bar, page.read_text(), count=1)
            )


def _left_out(folder: str, names: list[str]) -> list[str]:
    """List the files of a folder of results that the site does not have."""
    paths = [Path(folder, name) for name in names]
    return [
        path.name
        for path in paths
        if path.name.startswith(".")
        or path.suffix == ".json"
        or ("figures" in path.parts and path.is_file() and path.stat().st_size > LARGEST_BYTES)
    ]


def _kept(page: Path, link: re.Match[str]) -> str:
    """Return a link to a file, or only its text if the site does not have the file."""
    return link[0] if (page.parent / link[1]).is_file() else link[2]


def _bar(up: str, here: str) -> str:
    """Return the links of a page with results; `up` leads from its folder to the site's."""
    links = (
        f"<span>{title}</span>" if path == here else f'<a href="{up}{path}">{title}</a>'
        for title, path in ({"Documentation": "index.html"} | PAGES).items()
    )
    return BAR.format(" · ".join(links))


def on_files(files: Any, config: Any) -> Any:
    """Add the notebooks."""
    for page, end in NOTEBOOKS.items():
        text, _, _ = Path(config["docs_dir"], page).read_text().partition(end)
        name = str(Path(page).with_suffix(".ipynb"))
        files.append(File.generated(config, name, content=notebook(text)))
    return files


def notebook(page: str) -> str:
    """Return a page's text and code as a notebook, without outputs, solutions and links."""
    text = SOLUTION.sub(r"\1\n\n", OUTPUT.sub("", page)).replace("<!-- notebook -->\n", "")
    text = LINK.sub(r"\1", text).replace("```sh\n", "```python\n%%bash\n")
    made = jupytext.reads(text, "md")
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"  # by default random
    made.metadata["kernelspec"] = {
        "name": "python3", "display_name": "Python 3", "language": "python"
    }  # fmt: skip
    return jupytext.writes(made, "ipynb")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Insert included files and tables generated from the code."""
    # Links of included files are relative to a folder beside docs/.
    markdown = INCLUDE.sub(
        lambda found: (ROOT / found[1]).read_text().replace("](../docs/", "](../"), markdown
    )
    name = Path(page.file.src_uri).stem
    markdown = markdown.replace("<!-- notebook -->", LINK_TO_NOTEBOOK.format(name))
    markdown = COMMANDS.sub(lambda _: _commands(), markdown)
    return COLUMNS.sub(lambda _: dictionary.page(), markdown)


def _commands() -> str:
    """Return the help of all commands as Markdown, the workflow's commands last."""
    os.environ["COLUMNS"] = "100"  # argparse breaks lines at the terminal's width
    leaves = commands.leaves(cli.parser())
    return "\n".join(
        f"## losslab {name}\n\n```text\n{parser.format_help()}```\n" for name, _, parser in leaves
    )
