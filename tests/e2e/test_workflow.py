"""The workflow from the dry run to the rendered report, on made-up measurements."""

import os
import random
import re
import subprocess

import pytest
import yaml
from snakemake.cli import parse_args

from losslab.reading import read_rows
from losslab.study import studyfiles
from tests import axe, browser, madeup

# The page shows the first two formats. Only figures that the workflow draws have the others here:
# those of a study with a suite, of one with published curves, and of all studies together.
ON_PAGE, OTHERS = ["svg", "narrow.svg"], ["png", "pdf"]
DRAWN = ("score", "cloud")
OF_ALL = ["path", "agreement_paths", "scoreboard"]
# The run explorer needs raw files, which made-up measurements do not have.
REPORT = "results/report/report.html"


def analysis(studies):
    """Return the rules that run after measuring and collecting."""
    return [
        *(f"analyse_{study}" for study in studies), "compare_studies", "trace_origin",
        "render_report", "publish_report", "all",
    ]  # fmt: skip


def snakemake(root, folder, *words):
    """Run the workflow in a folder on a campaign of every study."""
    campaign = folder / "campaign.yaml"
    campaign.write_text(yaml.safe_dump(madeup.campaign(madeup.studies(root)), sort_keys=False))
    command = ["snakemake", "--cores", "2", "--configfile", campaign, "--directory", folder]
    return subprocess.run(
        [*map(str, command), *map(str, words)],
        # Made-up numbers need not agree with the chapters' sentences.
        env=os.environ | {"LOSSLAB_DRAFT": "1"},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def rendered(root, tmp_path_factory):
    """Return a folder with the analysis of made-up tables."""
    folder = tmp_path_factory.mktemp("workflow")
    noise = random.Random(1)
    studies = madeup.studies(root)
    for study in studies:
        unpinned = ("kernel",) if study.name == "backends" else ()
        tables = madeup.tables(study, noise, unpinned=unpinned)
        madeup.write(tables, folder, study.name)
    # A process of R for each figure takes minutes, so one draws most of them.
    names = [study.name for study in studies if study.name != "score"]
    done = madeup.run_scripts(
        root, folder,
        [{"name": "all", "folder": ".", "studies": names, "until": "studies", "draw": ON_PAGE}],
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for path in (folder / "results/figures/cloud").glob("cwnd.*"):
        path.unlink()
    done = snakemake(
        root, folder, REPORT, "--allowed-rules", *analysis(studyfiles.study_names(root))
    )
    logs = "\n".join(p.read_text() for p in (folder / "logs").rglob("*.log"))
    assert done.returncode == 0, done.stderr + logs
    return folder


def test_report_is_written_as_html_and_pdf_and_its_tables_as_latex(rendered):
    html = (rendered / "results/report/report.html").read_text()
    assert html.count("<img") + html.count("<svg") >= 6
    assert "@fig-" not in html
    assert "Figure 1" in html
    assert (rendered / "results/report/report.pdf").read_bytes().startswith(b"%PDF")
    table = (rendered / "results/report/tables/tbl-summary-cubic.tex").read_text()
    assert "\\toprule" in table
    assert "\\end{tabular}" in table


def test_every_figure_has_its_formats_data_and_description(root, rendered):
    studies = madeup.studies(root)
    names = [f"{study.name}/{figure}" for study in studies for figure in study.figures]
    drawn = [name for name in names if name.startswith(DRAWN)]
    wanted = {f"{name}.{suffix}" for name in [*names, *OF_ALL] for suffix in ON_PAGE}
    wanted |= {f"{name}.{suffix}" for name in [*drawn, *OF_ALL] for suffix in OTHERS}
    wanted |= {f"{name}.{more}" for name in names for more in ("csv", "cells.csv", "txt")}
    folder = rendered / "results/figures"
    written = {str(path.relative_to(folder)): path for path in folder.rglob("*.*")}
    wanted |= {f"{name}.txt" for name in OF_ALL}
    assert set(written) == wanted
    for name, path in written.items():
        # Without data in made-up runs, a figure is a sheet with a message and a table without rows.
        assert path.stat().st_size > (1000 if name.endswith(("svg", "png", "pdf")) else 0), name


def page_of(rendered):
    return (rendered / "results/report/report.html").read_text()


def test_first_page_has_sources_campaign_command_and_unpinned_cells(rendered, root):
    page = " ".join(page_of(rendered).split())
    first = page.index('id="sec-findings"')
    again = "--configfile campaign.yaml"
    order = ('id="fig-scoreboard"', "This campaign", again, 'id="sec-method"', 'id="sec-claims"')
    places = [page.index(words, first) for words in order]
    assert places == sorted(places)
    cells = {study.name: len(study.cells) for study in madeup.studies(root)}
    notice = f"{cells['backends']} of {sum(cells.values())} cells were measured with parts of the"
    assert notice in page


def test_every_link_of_the_page_resolves_to_reruns_reasons_and_files(rendered):
    page = page_of(rendered)
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    targets = set(re.findall(r'<a\b[^>]*href="([^"]+)"', page))
    inner = {target[1:] for target in targets if target.startswith("#")}
    assert inner - set(ids) == set()
    # Another rule makes the explorer; it is absent here.
    files = {t for t in targets if not t.startswith(("#", "http", "explorer.html"))}
    assert len(files) > 100
    # Of most figures, only the formats on the page are drawn.
    files = {re.sub(r"^(\.\./figures/.*)\.(png|pdf)$", r"\1.svg", target) for target in files}
    assert {t for t in files if not (rendered / "results/report" / t).is_file()} == set()
    page = " ".join(page.split())
    figure = page.index('id="fig-goodput"')
    behind = page[figure : page.index("</div>", figure)]
    cell = re.search(r"losslab rerun results/cells/(loss/[^/<]+)/(\d+)", behind)
    assert f'href="explorer.html#a={cell[1]}/{cell[2]}"' in behind
    # The verdict is a link to the reason.
    verdict = re.search(r'<a href="#(why-loss-cubic-asymmetric-baseline)">not comparable</a>', page)
    there = page.index(f'id="{verdict[1]}"')
    reason = page[there : page.index("</li>", there)]
    # If made-up numbers contradict the reason, the page has a note instead.
    assert "Our two reverse paths have the same RTT" in reason or "its reason is" in reason


@pytest.mark.skipif(browser.program() is None, reason="no Chromium here: apt-get install chromium")
def test_page_fits_phones_and_passes_accessibility_checks(rendered, tmp_path):
    with browser.page(tmp_path) as page:
        page.size(390, 844, phone=True)
        page.open(rendered / "results/report/report.html")
        page.wait("document.readyState === 'complete'")
        assert page.ask("document.documentElement.scrollWidth") == 390
        assert page.ask("document.documentElement.lang") == "en"
        unseen = page.ask(
            "[...document.querySelectorAll('main figure svg')].filter("
            "s => s.getAttribute('aria-label').length < 15).length"
        )
        assert unseen == 0
        if axe.program() is None:
            pytest.skip("axe-core is not to be had here: npm pack axe-core")
        for scheme in ("light", "dark"):
            page.scheme(scheme)
            assert axe.faults(page) == []
        assert page.complaints == []


# Elements that end right of the window, or scroll sideways.
TOO_WIDE = """
[...document.querySelectorAll('main *, nav *')].filter(e => {
  const style = getComputedStyle(e);
  const scrolls = style.overflowX === 'auto' && e.scrollWidth > e.clientWidth + 1;
  const box = e.getBoundingClientRect();
  return box.width > 0 && !e.closest('svg, math') && style.position !== 'absolute'
    && (scrolls || box.right > innerWidth + 1);
}).map(e => `${e.tagName} in ${e.closest('[id]').id}`).slice(0, 9)
"""


@pytest.fixture(scope="module")
def chromium(rendered, tmp_path_factory):
    """Yield the report in a browser."""
    if browser.program() is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with browser.page(tmp_path_factory.mktemp("chromium")) as page:
        page.size(1280, 900)
        page.open(rendered / REPORT)
        page.wait("!!document.querySelector('#refs')")
        yield page
        assert page.complaints == []


def test_report_has_at_most_40_screens_and_its_contents_mark_the_section_in_view(chromium):
    chromium.size(1280, 900)
    assert chromium.ask("document.documentElement.scrollHeight") / 900 <= 40
    for target in ("sec-method", "sec-loss"):
        chromium.ask(f"document.getElementById('{target}').scrollIntoView()")
        chromium.wait(
            "document.querySelector('nav#TOC a[aria-current]')?.getAttribute('href')"
            f" === '#{target}'"
        )


def test_nothing_is_wider_than_a_phone_and_figures_are_redrawn(chromium):
    chromium.size(390, 844, phone=True)
    chromium.ask("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert chromium.ask(TOO_WIDE) == []
    # A point of a figure redrawn for phones is as large as a point of the page, or larger.
    scales = chromium.ask(
        "[...document.querySelectorAll('.plot svg')].filter(s => s.clientWidth > 0)"
        ".map(s => s.clientWidth / s.viewBox.baseVal.width)"
    )
    assert len(scales) > 20
    assert min(scales) > 1.2
    chromium.ask("document.querySelectorAll('details').forEach(d => { d.open = false; })")


def test_figures_are_inverted_on_a_dark_page(chromium):
    found = {}
    for scheme in ("light", "dark"):
        chromium.scheme(scheme)
        chromium.wait(f"document.documentElement.dataset.theme === '{scheme}'")
        found[scheme] = chromium.ask(
            "[...new Set([...document.querySelectorAll('.plot svg')].map("
            "s => getComputedStyle(s).filter))].join()"
        )
    chromium.scheme("light")
    assert found == {"light": "none", "dark": "invert(0.92) hue-rotate(180deg)"}


def test_only_tables_that_are_too_wide_for_a_phone_become_cards(chromium):
    cards = "document.querySelectorAll('main table[data-cards] tbody td')"
    others = "document.querySelectorAll('main table:not([data-cards]) tbody td')"
    labels = "each => [each.dataset.label ?? null, each.getAttribute('role')]"
    found = chromium.ask(f"[...{cards}].map({labels})")
    assert {role for _, role in found} == {"cell"}
    assert {"Claim", "Verdict"} <= {label for label, _ in found}
    assert {*map(tuple, chromium.ask(f"[...{others}].map({labels})"))} == {(None, None)}


def test_claims_are_filtered_by_words(chromium):
    shown = "[...document.querySelectorAll('#tbl-claims tbody tr:not([hidden])')]"
    every = chromium.ask(f"{shown}.length")
    chromium.ask(
        "(i => { i.value = 'BBR inconclusive'; i.dispatchEvent(new Event('input')); })"
        "(document.querySelector('.filter input'))"
    )
    found = chromium.ask(f"{shown}.map(row => row.textContent)")
    assert 0 < len(found) < every
    assert all("bbr" in row.lower() and "inconclusive" in row for row in found)


def test_a_link_opens_the_folded_part_that_it_leads_to(chromium):
    target = chromium.ask("document.querySelector('details:not([open]) [id]').id")
    chromium.ask(f"location.hash = '#{target}'")
    chromium.wait(f"document.getElementById('{target}').getBoundingClientRect().height > 0")


def test_invalid_replicates_are_listed_and_excluded_from_means(rendered):
    invalid = read_rows(rendered / "results/tables/loss/invalid.csv")
    assert {r["reasons"] for r in invalid} == {"made up"}
    assert {r["attempt"] for r in invalid} == {"2"}
    assert "made up" in (rendered / "results/report/report.html").read_text()
    summary = [
        r for r in read_rows(rendered / "results/summary/loss/statistics.csv")
        if r["cell"].startswith("bbr_loss4_symmetric_iperf3") and r["metric"] == "goodput_mbit"
        and r["statistic_over"] == "replicates"
    ]  # fmt: skip
    assert [(r["n"], r["n_invalid"]) for r in summary] == [("5", "1")]


def test_every_claim_has_a_verdict(root, rendered):
    claims = read_rows(rendered / "results/claims.csv")
    verdicts = {(r["study"], r["claim"]): r["verdict"] for r in claims}
    for claim in ("rtt", "loss", "conservation"):
        assert verdicts["calibration", claim] == "reproduced"
    assert verdicts["loss", "cubic-symmetric-1-percent"] == "reproduced"
    assert verdicts["loss", "cubic-asymmetric-baseline"] == "not comparable"
    assert {study for study, _ in verdicts} == set(studyfiles.study_names(root))
    # Only the full campaign has their cells.
    absent = [r for r in claims if r["verdict"] == "not measured"]
    assert {(r["study"], r["absent"]) for r in absent} == {
        (study, "this campaign has no such cell") for study in ("cellular", "predictions")
    }
    full = {r["claim"] for r in absent if r["study"] == "cellular"}
    assert full == {"alpha", "beta", "ewma-other-trace"}


def test_second_run_does_nothing(root, rendered):
    done = snakemake(
        root, rendered, REPORT, "--allowed-rules", *analysis(studyfiles.study_names(root))
    )
    assert "Nothing to be done" in done.stdout + done.stderr


def test_snakemake_accepts_the_commands_of_make(root):
    """An option with several values also takes the next words, so targets could be lost."""
    figure = ["results/figures/loss/goodput.svg"]
    wanted = {"report": [], "claims": [], "figure": figure}
    for name, targets in wanted.items():
        said = subprocess.run(
            ["make", "-n", name], cwd=root, capture_output=True, text=True, check=True
        ).stdout.replace("\\\n", " ")
        [line] = [line for line in said.splitlines() if line.startswith(".venv/bin/snakemake")]
        _, options = parse_args(line.split()[1:])
        assert sorted(options.targets or []) == targets
        assert [path.name for path in options.configfile] == ["quick.yaml"]
