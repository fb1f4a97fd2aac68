"""Commands of the README and the tutorial, run in order, and the code of all other pages."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from losslab.instrument import kernel, kernels
from tests import executed, pages
from tests.sources import tracked

RUN = {"measure", "rerun", "plot"}
OUTPUT = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Other tests compare the outputs of these pages.
OTHERS = {"tutorial", "run-your-tests", "bbr-draft"}
WITH_OUTPUT = [page for page in tracked("docs/*.md") if page.stem not in OTHERS
               and "\n```text\n" in page.read_text()]  # fmt: skip
NIGHTLY = {page: [pytest.mark.nightly] for page in WITH_OUTPUT if page.stem != "python"}


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


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem, marks=NIGHTLY.get(p, [])) for p in WITH_OUTPUT]
)
def test_page_shows_the_output_of_its_code(path, tmp_path):
    if path.stem == "conform" and kernel.part(kernels.get("6.12-bbr3")).existing() is None:
        pytest.skip("`losslab kernel --name 6.12-bbr3`: ten minutes, and BBRv3's public patch")
    page = path.read_text()
    if importlib.util.find_spec("polars"):  # scripts/group.sh users
        page = page.replace('```python title="with Polars"', "```python")
    # Each output follows the code that prints it, or has a title.
    assert page.count("\n```text\n") == page.count("\n```\n\n```text\n")
    assert executed.outputs(page, tmp_path) == executed.shown(page)
