"""Numbers with units in the chapters' prose come from code, or are declared."""

import re

import pytest

from losslab.study import files
from tests.conftest import ROOT

CODE = re.compile(r"\A---\n.*?^---$|^```.*?^```$|`[^`]*`|\"[^\"]*\"", re.MULTILINE | re.DOTALL)
DIGITS = r"\d[\d.,]*\d|\d"
UNIT = r"%|ms|s|seconds?|minutes?|[kMG]bit/s|[kKMG]i?B|packets?|bytes?"
TYPED = re.compile(rf"(?<![\w.@-])({DIGITS})(?: to ({DIGITS}))?[ \u00a0]?({UNIT})(?!\w)")
# Factors between a prose unit and the units of configurations and tables.
FACTORS = {"Gbit/s": 1000, "MB": 1000, "s": 1000, "seconds": 1000, "ms": 1e-3}
CONFIDENCE = "95 %"
# Numbers that no file of their study declares: where they come from.
OTHERS = {
    ("agreement", "1 %"): "populations of cells in bench/coverage.R",
    ("agreement", "0.01 %"): "populations of cells in bench/coverage.R",
    ("agreement", "5 %"): "error of a 95 % confidence interval",
    ("appendix", "80 %"): "limits in the classification of a flow's time",
    ("bufferbloat", "177,669 bytes"): "index.html of the lab's scripts",
    ("cellular", "5.04 Mbit/s"): "mean rate of the source's trace",
    ("claims", "5 %"): "error of a 95 % confidence interval",
    ("cloud", "3 to 39 s"): "measured once; not a result of the campaign",
    ("cloud", "30.5 s"): "the source's log of the video",
    ("cloud", "112 to 151 Mbit/s"): "measured once, with two block sizes of iperf3",
    ("conclusion", "100 packets"): "settings of the exercise, in its command",
    ("conclusion", "1.5 Mbit/s"): "settings of the exercise, in its command",
    ("index", "5 %"): "error of a 95 % confidence interval, and level of Holm's method",
    ("quic", "1,486 bytes"): "sizes of a full packet's headers",
    ("quic", "1,514 bytes"): "sizes of a full packet's headers",
    ("quic", "9.43 Mbit/s"): "10 Mbit/s times the share of data in a full packet",
    ("quic", "9.56 Mbit/s"): "10 Mbit/s times the share of data in a full packet",
}


def declared(study):
    """Return the numbers in a study's configuration, published numbers and claims."""
    if study not in files.study_names(ROOT):
        return set()
    paths = [
        ROOT / f"config/studies/{study}.yaml", ROOT / f"config/published/{study}.csv",
        ROOT / f"report/claims/{study}.yaml",
    ]  # fmt: skip
    text = "\n".join(path.read_text() for path in paths if path.is_file())
    return {float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)}


def typed(text):
    """Yield each number with its unit as written, its line, its values and its unit."""
    prose = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
    for match in TYPED.finditer(prose):
        values = [float(number.replace(",", "")) for number in match.groups()[:2] if number]
        line = prose.count("\n", 0, match.start()) + 1
        yield match[0].replace("\u00a0", " "), line, values, match[3]


def undeclared(text, known):
    for words, line, values, unit in typed(text):
        factor = FACTORS.get(unit, 1)
        if words != CONFIDENCE and not all({v, v * factor} & known for v in values):
            yield words, line


CHAPTERS = sorted((ROOT / "report").glob("*.qmd"))


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_numbers_with_units_come_from_code_or_are_declared(chapter):
    name = chapter.stem.removeprefix("_")
    found = [
        f"{chapter.name}, line {line}: {words}"
        for words, line in undeclared(chapter.read_text(), declared(name))
        if (name, words) not in OTHERS
    ]
    assert not found, "compute it in code, or name its source in OTHERS:\n" + "\n".join(found)


def test_every_exception_is_used():
    used = {
        (chapter.stem.removeprefix("_"), words)
        for chapter in CHAPTERS
        for words, _ in undeclared(chapter.read_text(), declared(chapter.stem.removeprefix("_")))
    }
    assert set(OTHERS) - used == set()


def test_undeclared_numbers_are_found_outside_code_and_quotations():
    text = '---\ntitle: 9 ms\n---\nIn `r 7` ms, "8 ms", 20 ms, 1 Gbit/s and\n95 % of 3 to 4 s.\n'
    assert list(undeclared(text, {20.0, 1000.0})) == [("3 to 4 s", 5)]
    assert list(undeclared(text, {20.0, 1000.0, 3000.0, 4.0})) == []
