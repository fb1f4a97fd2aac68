import pytest

from losslab import report
from losslab.errors import LosslabError

DOCUMENT = """---
title: Test
---

# One {#sec-one}

See @tbl-cars and @sec-one.

```{{r}}
#| label: tbl-cars
#| tbl-cap: "Speeds & distances."
knitr::kable(head(cars, 2), format = "pipe")
```

::: {{.callout-note}}
## Mind
A callout.
:::
{more}

{{{{< include _chapters.qmd >}}}}
"""


@pytest.fixture
def fallback(monkeypatch):
    monkeypatch.setattr(report, "quarto", lambda: None)


def render(tmp_path, more=""):
    document = tmp_path / "doc.qmd"
    document.write_text(DOCUMENT.replace("{{", "{").replace("}}", "}").replace("{more}", more))
    style = tmp_path / "style.css"
    style.write_text("body { color: black }")
    chapter = tmp_path / "_chapter.qmd"
    chapter.write_text("# Chapter\n\nA word from the chapter.\n")
    report.render(document, [chapter], [style], tmp_path / "o.html", tmp_path / "o.pdf")
    return (tmp_path / "o.html").read_text(), (tmp_path / "o.pdf").read_bytes()


def test_references_resolve_and_bytes_repeat(fallback, tmp_path):
    html, pdf = render(tmp_path)
    assert "Table 1: " in html
    assert 'href="#tbl-cars"' in html
    assert "Section\u00a01" in html
    assert 'class="callout' in html
    assert "A word from the chapter." in html
    assert pdf.startswith(b"%PDF")
    assert render(tmp_path) == (html, pdf)


def test_dangling_reference_is_an_error(fallback, tmp_path):
    with pytest.raises(LosslabError, match="fig-nowhere"):
        render(tmp_path, "See @fig-nowhere.")


def test_failing_chunk_is_an_error(fallback, tmp_path):
    with pytest.raises(LosslabError, match="broken chunk"):
        render(tmp_path, "```{r}\nstop('broken chunk')\n```")
