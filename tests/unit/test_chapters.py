"""Chapters are built alike, and say something before they show it."""

import re

import pytest

from losslab.study import files

# What a chapter on a source has, in this order; other sections stand where they belong.
ORDER = (
    "What the source did and found", "What we did differently, and why", "Published and measured",
    "Why", "Claims and verdicts", "What to conclude",
)  # fmt: skip
# Those that reproduce a source; the others are of the instrument itself.
OF_SOURCES = ("loss", "bufferbloat", "cloud", "map", "cellular")


@pytest.mark.parametrize("study", OF_SOURCES)
def test_chapters_on_sources_have_one_order(root, study):
    titles = re.findall(r"^## (.*)$", files.chapter(root, study).read_text(), re.MULTILINE)
    places = [next(n for n, t in enumerate(titles) if t.startswith(part)) for part in ORDER]
    assert places == sorted(places)
    assert files.chapter(root, study).read_text().count("The question: ") == 1


def test_no_section_begins_with_a_figure_or_table(root):
    for chapter in (root / "report").glob("_*.qmd"):
        text = chapter.read_text()
        # Chunks that show nothing, and claims, whose section is their table.
        text = re.sub(r"^```\{r\}\n#\| include: false\n.*?^```\n", "", text, flags=re.M | re.S)
        for title, first in re.findall(r"^#+ (.*)\n\n(.*)$", text, re.MULTILINE):
            told = title.startswith(("Claims", "Appendix"))
            assert told or not first.startswith("```{r}"), f"{chapter.name}, {title}"


def test_every_study_is_concluded(root):
    # The suite's cards are pages of their own.
    for study in set(files.known(root)) - {"score"}:
        text = files.chapter(root, study).read_text()
        assert "## What to conclude" in text, study
