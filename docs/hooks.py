"""MkDocs hooks: navigation, notebooks, and tables generated from the code."""

import os
import re
from pathlib import Path
from typing import Any

import jupytext
from mkdocs.structure.files import File

from losslab import cli, commands
from losslab.study import dictionary

ROOT = Path(__file__).resolve().parents[1]
# Guides by what people do; others are in the last section.
GUIDES = {
    "Start": ("install", "python", "teach"),
    "Measure": ("sweep", "decide", "campaign", "flows", "paths", "programs", "quic", "containers",
                "real-time", "cluster", "module"),
    "Understand a run": ("compare", "whatif", "export", "report"),
    "Your algorithm": ("algorithm", "scheme", "score", "conform", "modules"),
    "Your pull request": ("check",),
    "Reproduce and publish": ("explain", "artifact", "instrument", "try-losslab"),
}  # fmt: skip
MORE = "More guides"
# Sections after the guides; their pages are sorted by file name.
PARTS = {"Reference": "reference", "Explanation": "explanation"}
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
    config["nav"] = nav
    return config


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
