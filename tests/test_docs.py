"""The documentation's site: links, generated parts, and the terms that a search must find."""

import html
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import browser, executed
from tests.sources import tracked

# Search terms of readers who know TCP but not losslab.
TERMS = (
    "confidence interval", "base RTT", "background traffic", "cross traffic", "snapshot",
    "bandwidth-delay product", "packet accounting", "AQM", "fairness", "flow completion time",
    "reproduce", "Wireshark", "own congestion control", "cluster",
)  # fmt: skip


@pytest.fixture(scope="module")
def site(root, tmp_path_factory):
    """Build the site without broken links; return its folder."""
    mkdocs = Path(sys.executable).parent / "mkdocs"
    if not mkdocs.exists():  # `make test` installs mkdocs
        pytest.skip("scripts/group.sh docs")
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [mkdocs, "build", "--strict", "--quiet", "--site-dir", str(folder)], cwd=root,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def searched(site):
    """Return the sections of the search index: title and text, in lower case."""
    index = json.loads((site / "search" / "search_index.json").read_text())
    texts = [f"{section['title']}\n{section['text']}" for section in index["docs"]]
    plain = (html.unescape(re.sub(r"<[^>]+>", "", text)) for text in texts)
    return [" ".join(text.lower().split()) for text in plain]


def test_site_has_every_page_and_its_generated_parts(root, site):
    reference = (site / "reference" / "commands.html").read_text()
    assert "--loss-percent" in reference
    assert "<!-- commands -->" not in reference
    pages = {str(path.relative_to(root / "docs").with_suffix("")) for path in tracked("docs/*.md")}
    assert {page for page in pages if not (site / f"{page}.html").is_file()} == set()


@pytest.mark.nightly
def test_notebook_prints_what_its_page_shows(root, site, tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="scripts/group.sh users")
    nbformat = pytest.importorskip("nbformat")
    assert 'href="python.ipynb"' in (site / "how-to" / "python.html").read_text()
    made = nbformat.read(site / "how-to" / "python.ipynb", as_version=4)
    nbformat.validate(made)
    nbclient.NotebookClient(made, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = [
        "".join(out["text"] for out in cell.outputs if out.get("name") == "stdout")
        for cell in made.cells
        if cell.cell_type == "code"
    ]
    page = (root / "docs" / "how-to" / "python.md").read_text().partition("\n## Polars\n")[0]
    assert len(printed) > 3
    # Blocks that take minutes, or need recorded numbers, show no output.
    shown = [text for text in executed.shown(page) if text]
    assert [text for text in printed if text in shown] == shown


def test_notebook_of_the_lessons_has_their_commands_and_no_solutions(site):
    cells = json.loads((site / "how-to" / "teach.ipynb").read_text())["cells"]
    code = ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]
    assert len(code) >= 6
    assert all(text.startswith("%%bash\nlosslab sweep ") for text in code)
    text = "".join("".join(each["source"]) for each in cells if each["cell_type"] == "markdown")
    assert text.count("**Predict.**") == text.count("**Explain.**") == 6
    assert "Reno halves" not in text
    assert "goodput_mbit" not in text


def test_search_finds_the_fields_terms(searched):
    assert [term for term in TERMS if not any(term.lower() in text for text in searched)] == []


def test_site_asks_no_other_server(site):
    """Only links, which a reader may follow, name other servers."""
    asked = re.compile(
        r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^>]*>"""
    )
    canonical = re.compile(r'rel="?(?:canonical|prev|next)')
    found = {
        tag
        for page in site.rglob("*.html")
        for tag in asked.findall(page.read_text())
        if not canonical.search(tag)
    }
    assert found == set()


@pytest.mark.skipif(browser.program() is None, reason="no Chromium here: apt-get install chromium")
def test_search_works_from_files_without_a_network(site, tmp_path):
    with browser.page(tmp_path, browser.OFFLINE) as page:
        page.open(site / "index.html")
        page.wait("document.readyState === 'complete'")
        page.ask("document.querySelector('[data-md-toggle=search]').click()")
        page.ask(
            "(field => { field.focus(); field.value = 'bufferbloat fairness';"
            " field.dispatchEvent(new Event('input', { bubbles: true }));"
            " field.dispatchEvent(new KeyboardEvent('keyup', { bubbles: true })); })"
            "(document.querySelector('[data-md-component=search-query]'))"
        )
        page.wait("document.querySelectorAll('.md-search-result__item').length > 0", 30)
        links = page.ask(
            "[...document.querySelectorAll('.md-search-result__link')].map(link => link.href)"
        )
    assert all(link.startswith(f"file://{site}") for link in links)
    assert any("glossary" in link or "flows" in link for link in links)


def test_pages_with_results_link_to_each_other_and_to_the_documentation(
    root, tmp_path, monkeypatch
):
    pytest.importorskip("jupytext", reason="scripts/group.sh docs")
    monkeypatch.setenv("LOSSLAB_SITE_RESULTS", str(tmp_path / "results"))
    spec = importlib.util.spec_from_file_location("site_hooks", root / "docs/hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    for name in ("report.html", "explorer.html", "lab.html", "evidence.html", "algorithms.html"):
        path = tmp_path / "results/report" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('<html><body class="x"><p>text</p></body></html>')
    for name in ("report/report.pdf", "report/.hidden", "figures/loss/a.svg", "tables/loss/a.csv"):
        path = tmp_path / "results" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    large = tmp_path / "results/figures/loss/large.csv"
    large.write_text("x" * (hooks.LARGEST_BYTES + 1))
    links = (f'<a href="../figures/loss/{name}">CSV</a>' for name in ("a.svg", "large.csv"))
    (tmp_path / "results/report/report.html").write_text(f"<body>{''.join(links)}</body>")
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "index.html").write_text("")
    hooks.on_post_build({"site_dir": str(folder)})
    assert not (folder / "results/report/.hidden").exists()
    assert (folder / "results/figures/loss/a.svg").is_file()
    assert not (folder / "results/figures/loss/large.csv").exists()
    text = (folder / "results/report/report.html").read_text()
    assert '<a href="../figures/loss/a.svg">CSV</a>CSV</body>' in text
    for name in (path for path in hooks.PAGES.values() if path.endswith(".html")):
        page = folder / name
        links = re.findall(r'<a href="([^"]+)">', page.read_text())
        targets = {(page.parent / link).resolve() for link in links if "/figures/" not in link}
        others = {"index.html", *hooks.PAGES.values()} - {name}
        assert targets == {(folder / other).resolve() for other in others}
        assert all(target.is_file() for target in targets)
