"""Pages with recorded verdicts: their tables and runs are made of the recorded file."""

import pytest
import recorded_tables
from test_bbr_draft import EXPECTED


@pytest.mark.parametrize("page", recorded_tables.PAGES, ids=lambda path: path.stem)
def test_page_has_the_recorded_verdicts_and_numbers(page):
    text = page.read_text()
    assert recorded_tables.MARK.search(text)
    assert text == recorded_tables.written(text)


def test_recorded_verdicts_of_bbr3_are_those_of_its_recorded_time_lines():
    known = {case: recorded_tables.found("bbr3", case)["verdict"] for case in EXPECTED}
    assert known == EXPECTED
