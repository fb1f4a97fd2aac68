"""Post-processing of the report's HTML page, independent of the renderer.

Figures become inline SVG, so that their text can be searched. Elements wider than a phone's screen
scroll on their own, and can be reached with the keyboard.
"""

from __future__ import annotations

import base64
import html
import itertools
import re
from xml.etree import ElementTree

_IMAGE = re.compile(r'<img\b[^>]*\bsrc="data:image/svg\+xml;base64,([^"]+)"[^>]*>')
_ALT = re.compile(r'\b(?:alt|aria-label)="([^"]*)"')  # Quarto writes an aria-label
# Around a table: pandoc's block, and Quarto's.
_TABLE_BLOCK = re.compile(
    r'(<div\b[^>]*class="[^"]*\btable-block\b[^"]*"'
    r'|<div class="cell-output-display"(?=>\s*<table))>'
)
# A reference to an identifier in an SVG file.
_USED = re.compile(r"(url\(#|^#)([^)]+)")
SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"


def finish(page: str) -> str:
    """Return the page with inline figures, and with scrolling elements in the tab order."""
    count = itertools.count(1)

    def drawn(match: re.Match[str]) -> str:
        alt = _ALT.search(match[0])
        words = html.unescape(alt[1]) if alt else ""
        drawing = inlined(base64.b64decode(match[1]), f"f{next(count)}-", words)
        return f'<span class="plot" tabindex="0">{drawing}</span>'

    return _TABLE_BLOCK.sub(r'\1 tabindex="0">', _IMAGE.sub(drawn, page))


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
        for name, value in list(element.attrib.items()):
            if name == "id":
                element.set(name, names[value])
            elif "#" in value:
                element.set(name, renamed(value))
        if element.text and "url(#" in element.text:
            element.text = renamed(element.text)
    # The page sets the width; the viewBox keeps the aspect ratio.
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-label", words)
    return ElementTree.tostring(root, encoding="unicode")
