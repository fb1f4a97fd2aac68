"""Numbers in the prose of the chapters, which do not follow the results."""

import pytest

from losslab.errors import LosslabError
from losslab.study import prose
from tests.conftest import ROOT
from tests.sources import tracked


def test_typed_numbers_of_our_chapters_have_sources():
    prose.check(tracked("report/*.qmd", "studies/*.qmd"), ROOT)


def test_typed_numbers_are_found_outside_code_comments_and_quotations():
    text = (
        '---\ntitle: 9 ms\n---\nIn `r 7` ms, "8 ms", 20 ms, <!-- 6 ms --> 1 Gbit/s and\n'
        "95 % of 3 to 4 s.\n"
    )
    assert list(prose.typed(text, {20.0, 1000.0})) == [("3 to 4 s", 5)]
    assert list(prose.typed(text, {20.0, 1000.0, 3000.0, 4.0})) == []


def test_numbers_of_the_studys_files_are_declared():
    assert {0.4, 1000.0} <= prose.declared(ROOT, "loss")
    assert prose.declared(ROOT, "no-study") == set()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# Mine\n\nIt loses 93 %.\n", "mine/chapter.qmd, line 3: 93 %"),
        (
            "It loses 93 %.\n\n<!-- typed 94 %: a guess -->\n",
            "mine/chapter.qmd, a comment names the source of 94 %, which is not in the prose",
        ),
    ],
    ids=["without a source", "comment without use"],
)
def test_a_typed_number_without_a_source_is_refused(text, problem, tmp_path):
    chapter = tmp_path / "mine/chapter.qmd"
    chapter.parent.mkdir()
    chapter.write_text(text)
    with pytest.raises(LosslabError) as refused:
        prose.check([chapter], ROOT)
    assert problem in refused.value.message
    chapter.write_text("It loses 93 %.\n\n<!-- typed 93 %: figure 2 of the source -->\n")
    prose.check([chapter], ROOT)
