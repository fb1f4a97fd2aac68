"""Post-processing of a rendered page: inline drawings, cards, and colours for a dark page."""

import base64
import re

import pytest

from losslab import darkfigures, htmlpage

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
    """Return what `finish` makes of a body, without its style and script."""
    page = htmlpage.finish(PAGE.format(body), dict(narrow))
    assert page.count("<script>") == page.count("<style>") == 1
    return re.sub("<script>.*</script>", "", page.partition("<body>")[2], flags=re.DOTALL)


def test_figures_become_searchable_svg():
    page = finished(f"<figure>{image('Falls &amp; rises.')}</figure>{image('Other.')}")
    assert "<img" not in page
    assert page.count("<text>Goodput</text>") == 2
    assert 'aria-label="Falls &amp; rises."' in page
    assert 'viewBox="0 0 10 5"' in page
    assert "10pt" not in page


def test_figures_have_unique_identifiers():
    page = finished(image("One.") + image("Two."))
    for name in ("f1-0", "f2-0"):
        assert page.count(f'id="{name}"') == 1
        assert page.count(f"url(#{name})") == 1
        assert page.count(f'href="#{name}"') == 1


def test_figure_with_a_narrow_version_has_both(tmp_path):
    (tmp_path / "a.svg").write_text(SVG)
    (tmp_path / "a.narrow.svg").write_text(SVG.replace("Goodput", "Narrow"))
    page = finished(image("One."), htmlpage.narrow_versions(tmp_path))
    assert re.findall('class="(plot [a-z]+)"|<text>([A-Za-z]+)', page) == [
        ("plot wide", ""), ("", "Goodput"), ("plot narrow", ""), ("", "Narrow"),
    ]  # fmt: skip


def test_scrolling_elements_are_in_the_tab_order():
    page = finished('<div id="tbl-x" class="table-block"><table></table></div>')
    assert page.startswith('<div id="tbl-x" class="table-block" tabindex="0">')


def test_quartos_tables_scroll_and_its_figures_are_described():
    table = '<div class="cell-output-display">\n<table></table></div>'
    assert 'class="cell-output-display" tabindex="0">' in finished(table)
    assert "tabindex" not in finished('<div class="cell-output-display"><p></p></div>')
    page = finished(image("Falls.").replace("alt=", "aria-label="))
    assert 'aria-label="Falls."' in page


def table(heads, cells):
    row = "".join(f"<td>{cell}</td>" for cell in cells)
    head = "".join(f'<th style="x">{name}</th>' for name in heads)
    return f"<table><thead><tr>{head}</tr></thead><tbody><tr>{row}</tr></tbody></table>"


def test_only_tables_that_are_too_wide_for_a_phone_become_cards():
    narrow = table(["Loss %", "Goodput"], ["1", "a text of many words that can break"])
    assert finished(narrow).startswith(narrow)
    wide = finished(
        table(["Loss &amp; %", "Path"], ["<em>1</em>", "no-space-to-break-this-word" * 2])
    )
    assert '<table data-cards role="table"' in wide
    assert '<td role="cell" data-label="Loss &amp; %"><em>1</em></td>' in wide
    assert wide.count('role="columnheader"') == 2


def test_other_images_are_unchanged():
    picture = '<img src="data:image/png;base64,AAAA" alt="A photograph">'
    assert finished(picture).startswith(picture)


def test_figures_colours_are_variables_with_a_dark_value():
    drawing = SVG.replace("<text>", '<text style="fill: #0072B2;">').encode()
    page = htmlpage.finish(
        PAGE.format(image("A.").replace(base64.b64encode(SVG.encode()).decode(),
                                        base64.b64encode(drawing).decode())), {},
    )  # fmt: skip
    assert 'style="fill:var(--l0072b2);"' in page
    assert "--l0072b2:#0072b2;" in page
    (dark,) = re.findall(r"body\.losslab\{--l0072b2:(#[0-9a-f]{6});", page)
    assert dark != "#0072b2"


@pytest.mark.parametrize("colour", ["0072b2", "d55e00", "009e73", "f0e442", "56b4e9", "000000"])
def test_lines_and_text_are_visible_on_a_dark_page(colour):
    found = darkfigures.dark_colour(colour, area=False)
    assert darkfigures.contrast(found, darkfigures.PAGE) >= darkfigures.MIN_CONTRAST


def test_white_areas_have_the_pages_colour_on_a_dark_page():
    assert darkfigures.dark_colour("ffffff", area=True) == darkfigures.PAGE
