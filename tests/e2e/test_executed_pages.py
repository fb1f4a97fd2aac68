"""Pages with code: they show the output that the code prints."""

import pytest

from tests import executed


@pytest.mark.parametrize("name", ["docs/how-to/python.md"])
def test_page_shows_the_output_of_its_code(root, tmp_path, name):
    page = (root / name).read_text()
    assert len(executed.shown(page)) > 2
    assert executed.outputs(page, tmp_path) == executed.shown(page)


def test_polars_reads_runs_and_results_as_the_page_shows(root, tmp_path):
    pytest.importorskip("polars", reason="scripts/group.sh users")
    page = (root / "docs/how-to/python.md").read_text()
    page = page.partition("\n## R\n")[0].replace('```python title="with Polars"', "```python")
    assert "polars" in executed.BLOCK.findall(page)[-1][1]
    assert executed.outputs(page, tmp_path) == executed.shown(page)
