"""Which cases of a suite to read again: digests of the sections of the text that they come from.

The text is a draft's source in Markdown, which losslab does not store. A digest is of a section's
words, without its subsections and its line breaks.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from losslab.reading import UsageError

DIGITS = 16
HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*(?:\{#[^}]*\})?\s*$", re.M)


def sections(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the level, the heading and the digest of each section of a text in Markdown."""
    headings = list(HEADING.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    for heading, end in zip(headings, ends, strict=True):
        words = " ".join(text[heading.end() : end].split())
        yield len(heading[1]), heading[2], hashlib.sha256(words.encode()).hexdigest()[:DIGITS]


def differences(suite: Mapping[str, Any], text: str) -> list[str]:
    """Return a line per section that is not as the suite's cases were written for.

    Raises UsageError for a suite that is bound to no text, and for a text without any of its
    sections.
    """
    if "text" not in suite:
        raise UsageError(f"the suite {suite['suite']} is bound to no text, found --text")
    bound, found = suite["text"]["sections"], list(sections(text))
    digests = {heading: digest for _, heading, digest in found}
    if not digests.keys() & {section["heading"] for section in bound}:
        raise UsageError(
            f"--text must be {suite['text']['file']}, in Markdown, found none of the headings",
            hint=f"a heading is `# {bound[0]['heading']}`",
        )
    lines, headings = [], {digest: heading for heading, digest in digests.items()}
    known = {section["heading"] for section in bound}
    for section in bound:
        digest = digests.get(section["heading"])
        if digest == section["sha256"]:
            continue
        if digest is None and section["sha256"] in headings:
            renamed = headings[section["sha256"]]
            known.add(renamed)
            lines.append(f"{section['heading']}: only renamed, now {renamed}")
            continue
        state = f"changed, now {digest}" if digest else "gone"
        lines.append(f"{section['heading']}: {state}; read again: {', '.join(section['cases'])}")
    return lines + [
        f"{heading}: new, {digest}; no case"
        for heading, digest in _below(suite["text"].get("all_below"), found)
        if heading not in known
    ]


def _below(parent: str | None, found: list[tuple[int, str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the heading and the digest of each section below a heading."""
    parent_level = 0
    for level, heading, digest in found:
        if parent_level and level > parent_level:
            yield heading, digest
        else:
            parent_level = level if heading == parent else 0
