"""Binding of a suite's cases to the text that they were written for."""

import re

import pytest

from losslab import cli
from losslab.reading import UsageError
from losslab.repository import ROOT
from losslab.study import studyfiles
from losslab.tools.conform import binding

TEXT = """\
# Tests {#tests}
Introduction.
## First
One step,
  and another.
## Second {#second}
Only one.
# Later
Not a test.
"""


@pytest.fixture
def suite():
    """Return a suite with a case per test of the text."""
    sections = [
        {"heading": heading, "sha256": digest, "cases": [heading[0]]}
        for level, heading, digest in binding.sections(TEXT)
        if level == 2
    ]
    return {"suite": "s", "text": {"file": "t.md", "all_below": "Tests", "sections": sections}}


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("", "", []),
        ("step,\n  and", "step, and", []),  # only line breaks
        ("Introduction", "More", []),
        ("Not a test", "More", []),
        ("another", "two others", ["First: changed, now [0-9a-f]{16}; read again: F"]),
        ("## Second {#second}", "## Other", ["Second: only renamed, now Other"]),
        ("## Second {#second}\nOnly one.\n", "", ["Second: gone; read again: S"]),
        ("# Later", "## Third\nNew.\n# Later", ["Third: new, [0-9a-f]{16}; no case"]),
    ],
)
def test_cases_of_changed_sections_are_to_be_read_again(suite, old, new, lines):
    assert old in TEXT
    found = binding.differences(suite, TEXT.replace(old, new, 1))
    assert len(found) == len(lines)
    assert all(map(re.fullmatch, lines, found))


def test_text_of_another_document_is_refused(suite):
    with pytest.raises(UsageError, match="found none of the headings"):
        binding.differences(suite, "# Something\nelse\n")
    with pytest.raises(UsageError, match="bound to no text"):
        binding.differences({"suite": "s"}, TEXT)


@pytest.mark.parametrize("name", ["bbr-draft", "rfc9438"])
def test_each_case_of_a_draft_is_bound_to_one_section(name):
    suite = studyfiles.load_suite(name)
    bound = [case for section in suite["text"]["sections"] for case in section["cases"]]
    assert sorted(bound) == sorted(suite["cases"])


def test_command_lists_the_cases_to_read_again(tmp_path, capsys):
    suite = studyfiles.load_suite("bbr-draft")
    heading = suite["text"]["sections"][3]["heading"]
    (tmp_path / "draft.md").write_text(f"## {heading}\nAnother text.\n")
    assert cli.main(["conform", "bbr-draft", "--text", str(tmp_path / "draft.md")]) == 1
    assert "; read again: 4, 4b\n" in capsys.readouterr().out
    page = (ROOT / "docs/how-to/conform.md").read_text()
    assert "losslab conform bbr-draft --text" in page
