"""Constants that R code and the instrument share."""

import re

from losslab.emulation import qdiscs


def test_frame_size_is_the_same_in_r(root):
    text = (root / "analysis/R/models.R").read_text()
    assert re.findall(r"^frame_bytes <- (\d+)$", text, re.MULTILINE) == [str(qdiscs.FRAME_BYTES)]


def test_shared_constants_are_defined_once(root):
    code = [*(root / "analysis").rglob("*.R"), *(root / "report").glob("*.qmd")]
    typed = [
        path.name
        for path in code
        if "tests" not in path.relative_to(root).parts
        and re.search(r"\b(1514|1448)\b", path.read_text())
    ]
    assert typed == ["models.R"]
