"""Numbers with units that a chapter's author typed: each one must have a source.

A number in the prose does not follow the results. It is allowed if the study's configuration,
published numbers or claims have it, or if a comment of the chapter names its source:
`<!-- typed 1.5 Mbit/s: the command of the exercise -->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from losslab.errors import LosslabError
from losslab.study import files

# Front matter, code, comments and quotations.
NO_PROSE = re.compile(
    r"\A---\n.*?^---$|^```.*?^```$|<!--.*?-->|`[^`]*`|\"[^\"]*\"", re.MULTILINE | re.DOTALL
)
DIGITS = r"\d[\d.,]*\d|\d"
UNIT = r"%|ms|s|seconds?|minutes?|[kMG]bit/s|[kKMG]i?B|packets?|bytes?"
TYPED = re.compile(rf"(?<![\w.@-])({DIGITS})(?: to ({DIGITS}))?[ \u00a0]?({UNIT})(?!\w)")
NAMED = re.compile(r"<!-- typed ([^:]+): [^>]+ -->")
# Factors between a prose unit and the units of configurations and tables.
FACTORS = {"Gbit/s": 1000, "MB": 1000, "s": 1000, "seconds": 1000, "ms": 1e-3}
CONFIDENCE = "95 %"


def check(chapters: Iterable[Path], root: Path) -> None:
    """Raise LosslabError with each number that no file declares, and each comment without use.

    `chapters`: files of the report; a study's chapter has its name. `root`: the repository that has
    the studies.
    """
    problems = [
        f"{chapter.name}, {problem}"
        for chapter in chapters
        for problem in _problems(
            chapter.read_text(), declared(root, chapter.stem.removeprefix("_"))
        )
    ]
    if problems:
        raise LosslabError(
            "numbers with units in the prose must come from code, or have a source, found:\n"
            + "\n".join(f"  {problem}" for problem in problems),
            hint="compute each number in code, or write where it comes from: "
            "<!-- typed 93 %: the source's figure 2 -->",
        )


def declared(root: Path, study: str) -> set[float]:
    """Return the numbers in a study's configuration, published numbers and claims."""
    if study not in files.study_names(root):
        return set()
    paths = [
        root / "config" / "studies" / f"{study}.yaml",
        files.claims(root, study),
        *files.published(root, study),
    ]
    text = "\n".join(path.read_text() for path in paths if path.is_file())
    return {float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)}


def undeclared(text: str, known: set[float]) -> Iterator[tuple[str, int]]:
    """Yield each typed number with its unit that is not in `known`, and its line."""
    # Line ends are kept, so that lines can be counted.
    prose = NO_PROSE.sub(lambda part: re.sub(r"[^\n]", " ", part[0]), text)
    for match in TYPED.finditer(prose):
        words = match[0].replace("\u00a0", " ")
        values = [float(number.replace(",", "")) for number in match.groups()[:2] if number]
        factor = FACTORS.get(match[3], 1)
        if words != CONFIDENCE and not all({v, v * factor} & known for v in values):
            yield words, prose.count("\n", 0, match.start()) + 1


def _problems(text: str, known: set[float]) -> Iterator[str]:
    named, used = set(NAMED.findall(text)), set()
    for words, line in undeclared(text, known):
        used.add(words)
        if words not in named:
            yield f"line {line}: {words}"
    for words in sorted(named - used):
        yield f"a comment names the source of {words}, which is not in the prose"
