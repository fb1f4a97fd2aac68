"""What the site has beyond its pages: the order of its parts, and tables made from the code."""

import os
import re
from pathlib import Path
from typing import Any

from losslab import cli, examples
from losslab.study import listed

ROOT = Path(__file__).resolve().parents[1]
# How a reader meets them; pages within are in alphabetical order.
PARTS = {"How-to": "how-to", "Reference": "reference", "Explanation": "explanation"}
INCLUDE = re.compile(r"<!-- include (\S+) -->")


def on_config(config: Any) -> Any:
    """List the pages that there are."""
    docs = Path(config["docs_dir"])
    nav = [{"losslab": "index.md"}, {"Tutorial": "tutorial.md"}]
    for title, folder in PARTS.items():
        pages = sorted(docs.joinpath(folder).glob("*.md"))
        nav.append({title: [str(page.relative_to(docs)) for page in pages]})
    config["nav"] = nav
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put in what is made from the code, or stands elsewhere in the repository."""
    markdown = INCLUDE.sub(lambda found: (ROOT / found[1]).read_text(), markdown)
    markdown = markdown.replace("<!-- commands -->", _commands())
    return markdown.replace("<!-- axes -->", listed.table())


def _commands() -> str:
    """Write the help of every command, the workflow's last."""
    os.environ["COLUMNS"] = "100"  # argparse breaks lines at the terminal's width
    commands = sorted(examples.leaves(cli.parser()), key=lambda c: examples.OF_WORKFLOW in c[1])
    return "\n".join(
        f"## losslab {name}\n\n```text\n{parser.format_help()}```\n" for name, _, parser in commands
    )
