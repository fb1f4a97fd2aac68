"""Post-processing of the report's HTML page, independent of the renderer.

Figures become inline SVG, so that their text can be searched, in two versions: as wide as the text,
and redrawn for a phone. Tables that do not fit a phone's screen get labels, with which the style
shows each row as a card. A table that is wider than the page scrolls on its own, and can be reached
with the keyboard. The page's script marks the current section.
"""

from __future__ import annotations

import base64
import html
import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from losslab import darkfigures
from losslab.repository import ROOT

SCRIPT = ROOT / "report" / "render" / "page.js"
_IMAGE = re.compile(r'<img\b[^>]*\bsrc="data:image/svg\+xml;base64,([^"]+)"[^>]*>')
_ALT = re.compile(r'\b(?:alt|aria-label)="([^"]*)"')  # Quarto writes an aria-label
_TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)
_HEAD = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_ROW = re.compile(r"<tr\b[^>]*>.*?</tr>", re.DOTALL)
_CELL = re.compile(r"<td\b([^>]*)>(.*?)</td>", re.DOTALL)
_ROLES = {
    "table": "table", "thead": "rowgroup", "tbody": "rowgroup", "tr": "row", "th": "columnheader",
    "td": "cell", "caption": "caption",
}  # fmt: skip
_TAG = re.compile(r"<[^>]+>")
# Around a table: pandoc's block, and Quarto's.
_TABLE_BLOCK = re.compile(
    r'(<div\b[^>]*class="[^"]*\btable-block\b[^"]*"'
    r'|<div class="cell-output-display"(?=>\s*<table))>'
)
# A reference to an identifier in an SVG file.
_USED = re.compile(r"(url\(#|^#)([^)]+)")
SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
# Characters that fit beside one another on a phone's screen of 360 px.
PHONE_CHARACTERS = 44


def finish(page: str, narrow: Mapping[bytes, bytes]) -> str:
    """Return the page with inline figures, labelled tables and its script.

    Args:
        page: The renderer's page.
        narrow: The version for a phone of each figure, by the content of its SVG file.
    """
    count = itertools.count(1)

    def drawn(match: re.Match[str]) -> str:
        alt = _ALT.search(match[0])
        words = html.unescape(alt[1]) if alt else ""
        content = base64.b64decode(match[1])
        small = narrow.get(content)
        versions = [("plot wide" if small else "plot", content), ("plot narrow", small)]
        return "".join(
            f'<span class="{kind}">{inlined(drawing, f"f{next(count)}-", words)}</span>'
            for kind, drawing in versions
            if drawing
        )

    page = _TABLE_BLOCK.sub(r'\1 tabindex="0">', _IMAGE.sub(drawn, page))
    page = _TABLE.sub(lambda match: labelled(match[0]), page)
    style = f"<style>{darkfigures.style_sheet(page)}</style>"
    script = f"<script>{SCRIPT.read_text()}</script>"
    return page.replace("</head>", f"{style}</head>", 1).replace("</body>", f"{script}</body>", 1)


def narrow_versions(folder: Path) -> dict[bytes, bytes]:
    """Return the version for a phone of each SVG file of a folder that has one."""
    return {
        path.with_name(path.name.removesuffix(".narrow.svg") + ".svg").read_bytes(): (
            path.read_bytes()
        )
        for path in folder.glob("*.narrow.svg")
    }


def labelled(table: str) -> str:
    """Return a table whose rows can be cards, if it is too wide for a phone's screen.

    Each cell has its column's name, and each element its role, which `display` would remove.
    """
    heads = [_text(head) for head in _HEAD.findall(table)]
    rows = [[_text(cell) for _, cell in _CELL.findall(row)] for row in _ROW.findall(table)]
    columns = itertools.zip_longest(heads, *filter(None, rows), fillvalue="")
    if sum(_longest_word(column) + 2 for column in columns) <= PHONE_CHARACTERS:
        return table

    def with_names(row: re.Match[str]) -> str:
        names = iter(heads)
        return _CELL.sub(
            lambda cell: f'<td data-label="{html.escape(next(names, ""))}"{cell[1]}>{cell[2]}</td>',
            row[0],
        )

    table = _ROW.sub(with_names, table)
    for tag, role in _ROLES.items():
        table = re.sub(rf"<{tag}\b", f'<{tag} role="{role}"', table)
    return table.replace("<table", "<table data-cards", 1)


def _text(content: str) -> str:
    return html.unescape(_TAG.sub("", content)).strip()


def _longest_word(column: tuple[str, ...]) -> int:
    """Return the length of a column's longest word; words break at zero-width spaces, too."""
    return max((len(w) for text in column for w in re.split("[ \n\u200b]", text)), default=0)


def inlined(drawing: bytes, prefix: str, words: str) -> str:
    """Return an SVG file as an inline element.

    Args:
        drawing: The file's content.
        prefix: Prefix of its identifiers, which makes them unique on the page.
        words: Description for screen readers.
    """
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(drawing)
    identifiers = dict.fromkeys(e.attrib["id"] for e in root.iter() if "id" in e.attrib)
    names = {old: f"{prefix}{number}" for number, old in enumerate(identifiers)}

    def renamed(value: str) -> str:
        return _USED.sub(lambda use: use[1] + names.get(use[2], use[2]), value)

    for element in root.iter():
        kind = element.tag.rpartition("}")[2]
        for name, value in list(element.attrib.items()):
            if name == "id":
                element.set(name, names[value])
            elif name == "style":
                element.set(name, darkfigures.with_variables(renamed(value), kind))
            elif "#" in value:
                element.set(name, renamed(value))
        if element.text and kind == "style":
            element.text = darkfigures.with_variables(renamed(element.text), kind)
    # The page sets the width; the viewBox keeps the aspect ratio.
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-label", words)
    return ElementTree.tostring(root, encoding="unicode")
