"""The report by Quarto and by its replacement: same tables, figures and references."""

import re

import pytest

from losslab import analysis, report

LETTERS = "ABCDEFGHIJ"
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20" viewBox="0 0 40 20">'
    '<rect id="r" width="40" height="20"/></svg>'
)
TEXT = """
# One {#sec-one}

See @tbl-long, @tbl-wide, @fig-box and @sec-one, and what @rfc9438 and others [@ha2008] say. The
change is -12.5 %. The verdict is [● [not reproduced](#sec-one)]{.verdict .verdict-not-reproduced}.

```{r}
#| label: tbl-long
#| tbl-cap: "More rows than a page has."
show_table(data.frame(Number = 1:90, Change = fixed(-(1:90) / 1000, 2)))
```

```{r}
#| label: tbl-wide
#| tbl-cap: "A row wider than the page."
wide <- as.list(paste("a text of some length", LETTERS[1:9]))
show_table(setNames(data.frame(wide), LETTERS[1:9]))
```

```{r}
#| label: fig-box
#| fig-cap: "A box."
knitr::include_graphics("box.svg")
```

[Figure: [SVG](box.svg); to rerun: `losslab rerun`]{.trace}

::: {.callout-note}
## Mind
A callout.
:::

# References {.unnumbered}

::: {#refs}
:::
"""
# Both renderers write these elements of the page ...
OF_PAGE = {
    "rows": r"<tr\b", "cells": r"<t[dh]\b", "references": r'<a [^>]*href="#(?:fig|tbl|sec)-',
    "sources": r'class="csl-entry', "lines of data": r'class="trace"',
    "verdicts": r'class="verdict', "drawings": r'role="img"', "minus signs": "\u2212",
}  # fmt: skip
# ... and of the PDF's structure (PDF 1.7, 14.8.4).
OF_PDF = ("Table", "TR", "TD", "TH", "Figure", "Caption", "Link", "H1", "Code")


def rendered(root, folder):
    header = (root / "report/index.qmd").read_text().split("---")[1]
    folder.mkdir()
    (folder / "doc.qmd").write_text(
        f"---{header}---\n\n```{{r}}\n#| include: false\n"
        f'for (file in Sys.glob("*.R")) source(file)\n```\n{TEXT}'
    )
    (folder / "box.svg").write_text(SVG)
    for kind in ("figures", "tables", "summary"):
        (folder / "results" / kind / "x").mkdir(parents=True)
    (folder / "results/claims.csv").touch()
    (folder / "results/summary/x/cells.csv").write_text(
        "study,block,cell,n_replicates,n_valid,reasons,unpinned,hosts\nx,main,a,3,3,,,processes\n"
    )
    beside = [
        *(root / "analysis/R").glob("*.R"), folder / "box.svg",
        root / "report/references.bib", root / "report/style.css",
    ]  # fmt: skip
    chapter = folder / "x" / "chapter.qmd"
    chapter.parent.mkdir()
    chapter.touch()
    parts = report.Parts(folder / "doc.qmd", [chapter], beside, folder / "results")
    done = report.render(parts, folder / "o.html", folder / "o.pdf")
    return done, (folder / "o.html").read_text(), (folder / "o.pdf").read_bytes()


@pytest.mark.nightly
@pytest.mark.skipif(analysis.quarto() is None, reason="no Quarto here: `make setup` installs it")
def test_quarto_prints_what_its_replacement_prints(root, tmp_path, monkeypatch):
    name, page, pdf = rendered(root, tmp_path / "quarto")
    assert re.fullmatch(r"Quarto \d+[.]\d+[.]\d+", name)
    again = rendered(root, tmp_path / "again")
    monkeypatch.setattr("losslab.analysis.quarto", lambda: None)
    name, other_page, other_pdf = rendered(root, tmp_path / "replacement")
    assert name == "knitr, pandoc and typst"
    for what, pattern in OF_PAGE.items():
        count = len(re.findall(pattern, other_page))
        assert count > 0, what
        assert len(re.findall(pattern, page)) == count, what
    assert len(re.findall(r"<tr\b", page)) == 1 + 90 + 1 + 1
    for element in OF_PDF:
        pattern = rf"/S\s*/{element}\b".encode()
        count = len(re.findall(pattern, other_pdf))
        assert count > 0, element
        assert len(re.findall(pattern, pdf)) == count, element
    assert "-0.0" not in page + other_page
    assert again[1:] == (page, pdf), "the same input must give the same bytes"
