"""Numbers in the prose of the chapters, which do not follow the results."""

import re

from losslab.study import studyfiles
from tests.conftest import ROOT

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


def declared(study):
    """Return the numbers in a study's configuration, published numbers and claims."""
    if study not in studyfiles.study_names(ROOT):
        return set()
    paths = [ROOT / "config" / "studies" / f"{study}.yaml", studyfiles.claims_file(ROOT, study)]
    paths += studyfiles.published(ROOT, study)
    text = "\n".join(path.read_text() for path in paths if path.is_file())
    return {float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)}


def typed(text, known):
    """Yield each number with its unit that is not in `known`, and its line."""
    prose = NO_PROSE.sub(lambda part: re.sub(r"[^\n]", " ", part[0]), text)
    for match in TYPED.finditer(prose):
        words = match[0].replace("\u00a0", " ")
        values = [float(number.replace(",", "")) for number in match.groups()[:2] if number]
        factor = FACTORS.get(match[3], 1)
        if words != CONFIDENCE and not all({v, v * factor} & known for v in values):
            yield words, prose.count("\n", 0, match.start()) + 1


def test_typed_numbers_of_the_chapters_have_sources():
    """A study's files or a comment has each: `<!-- typed 93 %: the source's figure 2 -->`."""
    found = set()
    for path in sorted((ROOT / "report").rglob("*.qmd")):
        text = path.read_text()
        lines = dict(typed(text, declared(path.stem.removeprefix("_"))))
        named = set(NAMED.findall(text))
        found |= {f"{path.name}, line {lines[words]}: {words}" for words in lines.keys() - named}
        found |= {f"{path.name}: {words} is not in the prose" for words in named - lines.keys()}
    assert found == set(), "compute each number in code, or name its source in a comment"


def test_typed_numbers_are_found_outside_code_comments_and_quotations():
    text = (
        '---\ntitle: 9 ms\n---\nIn `r 7` ms, "8 ms", 20 ms, <!-- 6 ms --> 1 Gbit/s and\n'
        "95 % of 3 to 4 s.\n"
    )
    assert list(typed(text, {20.0, 1000.0})) == [("3 to 4 s", 5)]
    assert list(typed(text, {20.0, 1000.0, 3000.0, 4.0})) == []
