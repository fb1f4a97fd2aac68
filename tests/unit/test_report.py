import base64
import re

import pytest

from losslab import analysis, report
from losslab.errors import LosslabError

DOCUMENT = """---
title: Test
number-sections: true
bibliography: known.bib
format: {{ html: default, typst: {{ citeproc: true }} }}
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

{{{{< include _chapters.md >}}}}
"""


@pytest.fixture
def fallback(monkeypatch):
    monkeypatch.setattr(analysis, "quarto", lambda: None)


@pytest.fixture(params=["Quarto", "replacement"])
def either(request, monkeypatch):
    if request.param == "replacement":
        monkeypatch.setattr(analysis, "quarto", lambda: None)
    elif analysis.quarto() is None:
        pytest.skip("no Quarto here: `make setup` installs it")


def render(tmp_path, more=""):
    document = tmp_path / "doc.qmd"
    document.write_text(DOCUMENT.replace("{{", "{").replace("}}", "}").replace("{more}", more))
    style = tmp_path / "style.css"
    style.write_text("body { color: black }")
    known = tmp_path / "known.bib"
    known.write_text("@misc{known2020, title = {Known}}\n")
    chapter = tmp_path / "_chapter.qmd"
    chapter.write_text("# Chapter\n\nA word from the chapter.\n")
    parts = report.Parts(document, [chapter], [style, known])
    report.render(parts, tmp_path / "o.html", tmp_path / "o.pdf")
    return (tmp_path / "o.html").read_text(), (tmp_path / "o.pdf").read_bytes()


def test_references_resolve_and_bytes_repeat_in_folders_with_spaces(fallback, tmp_path):
    folder = tmp_path / "a folder, with 'spaces'"
    folder.mkdir()
    html, pdf = render(folder)
    assert "Table 1: " in html
    assert 'href="#tbl-cars"' in html
    assert "Section\u00a01" in html
    assert 'class="callout' in html
    assert "A word from the chapter." in html
    assert pdf.startswith(b"%PDF")
    assert render(folder) == (html, pdf)


def test_error_of_a_failing_chunk_is_one_line_with_its_name(fallback, tmp_path):
    chunk = "```{r}\n#| label: sums\nf <- function() dplyr::filter(cars, nowhere > 1)\nf()\n```"
    with pytest.raises(LosslabError, match=r"chunk sums: .*nowhere") as failure:
        render(tmp_path, chunk)
    assert "Backtrace" not in str(failure.value)
    assert len(str(failure.value).splitlines()) < 6


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("See @fig-nowhere.", "fig-nowhere"),
        ("It loses 93 %.", "found:\n  doc.qmd, line .*: 93 %"),
        ("```{r}\nstop('broken chunk')\n```", "broken chunk"),
        ("![Gone](gone.svg)", r"pictures must exist, found no gone\.svg"),
        ('```{r}\nknitr::include_graphics("gone.svg")\n```', r"found no gone\.svg"),
        ("\n{{< include _gone.qmd >}}\n", r"include _gone.qmd >.* found none"),
        ("As @gone2020 has it.", "citations must be in the bibliography, found gone2020"),
    ],
)
def test_mistake_in_a_chapter_is_named(either, tmp_path, wrong, words):
    with pytest.raises(LosslabError, match=words):
        render(tmp_path, wrong)


def test_scripts_are_beside_the_page_in_their_studys_folder(tmp_path):
    clone = tmp_path / "studies" / "clone"
    for name in ("studies/x/figures/a.R", "studies/x/tables.R", "analysis/compare.R"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text(name)
    report.copy_scripts(sorted(clone.rglob("*.R")), tmp_path / "scripts")
    assert (tmp_path / "scripts/x/figures/a.R").read_text() == "studies/x/figures/a.R"
    assert (tmp_path / "scripts/x/tables.R").is_file()
    assert (tmp_path / "scripts/compare.R").is_file()


def test_pdf_has_the_date_of_the_last_run(tmp_path):
    assert report.measured_at(tmp_path) == 1_704_067_200  # 2024-01-01
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/origin.csv").write_text(
        "part,what,cells\nmeasured on,2026-11-20 to 2026-11-21,2\nlosslab,2027-01-01,2\n"
    )
    assert report.measured_at(tmp_path) == 1_795_219_200  # 2026-11-21


def test_chapter_of_a_study_without_a_valid_run_is_not_printed(fallback, tmp_path):
    for study, count in (("lost", "0"), ("some", "2")):
        for kind in ("figures", "tables", "summary"):
            (tmp_path / "results" / kind / study).mkdir(parents=True)
        cells = tmp_path / "results/summary" / study / "cells.csv"
        cells.write_text(f"cell,n_valid\na,0\nb,{count}\n,\n")
        chapter = tmp_path / study / "chapter.qmd"
        chapter.parent.mkdir()
        chapter.write_text(f"# Chapter {study}\n")
    document = tmp_path / "doc.qmd"
    document.write_text(DOCUMENT.replace("{{", "{").replace("}}", "}").replace("{more}", ""))
    (tmp_path / "known.bib").touch()
    (tmp_path / "style.css").touch()
    (tmp_path / "results/claims.csv").touch()
    beside = [tmp_path / name for name in ("known.bib", "style.css")]
    chapters = [tmp_path / study / "chapter.qmd" for study in ("lost", "some")]
    parts = report.Parts(document, chapters, beside, tmp_path / "results")
    report.render(parts, tmp_path / "o.html", tmp_path / "o.pdf")
    html = (tmp_path / "o.html").read_text()
    assert "Chapter some" in html
    assert "lost" not in html


SVG = (
    '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" '
    'xmlns:xlink="http://www.w3.org/1999/xlink" width="10pt" height="5pt" viewBox="0 0 10 5">'
    '<style type="text/css">.a { fill: none; }</style>'
    '<defs><clipPath id="c=="><rect/></clipPath></defs>'
    '<g clip-path="url(#c==)"><text>Goodput</text><use xlink:href="#c=="/></g></svg>'
)


def image(alt):
    data = base64.b64encode(SVG.encode()).decode()
    return f'<img role="img" src="data:image/svg+xml;base64,{data}" alt="{alt}" style="width:100%">'


PAGE = "<html><head></head><body>{}</body></html>"


def finished(body, narrow=()):
    """Return what `finish` makes of a body, without its script."""
    page = report.finish(PAGE.format(body), dict(narrow))
    assert page.count("<script>") == 1
    return re.sub("<script>.*</script>", "", page.partition("<body>")[2], flags=re.DOTALL)


def test_figures_become_searchable_svg():
    page = finished(f"<figure>{image('Falls &amp; rises.')}</figure>{image('Other.')}")
    assert "<img" not in page and "<?xml" not in page
    assert page.count("<text>Goodput</text>") == 2
    for name in ("f1-c==", "f2-c=="):  # identifiers are unique
        assert page.count(f'id="{name}"') == page.count(f"url(#{name})") == 1
    assert 'aria-label="Falls &amp; rises."' in page
    assert 'viewBox="0 0 10 5"' in page
    # Quarto's figures have another attribute.
    assert 'aria-label="A."' in finished(image("A.").replace("alt=", "aria-label="))


def test_figure_with_a_narrow_version_has_both(tmp_path):
    study = tmp_path / "figures" / "x"
    study.mkdir(parents=True)
    (study / "a.svg").write_text(SVG)
    (study / "a.narrow.svg").write_text(SVG.replace("Goodput", "Narrow"))
    page = finished(image("One."), report.narrow_versions(tmp_path))
    assert re.findall('class="(plot [a-z]+)"|<text>([A-Za-z]+)', page) == [
        ("plot wide", ""), ("", "Goodput"), ("plot narrow", ""), ("", "Narrow"),
    ]  # fmt: skip
