"""The page with code shows the output that its code prints."""

import importlib.util

from tests import executed


def test_page_shows_the_output_of_its_code(root, tmp_path):
    page = (root / "docs/how-to/python.md").read_text()
    if importlib.util.find_spec("polars"):  # scripts/group.sh users
        page = page.replace('```python title="with Polars"', "```python")
    assert len(executed.shown(page)) > 2
    assert executed.outputs(page, tmp_path) == executed.shown(page)
