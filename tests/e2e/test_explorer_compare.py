"""Comparison of runs in the explorer: means, overlays, presets and the search."""

import pytest

from tests.e2e.test_explorer import SHOWN, choose, chromium, explored, named, page

__all__ = ["chromium", "explored", "page"]


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
