"""Post-processing of a rendered page: inline drawings with unique identifiers."""

import base64

from losslab import htmlpage

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


def test_figures_become_searchable_svg():
    page = htmlpage.finish(f"<figure>{image('Falls &amp; rises.')}</figure>{image('Other.')}")
    assert "<img" not in page
    assert page.count("<text>Goodput</text>") == 2
    assert 'aria-label="Falls &amp; rises."' in page
    assert 'viewBox="0 0 10 5"' in page
    assert "10pt" not in page


def test_figures_have_unique_identifiers():
    page = htmlpage.finish(image("One.") + image("Two."))
    for name in ("f1-0", "f2-0"):
        assert page.count(f'id="{name}"') == 1
        assert page.count(f"url(#{name})") == 1
        assert page.count(f'href="#{name}"') == 1


def test_scrolling_elements_are_in_the_tab_order():
    page = htmlpage.finish('<div id="tbl-x" class="table-block"><table></table></div>')
    assert page.startswith('<div id="tbl-x" class="table-block" tabindex="0">')


def test_quartos_tables_scroll_and_its_figures_are_described():
    table = '<div class="cell-output-display">\n<table></table></div>'
    assert 'class="cell-output-display" tabindex="0">' in htmlpage.finish(table)
    assert "tabindex" not in htmlpage.finish('<div class="cell-output-display"><p></p></div>')
    page = htmlpage.finish(image("Falls.").replace("alt=", "aria-label="))
    assert 'aria-label="Falls."' in page


def test_other_images_are_unchanged():
    page = '<img src="data:image/png;base64,AAAA" alt="A photograph">'
    assert htmlpage.finish(page) == page
