"""Structure of the report's chapters."""

import re

import pytest

from losslab import report
from losslab.study import studyfiles

# Sections of a chapter on a source, in this order.
ORDER = (
    "What the source did and found", "What we did differently, and why", "Published and measured",
    "What differs, and why", "So what",
)  # fmt: skip
# Chapters that reproduce a source; the others are about the instrument.
OF_SOURCES = ("loss", "bufferbloat", "cloud", "map", "cellular")
REFERENCE = re.compile(r"@((?:fig|tbl|sec)-[A-Za-z0-9-]*[A-Za-z0-9])")


@pytest.mark.parametrize("study", OF_SOURCES)
def test_chapters_on_sources_have_one_order(root, study):
    body, marked, details = studyfiles.chapter(root, study).read_text().partition(report.DETAILS)
    titles = re.findall(r"^## (.*)$", body, re.MULTILINE)
    assert titles == list(ORDER)
    assert body.count("**The question: ") == 1
    # One main figure; everything else is in the appendix.
    assert body.count("#| label: fig-") == 1
    assert body.count("#| label: tbl-") == 0
    assert marked
    assert details


def test_every_reference_has_a_target(root):
    """The report removes references to what a campaign has no data for."""
    paths = list((root / "report").glob("*.qmd"))
    defined = set(report.labels_of(paths))
    for path in paths:
        assert set(REFERENCE.findall(path.read_text())) - defined == set(), path.name


def test_no_section_begins_with_a_figure_or_table(root):
    for chapter in (root / "report").glob("_*.qmd"):
        text = chapter.read_text()
        # Hidden chunks do not count; appendices may begin with their tables.
        text = re.sub(r"^```\{r\}\n#\| include: false\n.*?^```\n", "", text, flags=re.M | re.S)
        for title, first in re.findall(r"^#+ (.*)\n\n(.*)$", text, re.MULTILINE):
            is_appendix = title.startswith("Appendix") or "-details}" in title
            assert is_appendix or not first.startswith("```{r}"), f"{chapter.name}, {title}"


def test_every_study_says_so_what(root):
    for study in studyfiles.study_names(root):
        text = studyfiles.chapter(root, study).read_text()
        assert "## So what" in text or "**So what.**" in text, study
