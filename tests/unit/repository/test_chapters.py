"""Structure of the report's chapters."""

import re

import pytest

from losslab.study import files

# Sections of a chapter on a source, in this order; other sections may stand between them.
ORDER = (
    "What the source did and found", "What we did differently, and why", "Published and measured",
    "Why", "Claims and verdicts", "What to conclude",
)  # fmt: skip
# Chapters that reproduce a source; the others are about the instrument.
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
        # Hidden chunks do not count; sections of claims and appendices may begin with their tables.
        text = re.sub(r"^```\{r\}\n#\| include: false\n.*?^```\n", "", text, flags=re.M | re.S)
        for title, first in re.findall(r"^#+ (.*)\n\n(.*)$", text, re.MULTILINE):
            is_table = title.startswith(("Claims", "Appendix"))
            assert is_table or not first.startswith("```{r}"), f"{chapter.name}, {title}"


def test_every_study_has_a_conclusion(root):
    # The suite's scorecards are separate pages.
    for study in set(files.study_names(root)) - {"score"}:
        text = files.chapter(root, study).read_text()
        assert "## What to conclude" in text, study
