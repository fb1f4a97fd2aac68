"""What R code and the instrument both must know is the same."""

import re

from losslab.emulation import qdiscs


def test_a_full_frame(root):
    text = (root / "analysis/R/models.R").read_text()
    assert re.findall(r"^frame_bytes <- (\d+)$", text, re.MULTILINE) == [str(qdiscs.FRAME_BYTES)]


def test_it_is_typed_nowhere_else(root):
    code = [*(root / "analysis").rglob("*.R"), *(root / "report").glob("*.qmd")]
    typed = [
        path.name
        for path in code
        if "tests" not in path.parts and re.search(r"\b(1514|1448)\b", path.read_text())
    ]
    assert typed == ["models.R"]
