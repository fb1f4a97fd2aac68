"""Commands of the README and the tutorial, run in order, and the code of a page."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import executed, pages

RUN = {"measure", "rerun", "plot"}
OUTPUT = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_commands_of_a_page_succeed(root, tmp_path, page):
    shown = [c for c in pages.shown(root) if c.page == page and pages.program(c) == "losslab"]
    to_run = [c.words[1:] for c in shown if c.words[1:2] and c.words[1] in RUN]
    assert {words[0] for words in to_run} == RUN
    environment = {**os.environ, "NO_COLOR": "1"}
    printed = ""
    for words in to_run:
        command = [str(Path(sys.executable).parent / "losslab"), *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
        assert "\x1b" not in done.stdout + done.stderr
        printed += done.stdout
    # The output that the page shows is the real one.
    assert [text for text in OUTPUT.findall((root / page).read_text()) if text not in printed] == []


@pytest.mark.parametrize("name", ["python", pytest.param("teach", marks=pytest.mark.nightly)])
def test_page_shows_the_output_of_its_code(root, tmp_path, name):
    page = (root / f"docs/how-to/{name}.md").read_text()
    if importlib.util.find_spec("polars"):  # scripts/group.sh users
        page = page.replace('```python title="with Polars"', "```python")
    assert len(executed.shown(page)) > 2
    assert executed.outputs(page, tmp_path) == executed.shown(page)
