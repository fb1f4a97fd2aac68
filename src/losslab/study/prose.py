"""Numbers in the prose of a report's chapters, which do not follow the results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from losslab.errors import LosslabError
from losslab.reading import read_text
from losslab.study import studyfiles

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
    """Raise LosslabError with each typed number without a source, and each comment without use.

    The study's configuration, published numbers or claims have the number, or a comment of the
    chapter names its source: `<!-- typed 93 %: the source's figure 2 -->`. `root` has
    the studies.
    """
    problems = []
    for chapter in chapters:
        text, study = read_text(chapter), studyfiles.study_of(chapter)
        place = f"studies/{study}/{chapter.name}" if study else chapter.name
        lines = dict(typed(text, declared(root, study)))
        named = set(NAMED.findall(text))
        problems += [
            f"{place}, line {line}: {words}" for words, line in lines.items() if words not in named
        ] + [
            f"{place}, a comment names the source of {words}, which is not in the prose"
            for words in sorted(named - lines.keys())
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
    if not study:
        return set()
    names = ("study.yaml", studyfiles.CLAIMS, studyfiles.PUBLISHED)
    paths = [studyfiles.file(root, study, name) for name in names]
    text = "\n".join(read_text(path) for path in paths if path.is_file())
    return {float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)}


def typed(text: str, known: set[float]) -> Iterator[tuple[str, int]]:
    """Yield each number with its unit that is not in `known`, and its line."""
    # Line ends are kept, so that lines can be counted.
    prose = NO_PROSE.sub(lambda part: re.sub(r"[^\n]", " ", part[0]), text)
    for match in TYPED.finditer(prose):
        words = match[0].replace("\u00a0", " ")
        values = [float(number.replace(",", "")) for number in match.groups()[:2] if number]
        factor = FACTORS.get(match[3], 1)
        if words != CONFIDENCE and not all({v, v * factor} & known for v in values):
            yield words, prose.count("\n", 0, match.start()) + 1
