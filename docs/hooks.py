"""What the site has beyond its pages: the order of its parts, and tables made from the code."""

import re
from pathlib import Path
from typing import Any

from losslab import cli, manual
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
    markdown = markdown.replace("<!-- commands -->", manual.markdown(cli.parser()))
    return markdown.replace("<!-- axes -->", listed.table())
