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
# Sections in the order of the navigation; their pages are sorted by file name.
PARTS = {"How-to": "how-to", "Reference": "reference", "Explanation": "explanation"}
# Pages whose code is also a notebook, and the heading at which the notebook ends.
NOTEBOOKS = {"how-to/python.md": "\n## Polars\n", "how-to/teach.md": "\n## Exercises\n"}
LINK_TO_NOTEBOOK = "[Download this page's code as a notebook]({}.ipynb), without outputs."
# Solutions of a lesson, which its notebook leaves to the student.
SOLUTION = re.compile(r"^(\*\*Explain\.\*\*).*?(?=^## |\Z)", re.M | re.S)
OUTPUT, LINK = re.compile(r"^```text\n.*?^```\n", re.M | re.S), re.compile(r"\[([^]]+)\]\([^)]*\)")
INCLUDE = re.compile(r"<!-- include (\S+) -->")


def on_config(config: Any) -> Any:
    """Set the navigation to all pages in the folder."""
    docs = Path(config["docs_dir"])
    nav = [{"losslab": "index.md"}, {"Tutorial": "tutorial.md"}]
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
    for name, table in TABLES.items():
        mark = f"<!-- {name} -->"
        markdown = markdown.replace(mark, table()) if mark in markdown else markdown
    return markdown


def _commands() -> str:
    """Return the help of all commands as Markdown, the workflow's commands last."""
    os.environ["COLUMNS"] = "100"  # argparse breaks lines at the terminal's width
    leaves = commands.leaves(cli.parser())
    return "\n".join(
        f"## losslab {name}\n\n```text\n{parser.format_help()}```\n" for name, _, parser in leaves
    )


# Tables by the name of the comment that they replace.
TABLES = {
    "commands": _commands, "axes": dictionary.axes_table, "metrics": dictionary.metrics_table,
    "columns": dictionary.page,
}  # fmt: skip
