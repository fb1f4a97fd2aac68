"""The documentation's site: links, generated parts, and the terms that a search must find."""

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    pages = {str(path.relative_to(root / "docs").with_suffix("")) for path in
             (root / "docs").rglob("*.md")}  # fmt: skip
    assert {page for page in pages if not (site / f"{page}.html").is_file()} == set()


@pytest.mark.parametrize("term", TERMS)
def test_search_finds_the_fields_terms(searched, term):
    assert any(term.lower() in text for text in searched)


def test_every_glossary_term_has_a_link(root):
    text = (root / "docs" / "reference" / "glossary.md").read_text()
    entries = re.findall(r"^## (.+)\n\n((?:(?!^## ).*\n?)*)", text, re.M)
    terms = [term for term, _ in entries]
    assert len(terms) > 25
    assert terms == sorted(terms, key=str.lower)
    assert [term for term, entry in entries if "](" not in entry] == []
