"""R files of a campaign's studies."""

import pytest

from losslab.errors import LosslabError
from losslab.workflow.analysis import require_defined_once


def test_r_functions_must_be_defined_once(tmp_path):
    one, two = tmp_path / "one.R", tmp_path / "inner" / "one.R"
    two.parent.mkdir()
    one.write_text("red <- 1\n")
    two.write_text("blue <- 2\n")
    with pytest.raises(LosslabError, match=r"unique names, found one.R in"):
        require_defined_once([one, two])
    other = two.rename(tmp_path / "other.R")
    require_defined_once([one, other])
    other.write_text("blue <- function() {\n  red <- 2\n}\n")
    require_defined_once([one, other])
    other.write_text("red <- 2\n")
    with pytest.raises(LosslabError, match=r"found red in .*one.R and .*other.R"):
        require_defined_once([one, other])
