"""Lessons of a page such as docs/how-to/teach.md: question, explanation, commands and metrics."""

from __future__ import annotations

import html
import itertools
import re
import shlex
from pathlib import Path
from typing import Any

from losslab.reading import UsageError, read_text
from losslab.study.condition import AXES

SECTION = re.compile(r"^## (.+)\n", re.M)
PREDICT = re.compile(r"^\*\*Predict\.\*\* (.+?)\n\n", re.M | re.S)
EXPLAIN = re.compile(r"^\*\*Explain\.\*\* (.+)", re.M | re.S)
COMMAND = re.compile(r"^```sh\n(losslab sweep .+?)\n```$", re.M | re.S)


def read(page: Path) -> list[dict[str, Any]]:
    """Return the lessons of a page, each with the block of the study that has its cells.

    A lesson is a section with a question (**Predict.**). Its `losslab sweep` commands write to a
    folder with the name of the block. Texts are HTML.
    """
    _, *parts = SECTION.split(read_text(page))
    lessons = [
        _lesson(page, title, text)
        for title, text in zip(parts[::2], parts[1::2], strict=True)
        if PREDICT.search(text)
    ]
    if not lessons:
        raise UsageError(f"{page} must have lessons, found no section with **Predict.**")
    return lessons


def _lesson(page: Path, title: str, text: str) -> dict[str, Any]:
    commands = [command.replace("\\\n", "").split() for command in COMMAND.findall(text)]
    predict, explain = PREDICT.search(text), EXPLAIN.search(text)
    if predict is None or explain is None or not commands:
        raise UsageError(
            f"the lesson {title} of {page} must have **Predict.**, a command `losslab sweep` and "
            "**Explain.**, found one of them missing"
        )
    first = commands[0]
    metrics = [words[words.index("--metric") + 1] for words in commands if "--metric" in words]
    return {
        "title": title,
        "block": first[first.index("--out") + 1],
        "axes": {
            name: [value] if AXES[name].commas else value.split(",")
            for word, value in itertools.pairwise(first)
            if word.startswith("--") and (name := word[2:].replace("-", "_")) in AXES
        },
        "predict": inline(predict[1]),
        "explain": [inline(part) for part in explain[1].strip().split("\n\n")],
        "commands": [shlex.join(words) for words in commands],
        "metrics": metrics,
    }


def inline(text: str) -> str:
    """Return a paragraph of Markdown as HTML, its links as text."""
    plain = html.escape(re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", " ".join(text.split())), quote=False)
    plain = re.sub(r"`([^`]+)`", r"<code>\1</code>", plain)
    return re.sub(
        r"\*([^*]+)\*", r"<em>\1</em>", re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", plain)
    )
