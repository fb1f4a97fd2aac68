"""Sentences, exhibits and details of the report's chapters."""

import re

import pytest

from losslab import analysis, report
from losslab.errors import LosslabError


@pytest.fixture
def fallback(monkeypatch):
    monkeypatch.setattr(analysis, "quarto", lambda: None)
    monkeypatch.setattr(report, "check", lambda *_: None)  # of verdicts: there are none


FUNCTIONS = """
```{r}
for (file in Sys.glob("*.R")) source(file)
read_report()
```
"""
SENTENCE = """
```{r}
bbr <- 3
```

BBR is `r say(
  bbr > LIMIT, "faster, by {round(bbr)}, than the
  others of them")` here.

```{r}
#| label: tbl-untrue
#| tbl-cap: "Untrue."
show_table(tibble::as_tibble(untrue$rows))
```
"""
ASKED = """
```{r}
runs <- tibble::tibble(algorithm = "bbr", mean = 900)
```

`r say(look_up(runs, "mean", algorithm == "KEY") > 1, "It is fast.")`
"""
EXHIBITS = """
```{r}
describe_pictures()
hide_empty_exhibits()
finish_document()
```

Cells differ (@tbl-none) and agree (@tbl-some, @tbl-none; @sec-cloud).

```{r}
#| label: tbl-none
#| tbl-cap: "No rows: none."
show_table(tibble::tibble(a = numeric()))
```

```{r}
#| label: tbl-some
#| tbl-cap: "Rows."
show_table(tibble::tibble(a = 1))
```

<!-- details -->

## A detail

<!-- end of chapter -->

# Not run

<!-- all details -->

`r not_run_text(character())`
"""


def test_true_sentence_is_rendered(fallback, root, tmp_path):
    html = render_sentences(root, tmp_path, SENTENCE.replace("LIMIT", "2"), recorded=True)
    assert "BBR is faster, by 3, than the others of them here." in " ".join(html.split())


def test_untrue_sentence_stops_the_report_of_a_recorded_campaign(fallback, root, tmp_path):
    with pytest.raises(LosslabError) as failure:
        render_sentences(root, tmp_path, SENTENCE.replace("LIMIT", "4"), recorded=True)
    words = str(failure.value)
    assert 'studies/mine/chapter.qmd, line 13: the sentence "faster, by' in words
    assert "needs `bbr > 4`, found bbr = 3" in words


def test_sentence_with_an_undeclared_key_stops_the_report(fallback, root, tmp_path):
    with pytest.raises(LosslabError) as failure:
        render_sentences(root, tmp_path, ASKED.replace("KEY", "bbrr"))
    words = str(failure.value)
    problem = 'the sentence "It is fast." names the algorithm bbrr'
    assert f"studies/mine/chapter.qmd, line 12: {problem}" in words


def test_a_typed_number_stops_the_report_before_it_is_rendered(root, tmp_path):
    with pytest.raises(LosslabError, match=r"studies/mine/chapter.qmd, line 7: 93 %"):
        render_sentences(root, tmp_path, "It loses 93 % of its goodput.\n")


def render_sentences(root, tmp_path, text, recorded=False):
    functions = [*(root / "analysis/R").glob("*.R")]
    chapter = tmp_path / "studies/mine/chapter.qmd"
    chapter.parent.mkdir(parents=True)
    chapter.write_text(f"# Chapter\n{FUNCTIONS}{text}")
    document = tmp_path / "doc.qmd"
    document.write_text("---\ntitle: Test\n---\n\n{{< include _chapters.md >}}\n")
    (tmp_path / "style.css").write_text("body { color: black }")
    beside = [tmp_path / "style.css", *functions]
    declared = {"algorithm": ["cubic", "bbr"]}
    parts = report.Parts(document, [chapter], beside, declared=declared, recorded=recorded)
    report.render(parts, tmp_path / "o.html", tmp_path / "o.pdf")
    return (tmp_path / "o.html").read_text()


@pytest.fixture(scope="module")
def other_campaign(root, tmp_path_factory):
    """Render a campaign without recorded verdicts; return its page's text."""
    chapter = SENTENCE.replace("LIMIT", "4") + ASKED.replace("KEY", "cubic") + EXHIBITS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysis, "quarto", lambda: None)
        html = render_sentences(root, tmp_path_factory.mktemp("other"), chapter)
    return " ".join(re.sub(r"<[^>]*>", "", html).split())


def test_other_campaigns_mark_untrue_sentences_and_list_those_without_numbers(other_campaign):
    page = other_campaign
    assert "Not shown in this campaign (Table 1, no. 1): “faster, by 3, than the" in page
    assert "bbr &gt; 4" in page
    assert "bbr = 3" in page
    assert "Sentences without numbers" in page
    assert "studies/mine/chapter.qmd, line 26: It is fast." in page


def test_exhibits_without_data_are_listed_and_not_printed(other_campaign):
    page = other_campaign
    assert "Cells differ and agree (Table 2)." in page
    assert "Table 2: Rows." in page
    assert "Table 3" not in page
    assert "tbl-none: No rows" in page
    # Details of a chapter are in the appendix.
    assert page.index("Not run") < page.index("A detail")
