"""Pages with code: they show the output that the code prints."""

import pytest

from tests import executed


@pytest.mark.parametrize("name", ["docs/how-to/python.md"])
def test_page_shows_the_output_of_its_code(root, tmp_path, name):
    page = (root / name).read_text()
    assert len(executed.shown(page)) > 2
    assert executed.outputs(page, tmp_path) == executed.shown(page)
