"""The run explorer in a browser: selection, zoom, sorting and filters; comparison of runs."""

import pytest

from losslab.campaign import results, tables
from losslab.tools.explorer import explorer
from tests import browser
from tests.golden import seam

SHOWN = "document.querySelector('#pane-{}').dataset.shown"
CHARTS = "document.querySelectorAll('#pane-{} canvas').length"
ROWS = "document.querySelectorAll('#table tbody tr').length"
WINDOW = "document.getElementById('window').textContent"


@pytest.fixture(scope="module")
def explored(tmp_path_factory):
    """Return the recorded cells' explorer, and their names."""
    folder = tmp_path_factory.mktemp("explorer")
    cells = seam.unpack(folder / "results/cells/seam")
    measured = map(results.read_cell, sorted(cells.glob("*/cell.json")))
    found = tables.gather(map(tables.numbers_of, measured))
    overview = folder / "results/summary/seam/cells.csv"
    for row in found.cells:
        row["study"] = "seam"
    tables.write_csv(overview, tables.CELL_COLUMNS, found.cells)
    out = folder / "results/report/explorer.html"
    explorer.build([overview], folder / "results/cells", out)
    return out, [row["cell"] for row in found.cells]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if browser.program() is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with browser.page(tmp_path_factory.mktemp("chromium")) as page:
        yield page


@pytest.fixture
def page(chromium, explored):
    """Yield the opened page, and check for errors of the browser after the test."""
    chromium.complaints.clear()
    chromium.size(1280, 900)
    chromium.scheme("light")
    chromium.open(explored[0])
    chromium.wait(f"document.querySelector('#pane-a') && {SHOWN.format('a')}")
    yield chromium
    assert chromium.complaints == []


def named(cells, begin):
    (name,) = (cell for cell in cells if cell.startswith(begin))
    return name


def choose(page, pane, what, value):
    page.ask(
        f"(s => {{ s.value = '{value}'; s.dispatchEvent(new Event('change')); }})"
        f"(document.querySelector('#pane-{pane} [data-choose={what}]'))"
    )


def test_explorer_opens_with_a_run_and_has_the_selected_one_in_its_address(page, explored):
    assert page.ask(CHARTS.format("a")) > 0
    assert page.ask(ROWS) == len(explored[1])
    assert f"{len(explored[1])} cells" in page.ask(
        "document.getElementById('campaign').textContent"
    )
    assert page.ask("document.querySelector('#pane-b').hidden")
    cell = named(explored[1], "bulk_cubic")
    choose(page, "a", "cell", cell)
    choose(page, "a", "run", "1")
    page.wait(f"{SHOWN.format('a')} === 'seam/{cell}/1'")
    assert page.ask("location.hash") == f"#a=seam/{cell}/1"
    assert "seed" in page.ask("document.querySelector('#pane-a .verdict').textContent")
    files = page.ask("[...document.querySelectorAll('#pane-a .files a')].map(a => a.href)")
    assert files
    assert all(page.ask(f"fetch('{file}').then(r => r.text())") for file in files)


def test_address_opens_two_runs_side_by_side(page, explored):
    one, other = (named(explored[1], name) for name in ("rivals", "bulk_bbr"))
    page.open(explored[0], f"#a=seam/{one}/0&b=seam/{other}/1")
    page.wait(f"document.querySelector('#pane-b') && {SHOWN.format('b')}")
    page.wait(f"{SHOWN.format('a')} === 'seam/{one}/0' && {SHOWN.format('b')} === 'seam/{other}/1'")
    lefts = page.ask("['a', 'b'].map(k => document.querySelector('#pane-' + k).offsetLeft)")
    assert lefts[0] < lefts[1]
    tops = page.ask("['a', 'b'].map(k => lab.panes.find(p => p.key === k).charts[0].scales.y.max)")
    assert tops[0] == tops[1] > 0


def test_hovering_shows_values_and_dragging_zooms_in_every_panel(page, explored):
    choose(page, "a", "cell", named(explored[1], "rivals"))
    page.wait(f"{SHOWN.format('a')}.includes('rivals')")
    page.ask("document.querySelector('#pane-a .u-over').scrollIntoView({block: 'center'})")
    page.hover("#pane-a .u-over", 0.6)
    values = (
        "[...document.querySelectorAll('#pane-a .u-legend')]"
        ".map(l => [...l.querySelectorAll('.u-value')].map(v => v.textContent))"
    )
    page.wait(f"{values}.every(panel => panel.every(v => v && v !== '–'))")
    assert len(page.ask(values)) == page.ask(CHARTS.format("a")) >= 5
    page.click("#compare")
    page.wait(f"{SHOWN.format('b')}")
    whole = page.ask("lab.span()")
    page.drag("#pane-a .u-over", 0.25, 0.5)
    page.wait(f"{WINDOW} !== ''")
    spans = page.ask("lab.panes.flatMap(p => p.charts).map(c => [c.scales.x.min, c.scales.x.max])")
    assert len(spans) > 5
    length = whole[1] - whole[0]
    for begin, end in spans:
        assert begin == pytest.approx(whole[0] + length / 4, abs=length / 50)
        assert end == pytest.approx(whole[0] + length / 2, abs=length / 50)
    page.ask("document.querySelector('#pane-a .u-over').dispatchEvent(new MouseEvent('dblclick'))")
    page.wait(f"{WINDOW} === ''")
    assert page.ask("lab.span()") == whole


def test_explorer_table_filters_and_sorts(page, explored):
    def fill(selector, value):
        page.ask(
            f"(f => {{ f.value = '{value}'; f.dispatchEvent(new Event('input')); }})"
            f"(document.querySelector('{selector}'))"
        )

    def click_invalid():
        page.click("#filter-invalid")
        fill("#filter", "")

    fill("#filter", "bulk bbr")
    assert page.ask(ROWS) == 1
    click_invalid()
    assert page.ask(ROWS) == sum(name.startswith("too-") for name in explored[1])
    assert page.ask("document.querySelector('#table details p').textContent")
    click_invalid()
    column = page.ask("lab.columns.findIndex(c => c.title === 'Loss (%)')")
    button = f"#table thead th:nth-child({column + 2}) button"
    losses = (
        f"[...document.querySelectorAll('#table tbody td:nth-child({column + 2})')]"
        ".map(d => Number(d.textContent))"
    )
    page.click(button)
    rising = page.ask(losses)
    assert rising == sorted(rising)
    page.click(button)
    assert page.ask(losses) == sorted(rising, reverse=True) != rising
    heads = "[...document.querySelectorAll('[aria-sort=descending]')].map(h => h.textContent)"
    assert page.ask(heads) == ["Loss (%)"]


def test_invalid_run_shows_its_violations_and_no_numbers(page, explored):
    cell = named(explored[1], "too-")
    choose(page, "a", "cell", cell)
    page.wait(f"{SHOWN.format('a')}.includes('too-')")
    words = page.ask("document.querySelector('#pane-a .verdict').textContent")
    assert "INVALID, enters no statistic: " in words
    assert page.ask("document.querySelectorAll('#pane-a .numbers dd').length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_on_a_phone_does_not_scroll_sideways(page, explored, scheme):
    page.scheme(scheme)
    page.size(390, 844, phone=True)
    page.open(explored[0])
    page.wait(f"document.querySelector('#pane-a') && {SHOWN.format('a')}")
    assert page.ask("document.documentElement.scrollWidth") == 390
    assert page.ask("document.documentElement.dataset.theme") == scheme
    widths = page.ask("[...document.querySelectorAll('.uplot')].map(u => u.offsetWidth)")
    assert all(250 < width <= 390 for width in widths)


# Comparison of runs


def wait_for(page, pane, shown):
    page.wait(f"document.querySelector('#pane-{pane}') && {SHOWN.format(pane)} === '{shown}'")


def test_mean_of_replicates_has_a_band(page, explored):
    cell = named(explored[1], "bulk_cubic")
    choose(page, "a", "cell", cell)
    choose(page, "a", "run", "mean")
    wait_for(page, "a", f"seam/{cell}/mean")
    assert "Mean of 2 valid replicates" in page.ask(
        "document.querySelector('#pane-a .verdict').textContent"
    )
    inside = page.ask(
        "lab.panes[0].run.lines.every(l => l.values.every((v, at) =>"
        " v === null || (l.low[at] <= v && v <= l.high[at])))"
    )
    assert inside
    varies = page.ask("lab.panes[0].run.lines.some(l => l.low.some((v, at) => v < l.high[at]))")
    assert varies
    assert page.ask("lab.panes[0].charts.every(chart => chart.bands.length > 0)")
    mean = page.ask("lab.panes[0].cell.runs.reduce((s, r) => s + r.summary.goodput_mbit, 0) / 2")
    shown = page.ask(
        "[...document.querySelectorAll('#pane-a .numbers div')]"
        ".find(d => d.textContent.startsWith('goodput')).querySelector('dd').textContent"
    )
    assert float(shown.split()[0]) == pytest.approx(mean, rel=1e-3)


def test_overlay_draws_both_runs_in_the_same_figures(page, explored):
    one, other = (named(explored[1], name) for name in ("bulk_cubic", "bulk_bbr"))
    page.open(explored[0], f"#a=seam/{one}/0&b=seam/{other}/0&view=overlay")
    wait_for(page, "a", f"seam/{one}/0")
    wait_for(page, "b", f"seam/{other}/0")
    assert page.ask("lab.panes.map(pane => pane.charts.length > 0)") == [True, False]
    labels = page.ask("lab.panes[0].charts[0].series.slice(1).map(series => series.label)")
    assert [label[:3] for label in labels] == ["A: ", "B: "]
    strokes = page.ask("lab.panes[0].charts[0].series.slice(1).map(s => s.stroke())")
    assert len(set(strokes)) == 2
    page.click("#overlay")
    page.wait("lab.panes.every(pane => pane.charts.length > 0)")


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("loss 1 %", "c.loss_percent === 1"),
        ("loss 1 % cubic", "c.loss_percent === 1 && c.algorithm === 'cubic'"),
        ("1% bbr 10", "c.loss_percent === 1 && c.algorithm === 'bbr' && c.rate_mbit === 10"),
        ("10 mbit/s", "c.rate_mbit === 10 && c.trace === 'none'"),
        ("rtt 20 iperf3", "c.rtt_ms === 20 && c.app === 'iperf3'"),
    ],
)
def test_search_understands_names_numbers_and_units(page, query, kept):
    found = page.ask(
        f"(tests => lab.index.cells.filter(cell => tests.every(test => test(cell)))"
        f".map(cell => cell.cell))(lab.parseQuery('{query}'))"
    )
    wanted = page.ask(
        f"lab.index.cells.filter(cell => (c => {kept})(cell.condition)).map(cell => cell.cell)"
    )
    assert found == wanted != []


def test_presets_are_offered_where_the_campaign_has_their_cells(page):
    assert page.ask("document.getElementById('presets-row').hidden")
    page.ask(
        "lab.presets = [{ title: 'both', a: { block: 'bulk', algorithm: 'cubic' },"
        " b: { block: 'bulk', algorithm: 'bbr' } }, { title: 'none', a: { study: 'x' }, b: {} }];"
        " lab.drawPresets()"
    )
    assert page.ask("document.getElementById('presets').textContent") == "both"
    page.click("#presets button")
    page.wait("lab.panes.every(pane => pane.run && pane.number === 'mean')")
    page.wait("lab.overlaid() && lab.panes[0].charts.length > 0")
    assert page.ask("location.hash").endswith("&view=overlay")
